"""What a source gives: a module, what goes into it, and which axes may vary.

This is the interface of plugins and of user files (see portwright/sources/__init__.py). It imports no torch, so that a
plugin may be looked at cheaply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Input:
    """An input that Portwright fills.

    `values` is one of normal, uniform(lo,hi), tokens(lo,hi), ones, zeros, const(v), mask, arange.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    values: str | None = None  # None: what suits the dtype


@dataclass(frozen=True)
class Axis:
    """An axis of an input that may vary. Axes with the same symbol always have the same size."""

    input: str
    axis: int
    symbol: str
    min: int = 1
    opt: int | None = None  # None: the size of the example
    max: int | None = None  # None: not limited


@dataclass
class Network:
    """A module and how to call it.

    `inputs` maps parameters of forward() to an Input, a tensor, a constant that is passed as it is, or a list, tuple or
    dict of these. A nested input is named by its path: "state.0".
    """

    module: Any
    inputs: Mapping[str, Any]
    dynamic: list[Axis] = field(default_factory=list)
    config: Mapping[str, Any] = field(default_factory=dict)  # what was built, for the digest

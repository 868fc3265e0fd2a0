"""What a source gives: a module, what goes into it, and which axes may vary.

This is the interface of plugins and of user files (see portwright/sources/__init__.py). It imports no torch, so that a
plugin may be looked at cheaply.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional


@dataclass(frozen=True)
class Input:
    """An input that Portwright fills. VALUES: normal, uniform(lo,hi), tokens(lo,hi), ones, zeros, const(v), mask, arange."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    values: Optional[str] = None  # None: what suits the dtype


@dataclass(frozen=True)
class Axis:
    """An axis of an input that may vary. Axes with the same symbol always have the same size."""

    input: str
    axis: int
    symbol: str
    min: int = 1
    opt: Optional[int] = None  # None: the size of the example
    max: Optional[int] = None  # None: not limited


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

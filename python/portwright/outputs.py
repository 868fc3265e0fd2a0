"""Nested outputs of a module as a flat, ordered set of named tensors.

A single tensor is "output"; items of a tuple or list are "output_0", "output_1", ...; entries of a dict, dataclass or
named tuple have their own names; what is nested deeper is joined by dots: "logits", "past.0.key". None and values that
are not tensors are left out. The same names go into the ONNX file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch


def _children(value: Any) -> Iterator[tuple[str, Any]] | None:
    if isinstance(value, Mapping):
        return ((str(key), item) for key, item in value.items())
    if hasattr(value, "_fields") and isinstance(value, tuple):
        return zip(value._fields, value)
    if isinstance(value, (list, tuple)):
        return ((str(index), item) for index, item in enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    return None


def _walk(path: str, value: Any, found: list[tuple[str, torch.Tensor]]) -> None:
    if isinstance(value, torch.Tensor):
        found.append((path or "output", value))
        return
    for name, item in _children(value) or ():
        if path:
            name = f"{path}.{name}"
        elif isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            name = f"output_{name}"
        _walk(name, item, found)


def flatten(value: Any, taken: list[str]) -> dict[str, torch.Tensor]:
    """The tensors of an output by name. `taken` are the names of the inputs, which no output may have."""
    found: list[tuple[str, torch.Tensor]] = []
    _walk("", value, found)
    named: dict[str, torch.Tensor] = {}
    for name, tensor in found:
        unique, count = name, 1
        while unique in named or unique in taken:
            count += 1
            unique = f"{name}_{count}" if name in named else f"{name}_out" if count == 2 else f"{name}_out{count}"
        named[unique] = tensor
    return named


@contextlib.contextmanager
def flat_forward(module: torch.nn.Module):
    """Makes forward() return a plain tuple of tensors while the context lasts; the module itself stays the same one."""
    original = module.forward
    had_own = "forward" in module.__dict__

    @functools.wraps(original)
    def forward(*args, **kwargs):
        return tuple(flatten(original(*args, **kwargs), []).values())

    forward.__signature__ = inspect.signature(original)
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        if had_own:
            module.__dict__["forward"] = original
        else:
            del module.__dict__["forward"]

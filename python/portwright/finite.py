"""Where a module run at reduced precision first leaves the finite numbers.

Both runs, exact and reduced, are watched operator by operator. An operator is guilty when its inputs are finite,
its output is not, and the same operator of the exact run (the n-th call of that name) stayed finite: a mask that is
meant to be -inf is no fault.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from portwright.failures import is_framework, pick_line


def _floats(value: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point())


def _finite(value: Any) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in _floats(value))


def _python_line() -> str:
    frames, frame = [], sys._getframe(1)
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return pick_line([one for one in frames if not is_framework(one[0])])


class _ModulePath:
    """The stack of modules whose forward() is running."""

    def __init__(self, root: torch.nn.Module):
        self._names = {id(module): name for name, module in root.named_modules()}
        self._stack: list[torch.nn.Module] = []

    def __enter__(self):
        register = torch.nn.modules.module
        self._hooks = [
            register.register_module_forward_pre_hook(lambda module, _: self._stack.append(module)),
            register.register_module_forward_hook(lambda *_: self._stack.pop() and None, always_call=True),
        ]
        return self

    def __exit__(self, *_):
        for hook in self._hooks:
            hook.remove()

    def current(self) -> tuple[str, str]:
        """Path and class of the innermost running module that belongs to the root."""
        for module in reversed(self._stack):
            if id(module) in self._names:
                return self._names[id(module)], type(module).__name__
        return "", ""


class _Watch(TorchDispatchMode):
    """Calls `seen(key, inputs, outputs)` for each operator; key is its name and how often it was called before."""

    def __init__(self, seen):
        super().__init__()
        self._seen, self._counts = seen, collections.Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        key = (str(func), self._counts[str(func)])
        self._counts[str(func)] += 1
        before = _finite((args, kwargs))  # asked first: the operator may work in place
        made = func(*args, **(kwargs or {}))
        self._seen(key, before, made)
        return made


def first_nonfinite(exact, exact_call: tuple, reduced, reduced_call: tuple) -> dict | None:
    """{module, class, operator, python_line, max_abs} of the first guilty operator; None when there is none.

    max_abs is the largest magnitude that the same operator gives in the exact run; null when that has no such operator.
    """
    largest: dict[tuple, float] = {}

    def note(key, _, made):
        values = [float(tensor.abs().max()) for tensor in _floats(made) if tensor.numel()]
        largest[key] = max(values, default=0.0)

    guilty: list[dict] = []

    def judge(key, inputs_finite, made):
        expected = largest.get(key, 0.0)
        if guilty or not inputs_finite or _finite(made) or not expected < float("inf"):
            return
        module, kind = path.current()
        line, known = _python_line(), largest.get(key)
        guilty.append({"module": module, "class": kind, "operator": key[0], "python_line": line, "max_abs": known})

    with _Watch(note):
        exact(*exact_call[0], **exact_call[1])
    with _ModulePath(reduced) as path, _Watch(judge):
        reduced(*reduced_call[0], **reduced_call[1])
    return guilty[0] if guilty else None

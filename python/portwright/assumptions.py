"""What the dynamo exporter took for granted about dynamic sizes, and where.

While it traces, a Python `if` on a size takes the path of the example, and a reshape to a literal size pins the size it
came from. PyTorch notes some of these as guards, narrows the asked range to them and goes on; others ("no size is ever
1") it does not even note. Here every such decision is written down that would come out otherwise at some size in
the asked range.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import Any

import torch

from portwright.failures import is_framework, pick_line

_TORCH = os.path.dirname(torch.__file__) + os.sep
# A Python `if` on a symbolic size enters here (SymBool.__bool__); kernels that ask from C++ do not.
_ENTRY = _TORCH + "__init__.py"
_PASSAGE = (__file__, _ENTRY, _TORCH + "fx/experimental/", _TORCH + "_export/non_strict_utils.py")
_SIZE_OF = re.compile(r"^L\['(\w+)'\](.*)\.size\(\)\[(\d+)\]$")
_KEY = re.compile(r"\[['\"]?(.*?)['\"]?\]")
_SAMPLES = 64


@contextlib.contextmanager
def recorded(axes: list[dict]):
    """Gives a list that fills with {condition, where} while the context lasts."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    evaluate, assure, notes = ShapeEnv.evaluate_expr, ShapeEnv.guard_or_defer_runtime_assert, _Notes(axes)

    def evaluate_expr(env, expression, *args, **kwargs):
        guards = len(env.guards)
        value = evaluate(env, expression, *args, **kwargs)
        notes.take(env, expression, value, guarded=len(env.guards) > guards, assured=False)
        return value

    def guard_or_defer_runtime_assert(env, expression, *args, **kwargs):
        held = assure(env, expression, *args, **kwargs)
        if held:
            notes.take(env, expression, True, guarded=False, assured=True)
        return held

    ShapeEnv.evaluate_expr, ShapeEnv.guard_or_defer_runtime_assert = evaluate_expr, guard_or_defer_runtime_assert
    try:
        yield notes.found
    finally:
        ShapeEnv.evaluate_expr, ShapeEnv.guard_or_defer_runtime_assert = evaluate, assure


class _Notes:
    """Decisions met so far. Once an axis has one size left, what follows from that is no news."""

    def __init__(self, axes: list[dict]):
        self.found: list[dict] = []
        self._axes, self._pinned = axes, set()

    def take(self, env, expression, value: Any, guarded: bool, assured: bool) -> None:
        names = {symbol: self._name(env, symbol) for symbol in getattr(expression, "free_symbols", ())}
        if not names or self._pinned.issuperset(names.values()):
            return
        frames = _frames()
        sizes, agreeing = self._sizes(names), []
        if sizes:
            (symbol,) = names
            agreeing = [size for size in sizes if expression.subs(symbol, size) == value]
        if not guarded and (len(agreeing) == len(sizes) or not (assured or _asked_directly(frames))):
            return
        condition = _text(expression, value, names)
        if len(agreeing) == 1 < len(sizes):
            (name,) = names.values()
            self._pinned.add(name)
            condition = f"{name} == {agreeing[0]}"
        one = {"condition": condition, "where": pick_line([frame for frame in frames if not is_framework(frame[0])])}
        if one not in self.found:
            self.found.append(one)

    def _name(self, env, symbol) -> str:
        """The asked symbol of the axis that a size symbol stands for, or 'x.0'."""
        for source in env.var_to_sources.get(symbol, []):
            text = source.name if isinstance(source.name, str) else source.name()
            if match := _SIZE_OF.match(text):
                tensor = ".".join([match[1], *_KEY.findall(match[2])])
                for axis in self._axes:
                    if axis["input"] == tensor and axis["axis"] == int(match[3]):
                        return axis["symbol"]
                return f"{tensor}.{match[3]}"
        return str(symbol)

    def _sizes(self, names: dict) -> list[int]:
        """Sizes in the asked range, when an expression hangs on one asked axis."""
        (name, *others) = names.values()
        axis = next((axis for axis in self._axes if axis["symbol"] == name), None)
        if others or axis is None:
            return []
        low, high = axis["min"], axis.get("max") or axis["min"] + _SAMPLES
        return sorted({*range(low, min(high, low + _SAMPLES) + 1), high})


def _frames() -> list[tuple[str, int]]:
    found, frame = [], sys._getframe(1)
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found


def _asked_directly(frames: list[tuple[str, int]]) -> bool:
    """Whether the model's own Python code, not the framework's, wanted the value."""
    entered = False
    for file, _ in frames:
        if not file.startswith(_PASSAGE):
            return entered and not is_framework(file)
        entered = entered or file == _ENTRY
    return False


def _text(expression, value: Any, names: dict) -> str:
    """The assumption as a condition: 'batch != 1', 'batch <= 4', 'Mod(4*batch, 8) == 0'."""
    import sympy

    named = expression.subs({symbol: sympy.Symbol(name) for symbol, name in names.items()})
    if not isinstance(named, sympy.logic.boolalg.Boolean):
        return f"{named} == {value}"
    named = named if value else sympy.Not(named)
    if isinstance(named, sympy.core.relational.Relational):
        return f"{named.lhs} {named.rel_op} {named.rhs}"
    return str(named)

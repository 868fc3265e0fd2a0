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
from typing import Any, Iterator, Optional

import torch

from portwright.failures import is_framework, pick_line

_TORCH = os.path.dirname(torch.__file__) + os.sep
# Through these a truth value of a symbolic size passes on its way from the code that asks for it.
_PASSAGE = tuple(_TORCH + name for name in ("__init__.py", "fx/experimental/", "_export/non_strict_utils.py"))
_SIZE_OF = re.compile(r"^L\['(\w+)'\](.*)\.size\(\)\[(\d+)\]$")
_KEY = re.compile(r"\[['\"]?(.*?)['\"]?\]")
_OPERATORS = {"Eq": "==", "Ne": "!="}
_SAMPLES = 64


@contextlib.contextmanager
def recorded(axes: list[dict]):
    """Gives a list that fills with {condition, where} while the context lasts."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    evaluate, assure, found = ShapeEnv.evaluate_expr, ShapeEnv.guard_or_defer_runtime_assert, []

    def note(env, expression, value: Any, guarded: bool) -> None:
        if getattr(expression, "free_symbols", None):
            one = _decision(env, expression, value, guarded, axes)
            if one and one not in found:
                found.append(one)

    def evaluate_expr(env, expression, *args, **kwargs):
        guards = len(env.guards)
        value = evaluate(env, expression, *args, **kwargs)
        note(env, expression, value, len(env.guards) > guards)
        return value

    def guard_or_defer_runtime_assert(env, expression, *args, **kwargs):
        held = assure(env, expression, *args, **kwargs)
        if held:
            note(env, expression, True, _varies(env, expression, True, axes))
        return held

    ShapeEnv.evaluate_expr, ShapeEnv.guard_or_defer_runtime_assert = evaluate_expr, guard_or_defer_runtime_assert
    try:
        yield found
    finally:
        ShapeEnv.evaluate_expr, ShapeEnv.guard_or_defer_runtime_assert = evaluate, assure


def _frames() -> Iterator[tuple[str, int]]:
    frame = sys._getframe(1)
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def _asked_directly(frames: list[tuple[str, int]]) -> bool:
    """Whether the model's own code, not the framework's, wanted the value."""
    for file, _ in frames:
        if not file.startswith(_PASSAGE) and file != __file__:
            return not is_framework(file)
    return False


def _decision(env, expression, value: Any, guarded: bool, axes: list[dict]) -> Optional[dict]:
    frames = list(_frames())
    if not guarded and not _asked_directly(frames):
        return None
    if not guarded and not _varies(env, expression, value, axes):
        return None
    names = {symbol: _name(env, symbol, axes) for symbol in expression.free_symbols}
    where = pick_line([one for one in frames if not is_framework(one[0])])
    return {"condition": _text(expression, value, names), "where": where}


def _name(env, symbol, axes: list[dict]) -> str:
    """The asked symbol of the axis that a size symbol stands for, or 'x.0'."""
    for source in env.var_to_sources.get(symbol, []):
        text = source.name if isinstance(source.name, str) else source.name()
        if match := _SIZE_OF.match(text):
            tensor = ".".join([match[1], *_KEY.findall(match[2])])
            for axis in axes:
                if axis["input"] == tensor and axis["axis"] == int(match[3]):
                    return axis["symbol"]
            return f"{tensor}.{match[3]}"
    return str(symbol)


def _varies(env, expression, value: Any, axes: list[dict]) -> bool:
    """Whether the value would be another one at some size in the asked range."""
    if len(expression.free_symbols) != 1:
        return False
    (symbol,) = expression.free_symbols
    name = _name(env, symbol, axes)
    axis = next((axis for axis in axes if axis["symbol"] == name), None)
    if axis is None:
        return False
    low, high = axis["min"], axis.get("max") or axis["min"] + _SAMPLES
    sizes = {*range(low, min(high, low + _SAMPLES) + 1), high}
    return any(bool(expression.subs(symbol, size)) != bool(value) for size in sizes)


def _text(expression, value: Any, names: dict) -> str:
    """The assumption as a condition: 'batch != 1', 'batch <= 4', '16*batch == 64'."""
    import sympy

    named = expression.subs({symbol: sympy.Symbol(name) for symbol, name in names.items()})
    if isinstance(named, sympy.logic.boolalg.Boolean):
        named = named if value else sympy.Not(named)
        if isinstance(named, sympy.core.relational.Relational):
            operator = _OPERATORS.get(type(named).__name__.removesuffix("quality"), named.rel_op)
            return f"{named.lhs} {operator} {named.rhs}"
        return str(named)
    return f"{named} == {value}"

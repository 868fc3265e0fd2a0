"""An opened source: the module, how it is called, and its copies at other precisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from portwright.failures import Failure
from portwright.networks import Axis, Input, Network
from portwright.sources.python_file import parameters_of

DTYPES = """float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool
    complex64 complex128""".split()


@dataclass(frozen=True)
class Slot:
    """Where an input goes in the arguments of a call."""

    name: str


@dataclass
class Declared:
    """One input as told to the parent. `tensor` is the factory's own example, if it gave one."""

    name: str
    shape: list[int]
    dtype: str
    values: str | None = None
    tensor: torch.Tensor | None = None

    def to_json(self) -> dict:
        return {"name": self.name, "shape": self.shape, "dtype": self.dtype, "values": self.values}


def rebuilt(template: Any, leaf: Callable[[Slot], Any], constant: Callable[[Any], Any] = lambda value: value) -> Any:
    """A copy of nested arguments with every slot, and every constant, replaced."""
    if isinstance(template, Slot):
        return leaf(template)
    if isinstance(template, dict):
        return {key: rebuilt(value, leaf, constant) for key, value in template.items()}
    if isinstance(template, (list, tuple)):
        items = [rebuilt(value, leaf, constant) for value in template]
        return type(template)(*items) if hasattr(template, "_fields") else type(template)(items)
    return constant(template)


@dataclass
class Subject:
    """`template` maps each parameter that gets a value to nested slots and constants, in forward()'s order."""

    module: torch.nn.Module
    template: dict[str, Any]
    inputs: dict[str, Declared]
    dynamic: list[Axis]
    variants: dict[tuple, torch.nn.Module] = field(default_factory=dict)
    compiled: set[tuple] = field(default_factory=set)  # variants and input shapes that torch.compile has seen

    def arguments(self, leaf: Callable[[Slot], Any]) -> tuple[tuple, dict]:
        """Positional and keyword arguments of a call, each slot replaced by what `leaf` gives for it."""
        positional, keywords, gap = [], {}, False
        for parameter in parameters_of(self.module):
            if parameter.kind is parameter.VAR_KEYWORD:
                known = {p.name for p in parameters_of(self.module)}
                keywords.update({k: rebuilt(v, leaf) for k, v in self.template.items() if k not in known})
            elif parameter.name not in self.template:
                gap = True
            elif parameter.kind is parameter.VAR_POSITIONAL:
                positional += rebuilt(self.template[parameter.name], leaf)
            elif gap or parameter.kind is parameter.KEYWORD_ONLY:
                keywords[parameter.name] = rebuilt(self.template[parameter.name], leaf)
            else:
                positional.append(rebuilt(self.template[parameter.name], leaf))
        return tuple(positional), keywords

    def check(self, tensors: dict[str, torch.Tensor], stage: str) -> None:
        missing = [name for name in self.inputs if name not in tensors]
        extra = [name for name in tensors if name not in self.inputs]
        if missing or extra:
            wrong = f"has no input '{extra[0]}'" if extra else f"needs a value for input '{missing[0]}'"
            text = f"{type(self.module).__name__} {wrong}"
            raise Failure("usage", "bad_input", text, stage=stage, hint="its inputs are " + ", ".join(self.inputs))


def _declare(path: str, value: Any, found: dict[str, Declared]) -> Any:
    """Replaces inputs and tensors below `path` by slots, and notes them in `found`."""
    if isinstance(value, Input):
        found[path] = Declared(path, list(value.shape), value.dtype, value.values)
        return Slot(path)
    if isinstance(value, torch.Tensor):
        tensor = value.detach()
        found[path] = Declared(path, list(tensor.shape), str(tensor.dtype).removeprefix("torch."), None, tensor)
        return Slot(path)
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        return _declare(path, torch.as_tensor(value), found)
    if isinstance(value, dict):
        return {key: _declare(f"{path}.{key}", item, found) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_declare(f"{path}.{index}", item, found) for index, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _overridden(given: dict[str, Declared], module, overrides: list[dict]) -> None:
    parameters = [p.name for p in parameters_of(module)]
    for override in overrides:
        name = override["name"]
        have = given.get(name)
        if have is None and (given or name not in parameters):
            from portwright.sources import close_matches

            hint = close_matches(name, list(given) or parameters)
            raise Failure("usage", "bad_input", f"{type(module).__name__}.forward() has no input '{name}'", hint=hint)
        shape, dtype = override.get("shape"), override.get("dtype")
        if have is None and shape is None:
            raise Failure("usage", "bad_input", f"input '{name}' needs a shape", hint=f"--input {name}:1x3x224x224")
        dtype = dtype or (have.dtype if have else "float32")
        if dtype not in DTYPES:
            raise Failure(
                "usage", "bad_input", f"input '{name}' has the unknown dtype '{dtype}'", hint=", ".join(DTYPES)
            )
        values = override.get("values") or (have.values if have and have.dtype == dtype else None)
        given[name] = Declared(name, list(shape if shape is not None else have.shape), dtype, values)


def _checked_axes(axes: list[Axis], inputs: dict[str, Declared]) -> list[Axis]:
    for axis in axes:
        if axis.input not in inputs:
            text = f"dynamic_shapes names '{axis.input}', which is not an input"
            raise Failure("input", "factory_failed", text, hint="the inputs are " + ", ".join(inputs))
        if not 0 <= axis.axis < len(inputs[axis.input].shape):
            rank = len(inputs[axis.input].shape)
            text = f"dynamic_shapes names axis {axis.axis} of '{axis.input}', which has {rank} axes"
            raise Failure("input", "factory_failed", text, hint="axes count from 0")
    return axes


def make_subject(network: Network, overrides: list[dict]) -> Subject:
    module = network.module.eval().requires_grad_(False)
    found: dict[str, Declared] = {}
    template = {}
    for name, value in network.inputs.items():
        if any(p.kind is p.VAR_POSITIONAL and p.name == name for p in parameters_of(module)):
            value = list(value)
        template[name] = _declare(name, value, found)
    _check_parameters(module, template)
    declared = bool(found)
    _overridden(found, module, overrides)
    if not declared:  # a bare module: the overrides alone say what goes in
        template.update({name: Slot(name) for name in found})
    _check_complete(module, template)
    order = [p.name for p in parameters_of(module)]
    template = dict(sorted(template.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))
    names: list[str] = []
    rebuilt(template, lambda slot: names.append(slot.name))
    inputs = {name: found[name] for name in names}
    return Subject(module, template, inputs, _checked_axes(network.dynamic, inputs))


def _check_parameters(module, template: dict[str, Any]) -> None:
    parameters = parameters_of(module)
    names = [p.name for p in parameters]
    unknown = [name for name in template if name not in names]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        text = f"{type(module).__name__}.forward() has no parameter '{unknown[0]}'"
        raise Failure("input", "factory_failed", text, hint="its parameters are " + ", ".join(names))


def _check_complete(module, template: dict[str, Any]) -> None:
    missing = [
        p.name
        for p in parameters_of(module)
        if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and p.name not in template
    ]
    if missing:
        text = f"nothing is known about input '{missing[0]}' of {type(module).__name__}.forward()"
        hint = f"return (module, example_inputs) from the factory, or give --input {missing[0]}:SHAPE"
        raise Failure("usage", "no_inputs", text, hint=hint)

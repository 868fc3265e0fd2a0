"""path/to/file.py:factory, the user's own module.

factory() returns a module, or (module, example_inputs), or an object with `module` (or `model`), `inputs` and, if it
likes, `dynamic_shapes`. Example inputs are a tensor, a tuple or list in the order of forward()'s parameters, or a dict
by their names. `dynamic_shapes` maps inputs to axes, as torch.export has it: {"x": {0: Dim("batch", min=1, max=32)}};
in place of a Dim stands a symbol "batch", or ("batch", min, max), or ("batch", min, opt, max).
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from portwright.failures import Failure, existing_file, guarded, is_library
from portwright.networks import Axis, Network

# Folders whose modules belong to users.
_folders: list[Path] = []


def _in(folder: Path, module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)  # some libraries make up relative ones
    return bool(file) and os.path.isabs(file) and Path(file).is_relative_to(folder) and not is_library(file)


def user_files(folder: Path) -> list[Path]:
    """The files below a folder that have been imported."""
    return sorted({Path(m.__file__) for m in list(sys.modules.values()) if _in(folder, m)})


def _forget(file: Path, again: bool) -> None:
    """Drops modules of users that stand in the way of those beside `file`: those of another folder and the same name
    and, when everything is to be read `again`, those of this folder."""
    beside = {entry.stem for entry in file.parent.iterdir()}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in beside and any(_in(folder, module) for folder in _folders):
            if again or not _in(file.parent, module) or name == file.stem:
                del sys.modules[name]


def load_module(file: Path, code: str, stage: str, again: bool = False) -> ModuleType:
    """Imports a file with its own folder on sys.path. What it raises becomes a Failure with that code."""
    if file.suffix != ".py":
        raise Failure(
            "usage", code, f"{file.name} is not a Python file", stage=stage, where=str(file), hint="name a .py file"
        )
    _forget(file, again)
    if file.parent not in _folders:
        _folders.append(file.parent)
    if str(file.parent) in sys.path:
        sys.path.remove(str(file.parent))
    sys.path.insert(0, str(file.parent))
    importlib.invalidate_caches()
    name = file.stem if file.stem not in sys.modules else f"{file.stem}_of_{file.parent.name}"
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with guarded(stage, code, "input"):
        spec.loader.exec_module(module)
    return module


def function_of(module: ModuleType, file: Path, name: str, code: str, stage: str):
    """A callable of a user's file, or the failure that names those that there are."""
    found = getattr(module, name, None)
    if callable(found):
        return found
    from portwright.sources import close_matches

    own = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", None) == module.__name__]
    text = f"{file.name} has no function '{name}'"
    raise Failure("usage", code, text, stage=stage, where=str(file), hint=close_matches(name, sorted(own)))


def build(path: str, factory_name: str) -> tuple[Network, Path]:
    """The network that a file's factory makes, and the file."""
    file = existing_file(path, "open")
    factory = function_of(
        load_module(file, "factory_failed", "open", again=True), file, factory_name, "bad_source", "open"
    )
    with guarded("open", "factory_failed", "input"):
        return _network(factory(), f"{file.name}:{factory_name}"), file


def _network(made: Any, place: str) -> Network:
    import torch

    if isinstance(made, Network):
        return made
    if isinstance(made, torch.nn.Module):
        return Network(made, _own_inputs(made), _axes(made, getattr(made, "dynamic_shapes", None)))
    module, inputs, shapes = made, None, None
    if isinstance(made, tuple) and len(made) in (2, 3):
        module, inputs, shapes = (*made, None)[:3]
    elif hasattr(made, "module") or hasattr(made, "model"):
        module = made.module if hasattr(made, "module") else made.model
        inputs, shapes = getattr(made, "inputs", None), getattr(made, "dynamic_shapes", None)
    if not isinstance(module, torch.nn.Module):
        text = f"{place} returned {type(made).__name__}, not a torch.nn.Module"
        hint = "return a module, (module, example_inputs), or an object with module, inputs and dynamic_shapes"
        raise Failure("input", "factory_failed", text, where=place, hint=hint)
    return Network(module, by_parameter(module, inputs), _axes(module, shapes))


def _own_inputs(module) -> dict[str, Any]:
    """Inputs that a module itself declares, when it has an `inputs` that is one."""
    declared = module.__dict__.get("inputs")
    return by_parameter(module, declared) if isinstance(declared, (dict, tuple, list)) else {}


def parameters_of(module) -> list[inspect.Parameter]:
    return list(inspect.signature(module.forward).parameters.values())


def by_parameter(module, inputs: Any) -> dict[str, Any]:
    """Example inputs keyed by forward()'s parameters."""
    if inputs is None:
        return {}
    if isinstance(inputs, dict):
        return dict(inputs)
    values = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    named: dict[str, Any] = {}
    for parameter in parameters_of(module):
        if parameter.kind is parameter.VAR_POSITIONAL:
            named[parameter.name] = values
            values = []
        elif values and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            named[parameter.name] = values.pop(0)
    if values:
        text = f"there are {len(values)} more example inputs than {type(module).__name__}.forward() has parameters"
        raise Failure(
            "input", "factory_failed", text, hint="give them in the order of forward()'s parameters, or as a dict"
        )
    return named


def _axes(module, shapes: Any) -> list[Axis]:
    """Axes from dynamic_shapes, by the names that inputs get."""
    if not shapes:
        return []
    axes: list[Axis] = []
    for name, entry in by_parameter(module, shapes).items():
        _collect_axes(name, entry, axes)
    return axes


def _collect_axes(name: str, entry: Any, axes: list[Axis]) -> None:
    if isinstance(entry, dict) and all(isinstance(key, int) for key in entry):
        axes += [_axis(name, index, mark) for index, mark in entry.items() if mark is not None]
    elif isinstance(entry, dict):
        for key, inner in entry.items():
            _collect_axes(f"{name}.{key}", inner, axes)
    elif isinstance(entry, (list, tuple)) and any(isinstance(one, (dict, list)) for one in entry):
        for index, inner in enumerate(entry):
            _collect_axes(f"{name}.{index}", inner, axes)
    elif isinstance(entry, (list, tuple)):
        axes += [_axis(name, index, mark) for index, mark in enumerate(entry) if mark is not None]


def _axis(name: str, index: int, mark: Any) -> Axis:
    if isinstance(mark, str):
        return Axis(name, index, mark)
    if isinstance(mark, (tuple, list)) and len(mark) in (3, 4):
        low, high, best = mark[1], mark[-1], mark[2] if len(mark) == 4 else None
        return Axis(name, index, mark[0], low, best, high)
    symbol = getattr(mark, "__name__", None) or f"{name.replace('.', '_')}_{index}"
    low, high = getattr(mark, "min", None), getattr(mark, "max", None)
    bounded = isinstance(high, int) and high < 2**31
    return Axis(name, index, symbol, max(1, low) if isinstance(low, int) else 1, None, high if bounded else None)

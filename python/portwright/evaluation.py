"""The operations eval_open, eval_next, eval_add and eval_score: accuracy on the user's own data.

The user's file has dataset(), which yields (inputs, target) pairs, and metric(outputs, targets), which gives a float or
a dict of floats. `inputs` is a tensor or array, a tuple or list in the order of the model's inputs, or a dict by their
names. `outputs` is a list over samples: an array when the model has one output, else a dict of arrays by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

import numpy
import torch

from portwright.failures import Failure, existing_file, guarded
from portwright.sources.python_file import function_of, load_module

_CODE = "bad_eval"


@dataclass
class Evaluation:
    """A dataset in its one pass: inputs are not kept; targets and outputs are, as the metric wants all of them."""

    file: Path
    metric: Callable
    samples: Iterator
    targets: list[Any] = field(default_factory=list)
    outputs: dict[str, list[Any]] = field(default_factory=dict)  # by run


def op_eval_open(worker, request: dict) -> dict:
    file = existing_file(request["file"], "evaluate")
    module = load_module(file, _CODE, "evaluate")
    dataset = function_of(module, file, "dataset", _CODE, "evaluate")
    metric = function_of(module, file, "metric", _CODE, "evaluate")
    with guarded("evaluate", _CODE, "input"):
        samples = dataset()
        count = len(samples) if hasattr(samples, "__len__") else None
        opened = Evaluation(file, metric, iter(samples))
    return {"handle": worker.keep(opened), "count": count}


def op_eval_next(worker, request: dict) -> dict:
    evaluation = worker.held(request["handle"], Evaluation)
    with guarded("evaluate", _CODE, "input"):
        sample = next(evaluation.samples, None)
        if sample is None and evaluation.targets:
            return {"done": True, "inputs": []}
        if not isinstance(sample, (tuple, list)) or len(sample) != 2:
            what = "nothing" if sample is None else f"{type(sample).__name__}, not (inputs, target)"
            text = f"dataset() of {evaluation.file.name} yields {what}"
            raise Failure("input", _CODE, text, where=str(evaluation.file), hint="yield pairs of inputs and target")
        named = _named(evaluation, sample[0], request["input_names"])
        evaluation.targets.append(sample[1])
    return {"done": False, "inputs": worker.outbox.put(named)}


def _named(evaluation: Evaluation, inputs: Any, names: list[str]) -> dict[str, torch.Tensor]:
    if isinstance(inputs, dict):
        given = dict(inputs)
    else:
        values = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
        given = dict(zip(names, values)) if len(values) <= len(names) else {f"#{i}": v for i, v in enumerate(values)}
    if set(given) != set(names):
        text = f"dataset() of {evaluation.file.name} gives {len(given)} inputs ({', '.join(map(str, given))})"
        hint = "the model takes " + ", ".join(names)
        raise Failure("input", _CODE, text, where=str(evaluation.file), hint=hint)
    return {name: torch.as_tensor(given[name]).detach() for name in names}


def op_eval_add(worker, request: dict) -> dict:
    evaluation = worker.held(request["handle"], Evaluation)
    arrays = {name: _array(tensor) for name, tensor in worker.inbox.take(request["outputs"]).items()}
    only = next(iter(arrays.values())) if len(arrays) == 1 else arrays
    collected = evaluation.outputs.setdefault(request["run"], [])
    collected.append(only)
    return {"count": len(collected)}


def _array(tensor: torch.Tensor) -> numpy.ndarray:
    wide = tensor.float() if tensor.dtype == torch.bfloat16 else tensor  # NumPy has no bfloat16
    return wide.numpy().copy()


def op_eval_score(worker, request: dict) -> dict:
    evaluation = worker.held(request["handle"], Evaluation)
    outputs = evaluation.outputs.get(request["run"], [])
    if not outputs:
        raise Failure("defect", "bad_request", f"no outputs were added for '{request['run']}'", stage="evaluate")
    with guarded("evaluate", _CODE, "input"), torch.no_grad():
        scored = evaluation.metric(outputs, evaluation.targets[: len(outputs)])
        named = scored if isinstance(scored, dict) else {"metric": scored}
        return {"metrics": {str(name): _number(evaluation, value) for name, value in named.items()}}


def _number(evaluation: Evaluation, value: Any) -> float:
    if hasattr(value, "item") and getattr(value, "size", 1) != 0:
        value = value.item()
    if isinstance(value, Real):
        return float(value)
    text = f"metric() of {evaluation.file.name} gives {type(value).__name__}, not a number or a dict of numbers"
    raise Failure(
        "input", _CODE, text, where=str(evaluation.file), hint="return a float, or a dict of names and floats"
    )

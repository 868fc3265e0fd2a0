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
    file: Path
    metric: Callable
    samples: Iterator
    seen: list[Any] = field(default_factory=list)  # inputs; the dataset is iterated once
    targets: list[Any] = field(default_factory=list)
    next: int = 0
    outputs: dict[str, list[Any]] = field(default_factory=dict)  # by run

    def advance(self) -> bool:
        """Reads the next sample of the dataset; False at its end."""
        try:
            sample = next(self.samples)
        except StopIteration:
            return False
        if not isinstance(sample, (tuple, list)) or len(sample) != 2:
            text = f"dataset() of {self.file.name} yields {type(sample).__name__}, not (inputs, target)"
            raise Failure("input", _CODE, text, where=str(self.file), hint="yield a pair of inputs and target")
        self.seen.append(sample[0])
        self.targets.append(sample[1])
        return True


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
    """`index` goes back to a sample seen before (or on to the next one), for a second run over the same data."""
    evaluation = worker.held(request["handle"], Evaluation)
    index: int | None = request.get("index")
    evaluation.next = evaluation.next if index is None else index
    with guarded("evaluate", _CODE, "input"):
        while len(evaluation.seen) <= evaluation.next:
            if not evaluation.advance():
                if not evaluation.seen:
                    text = f"dataset() of {evaluation.file.name} yields nothing"
                    raise Failure("input", _CODE, text, where=str(evaluation.file), hint="yield (inputs, target) pairs")
                return {"done": True, "inputs": []}
        named = _named(evaluation, evaluation.seen[evaluation.next], request["input_names"])
    evaluation.next += 1
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

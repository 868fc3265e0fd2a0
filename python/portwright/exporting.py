"""The operation export: the module as an ONNX file."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional

import torch

from portwright.failures import Failure, Kind, chain, describe, guarded, is_library, one_line, summary
from portwright.outputs import flat_forward, flatten
from portwright.subject import Subject, rebuilt

_LOG_LIMIT = 64 << 10
_ONE_FILE_LIMIT = 2_000_000_000  # bytes of weights; protobuf ends at 2 GiB
_OPERATOR_IN_TEXT = re.compile(r"(?:No ONNX function found for|No decompositions registered for.*?|Unsupported FX node)[^'<\w]*[<']?([\w:.]+)")
_UNSUPPORTED_IN_TEXT = re.compile(r"operator '?([\w:.]+)'? to ONNX.* is not supported")


@dataclass
class _Job:
    """One export: what is asked, and the log of how it went."""

    subject: Subject
    tensors: dict[str, torch.Tensor]
    axes: list[dict]
    opset: Optional[int]
    outputs: list[str]
    log: list[str] = field(default_factory=list)


def op_export(worker, request: dict) -> dict:
    subject = worker.held(request["handle"], Subject)
    exporter = request.get("exporter") or "dynamo"
    if exporter not in _EXPORTERS:
        raise Failure("usage", "bad_exporter", f"there is no exporter '{exporter}'", hint="known: " + ", ".join(_EXPORTERS))
    tensors = {name: tensor.clone() for name, tensor in worker.inbox.take(request["inputs"]).items()}
    subject.check(tensors, "export")
    axes = [axis for axis in request.get("dynamic") or [] if axis.get("max") is None or axis["max"] > axis["min"]]
    _check_axes(subject, axes)
    job = _Job(subject, tensors, axes, request.get("opset"), [])
    _avoid_ones(job)
    start = time.perf_counter()
    with torch.no_grad():
        with guarded("export", "forward_failed"):
            args, kwargs = subject.arguments(lambda slot: tensors[slot.name].clone())
            job.outputs = list(flatten(subject.module(*args, **kwargs), list(subject.inputs)))
        worker.note(f"exporting with {exporter}")
        with _captured() as captured:
            produced = _save(Path(request["path"]), lambda file: _EXPORTERS[exporter](job, file))
    text = "\n".join([*job.log, captured.getvalue()[-_LOG_LIMIT:]]).strip()
    return {
        "path": request["path"],
        "exporter": exporter,
        "opset_asked": job.opset,
        **produced,
        "seconds": time.perf_counter() - start,
        "log": text,
    }


def _check_axes(subject: Subject, axes: list[dict]) -> None:
    for axis in axes:
        name, index = axis["input"], axis["axis"]
        if name not in subject.inputs:
            text = f"dynamic axis of '{name}', which is not an input"
            raise Failure("usage", "bad_input", text, stage="export", hint="its inputs are " + ", ".join(subject.inputs))
        if not 0 <= index < len(subject.inputs[name].shape):
            text = f"dynamic axis {name}.{index}: '{name}' has {len(subject.inputs[name].shape)} axes"
            raise Failure("usage", "bad_input", text, stage="export", hint="axes count from 0")
        if not axis["symbol"].isidentifier():
            text = f"'{axis['symbol']}' cannot name a dynamic axis"
            raise Failure("usage", "bad_input", text, stage="export", hint="use letters, digits and _")


def _avoid_ones(job: _Job) -> None:
    """Repeats the example along dynamic axes of size 0 or 1, which torch.export would take for constants."""
    for axis in job.axes:
        name, index = axis["input"], axis["axis"]
        tensor = job.tensors[name]
        size = max(2, axis["min"])
        if tensor.shape[index] in (0, 1):
            once = tensor if tensor.shape[index] else torch.ones_like(tensor.sum(index, keepdim=True))
            job.tensors[name] = torch.cat([once] * size, dim=index)
            job.log.append(f"example of {name}.{index} repeated to size {size}: size 1 would be taken for a constant")


@contextlib.contextmanager
def _captured():
    """Collects what exporters print and warn, and still prints it."""
    text = io.StringIO()

    class Tee(io.TextIOBase):
        def __init__(self, stream):
            self._stream = stream

        def write(self, part: str) -> int:
            text.write(part)
            return self._stream.write(part)

        def flush(self) -> None:
            self._stream.flush()

    with warnings.catch_warnings(), contextlib.redirect_stdout(Tee(sys.stdout)), contextlib.redirect_stderr(Tee(sys.stderr)):
        warnings.simplefilter("default")
        yield text


def _save(path: Path, write: Callable[[Path], dict]) -> dict:
    """Lets `write` fill a file in a scratch folder and moves it, and its external data if any, into place."""
    try:
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        text = f"cannot write {path}: {error.strerror}"
        raise Failure("environment", "cannot_write", text, stage="export", where=str(path), hint="choose another folder") from error
    try:
        produced = write(scratch / path.name)
        for file in sorted(scratch.iterdir(), key=lambda file: file.name == path.name):  # the model last
            os.replace(file, path.parent / file.name)
        return produced
    except OSError as error:
        text = f"cannot write {path}: {error.strerror}"
        raise Failure("environment", "cannot_write", text, stage="export", where=str(path), hint="free some space") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


# --- the dynamo exporter


def _dynamo(job: _Job, file: Path) -> dict:
    program = _captured_program(job)
    model = program.model
    _rename_axes(job, model)
    _tidy_stacks(model)
    size = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)
    program.save(str(file), external_data=size > _ONE_FILE_LIMIT)
    inputs = {value.name: [d if isinstance(d, int) else str(d) for d in value.shape] for value in model.graph.inputs}
    return _produced(job, model.opset_imports.get("", 0), model.ir_version, inputs, [v.name for v in model.graph.outputs])


def _captured_program(job: _Job):
    named = _shapes(job, lambda symbol, low, high: torch.export.Dim(symbol, min=low, max=high))
    if not job.axes:
        return _try_dynamo(job, None)
    try:
        return _try_dynamo(job, named)
    except Exception as error:
        if not any("onstraint" in str(one) or "pecializ" in str(one) for one in chain(error)):
            raise _explained(error) from error
        job.log.append(f"the asked dynamic axes contradict the model: {_essential(error)}")
        job.log.append("second try, in which the exporter decides which axes stay dynamic")
    automatic = _shapes(job, lambda symbol, low, high: torch.export.Dim.AUTO)
    return _try_dynamo(job, automatic, explain=True)


def _try_dynamo(job: _Job, shapes: Optional[dict], explain: bool = False):
    args, kwargs = job.subject.arguments(lambda slot: job.tensors[slot.name])
    try:
        with flat_forward(job.subject.module):
            return torch.onnx.export(
                job.subject.module,
                args,
                kwargs=kwargs or None,
                dynamo=True,
                input_names=list(job.subject.inputs),
                output_names=job.outputs,
                dynamic_shapes=shapes,
                opset_version=job.opset,
                verbose=False,
            )
    except BaseException as error:
        if explain or shapes is None or not isinstance(error, Exception):
            raise _explained(error) from error
        raise


def _shapes(job: _Job, dim: Callable[[str, int, Optional[int]], Any]) -> dict:
    """dynamic_shapes for torch.export, nested like the arguments."""
    bounds: dict[str, tuple[int, Optional[int]]] = {}
    for axis in job.axes:
        bounds.setdefault(axis["symbol"], (axis["min"], axis.get("max")))
    dims = {symbol: dim(symbol, low, high) for symbol, (low, high) in bounds.items()}
    marks: dict[str, dict[int, Any]] = {}
    for axis in job.axes:
        marks.setdefault(axis["input"], {})[axis["axis"]] = dims[axis["symbol"]]
    return {
        parameter: rebuilt(template, lambda slot: marks.get(slot.name), constant=lambda _: None)
        for parameter, template in job.subject.template.items()
    }


def _rename_axes(job: _Job, model) -> None:
    """Gives the symbols that an exporter made up the names that were asked for."""
    names: dict[str, str] = {}
    inputs = {value.name: value for value in model.graph.inputs}
    for axis in job.axes:
        shape = inputs[axis["input"]].shape if axis["input"] in inputs else None
        if shape is not None and not isinstance(shape[axis["axis"]], int):
            names.setdefault(str(shape[axis["axis"]].value), axis["symbol"])
    changed = {old: new for old, new in names.items() if old != new and old.isidentifier()}
    if changed:
        from torch.onnx._internal.exporter import _ir_passes

        _ir_passes.rename_axis(model, changed)


def _tidy_stacks(model) -> None:
    """Takes Portwright's own frame out of the stack traces that the exporter keeps with each node."""
    for node in model.graph.all_nodes():
        stack = node.metadata_props.get("pkg.torch.onnx.stack_trace")
        if stack and "portwright" in stack:
            frames = re.split(r"(?m)^(?=  File )", stack if stack.startswith("  ") else "  " + stack)
            kept = [frame for frame in frames if f"{os.sep}portwright{os.sep}outputs.py" not in frame]
            node.metadata_props["pkg.torch.onnx.stack_trace"] = "".join(kept).strip()


# --- the TorchScript exporter


def _torchscript(job: _Job, file: Path) -> dict:
    import onnx

    args, kwargs = job.subject.arguments(lambda slot: job.tensors[slot.name])
    axes: dict[str, dict[int, str]] = {}
    for axis in job.axes:
        axes.setdefault(axis["input"], {})[axis["axis"]] = axis["symbol"]
    try:
        with flat_forward(job.subject.module):
            torch.onnx.export(
                job.subject.module,
                args,
                str(file),
                kwargs=kwargs or None,
                dynamo=False,
                input_names=list(job.subject.inputs),
                output_names=job.outputs,
                dynamic_axes=axes or None,
                opset_version=job.opset,
            )
    except BaseException as error:
        raise _explained(error) from error
    model = onnx.load(str(file), load_external_data=False)
    inputs = {
        value.name: [d.dim_value if d.HasField("dim_value") else d.dim_param for d in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    return _produced(job, opset, model.ir_version, inputs, [value.name for value in model.graph.output])


_EXPORTERS = {"dynamo": _dynamo, "torchscript": _torchscript}


def _produced(job: _Job, opset: int, ir_version: int, inputs: dict[str, list], outputs: list[str]) -> dict:
    """What came out, and how it differs from what was asked."""
    static = []
    for axis in job.axes:
        shape = inputs.get(axis["input"])
        if shape and isinstance(shape[axis["axis"]], int):
            static.append(f"{axis['input']}.{axis['axis']}={shape[axis['axis']]}")
    dynamic = [f"{name}.{i}={d}" for name, shape in inputs.items() for i, d in enumerate(shape) if not isinstance(d, int)]
    for axis in static:
        job.log.append(f"the exporter froze {axis}, which was asked to be dynamic")
    return {
        "opset_produced": opset,
        "ir_version": ir_version,
        "inputs": list(inputs),
        "outputs": outputs,
        "dynamic_axes": dynamic,
        "static_axes": static,
    }


# --- what went wrong


def _essential(error: BaseException) -> str:
    """The line that says what is wrong, from the innermost cause."""
    root = list(chain(error))[-1]
    return summary(root)


def _explained(error: BaseException) -> Failure:
    return describe(error, Kind("export", "export_failed"), message=_essential(error))

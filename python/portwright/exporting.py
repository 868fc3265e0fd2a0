"""The operation export: the module as an ONNX file."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from portwright.assumptions import recorded
from portwright.failures import Failure, Kind, chain, describe, guarded, pick_line, summary
from portwright.outputs import flat_forward, flatten
from portwright.subject import Subject, rebuilt

_LOG_LIMIT = 64 << 10
_ONE_FILE_LIMIT = 2_000_000_000  # bytes of weights; protobuf ends at 2 GiB
_STACK_KEY = "pkg.torch.onnx.stack_trace"
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_NO_FUNCTION = re.compile(r"No ONNX function found for <OpOverload\(op='([^']+)', overload='([^']+)'\)>")
_SCRIPT_FRAME = re.compile(r"(?m)^(.+)\((\d+)\): ")
_NOT_SUPPORTED = re.compile(r"[Ee]xporting the operator '([^']+)'")
_DATA_HINT = "a Python decision hangs on values that only a run knows: use torch.where or torch.cond, or decide outside"


@dataclass
class _Job:
    """One export: what is asked, and the log of how it went."""

    subject: Subject
    tensors: dict[str, torch.Tensor]
    axes: list[dict]
    opset: int | None
    outputs: list[str] = field(default_factory=list)
    assumptions: list[dict] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def arguments(self) -> tuple[tuple, dict]:
        return self.subject.arguments(lambda slot: self.tensors[slot.name])


@dataclass
class _Produced:
    """What an exporter made. `inputs` has the dimensions of each: a number or the name of a symbol."""

    opset: int
    ir_version: int
    inputs: dict[str, list]
    outputs: list[str]


def op_export(worker, request: dict) -> dict:
    exporter = request.get("exporter") or "dynamo"
    if exporter not in _EXPORTERS:
        raise Failure(
            "usage", "bad_exporter", f"there is no exporter '{exporter}'", hint="known: " + ", ".join(_EXPORTERS)
        )
    job = job_of(worker, request)
    worker.note(f"exporting with {exporter}")
    start = time.perf_counter()
    with torch.no_grad(), _captured() as printed:
        produced = _save(Path(request["path"]), lambda file: _EXPORTERS[exporter](job, file))
    static = _static_axes(job, produced)
    return {
        "path": request["path"],
        "exporter": exporter,
        "opset_asked": job.opset,
        "opset_produced": produced.opset,
        "ir_version": produced.ir_version,
        "inputs": list(produced.inputs),
        "outputs": produced.outputs,
        "dynamic_axes": [
            f"{name}.{index}={size}"
            for name, shape in produced.inputs.items()
            for index, size in enumerate(shape)
            if not isinstance(size, int)
        ],
        "static_axes": static,
        "assumptions": job.assumptions,
        "seconds": time.perf_counter() - start,
        "log": "\n".join([*job.log, printed.getvalue()[-_LOG_LIMIT:]]).strip(),
    }


def job_of(worker, request: dict) -> _Job:
    """The request's subject, copies of its inputs and the axes that are really dynamic."""
    subject = worker.held(request["handle"], Subject)
    # Copies: the model may write into them, and they outlive the request's shared memory in traced constants.
    tensors = {name: tensor.clone() for name, tensor in worker.inbox.take(request["inputs"]).items()}
    subject.check(tensors, "export")
    axes = request.get("dynamic") or []
    _check_axes(tensors, axes)
    job = _Job(subject, tensors, [axis for axis in axes if axis.get("max") != axis["min"]], request.get("opset"))
    _avoid_ones(job)
    with torch.no_grad():
        job.outputs = _output_names(job)
    return job


def _check_axes(tensors: dict[str, torch.Tensor], axes: list[dict]) -> None:
    for axis in axes:
        name, index = axis["input"], axis["axis"]
        if name not in tensors:
            text, hint = f"dynamic axis of '{name}', which is not an input", "the inputs are " + ", ".join(tensors)
        elif not 0 <= index < tensors[name].dim():
            text, hint = f"dynamic axis {name}.{index}: '{name}' has {tensors[name].dim()} axes", "axes count from 0"
        elif not axis["symbol"].isidentifier():
            text, hint = f"'{axis['symbol']}' cannot name a dynamic axis", "use letters, digits and _"
        else:
            continue
        raise Failure("usage", "bad_axis", text, stage="export", hint=hint)


def _avoid_ones(job: _Job) -> None:
    """Repeats the example along dynamic axes of size 1, which torch.export would take for a constant."""
    for axis in job.axes:
        name, index = axis["input"], axis["axis"]
        if job.tensors[name].shape[index] == 1:
            size = max(2, axis["min"])
            job.tensors[name] = torch.cat([job.tensors[name]] * size, dim=index)
            job.log.append(f"example of {name}.{index} repeated to size {size}: size 1 would be taken for a constant")


def _output_names(job: _Job) -> list[str]:
    with guarded("export", "forward_failed"):
        args, kwargs = job.subject.arguments(lambda slot: job.tensors[slot.name].clone())
        names = list(flatten(job.subject.module(*args, **kwargs), list(job.subject.inputs)))
        if not names:
            raise Failure("gate", "forward_failed", f"{type(job.subject.module).__name__}.forward() returned no tensor")
        return names


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

    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(Tee(sys.stdout)),
        contextlib.redirect_stderr(Tee(sys.stderr)),
    ):
        warnings.simplefilter("default")
        # Said of every axis that shares its symbol with another, as it should.
        warnings.filterwarnings("ignore", message="# The axis name: (.*) will not be used.*: \\1")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        yield text


def _save(path: Path, write: Callable[[Path], _Produced]) -> _Produced:
    """Lets `write` fill a file in a scratch folder and moves it, and its external data if any, into place."""
    scratch: Path | None = None
    try:
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        produced = write(scratch / path.name)
        for file in sorted(scratch.iterdir(), key=lambda file: file.name == path.name):  # the model last
            os.replace(file, path.parent / file.name)
        return produced
    except OSError as error:
        text = f"cannot write {path}: {error.strerror or error}"
        hint = "choose another folder, or free some space"
        raise Failure("environment", "cannot_write", text, stage="export", where=str(path), hint=hint) from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def _static_axes(job: _Job, produced: _Produced) -> list[str]:
    """Axes that were asked to be dynamic and came out with a fixed size: 'x.0=4'."""
    static = []
    for axis in job.axes:
        size = produced.inputs.get(axis["input"], {axis["axis"]: None})[axis["axis"]]
        if isinstance(size, int):
            static.append(f"{axis['input']}.{axis['axis']}={size}")
    job.log += [f"the exporter froze {axis}, which was asked to be dynamic" for axis in static]
    return static


# --- the dynamo exporter


def _dynamo(job: _Job, file: Path) -> _Produced:
    with recorded(job.axes) as job.assumptions:
        program = _program(job)
    if any(one["where"] for one in job.assumptions):  # a later pass repeats them without the line
        job.assumptions = [one for one in job.assumptions if one["where"]]
    job.log += [f"the exporter assumed {one['condition']} ({one['where']})" for one in job.assumptions]
    model = program.model
    _rename_axes(job, model)
    _tidy_stacks(model)
    weights = sum(
        value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None
    )
    program.save(str(file), external_data=weights > _ONE_FILE_LIMIT)
    inputs = {v.name: [size if isinstance(size, int) else str(size) for size in v.shape] for v in model.graph.inputs}
    return _Produced(model.opset_imports.get("", 0), model.ir_version, inputs, [v.name for v in model.graph.outputs])


def _program(job: _Job):
    """First with the asked ranges; when the model contradicts them, the exporter may choose what stays dynamic."""
    try:
        return _run_dynamo(job, lambda symbol, low, high: torch.export.Dim(symbol, min=low, max=high))
    except BaseException as error:
        if not job.axes or not any(
            "Constraint" in type(one).__name__ or "onstraints violated" in str(one) for one in chain(error)
        ):
            raise _explained(error) from error
        job.log.append(f"the asked dynamic axes contradict the model: {summary(list(chain(error))[-1])}")
        job.log.append("second try, in which the exporter decides which axes stay dynamic")
    try:
        return _run_dynamo(job, lambda *_: torch.export.Dim.AUTO)
    except BaseException as error:
        raise _explained(error) from error


def exported_program(job: _Job):
    """The torch.export.ExportedProgram behind a dynamo export: its nodes carry the names of the ONNX tensors."""
    return _program(job).exported_program


def _run_dynamo(job: _Job, dim: Callable[[str, int, int | None], Any]):
    args, kwargs = job.arguments()
    with flat_forward(job.subject.module):
        return torch.onnx.export(
            job.subject.module,
            args,
            kwargs=kwargs or None,
            dynamo=True,
            input_names=list(job.subject.inputs),
            output_names=job.outputs,
            dynamic_shapes=_dynamic_shapes(job, dim) if job.axes else None,
            opset_version=job.opset,
            verbose=False,
        )


def _dynamic_shapes(job: _Job, dim: Callable[[str, int, int | None], Any]) -> dict:
    """What torch.export wants: nested like the arguments, by parameter."""
    dims: dict[str, Any] = {}
    marks: dict[str, dict[int, Any]] = {}
    for axis in job.axes:
        if axis["symbol"] not in dims:
            dims[axis["symbol"]] = dim(axis["symbol"], axis["min"], axis.get("max"))
        marks.setdefault(axis["input"], {})[axis["axis"]] = dims[axis["symbol"]]
    return {
        parameter: rebuilt(template, lambda slot: marks.get(slot.name), constant=lambda _: None)
        for parameter, template in job.subject.template.items()
    }


def _rename_axes(job: _Job, model) -> None:
    """Gives the symbols that the exporter made up the names that were asked for."""
    from torch.onnx._internal.exporter import _ir_passes

    names: dict[str, str] = {}
    inputs = {value.name: value for value in model.graph.inputs}
    for axis in job.axes:
        size = inputs[axis["input"]].shape[axis["axis"]] if axis["input"] in inputs else 0
        if not isinstance(size, int) and size.value and size.value.isidentifier():
            names.setdefault(size.value, axis["symbol"])
    changed = {old: new for old, new in names.items() if old != new}
    if changed:
        _ir_passes.rename_axis(model, changed)


def _tidy_stacks(model) -> None:
    """Takes Portwright's own frames out of the stack traces that the exporter keeps with each node."""
    for node in model.graph.all_nodes():
        stack = node.metadata_props.get(_STACK_KEY, "")
        if "portwright" in stack:
            frames = re.split(r"(?m)^ *(?=File \")", stack)
            own = f"{os.sep}portwright{os.sep}outputs.py"
            node.metadata_props[_STACK_KEY] = "  ".join(frame for frame in frames if own not in frame).strip()


# --- the TorchScript exporter


def _torchscript(job: _Job, file: Path) -> _Produced:
    args, kwargs = job.arguments()
    axes: dict[str, dict[int, str]] = {}
    for axis in job.axes:
        axes.setdefault(axis["input"], {})[axis["axis"]] = axis["symbol"]
    try:
        with flat_forward(job.subject.module), _tracer_warnings(job):
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
    except OSError:
        raise
    except BaseException as error:
        raise _explained(error) from error
    return _read_back(file)


@contextlib.contextmanager
def _tracer_warnings(job: _Job):
    """What the tracer warns of is an assumption: a value of the example became a constant."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", torch.jit.TracerWarning)
        yield
    for one in caught:
        print(warnings.formatwarning(one.message, one.category, one.filename, one.lineno), file=sys.stderr, end="")
        if issubclass(one.category, torch.jit.TracerWarning):
            what = str(one.message).partition(" might ")[0].rstrip(".")
            job.assumptions.append({"condition": what, "where": f"{os.path.basename(one.filename)}:{one.lineno}"})


def _read_back(file: Path) -> _Produced:
    import onnx

    model = onnx.load(str(file), load_external_data=False)
    inputs = {
        value.name: [d.dim_value if d.HasField("dim_value") else d.dim_param for d in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    return _Produced(opset, model.ir_version, inputs, [value.name for value in model.graph.output])


_EXPORTERS = {"dynamo": _dynamo, "torchscript": _torchscript}


# --- what went wrong


def _explained(error: BaseException) -> Failure:
    """export_failed with the line that says what is wrong, from the innermost cause, and the user's line."""
    kind = Kind("export", "export_failed")
    root = list(chain(error))[-1]
    text = "\n".join(str(one) for one in chain(error))
    match = _NO_FUNCTION.search(text) or _NOT_SUPPORTED.search(text)
    if match is None:
        hint = _DATA_HINT if "data-dependent" in str(root) else ""
        return describe(error, kind, message=summary(root), hint=hint, where=_traced_line(error))
    operator = ".".join(match.groups())
    short = re.sub(r"^(aten|prims)(::|\.)_?", "", operator).removesuffix(".default")
    message = f"the operator '{operator}' has no ONNX form"
    hint = f"compute '{short}' from operators that have one, or leave it out of the exported part"
    failure = describe(error, kind, message=message, hint=hint, where=_traced_line(error))
    failure.detail = f"operator: {operator}\n{failure.detail}"
    return failure


def _traced_line(error: BaseException) -> str:
    """The user's line behind the graph node that an exporter could not translate; empty when it failed elsewhere."""
    for one in chain(error):
        for frame, _ in traceback.walk_tb(one.__traceback__):
            node = frame.f_locals.get("node")
            if isinstance(node, torch.fx.Node) and (stack := node.meta.get("stack_trace")):
                return pick_line([(file, int(line)) for file, line in _FRAME.findall(stack)][::-1])
            if isinstance(node, torch._C.Node):
                return pick_line([(file, int(line)) for file, line in _SCRIPT_FRAME.findall(node.sourceRange())])
    return ""

"""The operation forward: runs the module, eagerly or compiled, at a given precision."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable

import torch

from portwright.failures import Failure, Kind, chain, describe, guarded
from portwright.outputs import flatten
from portwright.subject import Subject

PRECISIONS = {"fp32": None, "fp64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16}
_ALL_THREADS = torch.get_num_threads()

Named = dict[str, torch.Tensor]


def op_forward(worker, request: dict) -> dict:
    subject = worker.held(request["handle"], Subject)
    run = _Run(
        worker.inbox,
        request["inputs"],
        subject,
        _one_of(request.get("precision") or "fp32", list(PRECISIONS), "precision"),
        _one_of(request.get("mode") or "eager", ["eager", "compile"], "mode"),
        request.get("device") or "cpu",
    )
    torch.set_num_threads(request.get("threads") or _ALL_THREADS)
    _pin_strict_fp32()
    with torch.no_grad(), guarded("forward", "forward_failed"):
        reply: dict = {"nonfinite": run.first_nonfinite()} if request.get("trace_finite") else {}
        made, reply["seconds"], reply["compile_seconds"] = run.timed(request.get("runs") or 1)
        wanted = request.get("outputs", True)
        reply["outputs"] = worker.outbox.put(run.named(made)) if wanted else None
    return reply


def _pin_strict_fp32() -> None:
    """fp32 is fp32: no TF32 or bf16 inside matrix products, whatever the defaults or the user's code say."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False


def _one_of(value: str, known: list[str], what: str) -> str:
    if value not in known:
        raise Failure("usage", f"bad_{what}", f"torch has no {what} '{value}'", hint="known: " + ", ".join(known))
    return value


def variant(subject: Subject, precision: str, mode: str, device: str) -> torch.nn.Module:
    """The module at a precision, on a device, compiled or not; made once for each handle."""
    if (precision, mode, device) not in subject.variants:
        if mode == "compile":
            made = torch.compile(variant(subject, precision, "eager", device))
        elif PRECISIONS[precision] is None and device == "cpu":
            made = subject.module
        else:
            made = copy.deepcopy(subject.module).to(device=device, dtype=PRECISIONS[precision])
        subject.variants[precision, mode, device] = made
    return subject.variants[precision, mode, device]


class _Run:
    """One request: a variant of the module and its inputs."""

    def __init__(self, inbox, described: list[dict], subject: Subject, precision: str, mode: str, device: str):
        self._inbox, self._described, self._subject = inbox, described, subject
        self._dtype, self._key = PRECISIONS[precision], (precision, mode, device)
        self._changes_inputs = False
        self._tensors = self._taken()
        subject.check(self._tensors, "forward")

    def _taken(self) -> Named:
        """The inputs as this variant takes them; views of the inbox where nothing has to change."""
        floats = {"dtype": self._dtype} if self._dtype else {}
        return {
            name: tensor.to(self._key[2], **(floats if tensor.is_floating_point() else {}))
            for name, tensor in self._inbox.take(self._described).items()
        }

    def timed(self, runs: int) -> tuple[object, list[float], float]:
        """(outputs of the last run, seconds of each run, seconds that compiling took)."""
        module, compiling = variant(self._subject, *self._key), 0.0
        shapes = tuple(tuple(tensor.shape) for tensor in self._tensors.values())
        if self._key[1] == "compile" and (self._key, shapes) not in self._subject.compiled:
            compiling = self._compile(module)
            self._subject.compiled.add((self._key, shapes))
        seconds, made = [], None
        for _ in range(runs):
            del made  # one set of outputs at a time
            made, taken = self._once(module)
            seconds.append(taken)
        if self._changes_inputs:
            self._inbox.forget()
        return made, seconds, compiling

    def _compile(self, module: Callable) -> float:
        try:
            return self._once(module)[1]
        except Exception as error:
            if any(type(one).__module__.startswith(("torch._dynamo", "torch._inductor")) for one in chain(error)):
                raise describe(error, Kind("forward", "compile_failed")) from error
            raise

    def _once(self, module: Callable) -> tuple[object, float]:
        if self._changes_inputs:  # what the module wrote into its inputs must not reach the next run
            self._inbox.forget()
            self._tensors = self._taken()
        versions = [tensor._version for tensor in self._tensors.values()]
        args, kwargs = self._subject.arguments(lambda slot: self._tensors[slot.name])
        self._synchronise()
        start = time.perf_counter()
        made = module(*args, **kwargs)
        self._synchronise()
        seconds = time.perf_counter() - start
        self._changes_inputs = versions != [tensor._version for tensor in self._tensors.values()]
        return made, seconds

    def _synchronise(self) -> None:
        if self._key[2] != "cpu":
            torch.cuda.synchronize()

    def named(self, made: object) -> Named:
        """Outputs by name. Those of reduced precision become float32, which holds all their values."""
        outputs = flatten(made, list(self._subject.inputs))
        if not outputs:
            name = type(self._subject.module).__name__
            raise Failure("gate", "forward_failed", f"{name}.forward() returned no tensor", stage="forward")
        return {name: self._readable(tensor) for name, tensor in outputs.items()}

    def _readable(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.to_dense() if tensor.layout is not torch.strided else tensor.detach()
        widened = tensor.dtype == self._dtype and self._dtype != torch.float64
        return tensor.float() if widened else tensor.resolve_conj().resolve_neg()

    def first_nonfinite(self) -> dict | None:
        from portwright.finite import first_nonfinite

        precision, _, device = self._key
        plain = self._inbox.take(self._described)
        full = self._subject.arguments(lambda slot: plain[slot.name].to(device, copy=True))
        reduced = self._subject.arguments(lambda slot: self._tensors[slot.name].clone())
        exact = variant(self._subject, "fp32", "eager", device)
        return first_nonfinite(exact, full, variant(self._subject, precision, "eager", device), reduced)

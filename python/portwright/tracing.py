"""The operation trace: what PyTorch computes inside the model, under the names that the dynamo exporter gives in ONNX."""

from __future__ import annotations

import torch

from portwright.exporting import exported_program, job_of
from portwright.outputs import flatten


def op_trace(worker, request: dict) -> dict:
    """The request of `export`; every tensor of the exported program, on the inputs as they are given."""
    job = job_of(worker, request)
    given = {name: tensor.clone() for name, tensor in worker.inbox.take(request["inputs"]).items()}
    worker.note("tracing every tensor in PyTorch")
    with torch.no_grad():
        program = exported_program(job)
        args, kwargs = job.subject.arguments(lambda slot: given[slot.name])
        tracer = _Tracer(program.module())
        made = tracer.run(*torch.utils._pytree.tree_leaves((args, kwargs)))
    tensors = dict(zip(job.outputs, flatten(made, list(job.subject.inputs)).values()))
    return {"outputs": worker.outbox.put({**tracer.tensors, **tensors})}


class _Tracer(torch.fx.Interpreter):
    """Keeps each tensor by the name of its node."""

    def __init__(self, module):
        super().__init__(module)
        self.tensors: dict[str, torch.Tensor] = {}

    def run_node(self, node):
        value = super().run_node(node)
        if isinstance(value, torch.Tensor) and node.op in ("call_function", "call_module", "call_method"):
            self.tensors[node.name] = value.detach().clone()
        return value

"""Small graphs by hand, and what they compute by an independent program."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def graph(nodes, inputs, outputs, constants=(), opset=18, **more):
    made = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in dict(constants).items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **more)
    if any(shape is None for _, _, shape in outputs):
        known = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output
        del model.graph.output[:]
        model.graph.output.extend(known)
    return model


def count(body):
    inner = [attribute.g for node in body.node for attribute in node.attribute if attribute.HasField("g")]
    return len(body.node) + sum(map(count, inner))


def run(model, **inputs):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), onnxruntime.SessionOptions(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


def operators(model):
    return [node.op_type for node in model.graph.node]

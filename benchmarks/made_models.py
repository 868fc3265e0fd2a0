"""Models for benchmarks that no exporter makes: large ones with random weights, and long ones."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Weights:
    """Random float32 weights, streamed into one file of external data."""

    def __init__(self, file: pathlib.Path, seed: int = 0):
        self.file, self.offset, self.generator = file, 0, np.random.default_rng(seed)
        self.stream = open(file, "wb")

    def add(self, name: str, *shape: int) -> onnx.TensorProto:
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        length = 4 * int(np.prod(shape))
        for key, value in (("location", self.file.name), ("offset", self.offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        for first in range(0, shape[0], 1024):
            rows = (min(1024, shape[0] - first), *shape[1:])
            self.stream.write((self.generator.random(rows, dtype=np.float32) - np.float32(0.5)).tobytes())
        self.offset += length
        return tensor


def rms_norm(nodes: list, x: str, out: str, weight: str) -> None:
    nodes += [
        helper.make_node("Pow", [x, "two"], [out + "_sq"]),
        helper.make_node("ReduceMean", [out + "_sq", "last"], [out + "_ms"]),
        helper.make_node("Add", [out + "_ms", "epsilon"], [out + "_mse"]),
        helper.make_node("Sqrt", [out + "_mse"], [out + "_root"]),
        helper.make_node("Div", [x, out + "_root"], [out + "_n"]),
        helper.make_node("Mul", [out + "_n", weight], [out]),
    ]


def heads(nodes: list, x: str, out: str, order: list[int]) -> None:
    """[batch, sequence, hidden] to [batch, heads, sequence, size], with the shape arithmetic that exporters write."""
    nodes += [
        helper.make_node("Shape", [x], [out + "_shape"]),
        helper.make_node("Slice", [out + "_shape", "zero1", "two1"], [out + "_front"]),
        helper.make_node("Concat", [out + "_front", "split"], [out + "_target"], axis=0),
        helper.make_node("Reshape", [x, out + "_target"], [out + "_split"]),
        helper.make_node("Transpose", [out + "_split"], [out], perm=order),
    ]


def llama_like(file: pathlib.Path, layers: int = 6, hidden: int = 4096, inner: int = 11008, words: int = 32000) -> None:
    """A decoder of `layers` layers: 5.4 GB of weights by default."""
    weights = Weights(file.with_name(file.name + ".data"))
    initializers = [weights.add("embedding", words, hidden)]
    nodes = [helper.make_node("Gather", ["embedding", "tokens"], ["h0"])]
    for layer in range(layers):
        p, h = f"l{layer}_", f"h{layer}"
        initializers += [weights.add(p + name, hidden, hidden) for name in ("q", "k", "v", "o")]
        initializers += [weights.add(p + "up", hidden, inner), weights.add(p + "gate", hidden, inner)]
        initializers += [weights.add(p + "down", inner, hidden)]
        initializers += [weights.add(p + name, hidden) for name in ("norm1", "norm2")]
        rms_norm(nodes, h, p + "a", p + "norm1")
        for name in "qkv":
            nodes.append(helper.make_node("MatMul", [p + "a", p + name], [p + name + "_flat"]))
            heads(nodes, p + name + "_flat", p + name + "_heads", [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])
        nodes += [
            helper.make_node("MatMul", [p + "q_heads", p + "k_heads"], [p + "scores"]),
            helper.make_node("Mul", [p + "scores", "scale"], [p + "scaled"]),
            helper.make_node("Softmax", [p + "scaled"], [p + "weights"], axis=-1),
            helper.make_node("MatMul", [p + "weights", p + "v_heads"], [p + "context"]),
            helper.make_node("Transpose", [p + "context"], [p + "merged"], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", [p + "merged", "merge"], [p + "flat"]),
            helper.make_node("MatMul", [p + "flat", p + "o"], [p + "attention"]),
            helper.make_node("Add", [h, p + "attention"], [p + "middle"]),
        ]
        rms_norm(nodes, p + "middle", p + "b", p + "norm2")
        nodes += [
            helper.make_node("MatMul", [p + "b", p + "gate"], [p + "gated"]),
            helper.make_node("Sigmoid", [p + "gated"], [p + "sigmoid"]),
            helper.make_node("Mul", [p + "gated", p + "sigmoid"], [p + "silu"]),
            helper.make_node("MatMul", [p + "b", p + "up"], [p + "upped"]),
            helper.make_node("Mul", [p + "silu", p + "upped"], [p + "product"]),
            helper.make_node("MatMul", [p + "product", p + "down"], [p + "mlp"]),
            helper.make_node("Add", [p + "middle", p + "mlp"], [f"h{layer + 1}"]),
        ]
    size = 128
    constants = {
        "two": np.float32(2), "epsilon": np.float32(1e-5), "last": np.array([-1]), "scale": np.float32(size**-0.5),
        "zero1": np.array([0]), "two1": np.array([2]), "split": np.array([hidden // size, size]),
        "merge": np.array([0, 0, hidden]),
    }  # fmt: skip
    initializers += [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(
        nodes,
        "llama_like",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info(f"h{layers}", TensorProto.FLOAT, ["batch", "sequence", hidden])],
        initializers,
    )
    weights.stream.close()
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), file)


def long_chain(file: pathlib.Path, nodes: int) -> None:
    """`nodes` nodes, of the kinds that a simplifier has work with: a third of them can go."""
    made, x = [], "x"
    for step in range(nodes // 10):
        p = f"s{step}_"
        made += [
            helper.make_node("Shape", [x], [p + "shape"]),
            helper.make_node("Gather", [p + "shape", "first"], [p + "rows"]),
            helper.make_node("Concat", [p + "rows", "wide"], [p + "target"], axis=0),
            helper.make_node("Reshape", [x, p + "target"], [p + "wide"]),
            helper.make_node("Relu", [p + "wide"], [p + "relu"]),
            helper.make_node("Identity", [p + "relu"], [p + "same"]),
            helper.make_node("Add", [p + "same", "w"], [p + "sum"]),
            helper.make_node("Transpose", [p + "sum"], [p + "turned"], perm=[0, 2, 1]),
            helper.make_node("Mul", [p + "turned", "w2"], [p + "product"]),
            helper.make_node("Reshape", [p + "product", "narrow"], [p + "y"]),
        ]
        x = p + "y"
    constants = {
        "first": np.array([0]), "wide": np.array([4, 4]), "narrow": np.array([0, 16]),
        "w": np.linspace(-1, 1, 4, dtype=np.float32), "w2": np.linspace(1, 2, 4, dtype=np.float32),
    }  # fmt: skip
    graph = helper.make_graph(
        made,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["batch", 16])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), file)

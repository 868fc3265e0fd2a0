"""inspect beyond the summary: single nodes, differences, engines' answers, memory, and what could be one operator."""

import numpy as np
import onnx
import pytest
from graphs import FLOAT, graph
from onnx import TensorProto, helper

N = helper.make_node


@pytest.fixture
def inspect(portwright, tmp_path, validator):
    def of(model, *more, code=0):
        onnx.save(model, tmp_path / "m.onnx")
        done = portwright("inspect", "m.onnx", "--json", *more)
        assert done.code == code, done
        return done.json

    return of


def conv_and_relu(channels=8):
    weight = np.ones((channels, 3, 3, 3), np.float32)
    return graph(
        [N("Conv", ["x", "w"], ["c"], name="conv_1", pads=[1, 1, 1, 1]), N("Relu", ["c"], ["y"], name="relu_1")],
        [("x", FLOAT, [2, 3, 4, 4])], [("y", FLOAT, [2, channels, 4, 4])], {"w": weight},
    )


def test_nodes_by_operator_name_or_tensor(inspect, validator):
    for pattern, wanted in [("Conv", ["conv_1"]), ("*_1", ["conv_1", "relu_1"]), ("y", ["relu_1"]), ("Gemm", [])]:
        document = inspect(conv_and_relu(), "--nodes", pattern)
        validator("inspect", document)
        assert [node["name"] for node in document["matching"]] == wanted
    conv = inspect(conv_and_relu(), "--nodes", "conv_1")["matching"][0]
    assert [one["type"] for one in conv["inputs"]] == ["float32[2, 3, 4, 4]", "float32[8, 3, 3, 3]"]
    assert [one["constant"] for one in conv["inputs"]] == [False, True]
    assert conv["outputs"] == [{"name": "c", "type": "float32[2, 8, 4, 4]", "constant": False}]


def test_memory_and_precisions(inspect):
    """Most is alive while Conv's and Relu's results are: the input is gone by then."""
    document = inspect(conv_and_relu())
    assert document["activation_bytes"] == 4 * (2 * 8 * 16 * 2)
    assert document["weight_types"] == {"float32": 4 * 8 * 27}


def test_a_decomposition_is_named(inspect):
    root = np.float32(2**0.5)
    gelu = [
        N("Div", ["x", "root"], ["i"]), N("Erf", ["i"], ["e"]), N("Add", ["e", "one"], ["a"]),
        N("Mul", ["x", "a"], ["p"]), N("Mul", ["p", "half"], ["y"]),
    ]
    constants = {"root": root, "one": np.float32(1), "half": np.float32(0.5)}
    model = graph(gelu, [("x", FLOAT, [4])], [("y", FLOAT, [4])], constants, opset=13)
    assert "1 Gelu as single operators" in inspect(model)["oddities"]


def test_no_difference(portwright, inspect, tmp_path):
    inspect(conv_and_relu())
    portwright("inspect", "m.onnx", "--diff", "m.onnx").passes()


def test_every_kind_of_difference(inspect, tmp_path, validator):
    other = conv_and_relu()
    other.graph.node[0].attribute[0].ints[:] = [1, 1, 1, 2]
    other.graph.node[1].op_type = "Tanh"
    other.graph.node.append(N("Shape", ["y"], ["size"]))
    other.graph.output.append(helper.make_tensor_value_info("size", TensorProto.INT64, [4]))
    other.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.full((8, 3, 3, 3), 2, np.float32), "w"))
    onnx.save(other, tmp_path / "other.onnx")
    document = inspect(conv_and_relu(), "--diff", "other.onnx", code=1)
    validator("difference", document)
    found = document["differences"]
    assert {(one["kind"], one["what"], one["name"]): one["detail"] for one in found} == {
        ("added", "output", "size"): "int64[4]",
        ("changed", "node", "c"): "other attributes",
        ("changed", "node", "y"): "Relu to Tanh",
        ("added", "node", "size"): "Shape",
        ("changed", "constant", "w"): "other values",
    }


def test_engines_are_asked(inspect):
    model = graph(
        [N("Relu", ["x"], ["h"]), N("Strange", ["h"], ["y"], name="odd", domain="com.example")],
        [("x", FLOAT, [2])], [("y", FLOAT, [2])],
    )
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    engines = inspect(model, "--engines")["engines"]
    for name in ("onnxruntime", "openvino"):
        refused = [node["node"] for node in engines[name]["unsupported"]]
        assert refused == ["odd"], engines
    fine = inspect(conv_and_relu(), "--engines")["engines"]
    assert all(answer == {"error": None, "unsupported": []} for answer in fine.values())

"""extract and convert-opset: valid models with right results, or a refusal."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


@pytest.fixture
def two_branches(tmp_path):
    """y = relu(x W) + sigmoid(relu(x W)), z = -x."""
    weight = np.random.default_rng(2).standard_normal((4, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"]),
            helper.make_node("Relu", ["product"], ["hidden"]),
            helper.make_node("Sigmoid", ["hidden"], ["gate"]),
            helper.make_node("Add", ["hidden", "gate"], ["y"]),
            helper.make_node("Neg", ["x"], ["z"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", FLOAT, ["n", 3]), helper.make_tensor_value_info("z", FLOAT, ["n", 4])],
        [numpy_helper.from_array(weight, "w")],
    )
    file = tmp_path / "in.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), file)
    return file


def test_a_piece_is_a_model_with_the_inputs_that_it_gets(portwright, two_branches, tmp_path, validator):
    record = portwright("extract", two_branches, "--from", "hidden", "--to", "y", "-o", "piece.onnx", "--json").passes().json
    validator("extract", record)
    assert record["inputs"] == ["hidden"] and record["outputs"] == ["y"] and record["nodes"] == 2
    piece = onnx.load(tmp_path / "piece.onnx")
    onnx.checker.check_model(piece, full_check=True)
    assert [node.op_type for node in piece.graph.node] == ["Sigmoid", "Add"]
    shape = piece.graph.input[0].type.tensor_type.shape
    assert shape.dim[0].dim_param == "n" and shape.dim[1].dim_value == 3
    hidden = np.load(tmp_path / "piece.inputs.npz")["hidden"]
    assert (hidden >= 0).all() and hidden.any()
    got = onnxruntime.InferenceSession(tmp_path / "piece.onnx").run(None, {"hidden": hidden})[0]
    np.testing.assert_allclose(got, hidden + 1 / (1 + np.exp(-hidden)), rtol=1e-5)


def test_without_ends_the_piece_takes_what_it_needs(portwright, two_branches, tmp_path):
    portwright("extract", two_branches, "--to", "hid*", "-o", "piece.onnx", "--no-inputs").passes()
    piece = onnx.load(tmp_path / "piece.onnx")
    assert [node.op_type for node in piece.graph.node] == ["MatMul", "Relu"]
    assert [one.name for one in piece.graph.input] == ["x"] and [one.name for one in piece.graph.initializer] == ["w"]
    assert not (tmp_path / "piece.inputs.npz").exists()


def test_names_that_are_not_there(portwright, two_branches):
    portwright("extract", two_branches, "--to", "nothing", "-o", "p.onnx").fails(2, "nothing")
    portwright("extract", two_branches, "--from", "y", "--to", "y", "-o", "p.onnx").fails(2, "between")


def resize(opset):
    graph = helper.make_graph(
        [helper.make_node("Resize", ["x", "scales"], ["y"], mode="linear")],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [1, 1, 4, 4])],
        [helper.make_tensor_value_info("y", FLOAT, [1, 1, 8, 8])],
        [numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=6)


def test_a_conversion_that_changes_results_is_refused(portwright, tmp_path, validator):
    """Resize 10 has the asymmetric coordinates that Resize 11 must be told of, and the converter does not."""
    onnx.save(resize(10), tmp_path / "in.onnx")
    done = portwright("convert-opset", "in.onnx", "--opset", "11", "-o", "out.onnx", "--json")
    validator("convert-opset", done.json)
    assert done.code == 1, done
    assert done.json["verdict"] in ("mismatch", "invalid_model") and done.json["output"] is None
    assert not (tmp_path / "out.onnx").exists()


def test_softmax_across_opset_13(portwright, tmp_path):
    """Before 13 Softmax flattens what follows the axis into one; from 13 on it does not. On three axes that differs."""
    graph = helper.make_graph(
        [helper.make_node("Softmax", ["x"], ["y"], axis=1)],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [2, 3, 4])],
        [helper.make_tensor_value_info("y", FLOAT, [2, 3, 4])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7), tmp_path / "in.onnx")
    record = portwright("convert-opset", "in.onnx", "--opset", "13", "-o", "out.onnx", "--json").passes().json
    assert record["proof"]["verdict"] == "passed"
    x = np.random.default_rng(2).standard_normal((2, 3, 4)).astype(np.float32)
    flat = np.exp(x.reshape(2, 12))
    session = onnxruntime.InferenceSession(str(tmp_path / "out.onnx"), providers=["CPUExecutionProvider"])
    expected = (flat / flat.sum(1, keepdims=True)).reshape(2, 3, 4)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-5)


def test_a_conversion_that_keeps_results(portwright, two_branches, tmp_path):
    record = portwright("convert-opset", two_branches, "--opset", "21", "-o", "out.onnx", "--json").passes().json
    assert record["proof"]["verdict"] == "passed" and record["opset_after"] == 21
    out = onnx.load(tmp_path / "out.onnx")
    assert out.opset_import[0].version == 21
    onnx.checker.check_model(out, full_check=True)

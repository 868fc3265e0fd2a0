"""simplify: a smaller graph, the same results by an independent program, and nothing else changed."""

import numpy as np
import onnx
import onnxruntime
import pytest
from graphs import FLOAT, count, graph, operators, run
from onnx import TensorProto, helper, numpy_helper

X = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)


def test_constants_are_folded_and_dynamic_axes_stay(simplify):
    model = graph(
        [
            helper.make_node("Add", ["a", "b"], ["c"]),
            helper.make_node("Sqrt", ["c"], ["d"]),
            helper.make_node("Mul", ["x", "d"], ["y"]),
        ],
        [("x", FLOAT, ["batch", 3, 4])], [("y", FLOAT, ["batch", 3, 4])],
        {"a": np.full(4, 3, np.float32), "b": np.arange(4, dtype=np.float32)},
    )
    out, record = simplify(model)
    assert operators(out) == ["Mul"]
    assert out.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert record["proof"]["verdict"] == "passed" and record["proof"]["inputs"] >= 4
    np.testing.assert_array_equal(run(out, x=X)[0], X * np.sqrt(3 + np.arange(4, dtype=np.float32)))


def test_shape_arithmetic_goes_where_one_dimension_is_open(simplify):
    model = graph(
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Gather", ["s", "zero"], ["n"]),
            helper.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
            helper.make_node("Concat", ["n1", "rest"], ["target"], axis=0),
            helper.make_node("Reshape", ["x", "target"], ["y"]),
        ],
        [("x", FLOAT, ["batch", 3, 4])], [("y", FLOAT, ["batch", 12])],
        {"zero": np.int64(0), "axis": np.array([0]), "rest": np.array([12])},
    )
    out, _ = simplify(model)
    assert operators(out) == ["Reshape"]
    for batch in (1, 2, 7):
        x = np.random.default_rng(batch).standard_normal((batch, 3, 4)).astype(np.float32)
        np.testing.assert_array_equal(run(out, x=x)[0], x.reshape(batch, 12))


def test_nothing_grows_past_the_budget(simplify):
    """ConstantOfShape, Tile and Expand turn a few bytes into many."""
    model = graph(
        [
            helper.make_node("ConstantOfShape", ["shape"], ["zeros"], value=numpy_helper.from_array(np.ones(1, np.float32))),
            helper.make_node("Add", ["x", "zeros"], ["y"]),
        ],
        [("x", FLOAT, [1])], [("y", FLOAT, [1024, 1024])], {"shape": np.array([1024, 1024])},
    )
    out, record = simplify(model)
    assert operators(out) == ["ConstantOfShape", "Add"]
    assert record["bytes_after"] <= record["bytes_before"]
    out, _ = simplify(model, "--budget", "5M")
    assert operators(out) == ["Add"]


def test_quantisation_stays_in_the_graph(simplify):
    model = graph(
        [
            helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["wf"]),
            helper.make_node("Mul", ["x", "wf"], ["y"]),
        ],
        [("x", FLOAT, ["n", 4])], [("y", FLOAT, ["n", 4])],
        {"w": np.arange(4, dtype=np.int8), "scale": np.float32(0.5), "zero": np.int8(1)},
    )
    assert operators(simplify(model)[0]) == ["DequantizeLinear", "Mul"]


@pytest.mark.parametrize(
    "nodes, constants, left",
    [
        ([("Identity", ["x"])], {}, []),
        ([("Dropout", ["x"])], {}, []),
        ([("Cast", ["x"], {"to": FLOAT})], {}, []),
        ([("Pad", ["x", "pads"])], {"pads": np.zeros(6, np.int64)}, []),
        ([("Add", ["x", "c"])], {"c": np.zeros(4, np.float32)}, []),
        ([("Mul", ["c", "x"])], {"c": np.float32(1)}, []),
        ([("Sub", ["c", "x"])], {"c": np.float32(0)}, ["Sub"]),
        ([("Div", ["x", "c"])], {"c": np.ones((1, 4), np.float32)}, []),
        ([("Add", ["x", "c"])], {"c": np.zeros((1, 1, 1, 1), np.float32)}, ["Add"]),  # it adds an axis
        ([("Slice", ["x", "s", "e"])], {"s": np.zeros(1, np.int64), "e": np.array([2**63 - 1])}, []),
        ([("Slice", ["x", "s", "e", "a"])], {"s": np.zeros(1, np.int64), "e": np.array([3]), "a": np.array([-1])}, ["Slice"]),
        ([("Slice", ["x", "s", "e", "a"])], {"s": np.zeros(1, np.int64), "e": np.array([4]), "a": np.array([-1])}, []),
        ([("Reshape", ["x", "s"])], {"s": np.array([0, 3, 4])}, []),
        ([("Reshape", ["x", "s"])], {"s": np.array([0, 4, 3])}, ["Reshape"]),
        ([("Transpose", ["x"], {"perm": [2, 0, 1]}), ("Transpose", None, {"perm": [1, 2, 0]})], {}, []),
        ([("Transpose", ["x"], {"perm": [2, 0, 1]}), ("Transpose", None, {"perm": [2, 0, 1]})], {}, ["Transpose"]),
        ([("Reshape", ["x", "s"]), ("Reshape", [None, "t"])], {"s": np.array([0, 12]), "t": np.array([0, 2, 6])}, ["Reshape"]),
        ([("Cast", ["x"], {"to": TensorProto.DOUBLE}), ("Cast", None, {"to": FLOAT})], {}, []),
        ([("Cast", ["x"], {"to": TensorProto.FLOAT16}), ("Cast", None, {"to": FLOAT})], {}, ["Cast", "Cast"]),
        ([("Concat", ["x"], {"axis": 1})], {}, []),
        ([("Relu", ["x"]), ("Concat", ["x", None], {"axis": 1}), ("Concat", [None, "x"], {"axis": 1})], {}, ["Relu", "Concat"]),
    ],
)
def test_operators_that_change_nothing(simplify, nodes, constants, left):
    """Between two Neg, so that neither end is an input or output of the model."""
    made, before = [helper.make_node("Neg", ["x0"], ["x"])], "x"
    for i, (op, inputs, *attributes) in enumerate(nodes):
        inputs = [before] if inputs is None else [before if name is None else name for name in inputs]
        before = f"t{i}"
        made.append(helper.make_node(op, inputs, [before], **(attributes[0] if attributes else {})))
    made.append(helper.make_node("Neg", [before], ["y"]))
    model = graph(made, [("x0", FLOAT, ["n", 3, 4])], [("y", FLOAT, None)], constants)
    out, _ = simplify(model)
    assert operators(out) == ["Neg", *left, "Neg"]
    np.testing.assert_array_equal(run(out, x0=X)[0], run(model, x0=X)[0])


def test_outputs_keep_their_names(simplify):
    """An input that is an output, one value under two names, and a constant output."""
    model = graph(
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("Identity", ["r"], ["a"]),
            helper.make_node("Identity", ["r"], ["b"]),
            helper.make_node("Identity", ["x"], ["c"]),
            helper.make_node("Neg", ["k"], ["d"]),
        ],
        [("x", FLOAT, ["n", 3])],
        [(name, FLOAT, None) for name in "abcd"],
        {"k": np.arange(3, dtype=np.float32)},
    )
    out, _ = simplify(model)
    x = np.array([[1, -2, 3]], np.float32)
    for got, wanted in zip(run(out, x=x), [np.maximum(x, 0), np.maximum(x, 0), x, -np.arange(3, dtype=np.float32)]):
        np.testing.assert_array_equal(got, wanted)


def test_duplicates(simplify):
    model = graph(
        [
            helper.make_node("Add", ["x", "a"], ["p"]),
            helper.make_node("Add", ["b", "x"], ["q"]),
            helper.make_node("Sub", ["p", "q"], ["y"]),
        ],
        [("x", FLOAT, ["n", 600])], [("y", FLOAT, ["n", 600])],
        {"a": np.arange(600, dtype=np.float32), "b": np.arange(600, dtype=np.float32)},
    )
    out, _ = simplify(model)
    assert operators(out) == ["Add", "Sub"] and len(out.graph.initializer) == 1


def test_random_numbers_are_drawn_as_often_as_before(simplify):
    model = graph(
        [
            helper.make_node("RandomNormal", [], ["p"], shape=[4]),
            helper.make_node("RandomNormal", [], ["q"], shape=[4]),
            helper.make_node("Sub", ["p", "q"], ["d"]),
            helper.make_node("Mul", ["d", "x"], ["y"]),
        ],
        [("x", FLOAT, [4])], [("y", FLOAT, [4])],
    )
    assert operators(simplify(model, "--no-proof")[0]) == operators(model)


def test_batchnorm_and_bias_move_into_the_convolution(simplify):
    generator = np.random.default_rng(5)
    draw = lambda *shape: generator.standard_normal(shape).astype(np.float32)  # noqa: E731
    model = graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"]),
            helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
            helper.make_node("Add", ["n", "bias"], ["s"]),
            helper.make_node("Relu", ["s"], ["y"]),
        ],
        [("x", FLOAT, ["n", 3, 8, 8])], [("y", FLOAT, ["n", 5, 6, 6])],
        {"w": draw(5, 3, 3, 3), "scale": draw(5), "shift": draw(5), "mean": draw(5), "var": draw(5) ** 2 + 0.1, "bias": draw(1, 5, 1, 1)},
    )
    out, _ = simplify(model)
    assert operators(out) == ["Conv", "Relu"]
    x = draw(2, 3, 8, 8)
    np.testing.assert_allclose(run(out, x=x)[0], run(model, x=x)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op, shape", [("Mul", (1, 5, 1, 1)), ("Mul", (5, 1, 1)), ("Mul", ()), ("Div", (5, 1, 1))])
def test_factors_move_into_the_convolution(simplify, op, shape):
    generator = np.random.default_rng(6)
    draw = lambda *shape: generator.uniform(0.5, 2, shape).astype(np.float32)  # noqa: E731
    constants = {"w": draw(5, 3, 3, 3), "b": draw(5), "factor": draw(*shape), "wt": draw(5, 4, 2, 2), "other": draw(4, 1, 1)}
    model = graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"]),
            helper.make_node(op, ["c", "factor"], ["f"]),
            helper.make_node("ConvTranspose", ["f", "wt"], ["t"]),
            helper.make_node(op, ["t", "other"], ["y"]),
        ],
        [("x", FLOAT, ["n", 3, 8, 8])], [("y", FLOAT, ["n", 4, 7, 7])], constants,
    )
    out, _ = simplify(model)
    assert operators(out) == ["Conv", "ConvTranspose"]
    x = draw(2, 3, 8, 8)
    np.testing.assert_allclose(run(out, x=x)[0], run(model, x=x)[0], rtol=1e-4)


def test_factors_that_vary_along_the_image_stay(simplify):
    constants = {"w": np.ones((5, 3, 1, 1), np.float32), "factor": np.arange(8, dtype=np.float32)}
    model = graph(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Mul", ["c", "factor"], ["y"])],
        [("x", FLOAT, ["n", 3, 8, 8])], [("y", FLOAT, ["n", 5, 8, 8])], constants,
    )
    assert operators(simplify(model)[0]) == ["Conv", "Mul"]
    inverse = graph(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Div", ["factor", "c"], ["y"])],
        [("x", FLOAT, ["n", 3, 8, 8])], [("y", FLOAT, ["n", 5, 8, 8])], {"w": constants["w"], "factor": np.float32(2)},
    )
    assert operators(simplify(inverse, "--no-proof")[0]) == ["Conv", "Div"]


def convolution_and_norm(weight, bias, mean, scale):
    """1x1, one channel: y = (weight * x + bias - mean) * scale, behind an Identity that always goes."""
    return graph(
        [
            helper.make_node("Identity", ["x"], ["same"]),
            helper.make_node("Conv", ["same", "w", "b"], ["c"]),
            helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["y"], epsilon=0.0),
        ],
        [("x", FLOAT, ["n", 1, 8, 8])], [("y", FLOAT, ["n", 1, 8, 8])],
        {"w": np.full((1, 1, 1, 1), weight, np.float32), "b": np.float32([bias]), "scale": np.float32([scale]), "shift": np.float32([0]), "mean": np.float32([mean]), "var": np.float32([1])},
    )


def test_a_pass_that_changes_results_is_named_and_left_out(simplify):
    """The convolution rounds to multiples of eight beside a mean of 1e8; without the mean it does not."""
    model = convolution_and_norm(weight=20, bias=1e8, mean=1e8, scale=1)
    out, record = simplify(model)
    assert record["excluded_passes"] == ["conv-batchnorm"] and record["proof"]["verdict"] == "passed"
    assert operators(out) == ["Conv", "BatchNormalization"]  # the other passes did their work
    assert operators(simplify(model, "--no-proof")[0]) == ["Conv"]


def test_weights_that_would_overflow_stay_apart(simplify):
    model = convolution_and_norm(weight=1e20, bias=0, mean=0, scale=1e20)
    assert operators(simplify(model, "--no-proof")[0]) == ["Conv", "BatchNormalization"]


def test_what_no_engine_computes_leaves_the_rest_to_be_folded(simplify):
    """ONNX Runtime has no kernel for Sqrt of bfloat16."""
    model = graph(
        [
            helper.make_node("Cast", ["a"], ["wide"], to=TensorProto.BFLOAT16),
            helper.make_node("Sqrt", ["wide"], ["root"]),
            helper.make_node("Cast", ["root"], ["r"], to=FLOAT),
            helper.make_node("Exp", ["a"], ["e"]),
            helper.make_node("Mul", ["x", "r"], ["m"]),
            helper.make_node("Add", ["m", "e"], ["y"]),
        ],
        [("x", FLOAT, ["n", 4])], [("y", FLOAT, ["n", 4])], {"a": np.arange(4, dtype=np.float32)},
    )
    out, _ = simplify(model, "--no-proof")
    assert "Exp" not in operators(out) and "Sqrt" in operators(out)


def test_a_known_branch_is_taken(simplify):
    def body(op):
        return helper.make_graph([helper.make_node(op, ["x"], ["o"])], op, [], [helper.make_tensor_value_info("o", FLOAT, None)])

    model = graph(
        [
            helper.make_node("If", ["yes"], ["m"], then_branch=body("Neg"), else_branch=body("Exp")),
            helper.make_node("If", ["no"], ["k"], then_branch=body("Neg"), else_branch=body("Exp")),
            helper.make_node("Add", ["m", "k"], ["y"]),
        ],
        [("x", FLOAT, [3])], [("y", FLOAT, [3])], {"yes": np.array(True), "no": np.array(False)},
    )
    out, _ = simplify(model)
    assert operators(out) == ["Neg", "Exp", "Add"]
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_allclose(run(out, x=x)[0], -x + np.exp(x), rtol=1e-6)


def test_what_a_body_captures_stays(simplify):
    body = helper.make_graph(
        [helper.make_node("Add", ["acc", "captured"], ["next"]), helper.make_node("Identity", ["go"], ["again"])],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []), helper.make_tensor_value_info("acc", FLOAT, None)],
        [helper.make_tensor_value_info("again", TensorProto.BOOL, []), helper.make_tensor_value_info("next", FLOAT, None)],
    )
    model = graph(
        [
            helper.make_node("Identity", ["x"], ["captured"]),
            helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body),
        ],
        [("x", FLOAT, [3])], [("y", FLOAT, [3])], {"trips": np.int64(4)},
    )
    out, _ = simplify(model)
    assert operators(out) == ["Loop"]
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(run(out, x=x)[0], 5 * x)


def test_custom_domains_functions_and_metadata_survive(portwright, tmp_path):
    model = graph(
        [helper.make_node("Strange", ["x"], ["s"], domain="my.domain", secret=b"\x00\xff"), helper.make_node("Identity", ["s"], ["t"]), helper.make_node("Relu", ["t"], ["y"])],
        [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"])],
    )
    model.opset_import.append(helper.make_opsetid("my.domain", 3))
    helper.set_model_props(model, {"author": "someone"})
    onnx.save(model, tmp_path / "in.onnx")
    portwright("simplify", "in.onnx", "-o", "out.onnx", "--no-proof").passes()
    out = onnx.load(tmp_path / "out.onnx")
    assert operators(out) == ["Strange", "Relu"]
    assert out.graph.node[0].attribute[0].s == b"\x00\xff" and out.metadata_props[0].value == "someone"


def test_without_passes_the_model_is_the_same(portwright, tmp_path):
    """Lossless: what is loaded into a graph and saved again is what it was."""
    body = helper.make_graph([helper.make_node("Neg", ["x"], ["o"], doc_string="why")], "b", [], [helper.make_tensor_value_info("o", FLOAT, None)])
    model = graph(
        [
            helper.make_node("Constant", [], ["k"], value_float=2.0),
            helper.make_node("If", ["c"], ["m"], then_branch=body, else_branch=body),
            helper.make_node("Clip", ["m", "", "k"], ["y"], name="clip"),
        ],
        [("x", FLOAT, [3]), ("c", TensorProto.BOOL, [])], [("y", FLOAT, [3])],
        {"unused": np.arange(1000, dtype=np.float32)},
    )
    model.graph.value_info.append(helper.make_tensor_value_info("m", FLOAT, [3]))
    onnx.save(model, tmp_path / "in.onnx")
    names = portwright("simplify", "in.onnx", "-o", "o", "--without", "?").err.split("the passes are ")[1].strip().split(", ")
    assert "no-ops" in names
    without = [word for name in names for word in ("--without", name)]
    portwright("simplify", "in.onnx", "-o", "out.onnx", "--no-proof", *without).passes()
    assert onnx.load(tmp_path / "out.onnx") == model


def test_wrong_use(portwright, model):
    portwright("simplify", model).fails(2, "--output")
    portwright("simplify", model, "-o", "out.onnx", "--without", "nothing").fails(2, "nothing", "no-ops")
    portwright("simplify", "nowhere.onnx", "-o", "out.onnx").fails(4, "nowhere.onnx")

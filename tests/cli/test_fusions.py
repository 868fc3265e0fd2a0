"""simplify finds the standard operator in its decomposition; right values come from PyTorch's own functions."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from graphs import FLOAT, graph, operators, run
from onnx import helper

N = helper.make_node
GENERATOR = np.random.default_rng(11)


def draw(*shape):
    return GENERATOR.standard_normal(shape).astype(np.float32)


X, GAMMA, BETA = draw(2, 5, 8), draw(8), draw(8)
EPSILON = np.float32(1e-5)


def mean(source, out, opset, name="axes"):
    return N("ReduceMean", [source, name], [out]) if opset >= 18 else N("ReduceMean", [source], [out], axes=[-1])


def norm_nodes(opset, source, square, quotient):
    """x / sqrt(mean(x ^ 2) + epsilon), in the forms that exporters write."""
    nodes = [
        N("Pow", [source, "two"], ["sq"]) if square == "Pow" else N("Mul", [source, source], ["sq"]),
        mean("sq", "ms", opset),
        N("Add", ["ms", "epsilon"], ["mse"]),
        N("Sqrt", ["mse"], ["root"]),
    ]
    if quotient == "Div":
        return [*nodes, N("Div", [source, "root"], ["n"])]
    one = N("Reciprocal", ["root"], ["inverse"]) if quotient == "Reciprocal" else N("Div", ["one", "root"], ["inverse"])
    return [*nodes, one, N("Mul", [source, "inverse"], ["n"])]


CONSTANTS = {"two": np.float32(2), "one": np.float32(1), "epsilon": EPSILON, "axes": np.array([-1])}


def normalisation(nodes, opset, **constants):
    used = {name for node in nodes for name in node.input}
    all_constants = {name: value for name, value in {**CONSTANTS, **constants}.items() if name in used}
    shape = ["batch", 5, 8]
    return graph(nodes, [("x", FLOAT, shape)], [("y", FLOAT, shape)], all_constants, opset=opset)


@pytest.mark.parametrize("quotient", ["Div", "Reciprocal", "1/r"])
@pytest.mark.parametrize("square", ["Pow", "Mul"])
def test_layer_norm(simplify, square, quotient):
    centre = [mean("x", "m", 18), N("Sub", ["x", "m"], ["c"])]
    tail = [N("Mul", ["n", "gamma"], ["s"]), N("Add", ["beta", "s"], ["y"])]
    out, _ = simplify(normalisation([*centre, *norm_nodes(18, "c", square, quotient), *tail], 18, gamma=GAMMA, beta=BETA))
    assert operators(out) == ["LayerNormalization"]
    wanted = F.layer_norm(torch.tensor(X), (8,), torch.tensor(GAMMA), torch.tensor(BETA), float(EPSILON))
    np.testing.assert_allclose(run(out, x=X)[0], wanted, atol=1e-5)


def test_layer_norm_without_shift(simplify):
    centre = [mean("x", "m", 17), N("Sub", ["x", "m"], ["c"])]
    out, _ = simplify(normalisation([*centre, *norm_nodes(17, "c", "Mul", "Div"), N("Mul", ["gamma", "n"], ["y"])], 17, gamma=GAMMA))
    assert operators(out) == ["LayerNormalization"]
    wanted = F.layer_norm(torch.tensor(X), (8,), torch.tensor(GAMMA), None, float(EPSILON))
    np.testing.assert_allclose(run(out, x=X)[0], wanted, atol=1e-5)


@pytest.mark.parametrize("quotient", ["Div", "Reciprocal", "1/r"])
def test_rms_norm(simplify, quotient):
    out, _ = simplify(normalisation([*norm_nodes(23, "x", "Pow", quotient), N("Mul", ["gamma", "n"], ["y"])], 23, gamma=GAMMA))
    assert operators(out) == ["RMSNormalization"]
    wanted = F.rms_norm(torch.tensor(X), (8,), torch.tensor(GAMMA), float(EPSILON))
    np.testing.assert_allclose(run(out, x=X)[0], wanted, atol=1e-5)


@pytest.mark.parametrize("opset, left", [(16, "LayerNormalization"), (22, "RMSNormalization")])
def test_older_opsets_keep_the_decomposition(simplify, opset, left):
    nodes = [*norm_nodes(opset, "x", "Pow", "Div"), N("Mul", ["gamma", "n"], ["y"])]
    out, _ = simplify(normalisation(nodes, opset, gamma=GAMMA))
    assert left not in operators(out) and len(operators(out)) == len(nodes)


def test_what_only_looks_like_a_norm_is_left_alone(simplify):
    """The mean is over another axis; or the mean square is of another tensor than the one that is divided."""
    nodes = norm_nodes(23, "x", "Pow", "Div")
    nodes[1] = N("ReduceMean", ["sq", "first"], ["ms"])
    out, _ = simplify(normalisation([*nodes, N("Mul", ["gamma", "n"], ["y"])], 23, gamma=GAMMA, first=np.array([1])))
    assert "RMSNormalization" not in operators(out)
    nodes = norm_nodes(23, "x", "Pow", "Div")
    nodes[-1] = N("Div", ["other", "root"], ["n"])
    nodes = [N("Exp", ["x"], ["other"]), *nodes, N("Mul", ["gamma", "n"], ["y"])]
    out, _ = simplify(normalisation(nodes, 23, gamma=GAMMA))
    assert "RMSNormalization" not in operators(out)


GELUS = {
    "x/2 last": [N("Add", ["e", "one"], ["a"]), N("Mul", ["x", "a"], ["p"]), N("Mul", ["p", "half"], ["y"])],
    "x/2 first": [N("Mul", ["x", "half"], ["h"]), N("Add", ["one", "e"], ["a"]), N("Mul", ["h", "a"], ["y"])],
    "half inside": [N("Add", ["e", "one"], ["a"]), N("Mul", ["half", "a"], ["p"]), N("Mul", ["p", "x"], ["y"])],
}


@pytest.mark.parametrize("form", GELUS)
@pytest.mark.parametrize("inner", ["Div", "Mul"])
def test_gelu(simplify, form, inner):
    factor = np.float32(2**0.5 if inner == "Div" else 0.5**0.5)
    nodes = [N(inner, ["x", "factor"], ["i"]), N("Erf", ["i"], ["e"]), *GELUS[form]]
    constants = {"factor": factor, "one": np.float32(1), "half": np.float32(0.5)}
    out, _ = simplify(graph(nodes, [("x", FLOAT, ["n", 8])], [("y", FLOAT, ["n", 8])], constants, opset=20))
    assert operators(out) == ["Gelu"]
    x = draw(3, 8)
    np.testing.assert_allclose(run(out, x=x)[0], F.gelu(torch.tensor(x)), atol=1e-6)


@pytest.mark.parametrize("cube", ["Pow", "Mul"])
def test_gelu_by_tanh(simplify, cube):
    nodes = [N("Pow", ["x", "three"], ["x3"])] if cube == "Pow" else [N("Mul", ["x", "x"], ["x2"]), N("Mul", ["x", "x2"], ["x3"])]
    nodes += [
        N("Mul", ["x3", "c"], ["cx3"]), N("Add", ["x", "cx3"], ["s"]), N("Mul", ["s", "k"], ["ks"]), N("Tanh", ["ks"], ["e"]),
        *GELUS["x/2 first"],
    ]
    constants = {
        "three": np.float32(3), "c": np.float32(0.044715), "k": np.float32(np.sqrt(2 / np.pi)),
        "one": np.float32(1), "half": np.float32(0.5),
    }
    used = {name for node in nodes for name in node.input}
    constants = {name: value for name, value in constants.items() if name in used}
    out, _ = simplify(graph(nodes, [("x", FLOAT, ["n", 8])], [("y", FLOAT, ["n", 8])], constants, opset=20))
    assert operators(out) == ["Gelu"]
    x = draw(3, 8)
    np.testing.assert_allclose(run(out, x=x)[0], F.gelu(torch.tensor(x), approximate="tanh"), atol=1e-6)


def test_another_factor_is_no_gelu(simplify):
    nodes = [N("Mul", ["x", "factor"], ["i"]), N("Erf", ["i"], ["e"]), *GELUS["x/2 last"]]
    constants = {"factor": np.float32(0.75), "one": np.float32(1), "half": np.float32(0.5)}
    out, _ = simplify(graph(nodes, [("x", FLOAT, ["n", 8])], [("y", FLOAT, ["n", 8])], constants, opset=20))
    assert "Gelu" not in operators(out)


def attention(masked, scaled, batch="batch"):
    q, k, v = [batch, 2, 5, 4], [batch, 2, 7, 4], [batch, 2, 7, 4]
    root = np.float32(np.sqrt(0.5))
    nodes = {
        "scores": [N("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), N("MatMul", ["q", "kt"], ["qk"]), N("Mul", ["qk", "half"], ["scores"])],
        "operands": [
            N("Transpose", ["k"], ["kt0"], perm=[0, 1, 3, 2]), N("Mul", ["kt0", "root"], ["kt"]),
            N("Mul", ["q", "root"], ["qs"]), N("MatMul", ["qs", "kt"], ["scores"]),
        ],
    }[scaled]
    source = "scores"
    if masked:
        nodes, source = [*nodes, N("Add", ["scores", "mask"], ["masked"])], "masked"
    nodes += [N("Softmax", [source], ["p"], axis=-1), N("MatMul", ["p", "v"], ["y"])]
    inputs = [("q", FLOAT, q), ("k", FLOAT, k), ("v", FLOAT, v), *([("mask", FLOAT, [1, 1, 5, 7])] if masked else [])]
    constants = {"half": np.float32(0.5)} if scaled == "scores" else {"root": root}
    return graph(nodes, inputs, [("y", FLOAT, q)], constants, opset=23)


@pytest.mark.parametrize("scaled", ["scores", "operands"])
@pytest.mark.parametrize("masked", [False, True])
def test_attention(simplify, masked, scaled):
    out, _ = simplify(attention(masked, scaled))
    assert operators(out) == ["Attention"]
    q, k, v, mask = draw(3, 2, 5, 4), draw(3, 2, 7, 4), draw(3, 2, 7, 4), draw(1, 1, 5, 7)
    inputs = {"q": q, "k": k, "v": v, **({"mask": mask} if masked else {})}
    wanted = F.scaled_dot_product_attention(
        torch.tensor(q), torch.tensor(k), torch.tensor(v), torch.tensor(mask) if masked else None, scale=0.5
    )
    np.testing.assert_allclose(run(out, **inputs)[0], wanted, atol=1e-5)


def test_each_fusion_can_be_left_out(simplify):
    out, record = simplify(attention(False, "scores"), "--without", "attention")
    assert "Attention" not in operators(out) and "Softmax" in operators(out)
    assert "attention" not in [one["name"] for one in record["passes"]]

"""forward: names, precisions, modes, and the first operator that leaves the finite numbers."""

import numpy as np
import pytest

AFFINE = """
class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        with torch.no_grad():
            self.linear.weight.copy_(torch.tensor([[1.0, 2.0, 3.0], [0.1, 0.2, 0.3]]))
            self.linear.bias.copy_(torch.tensor([0.5, -0.5]))

    def forward(self, x):
        return self.linear(x)

def factory():
    return Affine(), torch.ones(1, 3)
"""
WEIGHT = np.array([[1, 2, 3], [0.1, 0.2, 0.3]])
BIAS = np.array([0.5, -0.5])


@pytest.fixture
def affine(worker, source):
    return worker.call("open", source=f"{source(AFFINE)}:factory")["handle"]


@pytest.mark.parametrize("precision, dtype, bound", [
    ("fp32", "float32", 1e-6), ("fp64", "float64", 1e-7), ("bf16", "float32", 2e-2), ("fp16", "float32", 2e-3),
])  # fmt: skip
def test_precisions(worker, affine, precision, dtype, bound):
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    output = worker.forward(affine, {"x": x}, precision=precision)["output"]
    exact = x.astype(np.float64) @ WEIGHT.astype(np.float32).T.astype(np.float64) + BIAS
    error = np.abs(output - exact).max()
    assert output.dtype == dtype
    assert error <= bound
    if precision in ("bf16", "fp16"):
        assert error > 1e-6  # it really was computed there


def test_compiled_agrees_with_eager(worker, affine):
    x = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    reply = worker.call("forward", handle=affine, inputs=worker.put({"x": x}), mode="compile")
    assert reply["compile_seconds"] > 0
    assert np.allclose(worker.get(reply["outputs"])["output"], x @ WEIGHT.T + BIAS, atol=1e-5)
    again = worker.call("forward", handle=affine, inputs=worker.put({"x": x}), mode="compile")
    assert again["compile_seconds"] == 0


def test_runs_are_timed_one_by_one(worker, affine):
    request = {"handle": affine, "inputs": worker.put({"x": np.ones((1, 3), np.float32)})}
    reply = worker.call("forward", **request, runs=5, threads=1)
    assert len(reply["seconds"]) == 5 and min(reply["seconds"]) > 0
    assert len(reply["outputs"]) == 1
    assert worker.call("forward", **request, outputs=False)["outputs"] is None


@pytest.mark.parametrize(
    "returned, names",
    [
        ("x", ["output"]),
        ("(x, x + 1)", ["output_0", "output_1"]),
        ("[x, None, (x, [x])]", ["output_0", "output_2.0", "output_2.1.0"]),
        ("{'logits': x, 'past': [{'key': x, 'value': None}]}", ["logits", "past.0.key"]),
        ("Pair(x, {'b': x})", ["first", "second.b"]),
        ("Record(x, None, (x, x))", ["a", "c.0", "c.1"]),
        ("{'x': x, 'n': 3}", ["x_out"]),
        ("{'a.b': x, 'a': {'b': x + 1}}", ["a.b", "a.b_2"]),
    ],
)
def test_nested_outputs_get_stable_names(worker, source, returned, names):
    file = source(f"""
    import collections, dataclasses, typing

    Pair = collections.namedtuple("Pair", "first second")

    @dataclasses.dataclass
    class Record:
        a: torch.Tensor
        b: typing.Any
        c: tuple

    class Net(nn.Module):
        def forward(self, x):
            return {returned}

    def factory():
        return Net(), torch.ones(2)
    """)
    handle = worker.call("open", source=f"{file}:factory")["handle"]
    assert list(worker.forward(handle, {"x": np.ones(2, np.float32)})) == names


def test_nested_inputs_constants_and_keywords(worker, source):
    file = source("""
    class Net(nn.Module):
        def forward(self, first, scale=1.0, *, pair, flag=False):
            return first * scale + pair[0] - pair[1]["deep"] if flag else first

    def factory():
        deep = {"deep": torch.ones(2)}
        return Net(), {"first": torch.ones(2), "scale": 3.0, "pair": (torch.ones(2), deep), "flag": True}
    """)
    reply = worker.call("open", source=f"{file}:factory")
    assert [one["name"] for one in reply["inputs"]] == ["first", "pair.0", "pair.1.deep"]
    arrays = {name: np.full(2, value, np.float32) for name, value in (("first", 2), ("pair.0", 5), ("pair.1.deep", 1))}
    assert worker.forward(reply["handle"], arrays)["output"].tolist() == [10, 10]


def test_wrong_inputs_are_told_by_name(worker, affine, failing):
    error = failing(worker, "forward", handle=affine, inputs=worker.put({"y": np.ones(3, np.float32)}))
    assert (error.code, error.fault, error.hint) == ("bad_input", "usage", "its inputs are x")
    error = failing(worker, "forward", handle=affine, inputs=[])
    assert "needs a value for input 'x'" in error.message


def test_a_failing_forward_names_the_users_line(worker, source, failing):
    file = source("""
    class Net(nn.Module):
        def forward(self, x):
            y = x + 1
            return y.reshape(7)

    def factory():
        return Net(), torch.ones(2)
    """)
    handle = worker.call("open", source=f"{file}:factory")["handle"]
    error = failing(worker, "forward", handle=handle, inputs=worker.put({"x": np.ones(2, np.float32)}))
    assert (error.code, error.fault, error.where) == ("forward_failed", "gate", "net.py:8")
    assert error.message.startswith("RuntimeError: shape '[7]' is invalid")
    assert "return y.reshape(7)" in error.detail


def test_a_module_without_tensor_outputs(worker, source, failing):
    file = source("""
    class Net(nn.Module):
        def forward(self, x):
            return {"n": 3}

    def factory():
        return Net(), torch.ones(2)
    """)
    handle = worker.call("open", source=f"{file}:factory")["handle"]
    error = failing(worker, "forward", handle=handle, inputs=worker.put({"x": np.ones(2, np.float32)}))
    assert (error.code, error.message) == ("forward_failed", "Net.forward() returned no tensor")


def test_wrong_settings(worker, affine, failing):
    inputs = worker.put({"x": np.ones((1, 3), np.float32)})
    assert failing(worker, "forward", handle=affine, inputs=inputs, precision="int8").code == "bad_precision"
    assert failing(worker, "forward", handle=affine, inputs=inputs, mode="fast").code == "bad_mode"


OVERFLOW = """
class Square(nn.Module):
    def forward(self, x):
        x = x + 0
        return x.pow(2)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Identity(), Square())

    def forward(self, x):
        mask = torch.full_like(x, float("-inf"))
        y = self.block(x) + torch.where(x > 1e9, mask, 0.0)
        return y / y.max()

def factory():
    return Net(), torch.ones(2)
"""


def test_first_operator_that_overflows(worker, source):
    handle = worker.call("open", source=f"{source(OVERFLOW)}:factory")["handle"]
    inputs = worker.put({"x": np.array([1000, 2], np.float32)})
    found = worker.call("forward", handle=handle, inputs=inputs, precision="fp16", trace_finite=True)["nonfinite"]
    assert (found["module"], found["class"], found["python_line"]) == ("block.1", "Square", "net.py:8")
    assert found["operator"].startswith("aten.pow")
    assert found["max_abs"] == 1e6
    found = worker.call("forward", handle=handle, inputs=inputs, precision="bf16", trace_finite=True)["nonfinite"]
    assert found is None  # bf16 has the range of fp32, and the mask is infinite in both

"""export: what comes out is what PyTorch computes, and what was not as asked is said."""

import os

import numpy as np
import onnx
import onnxruntime
import pytest
from client import WorkerError

BATCH = [{"input": "x", "axis": 0, "symbol": "batch", "min": 1, "max": 16}]
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x):
        {body}

def factory():
    return Net(), torch.randn({shape})
"""


class Exported:
    def __init__(self, worker, file, path, **request):
        self.worker, self.path = worker, path
        opened = worker.call("open", source=f"{file}:factory")
        self.handle = opened["handle"]
        self.arrays = worker.get(opened["tensors"])
        request = {"dynamic": BATCH, "exporter": "dynamo", "opset": None, **request}
        self.reply = worker.call(
            "export", handle=self.handle, path=str(path), inputs=worker.put(self.arrays), **request
        )

    def difference(self, batch: int) -> float:
        """The largest difference between ONNX Runtime and PyTorch at a batch size."""
        shape = (batch, *self.arrays["x"].shape[1:])
        x = np.random.default_rng(batch).standard_normal(shape).astype(np.float32)
        expected = self.worker.forward(self.handle, {"x": x})
        session = onnxruntime.InferenceSession(str(self.path))
        actual = session.run(list(expected), {"x": x})
        assert [one.shape for one in actual] == [one.shape for one in expected.values()]
        return max(float(np.abs(a - e).max()) for a, e in zip(actual, expected.values()))


@pytest.fixture
def export(worker, source, tmp_path):
    def run(body: str, shape: str = "4, 8", **request) -> Exported:
        return Exported(worker, source(NET.format(body=body, shape=shape)), tmp_path / "model.onnx", **request)

    return run


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("shape", ["4, 8", "1, 8"])
def test_dynamic_axes_are_dynamic(export, exporter, shape):
    made = export("return self.linear(x).relu()", shape, exporter=exporter)
    assert made.reply["dynamic_axes"] == ["x.0=batch"]
    assert made.reply["static_axes"] == []
    assert (made.reply["inputs"], made.reply["outputs"]) == (["x"], ["output"])
    assert max(made.difference(batch) for batch in (1, 2, 7, 16)) < 1e-5


def test_without_dynamic_axes_the_shape_is_the_examples(export):
    made = export("return self.linear(x)", dynamic=[])
    model = onnx.load(str(made.path))
    assert [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == [4, 8]
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_the_opset_is_as_asked(export, exporter):
    made = export("return self.linear(x)", exporter=exporter, opset=18)
    model = onnx.load(str(made.path))
    assert (made.reply["opset_asked"], made.reply["opset_produced"]) == (18, 18)
    assert model.opset_import[0].version == 18
    assert made.reply["ir_version"] == model.ir_version


def test_nested_outputs_have_the_names_that_forward_gives(export):
    made = export("return {'logits': self.linear(x), 'past': [None, (x + 1, {'key': x * 2})], 'n': 1}")
    assert made.reply["outputs"] == ["logits", "past.1.0", "past.1.1.key"]
    assert made.difference(3) < 1e-5


def test_an_output_that_is_an_input(export):
    made = export("return {'x': x, 'y': self.linear(x)}")
    assert made.reply["outputs"] == ["x_out", "y"]
    assert made.difference(2) < 1e-5


def test_nodes_keep_the_users_lines(export):
    made = export("return self.linear(x).tanh()")
    model = onnx.load(str(made.path))
    node = next(node for node in model.graph.node if node.op_type == "Tanh")
    stack = next(entry.value for entry in node.metadata_props if entry.key == "pkg.torch.onnx.stack_trace")
    assert 'net.py", line 11, in forward' in stack
    assert not any("portwright" in entry.value for node in model.graph.node for entry in node.metadata_props
                   if "/python/portwright/" in entry.value)  # fmt: skip


def test_the_module_is_left_as_it_was(export):
    made = export("return [self.linear(x)]")
    assert list(made.worker.forward(made.handle, made.arrays)) == ["output_0"]
    assert made.difference(4) < 1e-5


def test_two_inputs_share_a_symbol(worker, source, tmp_path):
    file = source("""
    class Net(nn.Module):
        def forward(self, x, pair):
            return x + pair[0] * pair[1]["deep"]

    def factory():
        return Net(), (torch.randn(4, 2), (torch.randn(4, 2), {"deep": torch.randn(2)}))
    """)
    opened = worker.call("open", source=f"{file}:factory")
    arrays = worker.get(opened["tensors"])
    assert list(arrays) == ["x", "pair.0", "pair.1.deep"]
    axes = [{"input": name, "axis": 0, "symbol": "rows", "min": 1, "max": 9} for name in ("x", "pair.0")]
    path = tmp_path / "two.onnx"
    reply = worker.call("export", handle=opened["handle"], path=str(path), inputs=worker.put(arrays), dynamic=axes)
    assert reply["dynamic_axes"] == ["x.0=rows", "pair.0.0=rows"]
    arrays.update({"x": np.ones((7, 2), np.float32), "pair.0": np.full((7, 2), 2, np.float32)})
    (output,) = onnxruntime.InferenceSession(str(path)).run(None, arrays)
    assert np.allclose(output, 1 + 2 * arrays["pair.1.deep"])


@pytest.mark.parametrize(
    "body, condition",
    [
        ("return self.linear(x if x.shape[0] != 1 else x * 2)", "batch != 1"),
        ("return self.linear(x - x.mean(0) if x.shape[0] > 4 else x)", "batch <= 4"),
        ("return self.linear(x)[: len(x)]", "batch == 4"),
        ("return self.linear(x).reshape(4, 4)", "batch == 4"),
    ],
)
def test_what_the_exporter_assumed_is_told_with_its_line(export, body, condition):
    made = export(body)
    assert {"condition": condition, "where": "net.py:11"} in made.reply["assumptions"]
    frozen = condition == "batch == 4"
    assert made.reply["static_axes"] == (["x.0=4"] if frozen else [])
    assert condition in made.reply["log"]


def test_what_the_tracer_assumed_is_told_with_its_line(export):
    made = export("return self.linear(x if x.sum() > 0 else -x)", exporter="torchscript")
    assert made.reply["assumptions"] == [{"condition": "Converting a tensor to a Python boolean", "where": "net.py:11"}]


def test_a_plain_model_makes_no_assumptions(export):
    body = "return torch.cat([self.linear(x), x.reshape(-1, 2, 4).mean(1)], 1)"
    assert export(body).reply["assumptions"] == []


def test_a_decision_on_values(export):
    with pytest.raises(WorkerError) as caught:
        export("return self.linear(x) if x.sum() > 0 else x")
    error = caught.value
    assert (error.code, error.fault, error.where) == ("export_failed", "gate", "net.py:11")
    assert "data-dependent" in error.message
    assert "torch.where" in error.hint


@pytest.mark.parametrize("exporter, operator", [("dynamo", "aten.median.dim"), ("torchscript", "aten::median")])
def test_an_operator_without_onnx_form(export, exporter, operator):
    with pytest.raises(WorkerError) as caught:
        export("return self.linear(x).median(1).values", exporter=exporter)
    error = caught.value
    assert (error.code, error.where) == ("export_failed", "net.py:11")
    assert error.message == f"the operator '{operator}' has no ONNX form"
    assert error.detail.startswith(f"operator: {operator}\n")


def test_a_failed_export_leaves_nothing_and_keeps_what_was_there(export, tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"earlier")
    with pytest.raises(WorkerError):
        export("return x.median(1).values")
    assert (tmp_path / "model.onnx").read_bytes() == b"earlier"
    assert sorted(os.listdir(tmp_path)) == ["model.onnx", "user"]


def test_weights_are_inside_the_one_file(export, tmp_path):
    export("return self.linear(x)")
    assert sorted(os.listdir(tmp_path)) == ["model.onnx", "user"]


def test_a_folder_that_cannot_be_written(worker, source, failing):
    file = source(NET.format(body="return x", shape="4, 8"))
    opened = worker.call("open", source=f"{file}:factory")
    inputs = worker.put(worker.get(opened["tensors"]))
    path = "/proc/nowhere/model.onnx"
    error = failing(worker, "export", handle=opened["handle"], path=path, inputs=inputs, dynamic=[])
    assert (error.code, error.fault, error.where) == ("cannot_write", "environment", path)


@pytest.mark.parametrize(
    "axis, message",
    [
        ({"input": "y", "axis": 0, "symbol": "n"}, "dynamic axis of 'y', which is not an input"),
        ({"input": "x", "axis": 2, "symbol": "n"}, "dynamic axis x.2: 'x' has 2 axes"),
        ({"input": "x", "axis": 0, "symbol": "a b"}, "'a b' cannot name a dynamic axis"),
    ],
)
def test_wrong_axes(worker, source, failing, tmp_path, axis, message):
    file = source(NET.format(body="return x", shape="4, 8"))
    opened = worker.call("open", source=f"{file}:factory")
    inputs = worker.put(worker.get(opened["tensors"]))
    request = {"handle": opened["handle"], "path": str(tmp_path / "m.onnx"), "inputs": inputs}
    error = failing(worker, "export", **request, dynamic=[{**axis, "min": 1, "max": 4}])
    assert (error.code, error.fault, error.message) == ("bad_axis", "usage", message)
    assert failing(worker, "export", **request, exporter="magic").code == "bad_exporter"

"""The example sources do what their docstrings say."""

import numpy as np
import onnxruntime
import pytest
from client import WorkerError
from conftest import EXAMPLES


class Example:
    def __init__(self, worker, name, path, exporter="dynamo"):
        self.worker = worker
        self.opened = worker.call("open", source=f"{EXAMPLES / name}", seed=0)
        self.handle, self.arrays = self.opened["handle"], worker.get(self.opened["tensors"])
        dynamic, inputs = self.opened["dynamic"], worker.put(self.arrays)
        request = {"dynamic": dynamic, "inputs": inputs, "exporter": exporter, "opset": None}
        self.exported = worker.call("export", handle=self.handle, path=str(path), **request)
        self._path = path

    def at(self, batch: int) -> dict[str, np.ndarray]:
        shape = self.arrays["x"].shape[1:]
        return {"x": np.random.default_rng(batch).standard_normal((batch, *shape)).astype(np.float32)}

    def answers(self, arrays, threads: int = 1):
        """(PyTorch's output, ONNX Runtime's output)."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(str(self._path), options)
        (expected,) = self.worker.forward(self.handle, arrays).values()
        return expected, session.run(None, arrays)[0]


def line(name: str, text: str) -> str:
    """'file.py:26': where an example has that text."""
    lines = (EXAMPLES / name).read_text().splitlines()
    (number,) = [number for number, one in enumerate(lines, 1) if text in one]
    return f"{name.rpartition('/')[2]}:{number}"


@pytest.fixture
def example(worker, tmp_path):
    return lambda name, **options: Example(worker, name, tmp_path / "model.onnx", **options)


def test_pitch_is_exact_and_its_accuracy_is_known(worker, example):
    pitch = example("pitch.py:tiny")
    assert pitch.exported["dynamic_axes"] == ["x.0=batch"]
    expected, actual = pitch.answers(pitch.arrays)
    assert np.abs(actual - expected).max() < 1e-5
    handle = worker.call("eval_open", file=str(EXAMPLES / "pitch_eval.py"))["handle"]
    while not (sample := worker.call("eval_next", handle=handle, input_names=["x"]))["done"]:
        output = worker.forward(pitch.handle, worker.get(sample["inputs"]))
        worker.call("eval_add", handle=handle, run="reference", outputs=worker.put(output))
    metrics = worker.call("eval_score", handle=handle, run="reference")["metrics"]
    assert metrics["within_50_cents"] == 1.0
    assert metrics["mean_error_cents"] < 5


def test_branch_is_wrong_at_batch_one_only(example):
    branch = example("breaking/branch.py:network")
    where = line("breaking/branch.py", "if features.shape[0] > 1")
    assert branch.exported["assumptions"] == [{"condition": "batch > 1", "where": where}]
    assert branch.exported["static_axes"] == []
    for batch in (2, 7, 16):
        expected, actual = branch.answers(branch.at(batch))
        assert np.abs(actual - expected).max() < 1e-4
    expected, actual = branch.answers(branch.at(1))
    assert np.isfinite(expected).all() and np.isnan(actual).all()


def test_literal_batch_is_frozen(example):
    frozen = example("breaking/literal_batch.py:network")
    assert frozen.exported["static_axes"] == ["x.0=4"]
    where = line("breaking/literal_batch.py", "batch = len(x)")
    assert frozen.exported["assumptions"] == [{"condition": "batch == 4", "where": where}]
    scripted = example("breaking/literal_batch.py:network", exporter="torchscript")
    assert scripted.exported["static_axes"] == []
    expected, actual = scripted.answers(scripted.at(2))
    assert (expected.shape, actual.shape) == ((2, 32), (4, 32))


def test_vacuous_output_is_constant(example):
    vacuous = example("breaking/vacuous.py:network")
    expected, actual = vacuous.answers(vacuous.at(5))
    assert not expected.any() and not actual.any()


def test_overflow_hides_in_the_middle(worker, example):
    overflow = example("breaking/overflow.py:network")
    inputs = worker.put(overflow.arrays)
    reply = worker.call("forward", handle=overflow.handle, inputs=inputs, precision="fp16", trace_finite=True)
    (reduced,) = worker.get(reply["outputs"]).values()
    expected, actual = overflow.answers(overflow.arrays)
    assert np.abs(actual - expected).max() < 1e-4
    assert np.isfinite(reduced).all() and np.abs(reduced - expected).max() > 0.1
    found = reply["nonfinite"]
    assert (found["module"], found["class"]) == ("norm", "RootMeanSquare")
    assert found["python_line"] == line("breaking/overflow.py", "x.pow(2)")
    assert found["max_abs"] > 65504


def test_no_onnx_form(worker, example):
    with pytest.raises(WorkerError) as caught:
        example("breaking/no_onnx.py:network")
    assert caught.value.message == "the operator 'aten.median.dim' has no ONNX form"
    assert caught.value.where == line("breaking/no_onnx.py", ".median(dim=1)")


def test_scatter_with_int32_indices_is_not_valid(example):
    scatter = example("breaking/scatter.py:network")
    with pytest.raises(Exception, match=r"tensor\(int32\).*\(ScatterND\) in node \(node_ScatterND"):
        scatter.answers(scatter.arrays)


def test_scatter_mean_is_silently_wrong(example):
    averaged = example("breaking/scatter.py:averaged")
    expected, actual = averaged.answers(averaged.arrays)
    assert np.abs(actual - expected).max() > 0.1


def test_scatter_accumulates_with_one_thread(example):
    pooled = example("breaking/scatter.py:pooled")
    expected, actual = pooled.answers(pooled.arrays, threads=1)
    assert np.abs(actual - expected).max() < 1e-4
    scripted = example("breaking/scatter.py:pooled", exporter="torchscript")
    expected, actual = scripted.answers(scripted.arrays, threads=1)
    assert np.abs(actual - expected).max() > 1

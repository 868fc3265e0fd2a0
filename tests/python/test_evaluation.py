"""eval_*: the user's dataset and metric."""

import numpy as np
import pytest

EVAL = """
import numpy as np

def dataset():
    for index in range(3):
        yield {inputs}, index

def metric(outputs, targets):
    {metric}
"""


def opened(worker, source, inputs="np.full((2,), index, np.float32)", metric="return 0.0"):
    return worker.call("eval_open", file=str(source(EVAL.format(inputs=inputs, metric=metric), "data.py")))["handle"]


def test_a_whole_evaluation(worker, source):
    metric = "return {'error': float(np.mean([abs(o.sum() - t) for o, t in zip(outputs, targets)])), 'n': len(outputs)}"
    handle = opened(worker, source, metric=metric)
    seen = []
    while not (sample := worker.call("eval_next", handle=handle, input_names=["x"]))["done"]:
        x = worker.get(sample["inputs"])["x"]
        seen.append(x.tolist())
        for run, factor in (("reference", 0.5), ("onnxruntime:fp32", 1.0)):
            worker.call("eval_add", handle=handle, run=run, outputs=worker.put({"output": factor * x}))
    assert seen == [[0, 0], [1, 1], [2, 2]]
    assert worker.call("eval_score", handle=handle, run="reference")["metrics"] == {"error": 0.0, "n": 3.0}
    assert worker.call("eval_score", handle=handle, run="onnxruntime:fp32")["metrics"]["error"] == 1.0


@pytest.mark.parametrize(
    "inputs",
    ["(torch.ones(1), np.zeros(2))", "[np.ones(1, np.float32), torch.zeros(2, dtype=torch.float64)]",
     "{'b': np.zeros(2), 'a': torch.ones(1)}"],
)  # fmt: skip
def test_forms_of_inputs(worker, source, inputs):
    sample = worker.call("eval_next", handle=opened(worker, source, inputs), input_names=["a", "b"])
    arrays = worker.get(sample["inputs"])
    assert {name: (array.dtype.name, array.tolist()) for name, array in arrays.items()} == {
        "a": ("float32", [1.0]),
        "b": ("float64", [0.0, 0.0]),
    }


def test_several_outputs_are_a_dict(worker, source):
    metric = "return float(outputs[0]['a'].sum() + outputs[0]['b'].sum())"
    handle = opened(worker, source, metric=metric)
    arrays = {"a": np.ones(2, np.float32), "b": np.full(3, 2, np.int64)}
    worker.call("eval_add", handle=handle, run="r", outputs=worker.put(arrays))
    assert worker.call("eval_score", handle=handle, run="r")["metrics"] == {"metric": 8.0}


def test_a_metric_that_is_not_finite_is_told_as_records_do(worker, source):
    handle = opened(worker, source, metric="return {'a': float('nan'), 'b': np.float32('inf'), 'c': torch.tensor(1.5)}")
    worker.call("eval_add", handle=handle, run="r", outputs=worker.put({"o": np.ones(1, np.float32)}))
    metrics = worker.call("eval_score", handle=handle, run="r")["metrics"]
    assert metrics == {"a": "nan", "b": "inf", "c": 1.5}


@pytest.mark.parametrize(
    "text, code, fault, message, where",
    [
        ("def dataset(): pass", "bad_eval", "usage", "data.py has no function 'metric'", None),
        ("1 / 0", "bad_eval", "input", "ZeroDivisionError: division by zero", "data.py:5"),
        (
            "def dataset(): raise OSError('gone')\n\ndef metric(o, t): pass",
            "bad_eval",
            "input",
            "OSError: gone",
            "data.py:5",
        ),
        ("import sys\nsys.exit()", "source_exited", "input", "the source called sys.exit(None)", "data.py:6"),
    ],
)
def test_files_that_go_wrong(worker, source, failing, text, code, fault, message, where):
    error = failing(worker, "eval_open", file=str(source(text, "data.py")))
    assert (error.code, error.fault, error.message) == (code, fault, message)
    assert error.stage == "evaluate"
    if where:
        assert error.where == where


def test_a_missing_file(worker, failing):
    assert failing(worker, "eval_open", file="/nowhere/data.py").code == "no_such_file"


@pytest.mark.parametrize(
    "inputs, message",
    [
        ("(np.ones(1),) * 3", "dataset() of data.py gives 3 inputs"),
        ("{'z': np.ones(1)}", "dataset() of data.py gives 1 inputs (z)"),
        ("{}[index]", "KeyError: 0"),
        ("'text'", ""),
    ],
)
def test_samples_that_do_not_fit(worker, source, failing, inputs, message):
    error = failing(worker, "eval_next", handle=opened(worker, source, inputs), input_names=["x"])
    assert error.code == "bad_eval"
    assert error.message.startswith(message)


def test_datasets_that_do_not_fit(worker, source, failing):
    for body, what in (("return iter(())", "nothing"), ("yield 3", "int, not (inputs, target)")):
        file = source(f"def dataset():\n    {body}\n\ndef metric(o, t): pass", "data.py")
        handle = worker.call("eval_open", file=str(file))["handle"]
        error = failing(worker, "eval_next", handle=handle, input_names=["x"])
        assert (error.code, error.message) == ("bad_eval", f"dataset() of data.py yields {what}")


def test_metrics_that_do_not_fit(worker, source, failing):
    for metric, message in (("return 'good'", "metric() of data.py gives str"), ("return 1 / 0", "ZeroDivisionError")):
        handle = opened(worker, source, metric=metric)
        worker.call("eval_add", handle=handle, run="r", outputs=worker.put({"o": np.ones(1, np.float32)}))
        error = failing(worker, "eval_score", handle=handle, run="r")
        assert error.code == "bad_eval" and error.message.startswith(message)

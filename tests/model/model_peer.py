"""The second opinion on models: ONNX's Python package and ONNX Runtime.

model_peer.py same ATOL REFERENCE.onnx OTHER.onnx...   every model gives the reference's first output, within ATOL
model_peer.py outputs REFERENCE.onnx MODEL.onnx        each added output of MODEL is what a model cut there gives
"""

import sys

import numpy as np
import onnx
import onnxruntime as ort


def session(model: str) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(model, options)


def feeds(running: ort.InferenceSession) -> dict:
    rng = np.random.default_rng(7)
    dtypes = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_}
    out = {}
    for entry in running.get_inputs():
        shape = [d if isinstance(d, int) else 3 for d in entry.shape]
        out[entry.name] = (rng.standard_normal(shape) * 2).astype(dtypes[entry.type])
    return out


def same(atol: float, reference: str, others: list[str]) -> None:
    expected_session = session(reference)
    given = feeds(expected_session)
    expected = expected_session.run(None, given)[0]
    for other in others:
        onnx.checker.check_model(other, full_check=True)
        onnx.load(other)  # reads external data by itself
        actual = session(other).run(None, given)[0]
        assert actual.dtype == expected.dtype and actual.shape == expected.shape, other
        difference = float(np.abs(actual.astype(np.float64) - expected).max())
        assert difference <= atol, f"{other}: {difference} > {atol}"
        print(f"{other}: {difference}")


def outputs(reference: str, model: str) -> None:
    marked = session(model)
    given = feeds(marked)
    names = [entry.name for entry in marked.get_outputs()]
    values = dict(zip(names, marked.run(names, given)))
    original = onnx.load(reference)
    for name in names:
        cut = onnx.ModelProto()
        cut.CopyFrom(original)
        del cut.graph.output[:]
        cut.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
        inferred = onnx.shape_inference.infer_shapes(original)
        known = {v.name: v for v in [*inferred.graph.value_info, *inferred.graph.output]}
        cut.graph.output[0].CopyFrom(known[name])
        expected = session(cut.SerializeToString()).run(None, given)[0]
        np.testing.assert_allclose(values[name], expected, rtol=1e-6, atol=1e-6, err_msg=name)
    print(" ".join(names))


if __name__ == "__main__":
    if sys.argv[1] == "same":
        same(float(sys.argv[2]), sys.argv[3], sys.argv[4:])
    else:
        outputs(sys.argv[2], sys.argv[3])

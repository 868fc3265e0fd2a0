"""The library from C++: the examples do what they say."""

import pathlib
import subprocess

import numpy as np
import onnx
import onnx.reference
from conftest import BINARY
from graphs import FLOAT, graph, operators
from onnx import helper


def test_a_pass_of_ones_own(tmp_path):
    model = graph(
        [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["s", "x"], ["y"])],
        [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"])], opset=24,
    )
    onnx.save(model, tmp_path / "in.onnx")
    program = pathlib.Path(BINARY).parent / "custom_pass"
    done = subprocess.run([program, "in.onnx", "out.onnx"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "1 fused\n", done
    out = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(out, full_check=True)
    assert operators(out) == ["Swish"]
    x = np.linspace(-3, 3, 7, dtype=np.float32)
    (y,) = onnx.reference.ReferenceEvaluator(out).run(None, {"x": x})
    np.testing.assert_allclose(y, x / (1 + np.exp(-x)), atol=1e-6)


def test_the_pass_fits_on_a_screen():
    source = pathlib.Path(__file__).parents[2] / "examples/cpp/custom_pass.cc"
    assert len(source.read_text().splitlines()) < 40

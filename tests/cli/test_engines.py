"""compile, run, validate, bench and doctor with real engines."""

import json

import numpy as np
import onnx
import pytest
from conftest import evaluate, linear_model
from graphs import FLOAT, graph
from onnx import TensorProto, helper

ENGINES = ["onnxruntime:fp32", "openvino:fp32"]


@pytest.mark.parametrize("target", ENGINES)
def test_run_gives_the_right_numbers(portwright, model, inputs, tmp_path, target, validator):
    done = portwright("run", model, "--inputs", inputs, "-o", "out.npz", "--target", target, "--json").passes()
    validator("run", done.json)
    x = np.load(inputs)["x"]
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["y"], evaluate(onnx.load(model), x), atol=1e-5)


@pytest.mark.parametrize("target", ENGINES)
def test_a_compiled_engine_runs_like_the_model(portwright, model, inputs, tmp_path, target, validator):
    done = portwright("compile", model, "--target", target, "-o", "engine", "--json").passes()
    validator("engine", done.json)
    validator("engine", json.loads((tmp_path / "engine/engine.json").read_text()))
    portwright("run", "engine", "--inputs", inputs, "-o", "out.npz").passes()
    x = np.load(inputs)["x"]
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["y"], evaluate(onnx.load(model), x), atol=1e-5)


@pytest.mark.parametrize("target", ["onnxruntime:fp32", "openvino:fp32"])
def test_names_survive_what_an_engine_optimises_away(portwright, tmp_path, target):
    """OpenVINO takes a no-op's input and output for one tensor with two names, and drops inputs that nothing reads."""
    vector = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"])
    nodes = [
        helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Identity", ["x"], ["b"]),
        helper.make_node("Identity", ["a"], ["hidden"]), helper.make_node("Relu", ["hidden"], ["r"]),
        helper.make_node("Identity", ["r"], ["c"]),
    ]
    graph = helper.make_graph(nodes, "g", [vector("unread"), vector("x")], [vector("c"), vector("b"), vector("a")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path / "m.onnx")
    x = np.array([-1, 2], np.float32)
    np.savez(tmp_path / "in.npz", x=x, unread=np.zeros(2, np.float32))
    portwright("compile", "m.onnx", "--target", target, "-o", "engine").passes()
    for subject in (["m.onnx", "--target", target], ["engine"]):
        portwright("run", *subject, "--inputs", "in.npz", "-o", "out.npz").passes()
        out = np.load(tmp_path / "out.npz")
        assert sorted(out.files) == ["a", "b", "c"]
        np.testing.assert_array_equal(out["c"], np.maximum(x, 0))
        np.testing.assert_array_equal(out["a"], x)
        np.testing.assert_array_equal(out["b"], x)


def test_an_input_that_is_the_output_keeps_its_name(portwright, tmp_path):
    """OpenVINO drops the Sum, and with it one of the two names of the tensor."""
    model = graph([helper.make_node("Sum", ["x"], ["y"])], [("x", FLOAT, [3])], [("y", FLOAT, [3])])
    onnx.save(model, tmp_path / "m.onnx")
    x = np.array([1, 2, 3], np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    for target in ("openvino:fp32", "onnxruntime:fp32"):
        portwright("run", "m.onnx", "--target", target, "--inputs", "in.npz", "-o", "out.npz").passes()
        np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], x)


def test_an_engine_of_another_version_says_what_differs(portwright, model, inputs, tmp_path):
    portwright("compile", model, "--target", "onnxruntime:fp32", "-o", "engine").passes()
    file = tmp_path / "engine/engine.json"
    record = json.loads(file.read_text())
    record["version"] = "0.0.1"
    file.write_text(json.dumps(record))
    portwright("run", "engine", "--inputs", inputs, "-o", "out.npz").fails(3, "0.0.1")


def test_a_folder_that_is_no_engine(portwright, inputs, tmp_path):
    (tmp_path / "folder").mkdir()
    portwright("run", "folder", "--inputs", inputs, "-o", "out.npz").fails(4, "engine.json")


@pytest.mark.parametrize(
    "arrays, word",
    [
        ({"x": np.ones((5, 3), np.float32)}, "x"),
        ({"x": np.ones((5, 4), np.float64)}, "x"),
        ({"z": np.ones((5, 4), np.float32)}, "x"),
    ],
    ids=["shape", "dtype", "name"],
)
def test_inputs_that_do_not_fit(portwright, model, tmp_path, arrays, word):
    np.savez(tmp_path / "bad.npz", **arrays)
    portwright("run", model, "--inputs", "bad.npz", "-o", "out.npz").fails(2, word)


@pytest.mark.parametrize("target", ENGINES)
def test_validate_against_a_reference(portwright, model, inputs, tmp_path, target, validator):
    x = np.load(inputs)["x"]
    np.savez(tmp_path / "reference.npz", y=evaluate(onnx.load(model), x))
    done = portwright("validate", model, "-t", target, "-i", inputs, "-r", "reference.npz", "--json").passes()
    validator("validate", done.json)
    assert done.json["engine"]["precision_effective"] == "fp32"
    assert [size["axes"] for size in done.json["sizes"]] == [{"batch": 5}]


def test_validate_finds_a_wrong_reference(portwright, model, inputs, tmp_path):
    x = np.load(inputs)["x"]
    np.savez(tmp_path / "reference.npz", y=evaluate(onnx.load(model), x) + 1)
    done = portwright("validate", model, "-t", "onnxruntime:fp32", "-i", inputs, "-r", "reference.npz")
    assert done.code == 1 and "mismatch" in done.out


def test_validate_without_a_reference_says_what_it_was_judged_by(portwright, model, validator):
    done = portwright("validate", model, "-t", "openvino:fp32", "--dynamic", "x.0=batch:1..4..9", "--json").passes()
    validator("validate", done.json)
    assert "ONNX Runtime without optimisation" in done.json["reference"]
    batches = [size["axes"]["batch"] for size in done.json["sizes"]]
    assert batches[0] == 4 and {1, 2, 9} <= set(batches) and any(b % 2 and b not in (1, 9) for b in batches)


def test_a_constant_output_is_vacuous(portwright, tmp_path):
    model = linear_model()
    model.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(np.full(3, -1e6, np.float32), "bias"))
    onnx.save(model, tmp_path / "dead.onnx")
    done = portwright("validate", "dead.onnx", "-t", "onnxruntime:fp32", "--json")
    assert done.code == 1 and done.json["verdict"] == "vacuous", done


def test_reference_without_inputs(portwright, model, inputs):
    portwright("validate", model, "-t", "onnxruntime:fp32", "-r", inputs).fails(2, "--reference", "--inputs")


def test_an_absent_engine_is_the_environment(portwright, model):
    done = portwright("doctor", "--json")
    absent = [engine["name"] for engine in done.json["engines"] if not engine["works"]]
    if not absent:
        pytest.skip("every engine works here")
    done = portwright("validate", model, "-t", f"{absent[0]}:fp32", "--json")
    assert done.code == 3 and done.json["verdict"] == "environment"


def test_bench(portwright, model, validator):
    done = portwright("bench", model, "-t", "onnxruntime:fp32", "-t", "openvino:fp32", "--seconds", "2", "--threads", "1", "--json").passes()
    validator("bench", done.json)
    assert [entry["target"] for entry in done.json["targets"]] == ENGINES
    assert all(entry["runs"] >= 5 for entry in done.json["targets"])
    assert {(s["target"], s["baseline"]) for s in done.json["speedup"]} == {("openvino:fp32", "onnxruntime:fp32")}


def test_doctor(portwright, validator):
    done = portwright("doctor", "--json")
    validator("doctor", done.json)
    assert done.json["machine"]["cores"] >= 1
    engines = {engine["name"]: engine for engine in done.json["engines"]}
    assert engines["onnxruntime"]["works"] and "cpu" in engines["onnxruntime"]["devices"]
    for engine in engines.values():
        assert engine["works"] or (engine["reason"] and engine["hint"])
    assert done.code == (0 if not done.json["missing"] else 3)


def test_doctor_without_python(portwright):
    done = portwright("doctor", "--python", "/nowhere/python", "--json")
    assert done.code == 3
    assert "/nowhere/python" in done.json["missing"][0]["message"] and done.json["missing"][0]["hint"]

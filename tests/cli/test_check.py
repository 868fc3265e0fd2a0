"""check finds what no other checker looks at: frozen sizes, wide integers, twins, and what engines do not take."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from graphs import FLOAT, graph
from onnx import helper

N = helper.make_node


@pytest.fixture
def check(portwright, tmp_path, validator):
    def of(model, *more, code=0):
        onnx.save(model, tmp_path / "m.onnx")
        done = portwright("check", "m.onnx", "--json", *more)
        assert done.code == code, done
        validator("check", done.json)
        return done.json["findings"]

    return of


def codes(findings):
    return [finding["code"] for finding in findings]


def frozen(batch, features=12):
    """A Reshape that was exported at one batch size."""
    return graph(
        [N("Reshape", ["x", "target"], ["r"], name="view"), N("Relu", ["r"], ["y"], name="relu")],
        [("x", FLOAT, ["batch", 3, 4])], [("y", FLOAT, ["batch", features])], {"target": np.array([batch, features])},
    )


@pytest.mark.parametrize("batch", [1, 2, 8])
def test_a_frozen_batch_is_found_before_any_engine(check, batch):
    found = [f for f in check(frozen(batch), code=1) if f["code"] == "shape_at_size"]
    assert [f["node"] for f in found] == ["view"]
    assert f"[{batch}, 12]" in found[0]["received"] and "batch=3" in found[0]["message"]


def test_a_batch_that_follows_is_fine(check):
    assert "shape_at_size" not in codes(check(frozen(-1)))


def test_a_batch_in_pairs_is_fine_unless_odd_sizes_are_asked_for(check):
    """Reshape to [-1, 24] takes every even batch: no size is frozen, but 5 is no such size."""
    pairs = graph(
        [N("Reshape", ["x", "target"], ["y"], name="view")],
        [("x", FLOAT, ["batch", 3, 4])], [("y", FLOAT, ["half", 24])], {"target": np.array([-1, 24])},
    )
    assert "shape_at_size" not in codes(check(pairs))
    assert "shape_at_size" in codes(check(pairs, "--dynamic", "x.0=batch:1..4..8", code=1))
    assert "shape_at_size" not in codes(check(pairs, "--dynamic", "x.0=n:4..4"))


def test_a_range_of_an_axis_that_is_not_dynamic(portwright, check, tmp_path):
    check(frozen(-1))
    portwright("check", "m.onnx", "--dynamic", "x.1=c:1..4").fails(2, "x")


def test_integers_beyond_int32(check):
    def sliced(end):
        return graph(
            [N("Slice", ["x", "start", "end"], ["y"])],
            [("x", FLOAT, [4])], [("y", FLOAT, [4])], {"start": np.array([0]), "end": np.array([end])},
        )

    wide = [f for f in check(sliced(2**40)) if f["code"] == "int64_beyond_int32"]
    assert [f["node"] for f in wide] == ["end"] and wide[0]["received"] == str(2**40)
    for usual in (4, 2**31 - 1, 2**63 - 1):  # the last is how exporters write "to the end"
        assert "int64_beyond_int32" not in codes(check(sliced(usual)))


def test_twins(check):
    weights = np.random.default_rng(1).standard_normal((32, 32)).astype(np.float32)
    almost = weights.copy()
    almost[-1, -1] += 1
    nodes = [N("MatMul", ["x", name], [f"{name}_y"]) for name in "abc"] + [N("Sum", ["a_y", "b_y", "c_y"], ["y"])]
    model = graph(
        nodes, [("x", FLOAT, ["n", 32])], [("y", FLOAT, ["n", 32])], {"a": weights, "b": weights, "c": almost}
    )
    twins = [f for f in check(model) if f["code"] == "duplicate_initializer"]
    assert len(twins) == 1 and "'a' and 'b'" in twins[0]["message"] and "4096 bytes" in twins[0]["message"]


def test_what_engines_do_not_take(check):
    """A model of the newest opset and IR version: what is said of an engine is what loading it there shows."""
    model = graph([N("Relu", ["x"], ["y"])], [("x", FLOAT, [2])], [("y", FLOAT, [2])])
    assert not [code for code in codes(check(model)) if code.endswith("_beyond_engine")]
    newest = graph([N("Relu", ["x"], ["y"])], [("x", FLOAT, [2])], [("y", FLOAT, [2])], opset=onnx.defs.onnx_opset_version())
    newest.ir_version = onnx.IR_VERSION
    limits = [f for f in check(newest) if f["code"].endswith("_beyond_engine")]
    loads = True
    try:
        onnxruntime.InferenceSession(newest.SerializeToString())
    except Exception:
        loads = False
    assert loads == (not any("onnxruntime" in limit["message"] for limit in limits))
    assert all(limit["severity"] == "warning" for limit in limits)


def test_sarif(check, tmp_path):
    findings = check(frozen(8), "--sarif", "out.sarif", code=1)
    document = json.loads((tmp_path / "out.sarif").read_text())
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    assert run["tool"]["driver"]["name"] == "portwright"
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == set(codes(findings))
    assert [one["level"] for one in run["results"]] == [f["severity"] for f in findings]
    location = next(one for one in run["results"] if one["ruleId"] == "shape_at_size")["locations"][0]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "m.onnx"
    assert location["logicalLocations"][0]["name"] == "view"

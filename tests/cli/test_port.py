"""The main job on real models: ports that pass, models that break on purpose, runs that are killed and resumed."""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
import pytest

from conftest import BINARY, ROOT, wait_for
from graphs import FLOAT, graph
from onnx import helper

BREAKING = ROOT / "examples" / "breaking"

SMALL_NET = '''
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 5))

    def forward(self, x):
        return self.layers(x)

def network():
    return Net(), torch.randn(4, 16), {"x": {0: ("batch", 1, 4, 16)}}
'''


@pytest.fixture
def small(tmp_path):
    (tmp_path / "net.py").write_text(SMALL_NET)
    return "net.py:network"


@pytest.fixture
def port(portwright, tmp_path):
    """Ports into a folder and gives (outcome, port.json, issues)."""

    def run(source, *targets, more=(), folder="out", bench=0):
        options = [word for target in targets for word in ("--target", target)]
        outcome = portwright("port", source, *options, "--bench-seconds", bench, "-o", folder, *more, timeout=300)
        record = json.loads((tmp_path / folder / "port.json").read_text())
        issues = [json.loads(line) for line in (tmp_path / folder / "issues.jsonl").read_text().splitlines()]
        return outcome, record, issues

    return run


def test_a_small_model_passes_everywhere(port, small, tmp_path, validator):
    targets = ("onnxruntime:fp32", "openvino:fp32", "torch:eager")
    outcome, record, issues = port(small, *targets, bench=1)
    outcome.passes()
    validator("port", record)
    assert [t["verdict"] for t in record["targets"]] == ["passed"] * 3
    for target in record["targets"]:
        validator("validate", target["validate"])
        sizes = {size["axes"]["batch"] for size in target["validate"]["sizes"]}
        assert {1, 2, 4, 16} <= sizes and any(size % 2 for size in sizes - {1})
        assert target["validate"]["engine"]["precision_effective"] == "fp32"
        assert target["bench"]["latency_ms"]["p50"] > 0
    for issue in issues:
        validator("issue", issue)
    # What lies in the run folder is what an independent program computes too.
    inputs, reference = np.load(tmp_path / "out/inputs.npz"), np.load(tmp_path / "out/reference.npz")
    session = onnxruntime.InferenceSession(tmp_path / "out/model.onnx")
    names = [one.name for one in session.get_outputs()]
    assert names == list(reference.keys())
    for name, value in zip(names, session.run(None, dict(inputs))):
        np.testing.assert_allclose(value, reference[name], atol=1e-5)
    # Engines are given the simplified graph, which computes the same.
    simplified = record["simplify"]
    validator("simplify", {"schema": "portwright/simplify/1", "portwright": record["portwright"], **simplified})
    assert simplified["proof"]["verdict"] == "passed" and simplified["proof"]["inputs"] >= 5
    assert simplified["nodes_after"] <= simplified["nodes_before"]
    smaller = onnxruntime.InferenceSession(tmp_path / "out/model.simplified.onnx")
    for name, value in zip(names, smaller.run(None, dict(inputs))):
        np.testing.assert_allclose(value, reference[name], atol=1e-5)
    assert "Simplified graph" in (tmp_path / "out/report.md").read_text()
    assert record["targets"][0]["compile"]["configuration"]["model"] == "model.simplified.onnx"
    assert (tmp_path / "out/report.html").stat().st_size > 10_000
    assert "passed" in (tmp_path / "out/report.md").read_text()


def test_what_simplify_did_is_in_the_record_and_the_report(portwright, tmp_path):
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]), helper.make_node("Mul", ["same", "one"], ["still"]),
        helper.make_node("MatMul", ["still", "w"], ["y"]),
    ]
    weights = {"one": np.float32(1), "w": np.random.default_rng(5).standard_normal((4, 3)).astype(np.float32)}
    onnx.save(graph(nodes, [("x", FLOAT, ["n", 4])], [("y", FLOAT, ["n", 3])], weights), tmp_path / "m.onnx")
    portwright("port", "m.onnx", "--target", "onnxruntime:fp32", "--bench-seconds", "0", "-o", "out").passes()
    record = json.loads((tmp_path / "out/port.json").read_text())
    assert (record["simplify"]["nodes_before"], record["simplify"]["nodes_after"]) == (3, 1)
    report = (tmp_path / "out/report.md").read_text()
    assert "1 of 3 nodes are left" in report and "no-ops" in report
    portwright("port", "m.onnx", "--target", "onnxruntime:fp32", "--bench-seconds", "0", "--no-simplify", "-o", "plain").passes()
    assert json.loads((tmp_path / "plain/port.json").read_text())["simplify"] is None
    assert not (tmp_path / "plain/model.simplified.onnx").exists()


def test_reduced_precision_is_told_apart_from_a_wrong_engine(port, small):
    outcome, record, issues = port(small, "openvino:bf16")
    outcome.passes()
    validation = record["targets"][0]["validate"]
    assert validation["criterion"] == "drift"
    assert 0 < validation["drift"]["ratio"] <= 2
    assert validation["drift"]["verdict"] == "honest_loss"
    steps = [step["name"] for step in record["steps"]]
    assert steps.index("validate:openvino:fp32") < steps.index("validate:openvino:bf16")


def test_the_same_seed_gives_the_same_arrays(port, small, tmp_path):
    port(small, "onnxruntime:fp32", folder="a")
    port(small, "onnxruntime:fp32", folder="b")
    for name in ("inputs.npz", "reference.npz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_an_onnx_file_is_a_source_too(portwright, port, small, tmp_path):
    port(small, "onnxruntime:fp32", folder="first")
    outcome, record, _ = port("first/model.onnx", "openvino:fp32", folder="second")
    outcome.passes()
    assert record["targets"][0]["verdict"] == "passed"
    assert len(record["targets"][0]["validate"]["sizes"]) > 1
    outcome = portwright("port", "first/model.onnx", "--target", "torch:eager", "-o", "third")
    assert outcome.code != 0


# Networks that people deploy: what must vary, and how far apart float32 engines may be from eager PyTorch.
REAL = {
    "torchvision:resnet18": (("--dynamic", "x.0=batch:1..8..32"), {"batch"}),
    "torchvision:swin_t": ((), set()),
    "timm:mobilenetv3_small_100": ((), {"batch"}),
    "transformers:bert-small": ((), {"batch", "sequence"}),
    "transformers:llama-small@causal-lm": ((), {"sequence"}),
}


def computes_in_bf16() -> bool:
    """Whether OpenVINO takes bf16 for fp32 on this CPU unless told otherwise."""
    return any(feature in pathlib.Path("/proc/cpuinfo").read_text() for feature in ("avx512_bf16", "amx_bf16"))


@pytest.mark.parametrize("source", REAL)
def test_real_networks_pass_at_every_size(port, source):
    dynamic, axes = REAL[source]
    outcome, record, issues = port(source, "onnxruntime:fp32", "openvino:fp32", more=dynamic)
    outcome.passes()
    assert issues == []
    assert [remedy["name"] for remedy in record["remedies"]] == (["strict-fp32"] if computes_in_bf16() else [])
    for target in record["targets"]:
        sizes = target["validate"]["sizes"]
        for axis in axes:
            assert len({size["axes"][axis] for size in sizes}) >= 3, sizes
        for size in sizes:
            assert size["verdict"] == "passed"
            assert all(one["max_abs"] <= 1e-4 * max(1, abs(one["worst"]["reference"])) for one in size["metrics"]["outputs"])


# Each model that breaks on purpose: verdict, class, and the node or line that must be named.
CASES = {
    "branch.py": ("mismatch", "shape", {"line": "branch.py:26"}),
    "no_onnx.py": ("unsupported", "op", {"line": "no_onnx.py:20", "operator": "aten.median.dim"}),
    "vacuous.py": ("vacuous", "numeric", {"op_type": "Gemm", "tensor": "output"}),
    "scatter.py": ("invalid_model", "dtype", {"node": "ScatterND"}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_breaks_is_classed_and_located(port, name, validator):
    verdict, kind, where = CASES[name]
    outcome, record, issues = port(f"{BREAKING / name}:network", "onnxruntime:fp32")
    assert outcome.code == 1, outcome
    assert record["verdict"] == verdict
    assert [issue["class"] for issue in issues] == [kind], issues
    for key, text in where.items():
        assert text in issues[0]["where"][key], issues[0]["where"]
    validator("issue", issues[0])


def test_a_frozen_batch_is_named_and_made_to_follow(port, tmp_path):
    outcome, record, issues = port(f"{BREAKING / 'literal_batch.py'}:network", "onnxruntime:fp32", "openvino:fp32")
    outcome.passes()
    assert [(issue["class"], issue["status"]) for issue in issues] == [("shape", "fixed")]
    assert "literal_batch.py:22" in issues[0]["where"]["line"] and "[0, -1, 4, 8]" in issues[0]["fix"]
    assert {"other-exporter", "follow-sizes"} <= {remedy["name"] for remedy in record["remedies"]}
    for target in record["targets"]:
        assert {1, 4, 8} <= {size["axes"]["batch"] for size in target["validate"]["sizes"]}
    onnx.checker.check_model(str(tmp_path / "out/model.followed.onnx"), full_check=True)
    outcome, record, issues = port(f"{BREAKING / 'literal_batch.py'}:network", "onnxruntime:fp32", more=("--no-remedies",), folder="plain")
    assert outcome.code == 1 and record["verdict"] == "mismatch"
    assert [(issue["class"], issue["status"]) for issue in issues] == [("shape", "open")]


def test_an_overflow_of_fp16_is_named_even_where_the_cpu_hides_it(port):
    outcome, record, issues = port(f"{BREAKING / 'overflow.py'}:network", "openvino:fp16")
    numeric = [issue for issue in issues if issue["class"] == "numeric"]
    assert len(numeric) == 1, issues
    assert numeric[0]["where"]["op_type"] == "Pow"
    assert "overflow.py:17" in numeric[0]["where"]["line"]
    assert all(issue["class"] in ("numeric", "performance") for issue in issues)


def test_a_wrong_export_is_not_passed(port):
    """scatter_reduce with "mean" is exported as an overwrite; only a comparison with PyTorch shows it."""
    outcome, record, issues = port(f"{BREAKING / 'scatter.py'}:averaged", "onnxruntime:fp32")
    assert outcome.code == 1 and record["verdict"] == "mismatch"
    assert [issue["class"] for issue in issues] == ["export"]
    assert issues[0]["where"]["op_type"] == "ScatterElements"
    assert "scatter.py:61" in issues[0]["where"]["line"]


def test_a_failing_exporter_is_replaced_and_the_remedy_recorded(port, tmp_path):
    """Dynamo refuses a Python branch on values; TorchScript traces one side of it, which is right for these inputs."""
    (tmp_path / "net.py").write_text(
        "import torch\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
        "        if x.abs().sum() >= 0:\n            return x * 2 + 1\n        return x\n\n"
        "def network():\n    return Net(), torch.randn(3, 4)\n"
    )
    outcome, record, issues = port("net.py:network", "onnxruntime:fp32")
    outcome.passes()
    assert [remedy["name"] for remedy in record["remedies"]] == ["other-exporter"]
    assert record["export"]["exporter"] == "torchscript"
    assert issues[0]["status"] == "fixed" and "net.py:5" in issues[0]["where"]["line"]
    outcome, record, _ = port("net.py:network", "onnxruntime:fp32", more=("--no-remedies",), folder="plain")
    assert outcome.code == 1 and record["remedies"] == []


def test_an_optimisation_that_breaks_a_valid_model_is_left_out(port, tmp_path):
    """Fused, weights and scale overflow together; apart they do not, because the input is small."""
    model = graph(
        [
            helper.make_node("Mul", ["x", "small"], ["s"]),
            helper.make_node("Conv", ["s", "w"], ["c"]),
            helper.make_node("BatchNormalization", ["c", "scale", "zero", "zero", "one"], ["y"], epsilon=0.0),
        ],
        [("x", FLOAT, ["n", 1, 8, 8])], [("y", FLOAT, ["n", 1, 8, 8])],
        {"small": np.float32(1e-30), "w": np.full((1, 1, 1, 1), 1e20, np.float32), "scale": np.float32([1e20]), "zero": np.float32([0]), "one": np.float32([1])},
    )
    onnx.save(model, tmp_path / "model.onnx")
    outcome, record, issues = port("model.onnx", "onnxruntime:fp32")
    outcome.passes()
    assert [remedy["name"] for remedy in record["remedies"]] == ["optimisation-ladder"]
    assert [(issue["class"], issue["status"]) for issue in issues] == [("numeric", "fixed")]
    assert "ConvBNFusion" in issues[0]["fix"]
    x, y = np.load(tmp_path / "out/inputs.npz")["x"], np.load(tmp_path / "out/engines/onnxruntime-fp32/outputs.npz")["y"]
    np.testing.assert_allclose(y, x * np.float32(1e10), rtol=1e-4)


def test_pitch_keeps_its_accuracy(port):
    """Trained weights: the pitch of synthesised tones, eager against OpenVINO in bf16."""
    outcome, record, _ = port(
        ROOT / "examples/pitch.py:tiny", "openvino:bf16", more=("--eval", ROOT / "examples/pitch_eval.py")
    )
    outcome.passes()
    accuracy = record["targets"][0]["accuracy"]
    for name, value in accuracy["reference"].items():
        assert accuracy["target"][name] - value == pytest.approx(accuracy["delta"][name])
    assert any(value != 0 for value in accuracy["delta"].values())


def without_timings(value):
    timed = {"seconds", "wall_s", "own_s", "load_s", "compile_s", "bench", "speedup_vs_eager", "command", "issues"}
    if isinstance(value, dict):
        return {key: without_timings(one) for key, one in value.items() if key not in timed}
    return [without_timings(one) for one in value] if isinstance(value, list) else value


def test_killed_at_ten_moments_and_resumed_the_record_is_the_same(portwright, port, small, tmp_path):
    targets = ("onnxruntime:fp32", "openvino:bf16")
    _, whole, _ = port(small, *targets, bench=1, folder="whole")
    dice = random.Random(7)
    command = [BINARY, "port", small, "--target", targets[0], "--target", targets[1], "--bench-seconds", "1", "-o", "killed", "--resume"]
    kept = {}
    for _ in range(10):
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(dice.uniform(0.05, 4))
        process.send_signal(signal.SIGKILL)
        process.wait()
        steps = {file.name: file.read_bytes() for file in (tmp_path / "killed/steps").glob("*.json")}
        for name, content in kept.items():
            assert steps.get(name) == content, f"{name} was repeated although its evidence was valid"
        for content in steps.values():
            json.loads(content)  # never half a record
        kept = steps
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    assert {name: (tmp_path / "killed/steps" / name).read_bytes() for name in kept} == kept
    resumed = json.loads((tmp_path / "killed/port.json").read_text())
    assert without_timings(resumed) == without_timings(whole)


def test_evidence_that_was_tampered_with_is_not_reused(port, small, tmp_path):
    port(small, "onnxruntime:fp32")
    before = (tmp_path / "out/steps/export.json").read_bytes()
    (tmp_path / "out/model.onnx").write_bytes(b"\x08\x08")
    outcome, record, _ = port(small, "onnxruntime:fp32", more=("--resume",))
    outcome.passes()
    assert (tmp_path / "out/steps/export.json").read_bytes() != before


def test_another_option_repeats_only_what_depends_on_it(port, small, tmp_path):
    port(small, "onnxruntime:fp32")
    before = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "out/steps").iterdir()}
    port(small, "onnxruntime:fp32", "openvino:fp32", more=("--resume",))
    after = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "out/steps").iterdir()}
    assert all(after[name] == moment for name, moment in before.items())
    assert "compile-openvino-fp32.json" in after


def test_a_folder_in_use_and_an_earlier_run_are_refused(portwright, small, tmp_path):
    first = subprocess.Popen(
        [BINARY, "port", small, "--target", "onnxruntime:fp32", "-o", "out"], cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        wait_for(tmp_path / "out/.lock", first)
        portwright("port", small, "--target", "onnxruntime:fp32", "-o", "out", "--force").fails(2, "in use")
    finally:
        first.kill()
        first.wait()
    portwright("port", small, "--target", "onnxruntime:fp32", "-o", "out").fails(2, "earlier run", "--resume")


def test_interrupting_leaves_a_readable_folder(small, tmp_path):
    process = subprocess.Popen(
        [BINARY, "port", small, "--target", "onnxruntime:fp32", "-o", "out"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    wait_for(tmp_path / "out/port.json", process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume" in errors or "interrupted" in errors
    json.loads((tmp_path / "out/port.json").read_text())


@pytest.mark.parametrize(
    "body, words",
    [
        ("raise RuntimeError('no such luck')", ("no such luck", "net.py:2")),
        ("import sys; sys.exit(3)", ("net.py",)),
        ("import os; os._exit(3)", ("exited with code 3",)),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", ("SIGSEGV",)),
    ],
)
def test_a_factory_that_misbehaves_is_told_with_its_line(portwright, tmp_path, body, words):
    (tmp_path / "net.py").write_text(f"def network():\n    {body}\n")
    outcome = portwright("port", "net.py:network", "--target", "onnxruntime:fp32", "-o", "out")
    assert outcome.code in (1, 4), outcome
    told = outcome.err + outcome.out + (tmp_path / "out/issues.jsonl").read_text()
    for word in words:
        assert word in told, (word, outcome)


def test_a_hanging_factory_is_stopped_in_time(portwright, tmp_path):
    (tmp_path / "net.py").write_text("import time\ndef network():\n    time.sleep(600)\n")
    outcome = portwright("port", "net.py:network", "--target", "onnxruntime:fp32", "--timeout", "12", "-o", "out", timeout=300)
    assert outcome.code == 1, outcome
    assert json.loads((tmp_path / "out/port.json").read_text())["verdict"] == "timed_out"

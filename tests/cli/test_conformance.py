"""Some of the ONNX node tests through everything; `make conformance` takes all of them."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_some_node_tests():
    script = ROOT / "tests/conformance/node_tests.py"
    command = [sys.executable, script, "--every", "45", "--engine", "onnxruntime", "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "findings: none" in done.stdout

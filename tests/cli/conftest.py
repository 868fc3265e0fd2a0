"""What the tests of the command line share: the real program, small models, and the schemas."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import time

import jsonschema
import numpy as np
import onnx
import pytest
import referencing
from graphs import count
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PORTWRIGHT_BINARY", str(ROOT / "build" / "portwright"))
VERBS = ["port", "export", "inspect", "check", "simplify", "extract", "convert-opset", "view", "compile", "run", "compare", "validate", "bench", "report", "doctor", "completion"]


class Outcome:
    def __init__(self, done: subprocess.CompletedProcess):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def __repr__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"

    @property
    def json(self):
        return json.loads(self.out)

    def fails(self, code: int, *words: str) -> "Outcome":
        """The form of every failure, after progress: one error line that names what is wrong, one hint line, this code."""
        progress = [line for line in self.err.splitlines() if line.startswith("portwright: ") and "error:" not in line]
        lines = [line for line in self.err.splitlines() if line not in progress]
        assert self.code == code, self
        assert len(lines) == 2 and lines[0].startswith("portwright: error: ") and lines[1].startswith("hint: "), self
        assert len(lines[1]) > len("hint: "), self
        for word in words:
            assert word in self.err, (word, self)
        return self

    def passes(self) -> "Outcome":
        assert self.code == 0, self
        return self


def wait_for(file: pathlib.Path, process: subprocess.Popen):
    """Until a running program has made a file, however slow the machine is."""
    while not file.exists():
        assert process.poll() is None, f"ended with {process.returncode} before {file.name} was there"
        time.sleep(0.02)


@pytest.fixture
def portwright(tmp_path):
    """Runs the program in an empty folder."""

    def run(*arguments, env=None, timeout=120, cwd=tmp_path, **more) -> Outcome:
        environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CLICOLOR_FORCE")}
        environment.update(env or {})
        return Outcome(
            subprocess.run(
                [BINARY, *map(str, arguments)], cwd=cwd, env=environment, timeout=timeout, capture_output=True, text=True,
                stdin=subprocess.DEVNULL, **more,
            )
        )

    return run


@pytest.fixture(scope="session")
def validator():
    """validator(kind) checks a document against schemas/KIND.schema.json."""
    schemas = {p.name.split(".")[0]: json.loads(p.read_text()) for p in (ROOT / "schemas").glob("*.schema.json")}
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    registry = referencing.Registry().with_resources(
        (schema["$id"], referencing.Resource.from_contents(schema)) for schema in schemas.values()
    )
    return lambda kind, document: jsonschema.Draft202012Validator(schemas[kind], registry=registry).validate(document)


@pytest.fixture
def simplify(portwright, tmp_path, validator):
    """Simplifies a model and gives (what came out, the record)."""

    def of(model, *more):
        onnx.save(model, tmp_path / "in.onnx")
        record = portwright("simplify", "in.onnx", "-o", "out.onnx", "--json", *more).passes().json
        validator("simplify", record)
        out = onnx.load(tmp_path / "out.onnx")
        onnx.checker.check_model(out, full_check=True)
        assert [one.name for one in out.graph.input] == [one.name for one in model.graph.input]
        assert [one.name for one in out.graph.output] == [one.name for one in model.graph.output]
        assert record["nodes_after"] == count(out.graph)
        return out, record

    return of


def linear_model(features: int = 4, outputs: int = 3) -> onnx.ModelProto:
    """y = relu(x W + b), with a dynamic batch and weights from a fixed seed."""
    generator = np.random.default_rng(7)
    weight = generator.standard_normal((features, outputs)).astype(np.float32)
    bias = generator.standard_normal(outputs).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "weight"], ["product"], name="matmul"),
            helper.make_node("Add", ["product", "bias"], ["sum"], name="add"),
            helper.make_node("Relu", ["sum"], ["y"], name="relu"),
        ],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", features])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", outputs])],
        [onnx.numpy_helper.from_array(weight, "weight"), onnx.numpy_helper.from_array(bias, "bias")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9, producer_name="tests")


def evaluate(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """The right answer, from NumPy."""
    weight, bias = (onnx.numpy_helper.to_array(t) for t in model.graph.initializer)
    return np.maximum(x @ weight + bias, 0)


@pytest.fixture
def model(tmp_path) -> pathlib.Path:
    file = tmp_path / "linear.onnx"
    onnx.save(linear_model(), file)
    return file


@pytest.fixture
def inputs(tmp_path) -> pathlib.Path:
    file = tmp_path / "inputs.npz"
    np.savez(file, x=np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32))
    return file

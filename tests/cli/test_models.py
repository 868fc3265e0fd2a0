"""inspect and check, on good models and on hostile ones."""

import numpy as np
import onnx
import pytest
from conftest import linear_model
from onnx import TensorProto, helper

VERBS_OF_A_MODEL = [["inspect"], ["check"], ["validate", "--target", "onnxruntime:fp32"], ["compile", "--target", "onnxruntime:fp32", "-o", "engine"]]


def test_inspect(portwright, model, validator):
    document = portwright("inspect", model, "--json").passes().json
    validator("inspect", document)
    assert document["operators"] == {"MatMul": 1, "Add": 1, "Relu": 1}
    assert document["parameters"] == 4 * 3 + 3
    assert document["weight_bytes"] == 4 * (4 * 3 + 3)
    assert document["macs"] == 4 * 3
    assert document["opsets"] == {"ai.onnx": 18}
    assert document["inputs"][0]["shape"] == ["batch", 4]
    assert document["dynamic_axes"] == ["x.0=batch"]


def test_inspect_for_people(portwright, model):
    text = portwright("inspect", model).passes().out
    for word in ("MatMul 1", "float32[batch, 4]", "x.0=batch", "15"):
        assert word in text


def test_check_of_a_valid_model(portwright, model, validator):
    document = portwright("check", model, "--json").passes().json
    validator("check", document)
    assert document["verdict"] == "passed"


def test_check_names_the_node_and_both_sides(portwright, tmp_path, validator):
    broken = linear_model()
    broken.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(np.zeros(5, np.float32), "bias"))
    onnx.save(broken, tmp_path / "broken.onnx")
    done = portwright("check", "broken.onnx", "--json")
    assert done.code == 1, done
    validator("check", done.json)
    assert done.json["verdict"] == "invalid_model"
    assert any("add" in finding["node"] for finding in done.json["findings"] if finding["severity"] == "error")
    lines = portwright("check", "broken.onnx").out
    assert "error: " in lines and "invalid_model" in lines


@pytest.mark.parametrize("verb", VERBS_OF_A_MODEL, ids=lambda verb: verb[0])
class TestHostileModels:
    def run(self, portwright, verb, file):
        return portwright(verb[0], file, *verb[1:])

    def test_missing(self, portwright, verb):
        self.run(portwright, verb, "nowhere.onnx").fails(4, "nowhere.onnx")

    def test_folder(self, portwright, verb, tmp_path):
        (tmp_path / "folder.onnx").mkdir()
        self.run(portwright, verb, "folder.onnx").fails(4, "folder.onnx")

    def test_empty(self, portwright, verb, tmp_path):
        (tmp_path / "empty.onnx").write_bytes(b"")
        self.run(portwright, verb, "empty.onnx").fails(4, "empty.onnx")

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
    def test_truncated(self, portwright, verb, tmp_path, share):
        whole = linear_model(64, 64).SerializeToString()
        (tmp_path / "short.onnx").write_bytes(whole[: int(len(whole) * share)])
        self.run(portwright, verb, "short.onnx").fails(4, "short.onnx")

    @pytest.mark.parametrize("seed", range(5))
    def test_random_bytes(self, portwright, verb, tmp_path, seed):
        (tmp_path / "noise.onnx").write_bytes(np.random.default_rng(seed).bytes(4096))
        self.run(portwright, verb, "noise.onnx").fails(4, "noise.onnx")

    @pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname"])
    def test_external_data_outside_the_folder(self, portwright, verb, tmp_path, location):
        (tmp_path / "secret.bin").write_bytes(b"\0" * 48)
        folder = tmp_path / "inner"
        folder.mkdir()
        self.run(portwright, verb, external(folder / "m.onnx", location)).fails(4, location)

    def test_external_data_through_a_link(self, portwright, verb, tmp_path):
        (tmp_path / "secret.bin").write_bytes(b"\0" * 48)
        folder = tmp_path / "inner"
        folder.mkdir()
        (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
        self.run(portwright, verb, external(folder / "m.onnx", "link.bin")).fails(4, "link.bin")

    def test_external_data_that_is_missing(self, portwright, verb, tmp_path):
        self.run(portwright, verb, external(tmp_path / "m.onnx", "gone.bin")).fails(4, "gone.bin")

    def test_external_data_beyond_its_file(self, portwright, verb, tmp_path):
        (tmp_path / "small.bin").write_bytes(b"\0" * 8)
        self.run(portwright, verb, external(tmp_path / "m.onnx", "small.bin")).fails(4, "small.bin")


def external(file, location):
    """The linear model with its weight in another file."""
    model = linear_model()
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", "48")):
        weight.external_data.add(key=key, value=value)
    file.write_bytes(model.SerializeToString())
    return file


def test_a_model_without_a_graph(portwright, tmp_path):
    model = helper.make_model(helper.make_graph([], "g", [], []))
    model.ClearField("graph")
    (tmp_path / "hollow.onnx").write_bytes(model.SerializeToString())
    portwright("inspect", "hollow.onnx").fails(4, "hollow.onnx")


def test_name_with_spaces_and_quotes(portwright, tmp_path):
    onnx.save(linear_model(), tmp_path / "it's a \"model\".onnx")
    portwright("inspect", "it's a \"model\".onnx").passes()

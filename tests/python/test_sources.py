"""The plugins: what each declares is what its models take."""

import numpy as np
import pytest


def generated(entry: dict, shape: list[int]) -> np.ndarray:
    random = np.random.default_rng(0)
    values = entry["values"] or "normal"
    if values.startswith("tokens"):
        low, high = map(int, values[7:-1].split(","))
        return random.integers(low, high, shape, dtype=entry["dtype"])
    if values == "mask":
        return np.ones(shape, entry["dtype"])
    return random.standard_normal(shape).astype(entry["dtype"])


def test_sources_are_listed(worker):
    listed = {one["name"]: one for one in worker.call("sources")["sources"]}
    assert {"torchvision", "timm", "transformers"} <= set(listed)
    assert "resnet18" in listed["torchvision"]["examples"]
    assert listed["timm"]["packages"]["timm"]
    assert all(one["description"] for one in listed.values())


@pytest.mark.parametrize(
    "name, outputs",
    [
        ("torchvision:squeezenet1_1", {"output": (3, 1000)}),
        ("timm:mobilenetv3_small_050", {"output": (3, 1000)}),
        ("transformers:bert-small", {"last_hidden_state": (3, 3, 256), "pooler_output": (3, 256)}),
        ("transformers:llama-small", {"logits": (1, 3, 4096)}),
        ("transformers:bert-small@token-classification", {"logits": (3, 3, 2)}),
    ],
)
def test_models_run_at_the_sizes_that_they_declare(worker, name, outputs):
    opened = worker.call("open", source=name, seed=0)
    axes = {(axis["input"], axis["axis"]) for axis in opened["dynamic"]}
    arrays = {}
    for entry in opened["inputs"]:
        shape = [3 if (entry["name"], index) in axes else size for index, size in enumerate(entry["shape"])]
        arrays[entry["name"]] = generated(entry, shape)
    found = worker.forward(opened["handle"], arrays)
    assert {key: value.shape for key, value in found.items()} == outputs
    assert all(np.isfinite(value).all() for value in found.values())
    worker.call("close", handle=opened["handle"])


@pytest.mark.parametrize(
    "name, inputs",
    [
        ("torchvision:lraspp_mobilenet_v3_large", {"input": [1, 3, 520, 520]}),
        ("torchvision:raft_small", {"image1": [1, 3, 128, 128], "image2": [1, 3, 128, 128]}),
    ],
)
def test_inputs_are_named_after_forwards_parameters(worker, name, inputs):
    opened = worker.call("open", source=name)
    assert {one["name"]: one["shape"] for one in opened["inputs"]} == inputs
    worker.call("close", handle=opened["handle"])


def test_config_overrides_reach_the_library_and_the_digest(worker):
    whole = worker.call("open", source="transformers:llama-small", seed=0)
    small = worker.call("open", source="transformers:llama-small", config={"num_hidden_layers": 1})
    assert small["parameters"] < whole["parameters"]
    assert small["source_digest"] != whole["source_digest"]
    assert worker.call("open", source="transformers:llama-small", seed=1)["source_digest"] == whole["source_digest"]


@pytest.mark.parametrize(
    "name, code, text",
    [
        ("transformers:bertt", "bad_source", "transformers has no model 'bertt'"),
        ("transformers:bert@dancing", "bad_source", "transformers has no task 'dancing'"),
        ("transformers:vit@causal-lm", "bad_source", "transformers has no AutoModelForCausalLM for 'vit'"),
        ("timm:nope", "bad_source", "timm has no model 'nope'"),
    ],
)
def test_names_that_are_not_there(worker, failing, name, code, text):
    error = failing(worker, "open", source=name)
    assert (error.code, error.fault, error.message) == (code, "usage", text)
    assert error.hint


PLUGIN = """
from portwright.sources import Axis, Input, Network

DESCRIPTION = "a third party's models"
PACKAGES = ("torch",)
EXAMPLES = ("twice",)

def names():
    return ["twice"]

def build(name, config):
    import torch

    if name != "twice":
        raise LookupError(name)
    module = torch.nn.Upsample(scale_factor=config.get("factor", 2))
    return Network(module, {"input": Input((1, 1, 4), values="ones")}, [Axis("input", 0, "batch", max=5)])
"""


@pytest.fixture
def third_party(tmp_path, monkeypatch):
    """An installed distribution with two plugins, one of which does not load."""
    site = tmp_path / "site"
    (site / "theirs-1.0.dist-info").mkdir(parents=True)
    (site / "theirs-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    points = "[portwright.sources]\ntheirs = their_source\nbroken = not_there\n"
    (site / "theirs-1.0.dist-info" / "entry_points.txt").write_text(points)
    (site / "their_source.py").write_text(PLUGIN)
    return site


def test_third_parties_add_plugins_by_entry_point(fresh, failing, third_party):
    worker = fresh(path=[third_party])
    listed = {one["name"]: one["description"] for one in worker.call("sources")["sources"]}
    assert listed["theirs"] == "a third party's models"
    assert listed["broken"] == "the Python package 'not_there' is missing"
    opened = worker.call("open", source="theirs:twice", config={"factor": 3})
    assert opened["inputs"] == [{"name": "input", "shape": [1, 1, 4], "dtype": "float32", "values": "ones"}]
    assert opened["dynamic"][0]["max"] == 5
    output = worker.forward(opened["handle"], {"input": np.ones((1, 1, 4), np.float32)})["output"]
    assert output.shape == (1, 1, 12)
    assert failing(worker, "open", source="theirs:thrice").hint == "did you mean twice?"
    assert failing(worker, "open", source="broken:x").code == "missing_package"

"""open, close and sources: what a user's file or a plugin becomes, and how each mistake is told."""

import os

import numpy as np
import pytest

MODULE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x, y=None):
        return self.linear(x)
"""


def opened(worker, source, text, factory="factory", **request):
    return worker.call("open", source=f"{source(text)}:{factory}", **request)


@pytest.mark.parametrize(
    "returned, names",
    [
        ("Net(), torch.ones(4, 3)", ["x"]),
        ("Net(), (torch.ones(4, 3),)", ["x"]),
        ("Net(), [torch.ones(4, 3), torch.ones(1)]", ["x", "y"]),
        ("Net(), {'y': torch.ones(1), 'x': torch.ones(4, 3)}", ["x", "y"]),
        ("Net(), (torch.ones(4, 3), None)", ["x"]),
        ("Net(), (torch.ones(4, 3), [torch.ones(1), {'a': torch.ones(2)}])", ["x", "y.0", "y.1.a"]),
        ("types.SimpleNamespace(module=Net(), inputs=torch.ones(4, 3))", ["x"]),
        ("types.SimpleNamespace(model=Net(), inputs={'x': torch.ones(4, 3)}, dynamic_shapes=None)", ["x"]),
    ],
)
def test_forms_of_a_factory(worker, source, returned, names):
    reply = opened(worker, source, f"import types\n{MODULE}\ndef factory():\n    return {returned}")
    assert [one["name"] for one in reply["inputs"]] == names
    assert reply["module_class"] == "Net"
    assert reply["parameters"] == 3 * 2 + 2
    assert worker.get(reply["tensors"])["x"].tolist() == np.ones((4, 3)).tolist()


@pytest.mark.parametrize(
    "shapes, expected",
    [
        ("{'x': {0: 'batch'}}", ("batch", 1, 4, 8)),
        ("{'x': {0: ('batch', 2, 9)}}", ("batch", 2, 4, 9)),
        ("{'x': {0: ('batch', 1, 8, 32)}}", ("batch", 1, 8, 32)),
        ("{'x': {0: torch.export.Dim('b', min=2, max=16)}}", ("b", 2, 4, 16)),
        ("{'x': {0: torch.export.Dim.DYNAMIC}}", ("x_0", 1, 4, 8)),
        ("({0: 'batch', 1: None},)", ("batch", 1, 4, 8)),
        ("{'x': ['batch', None]}", ("batch", 1, 4, 8)),
    ],
)
def test_dynamic_shapes_become_axes(worker, source, shapes, expected):
    reply = opened(worker, source, f"{MODULE}\ndef factory():\n    return Net(), torch.ones(4, 3), {shapes}")
    (axis,) = reply["dynamic"]
    assert (axis["input"], axis["axis"]) == ("x", 0)
    assert (axis["symbol"], axis["min"], axis["opt"], axis["max"]) == expected


def test_seed_decides_the_weights(worker, source):
    file = source(f"{MODULE}\ndef factory():\n    return Net(), torch.ones(1, 3)")
    outputs = []
    for seed in (1, 2, 1):
        handle = worker.call("open", source=f"{file}:factory", seed=seed)["handle"]
        outputs.append(worker.forward(handle, {"x": np.ones((1, 3), np.float32)})["output"])
    assert np.array_equal(outputs[0], outputs[2])
    assert not np.array_equal(outputs[0], outputs[1])


def test_modules_come_in_eval_mode(worker, source):
    reply = opened(worker, source, "def factory():\n    return nn.Dropout(0.5), {'input': torch.ones(8)}")
    output = worker.forward(reply["handle"], {"input": np.ones(8, np.float32)})["output"]
    assert output.tolist() == [1.0] * 8


def test_overrides_replace_what_the_factory_gave(worker, source, failing):
    file = source(f"{MODULE}\ndef factory():\n    return Net(), torch.ones(4, 3)")
    override = [{"name": "x", "shape": [7, 3], "dtype": "float32", "values": "uniform(0,1)"}]
    reply = worker.call("open", source=f"{file}:factory", inputs=override)
    assert reply["inputs"] == [{"name": "x", "shape": [7, 3], "dtype": "float32", "values": "uniform(0,1)"}]
    assert reply["tensors"] is None
    error = failing(worker, "open", source=f"{file}:factory", inputs=[{"name": "z", "shape": [1]}])
    assert (error.code, error.fault) == ("bad_input", "usage")
    error = failing(worker, "open", source=f"{file}:factory", inputs=[{"name": "x", "dtype": "float33"}])
    assert "float33" in error.message


def test_a_bare_module_needs_inputs(worker, source, failing):
    file = source(f"{MODULE}\ndef factory():\n    return Net()")
    error = failing(worker, "open", source=f"{file}:factory")
    assert (error.code, error.fault) == ("no_inputs", "usage")
    assert "--input x:SHAPE" in error.hint
    given = [{"name": "x", "shape": [2, 3]}]
    reply = worker.call("open", source=f"{file}:factory", inputs=given)
    assert reply["inputs"] == [{"name": "x", "shape": [2, 3], "dtype": "float32", "values": None}]


def test_digest_follows_every_file_that_was_read(worker, source):
    file = source(
        f"{MODULE}\nimport helper, pathlib\n\ndef factory():\n"
        "    pathlib.Path(__file__).with_name('sizes.txt').read_text()\n    return Net(), torch.ones(1, 3)"
    )
    helper = source("A = 1", "helper.py")
    sizes = file.with_name("sizes.txt")
    digests = []
    for change in (lambda: sizes.write_text("1"), lambda: sizes.write_text("2"), lambda: helper.write_text("A = 2")):
        change()
        reply = worker.call("open", source=f"{file}:factory")
        digests.append(reply["source_digest"])
    assert [os.path.basename(f) for f in reply["python_files"]] == ["helper.py", "net.py"]
    assert reply["data_files"] == [str(sizes)]
    assert len(set(digests)) == 3
    assert worker.call("open", source=f"{file}:factory")["source_digest"] == digests[-1]


def test_files_of_one_name_in_two_folders(worker, tmp_path):
    for folder, size in (("one", 2), ("two", 5)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "shared.py").write_text(f"SIZE = {size}\n")
        text = "import torch, shared\ndef factory():\n    return torch.nn.Identity(), torch.ones(shared.SIZE)\n"
        (tmp_path / folder / "net.py").write_text(text)
    for folder, size in (("one", 2), ("two", 5), ("one", 2)):
        reply = worker.call("open", source=f"{tmp_path / folder / 'net.py'}:factory")
        assert reply["inputs"][0]["shape"] == [size]


@pytest.mark.parametrize(
    "body, code, fault, message, line",
    [
        ("raise ValueError('no\\nweights')", "factory_failed", "input", "ValueError: no", 6),
        ("helper()", "factory_failed", "input", "KeyError: 'gone'", 10),
        ("nn.Linear(2, 'x')", "factory_failed", "input", "TypeError: ", 6),
        ("return 3", "factory_failed", "input", "net.py:factory returned int, not a torch.nn.Module", None),
        ("import cv2_missing", "missing_package", "environment", "the Python package 'cv2_missing' is missing", 6),
        ("raise MemoryError", "out_of_memory", "gate", "MemoryError", 6),
        (
            "return nn.Identity(), (torch.ones(1),) * 3",
            "factory_failed",
            "input",
            "there are 2 more example inputs",
            None,
        ),
        (
            "return nn.Identity(), {'y': torch.ones(1)}",
            "factory_failed",
            "input",
            "Identity.forward() has no par",
            None,
        ),
        (
            "return nn.Identity(), torch.ones(1), {'z': {0: 'n'}}",
            "factory_failed",
            "input",
            "dynamic_shapes names",
            None,
        ),
    ],
)
def test_a_factory_that_goes_wrong(worker, source, failing, body, code, fault, message, line):
    file = source(f"def factory():\n    {body}\n\ndef helper():\n    x = 1\n    return {{}}['gone']")
    error = failing(worker, "open", source=f"{file}:factory")
    assert (error.code, error.fault) == (code, fault)
    assert error.message.startswith(message)
    if line:
        assert error.where == f"net.py:{line}"
        assert "Traceback" in error.detail


def test_a_file_that_does_not_parse(worker, source, failing):
    error = failing(worker, "open", source=f"{source('def factory(:')}:factory")
    assert (error.code, error.where) == ("factory_failed", "net.py:5")
    assert error.message.startswith("SyntaxError")


def test_hint_for_a_missing_package_names_the_distribution(worker, source, failing):
    file = source("import yaml_is_not_here\n\ndef factory(): pass")
    assert failing(worker, "open", source=f"{file}:factory").hint == "pip install yaml_is_not_here"


@pytest.mark.parametrize(
    "name, code, fault, hint",
    [
        ("resnet18", "bad_source", "usage", "torchvision:resnet18"),
        ("torchvison:resnet18", "bad_source", "usage", "did you mean torchvision?"),
        ("nowhere.py:factory", "no_such_file", "input", "path"),
        ("/tmp:factory", "bad_source", "usage", ""),
        ("torchvision:resnet19", "bad_source", "usage", "did you mean resnet18"),
    ],
)
def test_wrong_sources(worker, failing, name, code, fault, hint):
    error = failing(worker, "open", source=name)
    assert (error.code, error.fault) == (code, fault)
    assert hint in error.hint


def test_wrong_factory_names(worker, source, failing):
    file = source("def networks():\n    pass")
    error = failing(worker, "open", source=f"{file}:network")
    assert (error.code, error.hint) == ("bad_source", "did you mean networks?")
    assert "names no factory" in failing(worker, "open", source=str(file)).message


def test_close_frees_a_handle(worker, source, failing):
    handle = opened(worker, source, "def factory():\n    return nn.Identity(), torch.ones(1)")["handle"]
    assert worker.call("close", handle=handle) == {}
    assert failing(worker, "forward", handle=handle, inputs=[]).code == "bad_handle"

"""export of the user's own Python files, the good ones and those that misbehave."""

import json

import numpy as np
import pytest

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return torch.relu(self.linear(x))

def make():
    return Net(), (torch.ones(2, 4),)
"""

MISBEHAVED = {
    "raises": ("def make():\n    raise RuntimeError('no such weights')\n", "no such weights"),
    "exits": ("import sys\ndef make():\n    sys.exit(3)\n", "net.py"),
    "gives nothing": ("def make():\n    return None\n", "make"),
    "does not parse": ("def make(:\n", "net.py"),
    "needs what is not there": ("import nosuchmodule\ndef make():\n    pass\n", "nosuchmodule"),
}


def test_export(portwright, tmp_path, validator):
    (tmp_path / "net.py").write_text(NET)
    done = portwright("export", "net.py:make", "--opset", "18", "-o", "out", "--json", timeout=300).passes()
    validator("export", done.json)
    validator("export", json.loads((tmp_path / "out/export.json").read_text()))
    assert done.json["opset_produced"] == 18
    reference = np.load(tmp_path / "out/reference.npz")
    portwright("run", "out/model.onnx", "-i", "out/inputs.npz", "-o", "actual.npz").passes()
    actual = np.load(tmp_path / "actual.npz")
    for name in reference:
        np.testing.assert_allclose(actual[name], reference[name], atol=1e-5)
    portwright("compare", "actual.npz", "out/reference.npz").passes()


@pytest.mark.parametrize("kind", MISBEHAVED)
def test_a_factory_that_misbehaves(portwright, tmp_path, kind):
    text, word = MISBEHAVED[kind]
    (tmp_path / "net.py").write_text(text)
    done = portwright("export", "net.py:make", "-o", "out", timeout=300)
    assert done.code in (1, 2, 3, 4), done
    done.fails(done.code, word)
    assert "Traceback" not in done.err


def test_a_factory_that_prints_does_not_spoil_json(portwright, tmp_path):
    noisy = NET.replace("def make():", "def make():\n    import os\n    print('noise')\n    os.write(1, b'more noise')")
    (tmp_path / "net.py").write_text(noisy)
    done = portwright("export", "net.py:make", "-o", "out", "--json", timeout=300).passes()
    assert done.json["schema"] == "portwright/export/1"


@pytest.mark.parametrize("source", ["nowhere.py:make", "net.py:nosuch", "nosuchplugin:net", "torchvision:nosuchnet", "net"])
def test_a_source_that_is_not_there(portwright, tmp_path, source):
    (tmp_path / "net.py").write_text(NET)
    done = portwright("export", source, "-o", "out", timeout=300)
    assert done.code in (2, 4), done
    done.fails(done.code, source.split(":")[-1] if source.startswith("net.py") else source.split(":")[0])


def test_verbose_shows_the_users_own_lines(portwright, tmp_path):
    (tmp_path / "net.py").write_text(MISBEHAVED["raises"][0])
    done = portwright("export", "net.py:make", "-o", "out", "-v", timeout=300)
    assert "line 2" in done.err or "net.py:2" in done.err, done

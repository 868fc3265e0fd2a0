"""view: Netron serves the structure of a model."""

import os
import re
import select
import signal
import subprocess
import time
import urllib.request

import numpy as np
import onnx
from conftest import BINARY
from graphs import FLOAT, graph
from onnx import helper


def test_the_structure_is_served_and_nothing_is_left(tmp_path):
    weight = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    model = graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="product")], [("x", FLOAT, [1, 512])], [("y", FLOAT, [1, 512])], {"w": weight})
    onnx.save(model, tmp_path / "m.onnx")
    viewer = subprocess.Popen([BINARY, "view", "m.onnx"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        deadline, url = time.monotonic() + 60, None
        while url is None and time.monotonic() < deadline:
            if select.select([viewer.stdout], [], [], 1)[0]:
                url = re.search(r"http://\S+", viewer.stdout.readline())
        assert url, "no address was printed"
        address = url.group(0).rstrip("/")
        page = urllib.request.urlopen(address, timeout=10).read().decode()
        location = re.search(r'content="(/data/[^"]+)"', page).group(1)
        served = urllib.request.urlopen(address + location, timeout=10).read()
        assert len(served) < 10_000 < os.path.getsize(tmp_path / "m.onnx")
        assert onnx.load_from_string(served).graph.node[0].name == "product"
    finally:
        viewer.send_signal(signal.SIGINT)
        assert viewer.wait(20) == 0
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_what_cannot_be_viewed(portwright, tmp_path):
    portwright("view", "nowhere.onnx").fails(4, "nowhere.onnx")
    (tmp_path / "m.onnx").write_bytes(b"not a model")
    portwright("view", "m.onnx").fails(4, "m.onnx")

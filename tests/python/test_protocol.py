"""The process itself: frames, boxes, life and death."""

import os
import signal
import socket
import subprocess
import sys
import time
from importlib import metadata

import numpy as np
import pytest
from client import PYTHON, Crashed

SCALE = """
class Scale(nn.Module):
    def forward(self, x):
        return x * 2

def factory():
    return Scale(), torch.arange(6.0).reshape(2, 3)
"""


def test_hello_tells_versions_without_importing_torch(fresh):
    client = fresh()
    hello = client.call("hello")
    assert hello["versions"]["torch"] == metadata.version("torch")
    assert hello["devices"][0] == "cpu"
    assert hello["threads"] == len(os.sched_getaffinity(0))
    maps = open(f"/proc/{client.process.pid}/maps").read()
    assert "libtorch" not in maps


def test_unknown_operation_and_handle(worker, failing):
    assert failing(worker, "dance").code == "bad_request"
    assert failing(worker, "forward", handle=10**6, inputs=[]).code == "bad_handle"


def test_prints_and_input_do_not_disturb_the_protocol(fresh, source):
    file = source("""
    import os, sys
    print("from the file")
    os.write(1, b"raw bytes")

    def factory():
        print("from the factory", flush=True)
        print("an error", file=sys.stderr)
        try:
            input("what? ")
        except EOFError:
            pass
        return nn.Identity(), torch.ones(1)
    """)
    client = fresh()
    assert client.call("open", source=f"{file}:factory")["module_class"] == "Identity"
    assert client.close() == 0
    log = open(client._log.name).read()
    assert "raw bytes" in log and "from the factory" in log and "an error" in log


def test_user_folder_is_left_as_it_was(worker, source):
    source("SCALE = 2", "helper.py")
    file = source("import helper\n\ndef factory():\n    return nn.Identity(), torch.ones(helper.SCALE)")
    opened = worker.call("open", source=f"{file}:factory")
    assert sorted(os.listdir(file.parent)) == ["helper.py", "net.py"]
    assert [os.path.basename(f) for f in opened["python_files"]] == ["helper.py", "net.py"]


def test_exit_in_user_code_is_a_value(worker, failing, source):
    file = source("import sys\n\ndef factory():\n    sys.exit(7)")
    error = failing(worker, "open", source=f"{file}:factory")
    assert (error.code, error.fault, error.where) == ("source_exited", "input", "net.py:8")
    assert "sys.exit(7)" in error.message
    assert worker.call("hello")


def test_hard_exit_ends_the_worker(fresh, source):
    file = source("import os\n\ndef factory():\n    os._exit(9)")
    with pytest.raises(Crashed) as caught:
        fresh().call("open", source=f"{file}:factory")
    assert caught.value.args == (9,)


def test_sigterm_ends_it_and_sigint_does_not(fresh):
    client = fresh()
    client.call("hello")
    client.process.send_signal(signal.SIGINT)
    client.call("hello")
    client.process.terminate()
    assert client.process.wait(timeout=10) == -signal.SIGTERM


def test_it_ends_with_its_parent_even_while_busy(fresh, source):
    file = source("import time\n\ndef factory():\n    print('sleeping', flush=True)\n    time.sleep(600)")
    client = fresh()
    body = f'{{"id": 1, "op": "open", "source": "{file}:factory"}}'.encode()
    client._socket.sendall(len(body).to_bytes(4, "little") + body)
    while "sleeping" not in open(client._log.name).read():
        time.sleep(0.05)
    client._socket.shutdown(socket.SHUT_RDWR)
    client._socket.close()
    assert client.process.wait(timeout=10) == 0


def test_started_by_hand_it_says_so():
    command = [sys.executable, "-m", "portwright.worker"]
    ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(PYTHON)}, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.strip().endswith("descriptors 3, 4 and 5 open")


def test_boxes_grow_and_offsets_are_aligned(worker, source):
    file = source(SCALE)
    handle = worker.call("open", source=f"{file}:factory")["handle"]
    for count in (1, 1000, 3, 2_000_000):
        values = np.arange(count, dtype=np.float32)
        assert np.array_equal(worker.forward(handle, {"x": values})["output"], 2 * values)


@pytest.mark.parametrize(
    "dtype",
    "float32 float64 float16 int8 int16 int32 int64 uint8 bool complex64 complex128".split(),
)
def test_every_dtype_travels_unchanged(worker, source, dtype):
    file = source("def factory():\n    return nn.Identity(), {'input': torch.ones(1)}")
    handle = worker.call("open", source=f"{file}:factory")["handle"]
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    output = worker.forward(handle, {"input": values})["output"]
    assert output.dtype == values.dtype
    assert np.array_equal(output, values)


def test_scalars_and_empty_tensors_travel(worker, source):
    file = source("def factory():\n    return nn.Identity(), {'input': torch.ones(1)}")
    handle = worker.call("open", source=f"{file}:factory")["handle"]
    assert worker.forward(handle, {"input": np.float32(3)})["output"].shape == ()
    assert worker.forward(handle, {"input": np.zeros((0, 4), np.float32)})["output"].shape == (0, 4)


def test_bfloat16_travels(worker, source):
    file = source("def factory():\n    return nn.Identity(), {'input': torch.ones(1)}")
    handle = worker.call("open", source=f"{file}:factory")["handle"]
    bits = (np.array([1.5, -2, 0.25], np.float32).view(np.uint32) >> 16).astype(np.uint16)
    described = worker.put({"input": bits}, {"input": "bfloat16"})
    reply = worker.call("forward", handle=handle, inputs=described)
    assert reply["outputs"][0]["dtype"] == "bfloat16"
    assert worker.get(reply["outputs"])["output"].tolist() == [1.5, -2, 0.25]


def test_a_model_cannot_change_what_the_parent_staged(worker, source):
    file = source("""
    class Doubling(nn.Module):
        def forward(self, x):
            return x.mul_(2)

    def factory():
        return Doubling(), torch.ones(3)
    """)
    handle = worker.call("open", source=f"{file}:factory")["handle"]
    values = np.array([1, 2, 3], np.float32)
    staged = worker.put({"x": values})
    for runs in (1, 4, 1):
        reply = worker.call("forward", handle=handle, inputs=staged, runs=runs)
        assert worker.get(reply["outputs"])["output"].tolist() == [2, 4, 6]
    assert np.frombuffer(worker.staged()[:12], np.float32).tolist() == [1, 2, 3]

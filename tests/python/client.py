"""A worker as its parent sees it: a socket and two shared-memory boxes. The protocol is in src/base/process.h."""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

PYTHON = Path(__file__).resolve().parents[2] / "python"
_ALIGNMENT = 64


class WorkerError(Exception):
    """An error reply; its fields are those of the protocol."""

    def __init__(self, error: dict):
        super().__init__(json.dumps(error, indent=1))
        self.__dict__.update(error)


class Crashed(Exception):
    """The worker ended without an answer."""


def _receive(sock: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        part = sock.recv(count - len(parts))
        if not part:
            raise Crashed
        parts += part
    return parts


def _as_array(data: bytes, dtype: str, shape: list[int]) -> np.ndarray:
    if dtype == "bfloat16":  # the upper half of a float32
        wide = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).reshape(shape)
    return np.frombuffer(data, dtype).reshape(shape)


class Client:
    def __init__(self, log: Path, cwd: Path | None = None, path: list[Path] | None = None):
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._inbox, self._outbox = os.memfd_create("inbox"), os.memfd_create("outbox")
        wanted = {3: os.dup(theirs.fileno()), 4: os.dup(self._inbox), 5: os.dup(self._outbox)}
        high = {number: os.dup2(fd, 100 + number, inheritable=True) for number, fd in wanted.items()}
        moves = "; ".join(f"os.dup2({fd}, {number}); os.close({fd})" for number, fd in high.items())
        start = f"import os, sys; {moves}; os.execv(sys.executable, [sys.executable, '-m', 'portwright.worker'])"
        self._log = open(log, "ab")
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", start],
            pass_fds=list(high.values()),
            stdout=self._log,
            stderr=self._log,
            cwd=cwd,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(str, [PYTHON, *(path or [])])),
                "OMP_NUM_THREADS": "1",  # the models are tiny; threads would only wait for each other
            },
        )
        for fd in [*wanted.values(), *high.values()]:
            os.close(fd)
        theirs.close()
        self.notes: list[str] = []
        self._count = 0

    def call(self, op: str, **request) -> dict:
        self._count += 1
        body = json.dumps({"id": self._count, "op": op, **request}).encode()
        try:
            self._socket.sendall(struct.pack("<I", len(body)) + body)
            while True:
                reply = json.loads(_receive(self._socket, struct.unpack("<I", _receive(self._socket, 4))[0]))
                assert reply["id"] == self._count
                if "note" not in reply:
                    break
                self.notes.append(reply["note"])
        except (ConnectionError, Crashed):
            raise Crashed(self.process.wait(timeout=10)) from None
        if "error" in reply:
            raise WorkerError(reply["error"])
        return reply["ok"]

    def put(self, arrays: dict[str, np.ndarray], dtypes: dict[str, str] | None = None) -> list[dict]:
        """Places arrays into the inbox. `dtypes` names those whose dtype NumPy lacks (bfloat16 given as uint16)."""
        described, end, parts = [], 0, []
        for name, array in arrays.items():
            array = np.asarray(array, order="C")
            offset = -(-end // _ALIGNMENT) * _ALIGNMENT
            end = offset + array.nbytes
            parts.append((offset, array.tobytes()))
            dtype = (dtypes or {}).get(name, str(array.dtype))
            described.append({"name": name, "dtype": dtype, "shape": list(array.shape), "offset": offset})
        if end > os.fstat(self._inbox).st_size:
            os.ftruncate(self._inbox, end)
        for offset, data in parts:
            os.pwrite(self._inbox, data, offset)
        return described

    def get(self, described: list[dict] | None) -> dict[str, np.ndarray]:
        arrays = {}
        for entry in described or []:
            assert entry["offset"] % _ALIGNMENT == 0
            count = int(np.prod(entry["shape"], dtype=np.int64))
            width = 2 if entry["dtype"] == "bfloat16" else np.dtype(entry["dtype"]).itemsize
            data = os.pread(self._outbox, count * width, entry["offset"])
            arrays[entry["name"]] = _as_array(data, entry["dtype"], entry["shape"])
        return arrays

    def staged(self) -> mmap.mmap:
        """The inbox as the parent has it."""
        return mmap.mmap(self._inbox, os.fstat(self._inbox).st_size)

    def forward(self, handle: int, arrays: dict[str, np.ndarray], **request) -> dict[str, np.ndarray]:
        reply = self.call("forward", handle=handle, inputs=self.put(arrays), **request)
        return self.get(reply["outputs"])

    def close(self) -> int:
        self._socket.close()
        code = self.process.wait(timeout=20)
        os.close(self._inbox)
        os.close(self._outbox)
        self._log.close()
        return code

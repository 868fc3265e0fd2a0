"""The worker's end of the protocol that src/base/process.h documents: frames on a socket, tensors in shared memory."""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
from typing import Any

SOCKET, INBOX, OUTBOX = 3, 4, 5
_ALIGNMENT = 64


def plain(value: Any) -> Any:
    """A value that JSON can hold: NaN and Inf as the strings that records use."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


class Channel:
    """Frames: a little-endian 32-bit length, then that many bytes of JSON."""

    def __init__(self, fd: int = SOCKET):
        os.set_inheritable(fd, False)
        self._fd = fd

    def receive(self) -> dict | None:
        """The next message; None at the end of the stream."""
        head = self._read(4)
        if head is None:
            return None
        body = self._read(struct.unpack("<I", head)[0])
        return None if body is None else json.loads(body)

    def send(self, message: dict) -> None:
        body = json.dumps(plain(message), allow_nan=False).encode()
        view = memoryview(struct.pack("<I", len(body)) + body)
        while view:
            view = view[os.write(self._fd, view) :]

    def _read(self, count: int) -> bytes | None:
        parts = []
        while count:
            part = os.read(self._fd, min(count, 1 << 20))
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


class Inbox:
    """Shared memory that the parent writes. Tensors taken from it are views without a copy.

    The mapping is private: a model that changes its input in place never changes what the parent has staged. After
    such a change, call `forget` so that the next request sees the parent's bytes again.
    """

    def __init__(self, fd: int = INBOX):
        os.set_inheritable(fd, False)
        self._fd = fd
        self._map: mmap.mmap | None = None

    def take(self, described: list[dict]) -> dict:
        """The described tensors by name, in order."""
        import torch

        size = os.fstat(self._fd).st_size
        if size and (self._map is None or len(self._map) < size):
            self._map = mmap.mmap(self._fd, size, access=mmap.ACCESS_COPY)
        tensors = {}
        for entry in described:
            dtype, shape = getattr(torch, entry["dtype"]), entry["shape"]
            count = math.prod(shape)
            if count == 0:
                tensors[entry["name"]] = torch.empty(shape, dtype=dtype)
                continue
            flat = torch.frombuffer(self._map, dtype=dtype, count=count, offset=entry["offset"])
            tensors[entry["name"]] = flat.view(shape)
        return tensors

    def forget(self) -> None:
        self._map = None


class Outbox:
    """Shared memory that the worker writes; it only grows. What a reply put there is valid until the next request."""

    def __init__(self, fd: int = OUTBOX):
        os.set_inheritable(fd, False)
        self._fd = fd
        self._map: mmap.mmap | None = None

    def put(self, tensors: dict) -> list[dict]:
        """Copies named tensors into the box, from its start, and describes them."""
        import torch

        described, end = [], 0
        for name, tensor in tensors.items():
            offset = -(-end // _ALIGNMENT) * _ALIGNMENT
            end = offset + tensor.numel() * tensor.element_size()
            dtype = str(tensor.dtype).removeprefix("torch.")
            described.append({"name": name, "dtype": dtype, "shape": list(tensor.shape), "offset": offset})
        self._grow(end)
        for entry, tensor in zip(described, tensors.values()):
            if tensor.numel():
                box = torch.frombuffer(self._map, dtype=tensor.dtype, count=tensor.numel(), offset=entry["offset"])
                box.view(tensor.shape).copy_(tensor)
        return described

    def _grow(self, size: int) -> None:
        have = os.fstat(self._fd).st_size
        if size > have:
            os.ftruncate(self._fd, size)
            have = size
        if have and (self._map is None or len(self._map) < have):
            self._map = mmap.mmap(self._fd, have, access=mmap.ACCESS_WRITE)

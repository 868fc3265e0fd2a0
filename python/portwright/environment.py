"""The `hello` operation: what this interpreter has, without importing any of it."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from importlib import metadata

PACKAGES = ("torch", "torchvision", "transformers", "timm", "onnxscript", "numpy")


def version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def devices() -> list[str]:
    if "torch" in sys.modules:
        import torch

        return ["cpu"] + [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    if "+cpu" in (version("torch") or "+cpu"):
        return ["cpu"]
    count = ctypes.c_int(0)
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return ["cpu"]
    except OSError:
        return ["cpu"]
    return ["cpu"] + [f"cuda:{index}" for index in range(count.value)]


def op_hello(worker, request: dict) -> dict:
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "versions": {package: version(package) for package in PACKAGES},
        "devices": devices(),
        "threads": len(os.sched_getaffinity(0)),
    }

"""The operations open, close and sources."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import asdict, dataclass, field
from pathlib import Path

from portwright import sources
from portwright.environment import version
from portwright.failures import Failure, guarded
from portwright.networks import Network


def op_sources(worker, request: dict) -> dict:
    listed = []
    for name in sources.known():
        try:
            plugin = sources.find(name)
        except Failure as failure:  # a broken plugin must not hide the others
            listed.append({"name": name, "description": failure.message, "examples": [], "packages": {}})
            continue
        packages = {package: version(package) for package in plugin.PACKAGES}
        examples = list(plugin.EXAMPLES)
        listed.append({"name": name, "description": plugin.DESCRIPTION, "examples": examples, "packages": packages})
    return {"sources": listed}


def op_open(worker, request: dict) -> dict:
    from portwright.subject import make_subject

    worker.note(f"building {request['source']}")
    _seed(request.get("seed", 0))
    with guarded("open", "build_failed", "input"):
        built = _build(request["source"], request.get("config") or {})
        subject = make_subject(built.network, request.get("inputs") or [])
    given = {name: one.tensor for name, one in subject.inputs.items() if one.tensor is not None}
    return {
        "handle": worker.keep(subject),
        "module_class": type(subject.module).__name__,
        "python_files": [str(file) for file in built.files if file.suffix == ".py"],
        "data_files": [str(file) for file in built.files if file.suffix != ".py"],
        "source_digest": f"sha256:{built.digest}",
        "parameters": sum(parameter.numel() for parameter in subject.module.parameters()),
        "inputs": [one.to_json() for one in subject.inputs.values()],
        "dynamic": [_axis_json(axis, subject.inputs[axis.input].shape) for axis in subject.dynamic],
        "tensors": worker.outbox.put(given) if given else None,
        "output_names": None,
    }


def op_close(worker, request: dict) -> dict:
    import gc

    worker.drop(request["handle"])
    gc.collect()
    return {}


def _seed(seed: int) -> None:
    with guarded("open", "missing_package", "environment"):
        import numpy
        import torch
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _axis_json(axis, shape: list[int]) -> dict:
    entry = asdict(axis)
    example = shape[axis.axis]
    entry["opt"] = axis.opt if axis.opt is not None else example
    entry["max"] = axis.max if axis.max is not None else max(2 * example, 8)
    return entry


@dataclass
class _Built:
    network: Network
    digest: str  # of everything that decides what is built, the seed aside
    files: list[Path] = field(default_factory=list)  # the user's, read while building


def _build(source: str, config: dict) -> _Built:
    head, separator, name = source.rpartition(":")
    if separator and head.endswith(".py"):
        return _from_file(head, name)
    if source.endswith(".py"):
        raise Failure("usage", "bad_source", f"'{source}' names no factory", hint=f"write {source}:factory")
    plugin, separator, name = source.partition(":")
    if not separator or not name:
        hint = "write PLUGIN:NAME, such as torchvision:resnet18, or path/to/file.py:factory"
        raise Failure("usage", "bad_source", f"'{source}' is not a source", hint=hint)
    return _from_plugin(plugin, name, config)


def _from_file(path: str, factory: str) -> _Built:
    from portwright.reading import files_read
    from portwright.sources import python_file

    with files_read() as read:
        network, file = python_file.build(path, factory)
    files = sorted({file, *python_file.user_files(file.parent), *read})
    digest = hashlib.sha256(f"{file.name}:{factory}\n".encode())
    for used in files:
        digest.update(f"{used.name}\n".encode())
        with open(used, "rb") as stream:
            while part := stream.read(1 << 20):
                digest.update(part)
    return _Built(network, digest.hexdigest(), files)


def _from_plugin(plugin_name: str, name: str, config: dict) -> _Built:
    plugin = sources.find(plugin_name)
    with guarded("open", "build_failed", "input"):
        try:
            network = plugin.build(name, config)
        except LookupError as error:
            known = plugin.names()
            if name.partition("@")[0] in known:
                raise  # a fault of the library, not an unknown name
            hint = sources.close_matches(name.partition("@")[0], known)
            raise Failure("usage", "bad_source", f"{plugin_name} has no model '{name}'", hint=hint) from error
    packages = {package: version(package) for package in plugin.PACKAGES}
    text = json.dumps([plugin_name, name, packages, dict(network.config)], sort_keys=True, default=str)
    return _Built(network, hashlib.sha256(text.encode()).hexdigest())

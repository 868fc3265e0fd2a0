"""torchvision:NAME, every model that torchvision registers."""

from __future__ import annotations

from portwright.networks import Axis, Input, Network

DESCRIPTION = "torchvision's models: classification, segmentation, detection, video, optical flow"
PACKAGES = ("torchvision", "torch")
EXAMPLES = ("resnet18", "swin_t", "fcn_resnet50", "r3d_18", "raft_small")

_BATCH_MAX = 8


def names() -> list[str]:
    import torchvision

    return torchvision.models.list_models()


def _recipe(name: str):
    """The preprocessing and the description that come with the trained weights; nothing is downloaded."""
    import torchvision

    weights = torchvision.models.get_model_weights(name)
    best = getattr(weights, "DEFAULT", None) or next(iter(weights))
    return best.transforms(), best.meta


def _size(value) -> tuple[int, int]:
    pair = list(value) if isinstance(value, (list, tuple)) else [value]
    return (pair[0], pair[-1])


def _inputs(name: str, kind: str, parameter: str) -> tuple[dict, list[Axis]]:
    """What each family of models is called with, by the package that its builder lives in."""
    preset, meta = _recipe(name)
    if kind == "detection":
        return {"images": [Input((3, 320, 320), values="uniform(0,1)")]}, []
    if kind == "optical_flow":
        image = Input((1, 3, 128, 128), values="uniform(-1,1)")
        return {"image1": image, "image2": image}, []
    if kind == "video":
        frames = max(16, meta.get("min_temporal_size", 1))
        shape = (1, 3, frames, *_size(preset.crop_size))
    elif kind == "segmentation":
        shape = (1, 3, *_size(preset.resize_size))
    else:
        shape = (1, 3, *_size(preset.crop_size))
    return {parameter: Input(shape)}, [Axis(parameter, 0, "batch", 1, 1, _BATCH_MAX)]


def build(name: str, config: dict) -> Network:
    import inspect

    import torchvision

    if name not in names():
        raise LookupError(name)
    builder = torchvision.models.get_model_builder(name)
    offline = {"weights": None}
    if "weights_backbone" in inspect.signature(builder).parameters:
        offline["weights_backbone"] = None
    module = builder(**offline, **config)
    family = builder.__module__.split(".")[2]
    inputs, dynamic = _inputs(name, family, next(iter(inspect.signature(module.forward).parameters)))
    return Network(module, inputs, dynamic, {"name": name, **config})

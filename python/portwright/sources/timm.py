"""timm:NAME, every model that timm registers."""

from __future__ import annotations

from portwright.networks import Axis, Input, Network

DESCRIPTION = "timm's image classifiers and backbones"
PACKAGES = ("timm", "torch")
EXAMPLES = ("mobilenetv3_small_100", "vit_tiny_patch16_224", "convnext_atto")

_BATCH_MAX = 8


def names() -> list[str]:
    import timm

    return timm.list_models()


def build(name: str, config: dict) -> Network:
    import inspect

    import timm

    if not timm.is_model(name):
        raise LookupError(name)
    module = timm.create_model(name, pretrained=False, **config)
    shape = timm.data.resolve_data_config({}, model=module)["input_size"]
    image = next(iter(inspect.signature(module.forward).parameters))
    batch = [Axis(image, 0, "batch", 1, 1, _BATCH_MAX)]
    return Network(module, {image: Input((1, *shape))}, batch, {"name": name, **config})

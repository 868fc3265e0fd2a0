"""transformers:NAME[@task], library default configurations with random weights; nothing is downloaded.

NAME is a model type of transformers ("bert", "gpt2", "vit") or one of the ALIASES; @task picks the head.
"""

from __future__ import annotations

from typing import Any

from portwright.failures import Failure
from portwright.networks import Axis, Input, Network

DESCRIPTION = "Hugging Face transformers at their default configurations"
PACKAGES = ("transformers", "torch")
EXAMPLES = ("bert-base", "distilbert@text-classification", "gpt2", "llama-small", "t5", "vit")

# name -> (model type, changes to its default configuration)
ALIASES: dict[str, tuple[str, dict[str, Any]]] = {
    "albert-base": ("albert", {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}),
    "bert-base": ("bert", {}),
    "bert-small": (
        "bert",
        {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024},
    ),
    "distilbert-base": ("distilbert", {}),
    "electra-base": (
        "electra",
        {"embedding_size": 768, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
    ),
    "llama-small": (
        "llama",
        {
            "vocab_size": 4096,
            "hidden_size": 256,
            "intermediate_size": 688,
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "max_position_embeddings": 512,
        },
    ),
    "roberta-base": ("roberta", {}),
    "t5-small": ("t5", {}),
    "vit-base": ("vit", {}),
}

# task -> class of transformers
TASKS = {
    "base": "AutoModel",
    "causal-lm": "AutoModelForCausalLM",
    "ctc": "AutoModelForCTC",
    "depth-estimation": "AutoModelForDepthEstimation",
    "fill-mask": "AutoModelForMaskedLM",
    "image-classification": "AutoModelForImageClassification",
    "multiple-choice": "AutoModelForMultipleChoice",
    "object-detection": "AutoModelForObjectDetection",
    "question-answering": "AutoModelForQuestionAnswering",
    "semantic-segmentation": "AutoModelForSemanticSegmentation",
    "seq2seq-lm": "AutoModelForSeq2SeqLM",
    "speech-seq2seq": "AutoModelForSpeechSeq2Seq",
    "text-classification": "AutoModelForSequenceClassification",
    "text-generation": "AutoModelForCausalLM",
    "time-series": "AutoModelForTimeSeriesPrediction",
    "token-classification": "AutoModelForTokenClassification",
    "video-classification": "AutoModelForVideoClassification",
}

_SEQUENCE, _SEQUENCE_MAX, _BATCH_MAX = 32, 128, 4


def names() -> list[str]:
    from transformers import CONFIG_MAPPING

    return sorted({*CONFIG_MAPPING.keys(), *ALIASES})


def _configuration(name: str, overrides: dict):
    from transformers import CONFIG_MAPPING

    model_type, changes = ALIASES.get(name, (name, {}))
    if model_type not in CONFIG_MAPPING:
        raise LookupError(name)
    config = CONFIG_MAPPING[model_type](**{**changes, **overrides})
    for part in (config, getattr(config, "text_config", None), getattr(config, "decoder", None)):
        if hasattr(part, "use_cache"):
            part.use_cache = False  # a cache is state, not an output to compare
    return config


def _class_of(task: str, config):
    import transformers

    if task and task not in TASKS:
        from portwright.sources import close_matches

        raise Failure(
            "usage", "bad_source", f"transformers has no task '{task}'", hint=close_matches(task, sorted(TASKS))
        )
    if task:
        return getattr(transformers, TASKS[task])
    kind = type(config)
    for seq2seq in (transformers.AutoModelForSeq2SeqLM, transformers.AutoModelForSpeechSeq2Seq):
        if kind in seq2seq._model_mapping:
            return seq2seq
    causal, masked = transformers.AutoModelForCausalLM, transformers.AutoModelForMaskedLM
    # A model that only ever predicts the next token is of no use without that head.
    return causal if kind in causal._model_mapping and kind not in masked._model_mapping else transformers.AutoModel


def _check_size(factory, config) -> None:
    """Refuses what would not fit into memory; some defaults have many billions of parameters."""
    import os

    import torch

    with torch.device("meta"):
        count = sum(p.numel() for p in factory.from_config(config).parameters())
    have = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if 4 * count > have:
        raise Failure(
            "environment",
            "out_of_memory",
            f"the default configuration of '{config.model_type}' has {count / 1e9:.1f} billion parameters, "
            f"which take {4 * count / 2**30:.0f} GiB; {have / 2**30:.0f} GiB are free",
            hint="write a factory with a smaller configuration (path/to/file.py:factory)",
        )


def build(name: str, config: dict) -> Network:
    name, _, task = name.partition("@")
    settings = _configuration(name, config)
    factory = _class_of(task, settings)
    if type(settings) not in factory._model_mapping:
        raise Failure(
            "usage", "bad_source", f"transformers has no {factory.__name__} for '{name}'", hint="choose another @task"
        )
    _check_size(factory, settings)
    module = factory.from_config(settings).float()
    inputs, dynamic = _inputs(module, settings)
    return Network(module, inputs, dynamic, {"name": name, "task": task, "settings": settings.to_dict()})


def _tokens(config) -> Input:
    vocabulary = getattr(config.get_text_config(), "vocab_size", 1000)
    return Input((1, _SEQUENCE), "int64", f"tokens(0,{vocabulary})")


def _text_axes(names: list[str], sequence: str, batch: bool, longest: int) -> list[Axis]:
    axes = [Axis(name, 1, sequence, 1, _SEQUENCE, longest) for name in names]
    return axes + ([Axis(name, 0, "batch", 1, 1, _BATCH_MAX) for name in names] if batch else [])


def _longest(config) -> int:
    return min(_SEQUENCE_MAX, getattr(config.get_text_config(), "max_position_embeddings", None) or _SEQUENCE_MAX)


def _image(config) -> Input:
    vision = getattr(config, "vision_config", config)
    side = getattr(vision, "image_size", None) or 224
    height, width = side if isinstance(side, (list, tuple)) else (side, side)
    return Input((1, getattr(vision, "num_channels", 3), height, width))


def _inputs(module, config) -> tuple[dict[str, Any], list[Axis]]:
    """By the main input that the library declares for the class."""
    import inspect

    parameters = inspect.signature(module.forward).parameters
    main = module.main_input_name
    decoder = (
        {"decoder_input_ids": _tokens(config)}
        if "decoder_input_ids" in parameters and config.is_encoder_decoder
        else {}
    )
    decoder_axes = _text_axes(list(decoder), "target", False, _longest(config))
    if main == "pixel_values" or "pixel_values" in parameters and hasattr(config, "vision_config"):
        text = {"input_ids": _tokens(config)} if "input_ids" in parameters else {}
        batch = [] if text else [Axis("pixel_values", 0, "batch", 1, 1, _BATCH_MAX)]
        return {**text, "pixel_values": _image(config)}, batch
    if main == "input_values":
        return {"input_values": Input((1, 16000))}, [Axis("input_values", 0, "batch", 1, 1, _BATCH_MAX)]
    if main == "input_features":
        frames = 2 * getattr(config, "max_source_positions", 1500)
        return {"input_features": Input((1, getattr(config, "num_mel_bins", 80), frames)), **decoder}, decoder_axes
    if main != "input_ids":
        hint = "write a factory that gives its example inputs (path/to/file.py:factory), or give --input"
        raise Failure(
            "usage", "bad_source", f"no inputs are known for {type(module).__name__} (it takes '{main}')", hint=hint
        )
    tokens = {"input_ids": _tokens(config)}
    if decoder:
        return {**tokens, **decoder}, _text_axes(["input_ids"], "sequence", False, _longest(config)) + decoder_axes
    if type(module).__name__.endswith(("ForCausalLM", "LMHeadModel")):
        return tokens, _text_axes(["input_ids"], "sequence", False, _longest(config))
    tokens["attention_mask"] = Input((1, _SEQUENCE), "int64", "mask")
    return tokens, _text_axes(list(tokens), "sequence", True, _longest(config))

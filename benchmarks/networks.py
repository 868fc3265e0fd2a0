"""Real networks through check and simplify, against onnxsim and onnxslim: nodes left, equality, false findings.

    make networks                            forty networks, each by both exporters where they work (about an hour)
    .venv/bin/python benchmarks/networks.py --peers DIR --only 'timm:*' --exporter dynamo

Every network comes from torchvision, timm or transformers with random weights. For each: the nodes that each simplifier
leaves, whether Portwright's result is proven equal, and the errors that check finds (there should be none: the exporters'
models are valid).
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PORTWRIGHT = ROOT / "build" / "portwright"

NETWORKS = [
    *[
        f"torchvision:{name}"
        for name in (
            "alexnet", "vgg11_bn", "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "densenet121",
            "squeezenet1_1", "mobilenet_v2", "mobilenet_v3_small", "mnasnet0_5", "shufflenet_v2_x0_5", "googlenet",
            "inception_v3", "efficientnet_b0", "efficientnet_v2_s", "regnet_y_400mf", "convnext_tiny", "swin_t",
            "vit_b_16", "maxvit_t",
        )
    ],
    *[
        f"timm:{name}"
        for name in (
            "mobilenetv3_small_100", "ghostnet_100", "repvgg_a0", "hardcorenas_a", "lcnet_050", "mixer_s32_224",
            "resmlp_12_224", "deit_tiny_patch16_224", "cait_xxs24_224", "xcit_nano_12_p16_224", "poolformer_s12",
            "levit_128s", "edgenext_xx_small",
        )
    ],
    *[
        f"transformers:{name}"
        for name in ("bert-small", "distilbert", "albert", "roberta", "gpt2@causal-lm", "llama-small@causal-lm")
    ],
]


def ran(command: list, timeout: float = 900) -> bool:
    try:
        return subprocess.run([str(part) for part in command], capture_output=True, timeout=timeout).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def said(command: list) -> dict:
    done = subprocess.run([str(part) for part in [PORTWRIGHT, *command, "--json"]], capture_output=True, text=True)
    return json.loads(done.stdout)


def nodes(file: pathlib.Path) -> int | None:
    import onnx

    def count(graph) -> int:
        inner = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
        return len(graph.node) + sum(map(count, inner))

    return count(onnx.load(str(file), load_external_data=False).graph) if file.exists() else None


def examine(source: str, exporter: str, peers: pathlib.Path, folder: pathlib.Path) -> dict | None:
    """None when the exporter does not take the network."""
    if not ran([PORTWRIGHT, "export", source, "--exporter", exporter, "-o", folder / "m", "-q"]):
        return None
    model = folder / "m" / "model.onnx"
    found = [f for f in said(["check", model]).get("findings", []) if f["severity"] == "error"]
    ours = said(["simplify", model, "-o", folder / "ours.onnx"])
    row = {
        "network": source,
        "exporter": exporter,
        "before": nodes(model),
        "ours": ours.get("nodes_after"),
        "proof": (ours.get("proof") or {}).get("verdict", "error"),
        "max_abs": (ours.get("proof") or {}).get("max_abs"),
        "excluded": ours.get("excluded_passes", []),
        "errors": [f["message"] for f in found],
    }
    for peer in ("onnxsim", "onnxslim"):
        ran([peers / peer, model, folder / f"{peer}.onnx"])
        row[peer] = nodes(folder / f"{peer}.onnx")
    return row


def verdict(row: dict) -> str:
    best = min((row[peer] for peer in ("onnxsim", "onnxslim") if row[peer] is not None), default=None)
    problems = []
    if row["proof"] != "passed":
        problems.append(f"proof {row['proof']}")
    if row["excluded"]:
        problems.append("left out " + ", ".join(row["excluded"]))
    if best is not None and row["ours"] is not None and row["ours"] > best:
        problems.append(f"{row['ours'] - best} nodes more than the best")
    if row["errors"]:
        problems.append("check: " + row["errors"][0])
    return "; ".join(problems) or "ok"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=pathlib.Path, required=True, help="folder of the peers' programs")
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--exporter", action="append", choices=("dynamo", "torchscript"))
    options = parser.parse_args()
    print("| network | exporter | before | Portwright | onnxsim | onnxslim | max abs | |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |")
    bad = seen = 0
    for source in NETWORKS:
        if not fnmatch.fnmatch(source, options.only):
            continue
        for exporter in options.exporter or ("dynamo", "torchscript"):
            with tempfile.TemporaryDirectory() as scratch:
                row = examine(source, exporter, options.peers, pathlib.Path(scratch))
            if row is None:
                print(f"| {source} | {exporter} | not exported | | | | | |", flush=True)
                continue
            seen += 1
            bad += verdict(row) != "ok"
            cells = [row[key] if row[key] is not None else "failed" for key in ("before", "ours", "onnxsim", "onnxslim", "max_abs")]
            print(f"| {source} | {exporter} | " + " | ".join(map(str, cells)) + f" | {verdict(row)} |", flush=True)
    print(f"\n{seen} models, {seen - bad} as they should be")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

"""simplify against onnxsim and onnxslim: wall time, peak memory and nodes left, on real networks in one interleaved run.

    make bench-model            installs the peers into a virtual environment of their own and runs this

Each program is run as users run it: one process a model. Peak memory is that of the largest process of the run.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PORTWRIGHT = ROOT / "build" / "portwright"

SOURCES = {
    "ResNet-50": "torchvision:resnet50",
    "ViT-B/16": "torchvision:vit_b_16",
    "Swin-T": "torchvision:swin_t",
    "BERT-base": "transformers:bert-base",
    "Llama (small)": "transformers:llama-small@causal-lm",
}


def measured(command: list) -> tuple[float, float]:
    """(seconds, megabytes at most) of a process and its children."""
    read, write = os.pipe()
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        with open(os.devnull, "wb") as nothing:
            code = subprocess.run(command, stdout=nothing, stderr=nothing).returncode
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        os.write(write, f"{code} {peak}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    seconds = time.perf_counter() - start
    code, peak = os.read(read, 64).split()
    os.close(read)
    os.close(write)
    if int(code) != 0:
        raise RuntimeError(f"{command[0]} failed with {int(code)}")
    return seconds, int(peak) / 1024


def nodes(file: pathlib.Path) -> int:
    import onnx

    return len(onnx.load(str(file), load_external_data=False).graph.node)


def compare(model: pathlib.Path, peers: pathlib.Path, rounds: int, folder: pathlib.Path) -> dict[str, tuple]:
    commands = {
        "portwright": [PORTWRIGHT, "simplify", model, "-o", folder / "portwright.onnx", "--no-proof"],
        "portwright, proven": [PORTWRIGHT, "simplify", model, "-o", folder / "portwright, proven.onnx"],
        "onnxsim": [peers / "onnxsim", model, folder / "onnxsim.onnx"],
        "onnxslim": [peers / "onnxslim", model, folder / "onnxslim.onnx"],
    }
    figures: dict[str, list] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            try:
                figures[name].append(measured([str(part) for part in command]))
            except RuntimeError as failure:
                print(f"  {failure}", file=sys.stderr)
    return {
        name: (statistics.median(s for s, _ in runs), max(m for _, m in runs), nodes(folder / f"{name}.onnx"))
        for name, runs in figures.items()
        if runs
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=pathlib.Path, required=True, help="folder of the peers' programs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=SOURCES)
    options = parser.parse_args()
    print("| model | program | seconds | peak MB | nodes left | time against the faster peer |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for title in options.only or SOURCES:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            subprocess.run([PORTWRIGHT, "export", SOURCES[title], "-o", folder / "m", "-q"], check=True)
            found = compare(folder / "m" / "model.onnx", options.peers, options.rounds, folder)
        fastest = min(found[name][0] for name in ("onnxsim", "onnxslim") if name in found)
        for name, (seconds, megabytes, left) in found.items():
            print(f"| {title} | {name} | {seconds:.2f} | {megabytes:.0f} | {left} | {seconds / fastest:.2f}x |", flush=True)


if __name__ == "__main__":
    main()

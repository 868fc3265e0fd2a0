"""simplify, check and inspect against onnxsim, onnxslim, Polygraphy and onnx.checker, in interleaved rounds.

    make bench-model            installs the peers into a virtual environment of their own and runs this
    .venv/bin/python benchmarks/model.py --peers DIR --part simplify --only BERT-base

Each program is run as users run it: one process a model. Peak memory is that of the largest process of the run.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import made_models

ROOT = pathlib.Path(__file__).resolve().parents[1]
PORTWRIGHT = ROOT / "build" / "portwright"

SOURCES = {
    "ResNet-50": "torchvision:resnet50",
    "ViT-B/16": "torchvision:vit_b_16",
    "Swin-T": "torchvision:swin_t",
    "BERT-base": "transformers:bert-base",
    "Llama (small)": "transformers:llama-small@causal-lm",
}

SIM_CHECK = ["3"]  # onnxsim's own check, on three random inputs


# Starts the program given and says, as JSON, how it ended, its seconds, and the kilobytes of its largest process. A small
# process of its own, because what a program's parent had in memory when it forked counts as the program's.
LAUNCHER = """
import json, os, resource, sys, time
start = time.perf_counter()
nothing = os.open(os.devnull, os.O_WRONLY)
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nothing, 1), (os.POSIX_SPAWN_DUP2, nothing, 2)])
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps([status, time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""


def measured(command: list) -> tuple[float, float]:
    """(seconds, megabytes at most) of a process and its children."""
    launched = subprocess.run([sys.executable, "-S", "-E", "-c", LAUNCHER, *command], capture_output=True, check=True)
    code, seconds, peak = json.loads(launched.stdout)
    if code != 0:
        raise RuntimeError(f"{command[0]} failed with {code}")
    return seconds, peak / 1024


def nodes(file: pathlib.Path) -> int:
    import onnx

    return len(onnx.load(str(file), load_external_data=False).graph.node)


def table(commands: dict[str, list], rounds: int) -> dict[str, tuple[float, float]]:
    """Median seconds and most megabytes of each command, in interleaved rounds; those that fail are left out."""
    figures: dict[str, list] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            try:
                figures[name].append(measured([str(part) for part in command]))
            except RuntimeError as failure:
                print(f"  {name}: {failure}", file=sys.stderr)
    return {
        name: (statistics.median(s for s, _ in runs), max(m for _, m in runs)) for name, runs in figures.items() if runs
    }


def export(title: str, models: pathlib.Path) -> pathlib.Path:
    folder = models / title.split()[0].replace("/", "-").lower()
    if not (folder / "model.onnx").exists():
        subprocess.run([PORTWRIGHT, "export", SOURCES[title], "-o", folder, "-q"], check=True)
    return folder / "model.onnx"


def simplify(options, scratch: pathlib.Path) -> None:
    print("\n| simplify | program | seconds | peak MB | nodes left | time / faster of onnxsim, onnxslim | memory / lower |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for title in options.only or SOURCES:
        model = export(title, options.models)
        commands = {
            "portwright": [PORTWRIGHT, "simplify", model, "-o", scratch / "portwright.onnx", "--no-proof"],
            "portwright, proven": [PORTWRIGHT, "simplify", model, "-o", scratch / "portwright, proven.onnx"],
            "onnxsim": [options.peers / "onnxsim", model, scratch / "onnxsim.onnx"],
            "onnxsim, checked": [options.peers / "onnxsim", model, scratch / "onnxsim, checked.onnx", *SIM_CHECK],
            "onnxslim": [options.peers / "onnxslim", model, scratch / "onnxslim.onnx"],
            "polygraphy": [
                options.peers / "polygraphy", "surgeon", "sanitize", model, "--fold-constants", "-o", scratch / "polygraphy.onnx",
            ],
        }  # fmt: skip
        found = table(commands, options.rounds)
        peers = [found[name] for name in ("onnxsim", "onnxslim") if name in found]
        fastest, smallest = min(s for s, _ in peers), min(m for _, m in peers)
        for name, (seconds, megabytes) in found.items():
            left = nodes(scratch / f"{name}.onnx")
            ratios = f"{seconds / fastest:.3f} | {megabytes / smallest:.3f}"
            print(f"| {title} | {name} | {seconds:.2f} | {megabytes:.0f} | {left} | {ratios} |", flush=True)


def check(options, scratch: pathlib.Path) -> None:
    print("\n| check | program | seconds | peak MB | time / onnx.checker | memory / onnx.checker |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    program = "import onnx, sys; onnx.checker.check_model(sys.argv[1], full_check=True)"
    for title in options.only or SOURCES:
        model = export(title, options.models)
        commands = {
            "portwright": [PORTWRIGHT, "check", model],
            "onnx.checker": [options.peers / "python", "-c", program, model],
        }
        found = table(commands, options.rounds)
        peer = found.get("onnx.checker")
        for name, (seconds, megabytes) in found.items():
            ratios = f"{seconds / peer[0]:.3f} | {megabytes / peer[1]:.3f}" if peer else "fails | fails"
            print(f"| {title} | {name} | {seconds:.2f} | {megabytes:.0f} | {ratios} |", flush=True)


def large(options, scratch: pathlib.Path) -> None:
    print("\n| 5.4 GB Llama-like model | seconds | peak MB |\n| --- | ---: | ---: |")
    model = scratch / "llama.onnx"
    made_models.llama_like(model)
    for verb in ("check", "inspect", "simplify"):
        command = [PORTWRIGHT, verb, model]
        if verb == "simplify":
            command += ["-o", scratch / "out.onnx", "--no-proof"]
        seconds, megabytes = measured([str(part) for part in command])
        print(f"| {verb} | {seconds:.2f} | {megabytes:.0f} |", flush=True)


def growth(options, scratch: pathlib.Path) -> None:
    print("\n| nodes | simplify s | check s | inspect s | simplify ms for 1000 nodes | onnxsim s | onnxslim s |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for count in (1_000, 3_000, 10_000, 30_000, 100_000):
        model = scratch / "chain.onnx"
        made_models.long_chain(model, count)
        commands = {
            "simplify": [PORTWRIGHT, "simplify", model, "-o", scratch / "out.onnx", "--no-proof"],
            "check": [PORTWRIGHT, "check", model],
            "inspect": [PORTWRIGHT, "inspect", model],
        }
        if count <= 3_000:  # the peers take minutes beyond
            commands |= {peer: [options.peers / peer, model, scratch / "peer.onnx"] for peer in ("onnxsim", "onnxslim")}
        found = {name: seconds for name, (seconds, _) in table(commands, 1).items()}
        cells = [f"{found[name]:.2f}" if name in found else "-" for name in ("simplify", "check", "inspect")]
        peers = [f"{found[name]:.2f}" if name in found else "-" for name in ("onnxsim", "onnxslim")]
        print(f"| {count} | " + " | ".join([*cells, f"{found['simplify'] / count * 1e6:.0f}", *peers]) + " |", flush=True)


PARTS = {"simplify": simplify, "check": check, "large": large, "growth": growth}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=pathlib.Path, required=True, help="folder of the peers' programs")
    parser.add_argument("--models", type=pathlib.Path, help="where exported models are kept for the next time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=SOURCES)
    parser.add_argument("--part", action="append", choices=PARTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        options.models = options.models or pathlib.Path(scratch) / "models"
        for part in options.part or PARTS:
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                PARTS[part](options, pathlib.Path(folder))


if __name__ == "__main__":
    main()

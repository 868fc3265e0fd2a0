"""Portwright's own share of a port's wall time: everything outside PyTorch, the engines and the measuring loop.

    .venv/bin/python benchmarks/port_own.py [SOURCE]

Bound: at most 5 % of `port torchvision:resnet18`. The share is `own_s / wall_s` of port.json.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main() -> None:
    source = sys.argv[1] if len(sys.argv) > 1 else "torchvision:resnet18"
    with tempfile.TemporaryDirectory() as folder:
        command = [ROOT / "build/portwright", "port", source, "--dynamic", "x.0=batch:1..8..32", "-q", "-o", f"{folder}/out"]
        for target in ("onnxruntime:fp32", "openvino:fp32"):
            command += ["--target", target]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        record = json.loads(pathlib.Path(folder, "out/port.json").read_text())
    share = record["own_s"] / record["wall_s"]
    result = {"source": source, "wall_s": round(record["wall_s"], 1), "own_s": round(record["own_s"], 2), "share": round(share, 4)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()

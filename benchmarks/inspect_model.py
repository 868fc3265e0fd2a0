"""`portwright inspect` against `onnx.load` plus printing, on a BERT-base of 440 MB.

    benchmarks/inspect_model.py [--program build/portwright] [--model FILE.onnx] [--rounds 7] [--json]

Both are whole processes, started in turns (A B A B ...). For ONNX's package the time of importing it does not count: only
what onnx.load() and printing the graph take. Memory is the largest resident size of each process. Medians are shown.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PEER = """
import sys, time
import onnx
begin = time.perf_counter()
model = onnx.load(sys.argv[1])
text = onnx.helper.printable_graph(model.graph)
print(text)
print(time.perf_counter() - begin, file=sys.stderr)
"""


def write_bert(path: Path) -> None:
    """The graph of BERT-base (12 layers of 768, vocabulary 30522) with random weights inside the file."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    nodes, weights = [], []

    def weight(name, *shape):
        values = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
        weights.append(numpy_helper.from_array(values, name))
        return name

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], name=f"node_{len(nodes)}", **attributes))
        return output

    def linear(x, name, rows, columns):
        product = node("MatMul", [x, weight(f"{name}.weight", rows, columns)], f"{name}.product")
        return node("Add", [product, weight(f"{name}.bias", columns)], f"{name}.out")

    def norm(x, name):
        return node("LayerNormalization", [x, weight(f"{name}.scale", 768), weight(f"{name}.bias", 768)], f"{name}.out", axis=-1)

    def heads(x, name):
        shaped = node("Reshape", [x, "split"], f"{name}.split")
        return node("Transpose", [shaped], f"{name}.heads", perm=[0, 2, 1, 3])

    weights.append(numpy_helper.from_array(np.array([0, 0, 12, 64], np.int64), "split"))
    weights.append(numpy_helper.from_array(np.array([0, 0, 768], np.int64), "merge"))
    weights.append(numpy_helper.from_array(np.array(0.125, np.float32), "scale"))
    x = norm(node("Gather", [weight("words", 30522, 768), "ids"], "embedded"), "embeddings")
    for i in range(12):
        q, k, v = (heads(linear(x, f"l{i}.{part}", 768, 768), f"l{i}.{part}") for part in "qkv")
        turned = node("Transpose", [k], f"l{i}.turned", perm=[0, 1, 3, 2])
        scores = node("Mul", [node("MatMul", [q, turned], f"l{i}.scores"), "scale"], f"l{i}.scaled")
        mixed = node("MatMul", [node("Softmax", [scores], f"l{i}.share", axis=-1), v], f"l{i}.mixed")
        merged = node("Transpose", [mixed], f"l{i}.side", perm=[0, 2, 1, 3])
        attended = linear(node("Reshape", [merged, "merge"], f"l{i}.merged"), f"l{i}.o", 768, 768)
        x = norm(node("Add", [x, attended], f"l{i}.sum1"), f"l{i}.norm1")
        wide = node("Gelu", [linear(x, f"l{i}.up", 768, 3072)], f"l{i}.gelu")
        x = norm(node("Add", [x, linear(wide, f"l{i}.down", 3072, 768)], f"l{i}.sum2"), f"l{i}.norm2")
    node("Identity", [x], "y")
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", 768])
    graph = helper.make_graph(nodes, "bert", [ids], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


def run(command: list[str]) -> tuple[float, int, str]:
    """Wall seconds, peak resident bytes and standard error of a process."""
    with tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - begin
        errors.seek(0)
        text = errors.read().decode()
    if status != 0:
        sys.exit(f"{command} ended with {status}:\n{text}")
    return seconds, usage.ru_maxrss * 1024, text


def measure(program: str, model: Path, rounds: int) -> dict:
    ours, theirs = [], []
    for _ in range(rounds + 1):  # the first round fills the page cache
        seconds, memory, _ = run([program, "inspect", str(model), "--json"])
        ours.append((seconds, memory))
        _, memory, text = run([sys.executable, "-c", PEER, str(model)])
        theirs.append((float(text.split()[-1]), memory))

    def medians(pairs):
        return {"seconds": statistics.median(p[0] for p in pairs[1:]), "memory": statistics.median(p[1] for p in pairs[1:])}

    a, b = medians(ours), medians(theirs)
    return {
        "model_bytes": model.stat().st_size,
        "rounds": rounds,
        "portwright": a,
        "onnx": b,
        "times_faster": b["seconds"] / a["seconds"],
        "times_less_memory": b["memory"] / a["memory"],
    }


def main() -> None:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(root / "build/portwright"))
    parser.add_argument("--model", type=Path, help="an .onnx file; by default a BERT-base is written to a temporary folder")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", type=Path, help="only write the BERT-base there")
    options = parser.parse_args()
    if options.write is not None:
        write_bert(options.write)
        return
    with tempfile.TemporaryDirectory(prefix="portwright-inspect-") as folder:
        model = options.model or Path(folder) / "bert.onnx"
        if options.model is None:
            # In a process of its own: a child's largest resident size begins with that of the process that starts it.
            subprocess.run([sys.executable, __file__, "--write", str(model)], check=True)
        result = measure(options.program, model, options.rounds)
    if options.json:
        print(json.dumps(result))
        return
    for name in ("portwright", "onnx"):
        print(f"{name:12} {result[name]['seconds'] * 1e3:8.1f} ms {result[name]['memory'] / 2**20:8.1f} MB")
    print(f"inspect is {result['times_faster']:.1f} times faster and takes {result['times_less_memory']:.1f} times less memory")


if __name__ == "__main__":
    main()

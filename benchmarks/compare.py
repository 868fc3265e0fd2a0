"""`portwright compare` on two 400 MB float32 arrays, against reading the files and against NumPy.

    benchmarks/compare.py [--program build/portwright] [--rows 100000] [--rounds 7] [--json]

Three things take turns (A B C A B C ...), with the files in the page cache: reading both files into memory; NumPy
computing the same metrics on arrays that it has already loaded; `portwright compare`, the whole process from start to
exit, reading included. Once with files as Portwright writes them (arrays aligned in the file, so they are used where they
lie), once as numpy.savez writes them (arrays that must be copied). Medians are shown.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np

COLUMNS = 1000
ALIGNMENT = 64


def write_aligned(path: Path, array: np.ndarray) -> None:
    """The layout of Portwright's own files: an extra field pads the header, so that the elements are aligned."""
    info = zipfile.ZipInfo("y.npy")
    header = 30 + len(info.filename) + 20  # local header, name, ZIP64 sizes
    padding = -(header + 4) % ALIGNMENT
    info.extra = (0xD935).to_bytes(2, "little") + padding.to_bytes(2, "little") + bytes(padding)
    with zipfile.ZipFile(path, "w") as archive, archive.open(info, "w", force_zip64=True) as entry:
        np.lib.format.write_array(entry, array)


def make_arrays(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    reference = rng.standard_normal((rows, COLUMNS), dtype=np.float32)
    actual = reference + rng.standard_normal((rows, COLUMNS), dtype=np.float32) * np.float32(1e-4)
    return actual, reference


def numpy_metrics(a: np.ndarray, r: np.ndarray, rtol: float = 1e-3, atol: float = 1e-3) -> dict:
    """What compare reports, written as one writes it in NumPy: in float32, with sums in float64."""
    d, size = np.abs(a - r), np.abs(r)
    finite_a, finite_r = np.isfinite(a), np.isfinite(r)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(size > 0, d / size, 0)
    dd, aa, rr = (np.sum(np.square(x), dtype=np.float64) for x in (d, a, r))
    worst = np.unravel_index(np.argmax(d), d.shape)
    return {
        "nonfinite": {"actual": int(a.size - finite_a.sum()), "reference": int(r.size - finite_r.sum())},
        "max_abs": float(d[worst]),
        "max_rel": float(relative.max()),
        "mean_abs": float(d.mean(dtype=np.float64)),
        "rmse": float(np.sqrt(dd / d.size)),
        "cosine": float(np.sum(a * r, dtype=np.float64) / np.sqrt(aa * rr)),
        "snr_db": float(10 * np.log10(rr / dd)),
        "out_of_tolerance": int(np.count_nonzero(d > atol + rtol * size)),
        "top1_agreement": float((np.argmax(a, axis=1) == np.argmax(r, axis=1)).mean()),
        "worst": [int(i) for i in worst],
        "constant": bool((a == a.flat[0]).all()),
    }


def seconds_of(work) -> tuple[float, object]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def compare(program: str, files: list[Path]) -> dict:
    command = [program, "compare", *map(str, files), "--json"]
    finished = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(finished.stdout)["outputs"][0]


def expect_same(ours: dict, numpys: dict) -> None:
    """Both must have computed the same thing; NumPy's float32 steps cost it a few digits."""
    for key, value in numpys.items():
        got = ours["worst"]["index"] if key == "worst" else ours[key]
        same = np.isclose(got, value, rtol=1e-3) if isinstance(value, float) else got == value
        if not same:
            sys.exit(f"{key}: portwright says {got}, NumPy {value}")


def measure(program: str, rows: int, rounds: int) -> dict:
    arrays = make_arrays(rows)
    with tempfile.TemporaryDirectory(prefix="portwright-compare-") as folder:
        files = {kind: [Path(folder) / f"{kind}-{side}.npz" for side in ("actual", "reference")] for kind in ("own", "numpy")}
        for i, array in enumerate(arrays):
            write_aligned(files["own"][i], array)
            np.savez(files["numpy"][i], y=array)
        work = {
            "read": lambda: [path.read_bytes() for path in files["own"]] and None,
            "numpy": lambda: numpy_metrics(*arrays),
            "portwright": lambda: compare(program, files["own"]),
            "portwright, numpy.savez": lambda: compare(program, files["numpy"]),
        }
        times = {name: [] for name in work}
        for _ in range(rounds + 1):  # the first round warms up
            results = {}
            for name, action in work.items():
                seconds, results[name] = seconds_of(action)
                times[name].append(seconds)
        expect_same(results["portwright"], results["numpy"])
        expect_same(results["portwright, numpy.savez"], results["numpy"])
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}
    return {
        "bytes": sum(array.nbytes for array in arrays),
        "rounds": rounds,
        "seconds": medians,
        "of_reading": medians["portwright"] / medians["read"],
        "of_reading_numpy_savez": medians["portwright, numpy.savez"] / medians["read"],
        "times_faster_than_numpy": medians["numpy"] / medians["portwright"],
        "times_faster_than_numpy_savez": medians["numpy"] / medians["portwright, numpy.savez"],
    }


def main() -> None:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(root / "build/portwright"))
    parser.add_argument("--rows", type=int, default=100_000, help=f"of {COLUMNS} float32 each (default: 100000, 400 MB)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options.program, options.rows, options.rounds)
    if options.json:
        print(json.dumps(result))
        return
    for name, seconds in result["seconds"].items():
        print(f"{name:24} {seconds * 1e3:8.1f} ms")
    print(f"compare takes {result['of_reading']:.2f} times as long as reading both files into memory "
          f"({result['of_reading_numpy_savez']:.2f} when numpy.savez wrote them)")
    print(f"and is {result['times_faster_than_numpy']:.1f} times faster than NumPy "
          f"({result['times_faster_than_numpy_savez']:.1f})")


if __name__ == "__main__":
    main()

"""NumPy's side of compare_test.cc: makes pairs of arrays, and computes every metric again from its definition.

make DIR     actual.npz and reference.npz: every dtype, awkward sizes, NaN and Inf, huge and tiny values
check DIR    compares every metrics*.json, which Portwright wrote about them, with the definitions
"""
import json
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

FLOATS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
# Around the loops' steps (4, 8, 16), the block (4096) and the chunk (262144).
SHAPES = [(), (1,), (2,), (3,), (15,), (16,), (17,), (33,), (4095,), (4096,), (4097,), (3, 5, 7), (100003,), (262145,),
          (11, 1), (1, 11), (300, 10), (64, 1000), (5, 8195), (0,), (3, 0), (0, 3)]


def make(folder):
    rng = np.random.default_rng(20240607)
    pairs = {}

    def noisy(shape, dtype, scale=1.0, noise=1e-3):
        reference = (rng.standard_normal(shape) * scale).astype(dtype)
        actual = (reference.astype(np.float64) + rng.standard_normal(shape) * noise * scale).astype(dtype)
        return np.asarray(actual, dtype), np.asarray(reference, dtype)

    def spoil(array, values, share=0.01):
        flat = array.reshape(-1)
        places = rng.choice(flat.size, max(1, int(flat.size * share)), replace=False)
        flat[places] = rng.choice(np.array(values, np.float64), places.size).astype(array.dtype)

    for name, dtype in FLOATS.items():
        for shape in SHAPES:
            pairs[f"{name}{list(shape)}"] = noisy(shape, dtype)
        same = noisy((70, 100), dtype)[0]
        pairs[f"{name} equal"] = same, same.copy()
        pairs[f"{name} constant"] = np.full(9000, 2.5, dtype), noisy((9000,), dtype)[1]
        pairs[f"{name} constant NaN"] = np.full(9000, np.nan, dtype), np.full(9000, np.nan, dtype)
        pairs[f"{name} zeros"] = np.zeros((40, 200), dtype), np.zeros((40, 200), dtype)
        pairs[f"{name} zero actual"] = np.zeros((40, 200), dtype), noisy((40, 200), dtype)[1]
        pairs[f"{name} zero reference"] = noisy((40, 200), dtype)[0], np.zeros((40, 200), dtype)
        pairs[f"{name} minus zero"] = -np.zeros((5000,), dtype), np.zeros((5000,), dtype)
        pairs[f"{name} opposite"] = noisy((4100,), dtype)[0], -noisy((4100,), dtype)[0]
        a, r = noisy((60, 500), dtype)
        a[:, 7] = r[:, 7] = 100  # ties: the first one wins
        a[:, 9] = 100
        r[3, 2] = 100
        pairs[f"{name} ties"] = a, r
        a, r = (np.round(x.astype(np.float64) * 2).astype(dtype) for x in noisy((9000,), dtype, noise=1))
        pairs[f"{name} many worst"] = a, r
        a, r = noisy((80, 333), dtype)
        spoil(r, [np.nan, np.inf, -np.inf])
        both = ~np.isfinite(r.astype(np.float64))
        a[both] = r[both]
        pairs[f"{name} same nonfinite"] = a, r
        a, r = a.copy(), r.copy()
        spoil(a, [np.nan, np.inf, -np.inf], 0.002)
        spoil(r, [np.nan, np.inf, -np.inf], 0.002)
        pairs[f"{name} other nonfinite"] = a, r
        a, r = noisy((20000,), dtype)
        a[-1] = np.inf
        pairs[f"{name} inf at the end"] = a, r
    for scale, word in ((1e300, "huge"), (1e-300, "tiny"), (5e-324, "denormal")):
        pairs[f"float64 {word}"] = noisy((50, 301), np.float64, scale)
    pairs["float64 mixed"] = tuple(x * 10.0 ** np.linspace(-320, 300, 9001) for x in noisy((9001,), np.float64))
    pairs["float32 huge"] = noisy((50, 301), np.float32, 1e37)
    pairs["float32 denormal"] = noisy((50, 301), np.float32, 1e-42)
    pairs["float32 long rows"] = noisy((2, 262145), np.float32)
    pairs["float16 long rows"] = noisy((2, 262145), np.float16)
    pairs["float32 large offset"] = tuple((x + np.float32(3e4)).astype(np.float32) for x in noisy((300000,), np.float32))
    for name in INTEGERS:
        info = np.iinfo(name)
        for shape in SHAPES:
            reference = rng.integers(info.min, info.max, shape, name, endpoint=True)
            actual = np.array(reference)
            if actual.size:
                places = rng.random(shape) < 0.05
                actual = np.where(places, rng.integers(info.min, info.max, shape, name, endpoint=True), actual)
            pairs[f"{name}{list(shape)}"] = actual.astype(name), np.asarray(reference)
        pairs[f"{name} extremes"] = np.array([info.min, info.max, 0], name), np.array([info.max, info.min, 0], name)
        one_off = np.array([info.max, info.max - 1], name)
        pairs[f"{name} one off"] = one_off, one_off[::-1].copy()
    for shape in SHAPES:
        reference = rng.random(shape) < 0.5
        pairs[f"bool{list(shape)}"] = np.asarray(reference ^ (rng.random(shape) < 0.01)), np.asarray(reference)
    for name, part in (("complex64", np.float32), ("complex128", np.float64)):
        for shape in SHAPES:
            (a, r), (ai, ri) = noisy(shape, part), noisy(shape, part)
            pairs[f"{name}{list(shape)}"] = np.asarray(a + 1j * ai, name), np.asarray(r + 1j * ri, name)
        a, r = (np.array(x) for x in pairs[f"{name}(100003,)".replace("(", "[").replace(",)", "]")])
        r[5] = a[5] = complex(np.nan, 1)
        r[6] = a[6] = complex(np.inf, -np.inf)
        pairs[f"{name} same nonfinite"] = a, r
        a, r = a.copy(), r.copy()
        a[77] = complex(0, np.nan)
        pairs[f"{name} other nonfinite"] = a, r
    pairs["complex128 huge"] = tuple(x * 1e300 for x in pairs["complex128[3, 5, 7]"])

    np.savez(folder / "actual.npz", **{k: a for k, (a, r) in pairs.items()})
    np.savez(folder / "reference.npz", **{k: r for k, (a, r) in pairs.items()})


def wide(x):
    """Exact for every dtype: long double has 64 bits of mantissa."""
    if x.dtype.kind == "c":
        return x.astype(np.clongdouble)
    if x.dtype == ml_dtypes.bfloat16:
        x = x.astype(np.float32)
    return x.astype(np.longdouble)


def nan_equal(x, y):
    if x.dtype.kind == "c":
        return nan_equal(x.real, y.real) & nan_equal(x.imag, y.imag)
    return (x == y) | (np.isnan(x) & np.isnan(y))


def modulus(x):
    return np.abs(x).astype(np.float64)


@np.errstate(all="ignore")
def expected(a, r, rtol, atol):
    is_float = a.dtype.kind == "f" or a.dtype == ml_dtypes.bfloat16
    inexact = is_float or a.dtype.kind == "c"
    wa, wr = wide(a), wide(r)
    finite = np.isfinite(wa) & np.isfinite(wr)
    same = nan_equal(wa, wr)
    if a.dtype.kind in "iu" and a.dtype.itemsize == 8:
        d = np.abs(wa - wr).astype(np.float64)
    elif a.dtype.kind == "c":
        d = np.abs(a.astype(np.complex128) - r.astype(np.complex128))
    else:
        d = np.abs(wa.astype(np.float64) - wr.astype(np.float64))
    size = np.abs(r.astype(np.complex128)) if a.dtype.kind == "c" else np.abs(wr).astype(np.float64)
    allowed = atol + rtol * size if inexact else 0.0
    outside = np.where(finite, d > allowed, ~same)
    f, n = finite, int(finite.sum())
    ld = d.astype(np.longdouble)
    aa, rr = (np.abs(x[f]) ** 2 for x in (wa, wr))
    aa, rr, dd = aa.sum(), rr.sum(), (ld[f] ** 2).sum()
    ar = (wa[f] * np.conj(wr[f])).real.sum()
    out = {
        "count": a.size,
        "max_abs": d[f].max() if n else 0.0,
        "max_rel": (d[f & (size != 0)] / size[f & (size != 0)]).max(initial=0.0),
        "mean_abs": ld[f].mean() if n else 0.0,
        "rmse": np.sqrt(dd / n) if n else 0.0,
        "reference_rms": np.sqrt(rr / n) if n else 0.0,
        "cosine": 1.0 if aa == 0 and rr == 0 else 0.0 if aa == 0 or rr == 0 else ar / (np.sqrt(aa) * np.sqrt(rr)),
        "snr_db": np.inf if dd == 0 else 10 * np.log10(rr / dd),
        "out_of_tolerance": int(outside.sum()),
        "constant": a.size > 1 and bool(nan_equal(wa, np.broadcast_to(wa.flat[0], wa.shape)).all()),
        "nonfinite": {"actual": int((~np.isfinite(wa)).sum()), "reference": int((~np.isfinite(wr)).sum())},
        "top1_agreement": None,
    }
    if is_float and a.ndim == 2 and a.size:
        out["top1_agreement"] = float((np.argmax(wa, axis=1) == np.argmax(wr, axis=1)).mean())
    disagree = ~finite & ~same
    if disagree.any():
        at = int(np.argmax(disagree))
    elif n:
        at = int(np.argmax(np.where(finite, d, -1)))
    else:
        at = None
    nan = float("nan")
    if at is None:
        out["worst"] = {"index": [], "actual": nan, "reference": nan}
    else:
        out["worst"] = {"index": [int(i) for i in np.unravel_index(at, a.shape)],
                        "actual": float(number_of(a, at)), "reference": float(number_of(r, at))}
    out["verdict"] = "mismatch" if out["out_of_tolerance"] else "passed"
    out["reason"] = "" if out["verdict"] == "passed" else "nonfinite" if disagree.any() else "tolerance"
    return out


def number_of(x, at):
    value = x.reshape(-1)[at]
    return np.abs(np.complex128(value)) if x.dtype.kind == "c" else value


EXACT = ("count", "out_of_tolerance", "constant", "nonfinite", "top1_agreement", "verdict", "reason")


def close(got, want, rtol):
    got = float(got)
    want = float(want)
    if np.isnan(want) or np.isinf(want) or np.isnan(got):
        return got == want or (np.isnan(got) and np.isnan(want))
    return abs(got - want) <= rtol * abs(want)


def differences(output, want, is_complex):
    bad = [k for k in EXACT if output[k] != want[k]]
    bad += [k for k in ("max_abs", "max_rel") if not close(output[k], want[k], 4e-16 if is_complex else 0)]
    bad += [k for k in ("mean_abs", "rmse", "reference_rms", "snr_db") if not close(output[k], want[k], 1e-12)]
    bad += ["cosine"] * (not abs(float(output["cosine"]) - float(want["cosine"])) <= 1e-12)
    got, worst = output["worst"], want["worst"]
    bad += ["worst"] * (got["index"] != worst["index"])
    bad += ["worst"] * (not all(close(got[side], worst[side], 4e-16) for side in ("actual", "reference")))
    return [f"{output['name']}: {k}: got {output[k]}, NumPy says {want[k]}" for k in bad]


def check(folder):
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("metrics*.json"))]
    policy = records[0]["policy"]
    actual, reference = np.load(folder / "actual.npz"), np.load(folder / "reference.npz")
    wrong = []
    for i, name in enumerate(reference.files):
        a, r = actual[name], reference[name]
        if a.dtype.str == "|V2":
            a, r = a.view(ml_dtypes.bfloat16), r.view(ml_dtypes.bfloat16)
        want = expected(a, r, policy["rtol"], policy["atol"])
        for record in records:
            output = record["outputs"][i]
            assert (output["name"], output["shape"], output["dtype"]) == (name, list(a.shape), str(a.dtype)), output
            wrong += differences(output, want, a.dtype.kind == "c")
    assert not wrong, "\n".join(wrong)
    print(len(reference.files))


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](Path(sys.argv[2]))

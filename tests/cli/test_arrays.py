"""compare, and .npz files that are not what they say."""

import io
import struct
import zipfile

import numpy as np
import pytest


def save(file, **arrays):
    np.savez(file, **arrays)
    return file


def test_equal(portwright, tmp_path, validator):
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    save(tmp_path / "a.npz", y=x)
    done = portwright("compare", "a.npz", "a.npz", "--json").passes()
    validator("compare", done.json)
    assert done.json["verdict"] == "passed"
    assert done.json["outputs"][0]["max_abs"] == 0
    assert done.json["outputs"][0]["snr_db"] == "inf"


def test_metrics_against_numpy(portwright, tmp_path):
    generator = np.random.default_rng(0)
    reference = generator.standard_normal((64, 10)).astype(np.float32)
    actual = reference + generator.standard_normal(reference.shape).astype(np.float32) * 0.01
    save(tmp_path / "a.npz", y=actual), save(tmp_path / "r.npz", y=reference)
    done = portwright("compare", "a.npz", "r.npz", "--json")
    assert done.code == 1
    metrics = done.json["outputs"][0]
    error = np.abs(actual.astype(np.float64) - reference)
    assert metrics["max_abs"] == pytest.approx(error.max())
    assert metrics["rmse"] == pytest.approx(np.sqrt((error**2).mean()))
    assert metrics["out_of_tolerance"] == int((error > 1e-3 + 1e-3 * np.abs(reference)).sum())
    assert metrics["worst"]["index"] == list(np.unravel_index(error.argmax(), error.shape))
    assert metrics["top1_agreement"] == pytest.approx((actual.argmax(1) == reference.argmax(1)).mean())


def test_tolerance_options_decide(portwright, tmp_path):
    reference = np.ones((2, 2), np.float32)
    save(tmp_path / "a.npz", y=reference * 1.01), save(tmp_path / "r.npz", y=reference)
    assert portwright("compare", "a.npz", "r.npz").code == 1
    portwright("compare", "a.npz", "r.npz", "--rtol", "0.02").passes()


@pytest.mark.parametrize(
    "actual, word",
    [
        (np.ones((2, 3), np.float32), "shape"),
        (np.ones((2, 2), np.float64), "dtype"),
        (np.full((2, 2), np.nan, np.float32), "nonfinite"),
    ],
)
def test_mismatch_says_why(portwright, tmp_path, actual, word):
    save(tmp_path / "a.npz", y=actual), save(tmp_path / "r.npz", y=np.ones((2, 2), np.float32))
    done = portwright("compare", "a.npz", "r.npz")
    assert done.code == 1 and "mismatch" in done.out and word in done.out, done


def test_missing_output_is_a_mismatch(portwright, tmp_path):
    one, two = np.ones(3, np.float32), np.ones(4, np.float32)
    save(tmp_path / "a.npz", y=one), save(tmp_path / "r.npz", y=one, z=two)
    done = portwright("compare", "a.npz", "r.npz")
    assert done.code == 1 and "z" in done.out


def npy(shape, data, dtype="<f4", order="False"):
    header = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def archive(file, entry, compression=zipfile.ZIP_STORED, name="y.npy"):
    with zipfile.ZipFile(file, "w", compression) as out:
        out.writestr(name, entry)


@pytest.fixture
def good(tmp_path):
    return save(tmp_path / "good.npz", y=np.ones(4, np.float32))


HOSTILE = {
    "missing": lambda file: None,
    "empty": lambda file: file.write_bytes(b""),
    "noise": lambda file: file.write_bytes(np.random.default_rng(0).bytes(4096)),
    "promises more than it has": lambda file: archive(file, npy("(1000000, 1000000)", b"\0" * 16)),
    "promises less than it has": lambda file: archive(file, npy("(2,)", b"\0" * 1600)),
    "negative shape": lambda file: archive(file, npy("(-4,)", b"\0" * 16)),
    "overflowing shape": lambda file: archive(file, npy("(4294967296, 4294967296, 4294967296)", b"\0" * 16)),
    "pickle": lambda file: np.savez(open(file, "wb"), y=np.array([{"a": 1}], dtype=object)),
    "no header": lambda file: archive(file, b"\x93NUMPY"),
    "unknown dtype": lambda file: archive(file, npy("(4,)", b"\0" * 64, dtype="<f16")),
    "a header that is no dictionary": lambda file: archive(file, npy("(4,)", b"\0" * 16).replace(b"{'descr'", b"['descr'")),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_npz(portwright, tmp_path, good, kind):
    HOSTILE[kind](tmp_path / "bad.npz")
    portwright("compare", "bad.npz", good).fails(4, "bad.npz")


def test_truncated_npz(portwright, tmp_path, good):
    whole = good.read_bytes()
    for share in (0.2, 0.6, 0.95):
        (tmp_path / "bad.npz").write_bytes(whole[: int(len(whole) * share)])
        portwright("compare", "bad.npz", good).fails(4, "bad.npz")


def test_zip_bomb_is_refused_before_it_grows(portwright, tmp_path, good):
    """An archive of 64 kB that unpacks to 64 MB and promises 64 GB: refused by its promise, before anything is unpacked."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        with out.open("y.npy", "w", force_zip64=True) as entry:
            entry.write(npy("(16000000000,)", b""))
            for _ in range(64):
                entry.write(b"\0" * (1 << 20))
    (tmp_path / "bomb.npz").write_bytes(body.getvalue())
    limit = 2 << 30  # bytes of memory: far below the promise

    def confine():
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    portwright("compare", "bomb.npz", good, preexec_fn=confine).fails(4, "bomb.npz")

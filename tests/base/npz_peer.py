"""NumPy's side of npz_test.cc.

write DIR   archives that NumPy writes, in every dtype and layout
read FILE   checks what Portwright wrote: same_arrays() below, read by numpy.load and by zipfile
bad DIR     archives that are wrong or hostile, made by hand
"""
import io
import struct
import sys
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np

DTYPES = "float32 float64 float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128".split()


def ramp(dtype, shape):
    """Values that C++ makes by the same rule: element i is i - 3, as the dtype takes it."""
    n = int(np.prod(shape))
    i = np.arange(n)
    if dtype == "bool":
        return (i % 2 == 1).reshape(shape)
    if dtype.startswith("u"):
        return i.astype(dtype).reshape(shape)
    if dtype.startswith("complex"):
        return ((i - 3) + 1j * i).astype(dtype).reshape(shape)
    return (i - 3).astype(dtype).reshape(shape)


def same_arrays():
    arrays = {name: ramp(name, (2, 3, 5)) for name in DTYPES}
    arrays["bfloat16"] = ramp("float32", (2, 3, 5)).astype(ml_dtypes.bfloat16)
    arrays["scalar"] = np.float32(7).reshape(())
    arrays["empty"] = np.zeros((0, 4), np.float32)
    arrays["layer/weight:0 ü"] = ramp("float32", (1,))
    return arrays


def write(folder):
    arrays = same_arrays()
    np.savez(folder / "stored.npz", **arrays)
    np.savez_compressed(folder / "compressed.npz", **arrays)
    fortran = {name: np.array(a, order="F") for name, a in arrays.items()}
    np.savez(folder / "fortran.npz", **fortran)
    np.savez_compressed(folder / "fortran_compressed.npz", **fortran)
    big = {n: a.astype(a.dtype.newbyteorder(">")) for n, a in arrays.items() if n != "bfloat16"}
    np.savez(folder / "big_endian.npz", **big)
    np.savez_compressed(folder / "big_endian_compressed.npz", **big)
    np.savez(folder / "nothing.npz")
    for version in ((1, 0), (2, 0), (3, 0)):
        with zipfile.ZipFile(folder / f"version{version[0]}.npz", "w") as z, z.open("x.npy", "w") as f:
            np.lib.format.write_array(f, ramp("float32", (4, 2)), version)


def read(file):
    expected = same_arrays()
    with np.load(file) as archive:
        assert archive.files == list(expected), archive.files
        for name, want in expected.items():
            got = archive[name]
            if name == "bfloat16":
                assert got.dtype.str == "|V2", got.dtype.str
                got = got.view(ml_dtypes.bfloat16)
            assert got.dtype == want.dtype and got.shape == want.shape, (name, got.dtype, got.shape)
            assert got.tobytes() == want.tobytes(), name
    with zipfile.ZipFile(file) as z:
        assert z.testzip() is None
        for info in z.infolist():
            assert info.compress_type == zipfile.ZIP_STORED and info.date_time == (1980, 1, 1, 0, 0, 0)


def npy(header, data=b"", version=1):
    text = header.encode() if isinstance(header, str) else header
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + data


def fields(descr="'<f4'", shape="(2, 3)", fortran="False"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


def archive(path, entries, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as z:
        for name, content in entries:
            z.writestr(name, content)


def array_bytes(array):
    f = io.BytesIO()
    np.lib.format.write_array(f, array, allow_pickle=True)
    return f.getvalue()


def patch(source, target, change):
    data = bytearray(source.read_bytes())
    change(data)
    target.write_bytes(data)


def bad(folder):
    """Every file is named CODE.WHAT.npz: the error code it must give, and why."""
    six = np.arange(6, dtype="<f4").tobytes()
    both = ((zipfile.ZIP_STORED, "stored"), (zipfile.ZIP_DEFLATED, "deflated"))
    headers = {
        "lying_header.more_elements": npy(fields(shape="(2, 4)"), six),
        "lying_header.fewer_elements": npy(fields(shape="(2, 2)"), six),
        "lying_header.huge": npy(fields(shape="(1000000, 1000000)"), six),
        "lying_header.overflow": npy(fields(shape="(4611686018427387904, 4, 0, 8)"), six),
        "lying_header.overflow_to_fit": npy(fields(shape="(4611686018427387910, 4)"), six),
        "lying_header.too_many_digits": npy(fields(shape="(99999999999999999999999,)"), six),
        "lying_header.negative": npy(fields(shape="(-2, -3)"), six),
        "lying_header.no_shape": npy("{'descr': '<f4', 'fortran_order': False, }", six),
        "lying_header.twice": npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", six),
        "lying_header.extra_field": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}", six),
        "lying_header.code": npy("__import__('os').system('true')", six),
        "lying_header.bool_is_code": npy(fields(fortran="exit()"), six),
        "lying_header.trailing": npy(fields() + "x", six),
        "lying_header.unterminated": npy("{'descr': '<f4", six),
        "lying_header.empty_dict": npy("{}", six),
        "lying_header.empty_text": npy("", six),
        "lying_header.version": npy(fields(), six, 9),
        "lying_header.long_header": npy(fields() + " " * 200000, six, 2),
        "lying_header.magic": b"\x93NUMPZ" + npy(fields(), six)[6:],
        "lying_header.text": b"hello, this is not an array at all",
        "truncated.no_elements": npy(fields())[:-5],
        "truncated.only_magic": b"\x93NUMPY",
        "pickled.object": array_bytes(np.array([{"a": 1}, None], dtype=object)),
        "unsupported_dtype.text": array_bytes(np.array(["one", "two"])),
        "unsupported_dtype.bytes": array_bytes(np.array([b"one"])),
        "unsupported_dtype.structured": array_bytes(np.zeros(2, [("a", "<f4"), ("b", "<i8")])),
        "unsupported_dtype.date": array_bytes(np.array(["2020-01-01"], "datetime64[D]")),
        "unsupported_dtype.long_double": array_bytes(np.zeros(2, np.longdouble)),
        "unsupported_dtype.float8": array_bytes(np.zeros(2, ml_dtypes.float8_e5m2)),
    }
    for name, content in headers.items():
        for method, word in both:
            archive(folder / f"{name}_{word}.npz", [("good.npy", npy(fields(), six)), ("x.npy", content)], method)

    good = npy(fields(), six)
    archive(folder / "duplicate_name.npz", [("x.npy", good), ("x.npy", good)])
    archive(folder / "not_npz.other_entry.npz", [("readme.txt", b"hello")])
    archive(folder / "not_npz.nameless.npz", [(".npy", good)])
    archive(folder / "not_npz.bzip2.npz", [("x.npy", good)], zipfile.ZIP_BZIP2)
    (folder / "not_npz.single_array.npz").write_bytes(good)
    (folder / "not_npz.random.npz").write_bytes(np.random.default_rng(1).bytes(5000))
    (folder / "not_npz.text.npz").write_bytes(b"not a zip at all\n")
    (folder / "truncated.empty.npz").write_bytes(b"")

    big = folder / "big.tmp"
    archive(big, [("x.npy", array_bytes(np.arange(5000.0))), ("y.npy", good)])
    whole = big.read_bytes()
    for cut in (10, 100, 20000, len(whole) - 60, len(whole) - 1):
        (folder / f"truncated.cut_at_{cut}.npz").write_bytes(whole[:cut])

    # Directory entries that lie. Offsets in a central header: 20 compressed, 24 uncompressed, 42 local header.
    def central(data, nth=0):
        at = -1
        for _ in range(nth + 1):
            at = data.index(b"PK\1\2", at + 1)
        return at

    def set_u32(offset, value):
        return lambda data: struct.pack_into("<I", data, central(data) + offset, value)

    patch(big, folder / "truncated.offset_outside.npz", set_u32(42, 0x7FFFFFFF))
    patch(big, folder / "truncated.size_outside.npz", set_u32(20, 0x7FFFFFFF))
    patch(big, folder / "truncated.sizes_differ.npz", set_u32(24, 40100))
    patch(big, folder / "not_npz.encrypted.npz", lambda d: struct.pack_into("<H", d, central(d) + 8, 1))
    packed = folder / "packed.tmp"
    archive(packed, [("x.npy", array_bytes(np.arange(5000.0)))], zipfile.ZIP_DEFLATED)
    patch(packed, folder / "lying_header.declared_less.npz", set_u32(24, 500))
    patch(packed, folder / "lying_header.declared_more.npz", set_u32(24, 0x7FFFFFFF))
    patch(packed, folder / "truncated.stream_cut.npz", set_u32(20, 4000))
    patch(packed, folder / "truncated.checksum.npz", set_u32(16, 0x12345678))

    # A bomb: 256 MB of zeros in 1 MB; the test reads with a limit of 200 MB.
    with zipfile.ZipFile(folder / "too_large.bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
        with z.open("x.npy", "w", force_zip64=True) as f:
            f.write(npy(fields("'<f8'", "(32, 1048576)")))
            for _ in range(32):
                f.write(bytes(8 << 20))
    for tmp in (big, packed):
        tmp.unlink()


if __name__ == "__main__":
    {"write": write, "read": read, "bad": bad}[sys.argv[1]](Path(sys.argv[2]))

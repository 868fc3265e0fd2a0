"""Checks arrays that random_test.cc generated, with a second implementation of everything.

Philox4x32-10 is written again here from the paper and proven on Random123's known answers; the normal quantile is the
standard library's.
"""
import statistics
import sys

import numpy as np

MASK = 0xFFFFFFFF


def philox4x32(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def known_answers():
    """kat_vectors of Random123: counter, key, result."""
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0]
    assert philox4x32([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox4x32([MASK] * 4, [MASK] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert philox4x32(pi[:4], pi[4:]) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def bits(seed, case, name, count):
    h = 0xCBF29CE484222325
    for byte in name.encode() + case.to_bytes(8, "little"):
        h = (h ^ byte) * 0x100000001B3 % 2**64
    out = []
    for pair in range((count + 1) // 2):
        w = philox4x32([pair & MASK, pair >> 32, h & MASK, h >> 32], [seed & MASK, seed >> 32])
        out += [w[0] | w[1] << 32, w[2] | w[3] << 32]
    return out[:count]


def main(path, seed, case, name):
    known_answers()
    got = np.load(path)
    count = got["uniform"].size
    drawn = bits(seed, case, name, count)
    unit = [((b >> 12) + 0.5) * 2.0**-52 for b in drawn]
    assert got["uniform"].ravel().tolist() == [-2.0 + 5.0 * u for u in unit]
    assert got["tokens"].ravel().tolist() == [-7 + (b * 30529 >> 64) for b in drawn]
    normal = [statistics.NormalDist().inv_cdf(u) for u in unit]
    np.testing.assert_allclose(got["normal"].ravel(), normal, rtol=2e-15, atol=1e-15)
    np.testing.assert_array_equal(got["normal32"], got["normal"].astype(np.float32))
    np.testing.assert_array_equal(got["normal16"], got["normal32"].astype(np.float16))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])

"""Pitch of synthesised tones: data whose right answer is known from a formula.

Each frame is 1024 samples at 16 kHz of a sine with a few harmonics, normalised as torchcrepe normalises audio.
"""

import numpy as np

SAMPLE_RATE, FRAME = 16000, 1024
LOWEST_HZ, HIGHEST_HZ = 80.0, 900.0
FIRST_BIN_CENTS, CENTS_PER_BIN = 1997.3794084376191, 20  # of CREPE's 360 output bins, above 10 Hz


def tones(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(frames [count, 1024], frequencies in Hz [count])."""
    random = np.random.default_rng(seed)
    hertz = np.exp(random.uniform(np.log(LOWEST_HZ), np.log(HIGHEST_HZ), count))
    time = np.arange(FRAME) / SAMPLE_RATE
    frames = np.zeros((count, FRAME))
    for harmonic in range(1, 5):
        loudness = random.uniform(0.5, 1.0, (count, 1)) / harmonic
        phase = random.uniform(0, 2 * np.pi, (count, 1))
        frames += loudness * np.sin(2 * np.pi * harmonic * hertz[:, None] * time + phase)
    frames -= frames.mean(axis=1, keepdims=True)
    frames /= np.maximum(frames.std(axis=1, ddof=1, keepdims=True), 1e-10)
    return frames.astype(np.float32), hertz


def dataset():
    for seed in range(1, 17):
        yield tones(count=16, seed=seed)


def cents_of(activation: np.ndarray) -> np.ndarray:
    """Pitch in cents above 10 Hz: the average of the bins around the largest, weighted by their activation."""
    bins = np.arange(activation.shape[1])
    near = np.abs(bins[None, :] - activation.argmax(axis=1)[:, None]) <= 4
    weights = activation * near
    return FIRST_BIN_CENTS + CENTS_PER_BIN * (weights * bins).sum(axis=1) / weights.sum(axis=1)


def metric(outputs: list[np.ndarray], targets: list[np.ndarray]) -> dict[str, float]:
    estimated = np.concatenate([cents_of(activation.astype(np.float64)) for activation in outputs])
    exact = np.concatenate([1200 * np.log2(hertz / 10) for hertz in targets])
    error = np.abs(estimated - exact)
    return {"mean_error_cents": float(error.mean()), "within_50_cents": float((error <= 50).mean())}

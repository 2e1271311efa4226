"""What happens to samples after the vocoder: fade-out, pauses, a guard against clipping, 16 bits.

All of it works on a piece of an utterance as on the whole, so that a stream is what the whole would be. Loudness is
never touched: a quiet sentence stays quiet.

Shapes: N samples.
"""

import numpy as np

KNEE = 0.95  # samples up to here pass unchanged
FULL_SCALE = 32767


def fade_out(samples_N: np.ndarray, *, first: int, total: int, length: int) -> np.ndarray:
    """The samples from `first` of a sound of `total`, of which the last `length`, or all, fall linearly to 0.

    Raises ValueError for a piece that lies outside the sound.
    """
    if first < 0 or first + len(samples_N) > total:
        raise ValueError(f"samples {first} to {first + len(samples_N)} of {total}: expected a piece of the sound")
    length = min(length, total)
    if length <= 0 or first + len(samples_N) <= total - length:
        return samples_N
    left_N = total - np.arange(first, first + len(samples_N))
    return samples_N * np.clip((left_N - 1) / length, 0.0, 1.0).astype(samples_N.dtype)


def guard(samples_N: np.ndarray) -> np.ndarray:
    """Bends what is louder than KNEE towards 1 in place of clipping it; leaves all else as it is."""
    beyond_N = np.abs(samples_N) - KNEE
    if not (beyond_N > 0).any():
        return samples_N
    bent_N = np.sign(samples_N) * (KNEE + (1 - KNEE) * np.tanh(beyond_N / (1 - KNEE)))
    return np.where(beyond_N > 0, bent_N, samples_N).astype(samples_N.dtype)


def silence(milliseconds: float, sample_rate: int) -> np.ndarray:
    """A pause, float32 [N]."""
    return np.zeros(round(milliseconds * sample_rate / 1e3), np.float32)


def to_int16(samples_N: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """16-bit samples with triangular dither of two steps, a function of `seed`.

    The error of rounding is then noise independent of the sound, and silence is not digital zero, at which some
    players and encoders switch off (Lipshitz, Wannamaker, Vanderkooy 1992, "Quantization and dither").
    """
    random = np.random.default_rng(seed)
    dither_N = random.random(len(samples_N), np.float32) - random.random(len(samples_N), np.float32)
    return np.clip(np.rint(guard(samples_N) * FULL_SCALE + dither_N), -FULL_SCALE - 1, FULL_SCALE).astype(np.int16)

"""What happens to samples after the vocoder: gain, fade-out, pauses, a guard against clipping, 16 bits.

All of it works on a piece of an utterance as on the whole, so that a stream is what the whole would be. Loudness is
touched only where that is asked for: a quiet sentence stays quiet.

Shapes: N samples, T frames, L symbols.
"""

import logging
from functools import cache

import numpy as np

_log = logging.getLogger(__name__)

KNEE = 0.95  # samples up to here pass unchanged
FULL_SCALE = 32767
LOUDEST = 1.4  # peaks up to which bending is not heard as less loud: 3 dB beyond full scale


def finished(
    samples_N: np.ndarray, *, first: int, total: int, fade: int, hop: int, gain_T: np.ndarray | None = None
) -> np.ndarray:
    """The samples from `first` of a sentence of `total`, as they leave: with its gain, faded over `fade`, guarded."""
    if gain_T is not None:
        place_N = np.arange(first, first + len(samples_N)) / hop  # frames are centred at multiples of the hop
        samples_N = samples_N * np.interp(place_N, np.arange(len(gain_T)), gain_T).astype(samples_N.dtype)
        if len(samples_N) and np.abs(samples_N).max() > LOUDEST:
            _tell_too_loud()
    return guard(fade_out(samples_N, first=first, total=total, length=fade))


def gain_of_frames(gain_L: np.ndarray, frames_L: np.ndarray) -> np.ndarray | None:
    """[T] the gain of every frame, of that of the symbols; the sound goes from one to the next. None: all are 1."""
    if (gain_L == 1).all():
        return None
    gain_T = np.repeat(gain_L, np.maximum(frames_L, 0))
    return gain_T if len(gain_T) else None


@cache
def _tell_too_loud() -> None:
    """Once."""
    _log.warning("the loudness that is asked for is beyond full scale: peaks are bent, and it comes out less loud")


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

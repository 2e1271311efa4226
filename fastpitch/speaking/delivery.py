"""How finished sound leaves: at a loudness and a rate that are asked for, as a whole or as a stream.

Shapes: N samples.
"""

from dataclasses import dataclass

import numpy as np
import soxr

from common.audio import waveform
from fastpitch.speaking import sound

QUIETEST_LUFS, LOUDEST_LUFS = -70.0, -5.0
_BLOCK_SECONDS = 0.4  # of EBU R128's gating


class LoudnessError(ValueError):
    """The loudness cannot be measured; the message says why."""


@dataclass(frozen=True, kw_only=True)
class DeliveryConfig:
    """What becomes of the sound of a phrase before it is written."""

    loudness: float | None = None
    """Loudness of every phrase in LUFS (EBU R128: -23 for broadcasting, -16 for podcasts); by default the model's own.
    Needs the package pyloudnorm."""
    sample_rate: int | None = None
    """Sample rate of the sound that is written, in Hz; by default the vocoder's."""

    def __post_init__(self) -> None:
        if self.loudness is not None and not QUIETEST_LUFS <= self.loudness <= LOUDEST_LUFS:
            limits = f"{QUIETEST_LUFS:g} to {LOUDEST_LUFS:g} LUFS, such as -23"
            raise ValueError(f"loudness = {self.loudness:g}: expected {limits}")
        if self.sample_rate is not None and not 4000 <= self.sample_rate <= 192_000:
            raise ValueError(f"sample_rate = {self.sample_rate}: expected 4000 to 192000 Hz")


def delivered(samples_N: np.ndarray, sample_rate: int, config: DeliveryConfig) -> tuple[np.ndarray, int]:
    """The samples as they are asked for, and their rate. Raises LoudnessError."""
    if config.loudness is not None:
        samples_N = with_loudness(samples_N, sample_rate, config.loudness)
    rate = config.sample_rate or sample_rate
    return waveform.resample(samples_N, sample_rate, rate), rate


def with_loudness(samples_N: np.ndarray, sample_rate: int, target_lufs: float) -> np.ndarray:
    """The samples as loud as is asked for; silence stays silence. Peaks beyond full scale are bent, not clipped."""
    raised_N = samples_N
    for _ in range(4):  # what the guard takes from peaks is made up for
        measured = loudness(sound.guard(raised_N), sample_rate)
        if not np.isfinite(measured) or abs(target_lufs - measured) < 0.05:
            break
        raised_N = raised_N * np.float32(10 ** ((target_lufs - measured) / 20))
    return sound.guard(raised_N)


def loudness(samples_N: np.ndarray, sample_rate: int) -> float:
    """Integrated loudness in LUFS (ITU-R BS.1770-4, EBU R128); minus infinity for silence. Raises LoudnessError."""
    try:
        import pyloudnorm
    except ImportError:
        raise LoudnessError(
            "loudness is measured by pyloudnorm, which is not installed: pip install pyloudnorm"
        ) from None
    shortest = int(_BLOCK_SECONDS * sample_rate) + 1
    if len(samples_N) < shortest:  # as long as a block of the measure, by repeating it
        samples_N = np.resize(samples_N, shortest) if len(samples_N) else np.zeros(shortest, np.float32)
    with np.errstate(divide="ignore"):
        return float(pyloudnorm.Meter(sample_rate).integrated_loudness(samples_N.astype(np.float64)))


class Stream:
    """16-bit samples from chunks, as soon as they are there, at another rate if that is asked for."""

    def __init__(self, sample_rate: int, config: DeliveryConfig, *, seed: int):
        if config.loudness is not None:
            raise LoudnessError("loudness is that of a whole phrase, which a stream has not got yet; write files")
        self.sample_rate = config.sample_rate or sample_rate
        self._seed = seed
        self._resampler = None
        if self.sample_rate != sample_rate:
            self._resampler = soxr.ResampleStream(sample_rate, self.sample_rate, 1, dtype="float32")

    def chunk(self, samples_N: np.ndarray, *, last: bool = False) -> bytes:
        """What can be said of the samples so far: 16 bits each, lowest byte first."""
        samples_N = samples_N.astype(np.float32)
        if self._resampler is not None:
            samples_N = self._resampler.resample_chunk(samples_N, last=last)
        self._seed += 1
        return sound.to_int16(samples_N, seed=self._seed).astype("<i2").tobytes()

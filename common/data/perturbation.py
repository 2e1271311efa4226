"""Loudness, position and noise of training utterances: functions of (seed, epoch, index), like their speed."""

import functools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.audio import waveform
from common.config import check_not_negative


@dataclass(frozen=True, kw_only=True)
class PerturbationConfig:
    """What is done to the samples of a training utterance, each with its own draw."""

    gain_db: float = 0.0
    """Greatest change of loudness in decibels, up or down; 0 for none."""
    shift_ms: float = 0.0
    """Greatest shift in time in milliseconds, either way, with silence in its place; 0 for none."""
    noise: tuple[Path, ...] = ()
    """Recordings of noise, one of which is mixed in from a random place, repeated if it is short."""
    min_snr_db: float = 10.0
    """Lowest ratio of speech to noise in decibels."""
    max_snr_db: float = 50.0
    """Highest ratio of speech to noise in decibels."""
    probability: float = 1.0
    """Share of the utterances that are changed in an epoch."""

    def __post_init__(self) -> None:
        check_not_negative(self, "gain_db", "shift_ms")
        for name in ("min_snr_db", "max_snr_db"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} = {getattr(self, name)}: expected a finite number")
        if self.min_snr_db > self.max_snr_db:
            raise ValueError(f"min_snr_db = {self.min_snr_db} is above max_snr_db = {self.max_snr_db}")
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability = {self.probability}: expected 0 to 1")

    @property
    def is_none(self) -> bool:
        """Whether nothing is ever changed."""
        return not (self.gain_db or self.shift_ms or self.noise)


def perturbed(
    samples_N: np.ndarray, cfg: PerturbationConfig, *, sample_rate: int, seed: int, epoch: int, index: int
) -> np.ndarray:
    """samples_N, shifted, with noise, and louder or softer; of the same length. Raises AudioError for the noise."""
    if cfg.is_none:
        return samples_N
    random = np.random.default_rng((seed, epoch, index, 1))  # the speed has its own draw
    if random.random() >= cfg.probability:
        return samples_N
    if cfg.shift_ms:
        samples_N = shifted(samples_N, round(random.uniform(-1, 1) * cfg.shift_ms / 1000 * sample_rate))
    if cfg.noise:
        noise = _noise(cfg.noise[random.integers(len(cfg.noise))], sample_rate)
        first = random.integers(len(noise))
        piece_N = np.take(noise, np.arange(first, first + len(samples_N)), mode="wrap")
        samples_N = mixed(samples_N, piece_N, snr_db=random.uniform(cfg.min_snr_db, cfg.max_snr_db))
    if cfg.gain_db:
        samples_N = samples_N * np.float32(10 ** (random.uniform(-1, 1) * cfg.gain_db / 20))
    return samples_N


def shifted(samples_N: np.ndarray, by: int) -> np.ndarray:
    """samples_N later by so many samples, earlier where that is negative; silence comes in, and what leaves is lost."""
    moved_N = np.zeros_like(samples_N)
    if by >= 0:
        moved_N[by:] = samples_N[: max(0, len(samples_N) - by)]
    else:
        moved_N[:by] = samples_N[-by:]
    return moved_N


def mixed(samples_N: np.ndarray, noise_N: np.ndarray, *, snr_db: float) -> np.ndarray:
    """samples_N with noise_N that is weaker by snr_db, in energy; silence stays as it is."""
    speech, noise = float(np.mean(samples_N**2)), float(np.mean(noise_N**2))
    if not speech or not noise:
        return samples_N
    return samples_N + noise_N * np.float32(math.sqrt(speech / noise / 10 ** (snr_db / 10)))


@functools.lru_cache(maxsize=64)
def _noise(path: Path, sample_rate: int) -> np.ndarray:
    return waveform.read(path, sample_rate=sample_rate).samples

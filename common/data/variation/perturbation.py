"""Loudness, position and noise of training utterances: functions of (seed, epoch, index), like their speed."""

import functools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.audio import waveform
from common.config import check_not_negative, check_shares
from common.files.atomic import files_below

_SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3")


@dataclass(frozen=True, kw_only=True)
class PerturbationConfig:
    """What is done to the samples of a training utterance, each with its own draw."""

    gain_db: float = 0.0
    """Greatest change of loudness in decibels, up or down; 0 for none."""
    shift_ms: float = 0.0
    """Greatest shift in time in milliseconds, either way, with silence in its place; 0 for none."""
    noise: tuple[Path, ...] = ()
    """Recordings of noise or folders of them, one of which is mixed in from a random place, repeated if it is short."""
    min_snr_db: float = 10.0
    """Lowest ratio of speech to noise in decibels."""
    max_snr_db: float = 50.0
    """Highest ratio of speech to noise in decibels."""
    impulses: tuple[Path, ...] = ()
    """Impulse responses of rooms, or folders of them, in one of which an utterance is heard."""
    impulse_probability: float = 0.5
    """Share of the changed utterances that are heard in a room."""
    probability: float = 1.0
    """Share of the utterances that are changed in an epoch."""

    def __post_init__(self) -> None:
        check_not_negative(self, "gain_db", "shift_ms")
        for name in ("min_snr_db", "max_snr_db"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} = {getattr(self, name)}: expected a finite number")
        if self.min_snr_db > self.max_snr_db:
            raise ValueError(f"min_snr_db = {self.min_snr_db} is above max_snr_db = {self.max_snr_db}")
        check_shares(self, "probability", "impulse_probability")

    @property
    def is_none(self) -> bool:
        """Whether nothing is ever changed."""
        return not (self.gain_db or self.shift_ms or self.noise or self.impulses)


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
    if cfg.impulses:
        of_room = np.random.default_rng((seed, epoch, index, 5))
        if of_room.random() < cfg.impulse_probability:
            samples_N = reverberated(samples_N, _read(_drawn(cfg.impulses, of_room), sample_rate))
    if cfg.noise:
        noise = _read(_drawn(cfg.noise, random), sample_rate)
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


def reverberated(samples_N: np.ndarray, impulse_K: np.ndarray) -> np.ndarray:
    """samples_N as they are heard in a room: as long, as strong and, by the response's loudest sample, as early."""
    first = int(np.abs(impulse_K).argmax())
    length = 1 << (len(samples_N) + len(impulse_K) - 1).bit_length()
    spectrum = np.fft.rfft(samples_N, length) * np.fft.rfft(impulse_K, length)
    heard_N = np.fft.irfft(spectrum, length)[first : first + len(samples_N)]
    before, after = float(np.mean(np.square(samples_N))), float(np.mean(np.square(heard_N)))
    return (heard_N * math.sqrt(before / after)).astype(np.float32) if before and after else samples_N


def _drawn(places: tuple[Path, ...], random: np.random.Generator) -> Path:
    paths = recordings(places)
    return paths[random.integers(len(paths))]


@functools.lru_cache(maxsize=8)
def recordings(places: tuple[Path, ...]) -> tuple[Path, ...]:
    """The files, and all below the folders, in their order. Raises AudioError where there is none."""
    found: list[Path] = []
    for place in places:
        inside = sorted(path for path in files_below(place) if path.suffix.lower() in _SUFFIXES)
        if not inside and not place.is_file():
            raise waveform.AudioError(f"{place}: {'no recording in it' if place.is_dir() else 'no such file'}")
        found += inside or [place]
    return tuple(found)


@functools.lru_cache(maxsize=64)
def _read(path: Path, sample_rate: int) -> np.ndarray:
    return waveform.read(path, sample_rate=sample_rate).samples

"""Silence: cut off the ends of a recording, and put around and into utterances that a recogniser learns from.

Legend of shapes: N samples.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from common.config import check_not_negative, check_shares

SILENCE_FRAME = 2048  # samples over which loudness is measured
SILENCE_HOP = 512  # samples between two measurements; divides SILENCE_FRAME


@dataclass(frozen=True, kw_only=True)
class SilenceConfig:
    """Silence around and between the words of training utterances, as edits, telephones and codecs make it."""

    probability: float = 0.0
    """Share of the batches that hear silences; 0 for none."""
    clean_epochs: int = 0
    """Epochs at the beginning in which there is none."""
    alone: float = 0.06
    """Share of the utterances of these batches that are nothing but silence, with nothing to be recognised."""
    max_seconds: float = 2.0
    """Greatest length of a silence in seconds; every batch draws its own limit, which is mostly a short one."""
    min_db: float = -100.0
    """Least level of a silence that is noise, in decibels of full scale; a third of all are digital zeros."""
    max_db: float = -50.0
    """Greatest level of a silence that is noise, in decibels of full scale."""

    def __post_init__(self) -> None:
        check_shares(self, "probability", "alone")
        check_not_negative(self, "max_seconds", "clean_epochs")
        if self.min_db > self.max_db:
            raise ValueError(f"min_db = {self.min_db} is above max_db = {self.max_db}")


def with_silences(
    samples_N: np.ndarray,
    word_ends: Sequence[int],
    cfg: SilenceConfig,
    random: np.random.Generator,
    *,
    limit: float,
    sample_rate: int,
) -> np.ndarray:
    """Float32 samples [N] with silences of up to `limit` seconds before and after, each in half of all cases, and after
    some of the words, which end at these samples."""

    def drawn(low: float) -> np.ndarray:
        return silence(round(max(0.0, random.uniform(low, limit)) * sample_rate), cfg, random)

    ends = np.array([end for end in word_ends[:-1] if 0 < end < len(samples_N)], np.int64)
    pieces = [drawn(-limit)]
    for part_N in np.split(samples_N, ends[random.random(len(ends)) < random.random()]):
        pieces += [part_N, drawn(0.0)]
    return np.concatenate([*pieces[:-1], drawn(-limit)])


def silence(samples: int, cfg: SilenceConfig, random: np.random.Generator) -> np.ndarray:
    """So many samples, float32: zeros, or white noise of a level that `cfg` allows."""
    level = 0.0 if random.random() < 1 / 3 else 10 ** (random.uniform(cfg.min_db, cfg.max_db) / 20)
    return random.standard_normal(samples, np.float32) * np.float32(level)


class Trimmed(NamedTuple):
    """Sound without the silence at its ends: `samples` is a view of the whole, from its index `start`."""

    samples: np.ndarray
    start: int


def trim_silence(samples: np.ndarray, *, top_db: float = 60.0) -> Trimmed:
    """Cuts the ends of samples [N] that are more than `top_db` below the loudest frame.

    The same samples as `librosa.effects.trim` keeps: centred frames of 2048 every 512, floor -100 dB, so that
    digital silence as a whole is kept.
    """
    start, end = loud_part([samples], top_db=top_db)
    return Trimmed(samples[start:end], start)


def loud_part(blocks: Iterable[np.ndarray], *, top_db: float = 60.0) -> tuple[int, int]:
    """Where the samples start and end, maybe beyond the last one, that `trim_silence` keeps of these blocks of them."""
    level_db = 20 * np.log10(np.maximum(_frame_rms(blocks), 1e-5))
    loud = np.flatnonzero(level_db - level_db.max() > -top_db)
    return int(loud[0]) * SILENCE_HOP, int(loud[-1] + 1) * SILENCE_HOP


def _frame_rms(blocks: Iterable[np.ndarray]) -> np.ndarray:
    """Root mean square of each frame, centred at multiples of the hop; beyond the ends are zeros."""
    rest = np.zeros(0, np.float32)
    found = []  # energy of parts of one hop, each in several frames
    for block in blocks:
        samples = np.concatenate([rest, block]) if len(rest) else block
        whole = len(samples) // SILENCE_HOP
        parts, rest = samples[: whole * SILENCE_HOP].reshape(whole, SILENCE_HOP), samples[whole * SILENCE_HOP :]
        found.append(np.einsum("bn,bn->b", parts, parts))
    parts_per_frame = SILENCE_FRAME // SILENCE_HOP
    before = np.zeros(parts_per_frame // 2, np.float32)
    after = np.zeros(parts_per_frame - 1 - len(before), np.float32)
    energy = np.concatenate([before, *found, np.atleast_1d(rest @ rest), after])
    return np.sqrt(np.lib.stride_tricks.sliding_window_view(energy, parts_per_frame).mean(axis=-1) / SILENCE_HOP)

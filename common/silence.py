"""Silence at the ends of a recording, which is cut off.

Legend of shapes: N samples.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

SILENCE_FRAME = 2048  # samples over which loudness is measured
SILENCE_HOP = 512  # samples between two measurements; divides SILENCE_FRAME


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

"""Where recordings are cut that a model must not hear whole: in pauses, found by loudness. Needs no torch.

Shapes: N samples, W windows.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from common.recognition.long_sound import LongSound

WINDOW_SECONDS = 0.02
PAUSE_SECONDS = 0.2  # of windows that are quiet, all of them
QUIET = 0.1  # of the loudness of speech: 20 dB below
LOUD_SHARE = 0.9  # windows that are not louder than speech is


class SoundStretch(NamedTuple):
    """Samples from number `start` on, and whether they end within a pause, or with the recording."""

    start: int
    samples_N: np.ndarray
    is_whole: bool


def stretches(
    samples_N: np.ndarray | LongSound, rate: int, *, preferred: float, longest: float
) -> Iterator[SoundStretch]:
    """A recording in stretches of at most `longest` seconds, one after the other.

    A stretch ends in the last pause before `preferred` seconds, or in the first one after them; where there is none, at
    the quietest place in between. Recordings up to `longest` seconds are one.
    """
    start, most, wanted = 0, int(longest * rate), int(preferred * rate)
    while len(samples_N) - start > most:
        near_N = samples_N[start : start + most]
        end, is_pause = _cut(near_N, rate, wanted)
        yield SoundStretch(start, near_N[:end], is_pause)
        start += end
    if start < len(samples_N):
        yield SoundStretch(start, samples_N[start : len(samples_N)], True)


def _cut(near_N: np.ndarray, rate: int, wanted: int) -> tuple[int, bool]:
    """Where in these samples to cut, and whether it is a pause."""
    size = max(1, int(WINDOW_SECONDS * rate))
    loudness_W = np.sqrt(np.square(near_N[: len(near_N) // size * size], dtype=np.float64).reshape(-1, size).mean(1))
    span = round(PAUSE_SECONDS / WINDOW_SECONDS)
    # The loudest window of each span: a span is a pause if that one is quiet.
    spans_W = np.lib.stride_tricks.sliding_window_view(loudness_W, span).max(1)
    pauses = np.flatnonzero(spans_W <= QUIET * np.quantile(loudness_W, LOUD_SHARE))
    middle, wanted_window = span // 2, wanted // size
    before = pauses[(pauses + middle <= wanted_window) & (pauses + middle >= wanted_window // 2)]
    after = pauses[pauses + middle > wanted_window]
    if len(before):
        return int(before[-1] + middle) * size, True
    if len(after):
        return int(after[0] + middle) * size, True
    late = min(wanted_window, len(spans_W) - 1)
    return int(late + spans_W[late:].argmin() + middle) * size, False

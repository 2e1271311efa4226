"""Where recordings are cut that a model must not hear whole: in pauses, found by loudness. Needs no torch.

Shapes: N samples, W windows.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from common.audio.waveform import INAUDIBLE
from common.recognition.output.transcripts import Word
from common.recognition.sources.long_sound import LongSound

WINDOW_SECONDS = 0.02
PAUSE_SECONDS = 0.2  # of windows that are quiet, all of them
QUIET = 0.1  # of the loudness of speech: 20 dB below
LONG_SHARE = 0.8  # of the longest pause, which a pause has that is as good
SOFT_WINDOWS = 2  # on both sides of a cut
LOUD_SHARE = 0.9  # windows that are not louder than speech is


class SoundStretch(NamedTuple):
    """Samples from number `start` on, of which those from `first` to `end` count: others are heard twice."""

    start: int
    samples_N: np.ndarray
    first: int
    end: int


def stretches(
    samples_N: np.ndarray | LongSound, rate: int, *, preferred: float, longest: float, overlap: float = 0.0
) -> Iterator[SoundStretch]:
    """A recording in stretches of at most `longest` seconds, one after the other.

    A stretch ends in the longest pause after half of `preferred` seconds, of about equally long ones in the last before
    so many or else the first after them; where there is none, at the quietest place after these, around which `overlap`
    seconds are in both. Recordings up to `longest` seconds are one. What nobody can hear at the beginning of a stretch
    is left out where it lasts for a second or more.
    """
    start, first, most, wanted = 0, 0, int(longest * rate), int(preferred * rate)
    half = int(overlap * rate / 2)
    while start < len(samples_N):
        near_N = samples_N[start : start + most]
        if skipped := _inaudible(near_N, rate):
            start = first = start + skipped
        elif start + most >= len(samples_N):
            yield SoundStretch(start, near_N, first, len(samples_N))
            return
        else:
            cut, is_pause = _cut(near_N[: most - half], rate, min(wanted, most - half))
            around = 0 if is_pause else min(half, cut // 2)
            yield SoundStretch(start, near_N[: cut + around], first, start + cut)
            first = start + cut
            start = first - around


def loud_windows(samples_N: np.ndarray, rate: int) -> np.ndarray:
    """Which windows of `WINDOW_SECONDS` are not as quiet as a pause is beside speech, as [W]."""
    loudness_W = _loudness(samples_N, rate)
    return loudness_W > _quiet(loudness_W) if len(loudness_W) else np.zeros(0, bool)


def between(words: Iterable[Word], after: float, before: float) -> list[Word]:
    """The words that a stretch is to give: of what two of them heard, one gives what the other does not.

    Of two stretches that overlap, the first gives the words whose middle comes before the seam, the second those whose
    middle comes after the end of the last of these: times decide, not texts, and a word that one of them hears a little
    later than the other is there once.
    """
    return [word for word in words if after <= (word.start + word.end) / 2 < before]


def _inaudible(near_N: np.ndarray, rate: int) -> int:
    """Samples at the beginning that nobody can hear, less than a second of which are none."""
    audible_N = np.abs(near_N) > INAUDIBLE
    count = int(audible_N.argmax()) if audible_N.any() else len(near_N)
    return count if count >= rate or count == len(near_N) else 0


def _cut(near_N: np.ndarray, rate: int, wanted: int) -> tuple[int, bool]:
    """Where in these samples to cut, and whether it is a pause."""
    size, loudness_W = _window(rate), _loudness(near_N, rate)
    span = round(PAUSE_SECONDS / WINDOW_SECONDS)
    edges = np.flatnonzero(np.diff(loudness_W <= _quiet(loudness_W), prepend=False, append=False)).reshape(-1, 2)
    pauses = edges[(edges[:, 1] - edges[:, 0] >= span) & (edges.sum(1) >= wanted // size)]
    if len(pauses):
        lengths = pauses[:, 1] - pauses[:, 0]
        long = pauses[lengths >= LONG_SHARE * lengths.max()]
        start, end = long[max(0, int((long.sum(1) <= 2 * wanted // size).sum()) - 1)]
        return _quietest(loudness_W, start, end) * size, True
    # The loudest window of each span.
    spans_W = np.lib.stride_tricks.sliding_window_view(loudness_W, span).max(1)
    late = min(wanted // size, len(spans_W) - 1)
    return int(late + spans_W[late:].argmin() + span // 2) * size, False


def _quietest(loudness_W: np.ndarray, start: int, end: int) -> int:
    """The window nearest to the middle of a pause around which it is quiet: a word may begin and end softly."""
    around = SOFT_WINDOWS
    spans_W = np.lib.stride_tricks.sliding_window_view(loudness_W[start:end], 2 * around + 1).max(1)
    quiet = np.flatnonzero(spans_W <= 2 * spans_W.min()) + around
    return int(start + quiet[np.abs(2 * quiet - (end - start)).argmin()])


def _window(rate: int) -> int:
    return max(1, int(WINDOW_SECONDS * rate))


def _loudness(samples_N: np.ndarray, rate: int) -> np.ndarray:
    """The root mean square of each window."""
    size = _window(rate)
    squares_WN = np.square(samples_N[: len(samples_N) // size * size], dtype=np.float64).reshape(-1, size)
    return np.sqrt(squares_WN.mean(1))


def _quiet(loudness_W: np.ndarray) -> float:
    """How loud a pause may be."""
    return QUIET * float(np.quantile(loudness_W, LOUD_SHARE))

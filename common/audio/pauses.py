"""Where nobody speaks: cutting long sound at its pauses.

Legend: N samples, F frames.
"""

from collections.abc import Iterator

import numpy as np

from common.audio.waveform import INAUDIBLE

FRAME_SECONDS = 0.02
SMOOTH_FRAMES = 15  # a pause between words is as long; a consonant is not


def quiet_cuts(samples_N: np.ndarray, rate: int, most_seconds: float) -> Iterator[tuple[int, int]]:
    """Pieces of the sound, each of at most `most_seconds`, as (first sample, end).

    A piece ends where the last half of what it might be is quietest for the length of a pause. What nobody can hear is
    in none where it lasts for a second or more.
    """
    frame, start = max(1, round(FRAME_SECONDS * rate)), 0
    most = max(2 * frame, round(most_seconds * rate))
    while start < len(samples_N):
        if skipped := _inaudible(samples_N[start : start + most], rate):
            start += skipped
            continue
        stop = min(len(samples_N), start + most)
        if stop < len(samples_N):
            half = (stop - start) // 2
            last_N = samples_N[start + half : stop]
            power_F = np.square(last_N[: len(last_N) // frame * frame].reshape(-1, frame)).mean(1)
            width = min(SMOOTH_FRAMES, len(power_F))
            smooth_F = np.convolve(power_F, np.ones(width) / width, "valid")
            stop = start + half + (int(smooth_F.argmin()) + width // 2) * frame
        yield start, stop
        start = stop


def _inaudible(samples_N: np.ndarray, rate: int) -> int:
    """Samples at the beginning that nobody can hear, less than a second of which are none."""
    audible_N = np.abs(samples_N) > INAUDIBLE
    n = int(audible_N.argmax()) if audible_N.any() else len(samples_N)
    return n if n >= rate else 0

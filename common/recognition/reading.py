"""Recordings to their transcripts: log-probabilities of CTC that come in parts, and what is told of such that are none.

Needs no torch. Shapes: S frames, V labels with the blank, X any features.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from common.ahead import in_threads
from common.recognition.decoding import CTCDecoder, Stretch
from common.recognition.output.transcripts import Reading, Transcript, transcript_of, words_of
from common.recognition.sources.recordings import Recording

if TYPE_CHECKING:  # its module needs torch
    from common.devices.precision import InferencePrecision


def transcripts(
    found: Iterable[tuple[Recording, Iterable[ArrayLike]]],
    decoder: CTCDecoder,
    *,
    seconds_per_frame: float,
    precision: "InferencePrecision",
    threads: int = 1,
    keep_log_probs: bool = False,
) -> Iterator[Transcript]:
    """What `decoder` reads in log_probs_SV of recordings, which come in parts, in order.

    So many `threads` search, the best path is taken where it is asked for. Log-probabilities that are not finite make
    an `error` that names `precision`. Memory holds a few stretches and the words, and with `keep_log_probs` all frames.
    """

    def stretches() -> Iterator[tuple[_Reading, Stretch | None]]:
        for recording, parts in found:
            own = _Reading(recording, decoder, seconds_per_frame, precision, keep_log_probs)
            for stretch in decoder.stretches(own.usable(parts)):
                yield own, stretch
            yield own, None

    def read(given: tuple[_Reading, Stretch | None]) -> tuple[_Reading, Stretch | None, list[Reading]]:
        own, stretch = given
        return own, stretch, decoder.read(stretch) if stretch is not None else []

    searches = decoder.options.searches
    for own, stretch, readings in (
        in_threads(stretches(), read, threads=threads) if searches else map(read, stretches())
    ):
        if stretch is None:
            yield own.transcript()
        else:
            own.joined.add(readings, space_at=stretch.space_at)


class _Reading:
    """A recording that is being read."""

    def __init__(
        self,
        recording: Recording,
        decoder: CTCDecoder,
        seconds_per_frame: float,
        precision: "InferencePrecision",
        keep_log_probs: bool,
    ):
        self.recording, self.decoder = recording, decoder
        self.seconds_per_frame, self.precision = seconds_per_frame, precision
        self.error = ""
        self.kept = [np.zeros((0, len(decoder.labels)), np.float32)] if keep_log_probs else None
        self.joined = decoder.joined(
            lambda letters: words_of(
                letters, recording, separator=decoder.separator, seconds_per_frame=seconds_per_frame
            )
        )

    def usable(self, parts: Iterable[ArrayLike]) -> Iterator[np.ndarray]:
        """The parts, up to one that is not finite."""
        for log_probs_SV in map(np.asarray, parts):
            self.error = not_finite(self.recording.name, log_probs_SV, self.precision)
            if self.error:
                return
            if self.kept is not None:
                self.kept.append(log_probs_SV)
            yield log_probs_SV

    def transcript(self) -> Transcript:
        """What was read in all of it."""
        error = self.recording.failure or self.error
        return transcript_of(
            self.recording,
            [] if error else self.joined.result(),
            seconds_per_frame=self.seconds_per_frame,
            error=error,
            log_probs_SV=np.concatenate(self.kept) if self.kept is not None and not error else None,
        )


def not_finite(name: str, x_SX: ArrayLike, precision: "InferencePrecision") -> str:
    """A message where the network gives NaN or infinity for recording `name`, as an overflow in fp16 does; else ""."""
    x_SX = np.asarray(x_SX)
    if np.isfinite(x_SX).all():
        return ""
    found = "NaN" if np.isnan(x_SX).any() else "infinity"
    return f"{name}: {gives(found, precision)}"


def gives(found: str, precision: "InferencePrecision") -> str:
    """A message where the network gives what is no number."""
    advice = "take bf16 or fp32" if precision == "fp16" else "its weights are damaged"
    return f"the network gives {found} in {precision}; {advice}"

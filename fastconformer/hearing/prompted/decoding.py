"""What texts after prompts are found from, and how: frames of stretches, a search, a language model. Needs no torch.

Shapes: S encoder frames, V classes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from common.recognition.decoding import Scorers
from common.text.pieces import Pieces
from fastconformer.attention.search import AttentionMemory, SearchOptions

BEAM = 4
"""Sequences that a search keeps where options ask for one and not for how many."""


class Identified(NamedTuple):
    """A language and its probability among those that the model knows."""

    language: str
    probability: float


class HeardFrames(NamedTuple):
    """What a decoder needs of some stretches: keys and values, and how many frames they are of."""

    heard: list[AttentionMemory]
    counts: list[int]
    log_probs: list[np.ndarray]
    """[S, V] by the CTC head, of each; none where there is no such head."""

    def some(self, rows: Sequence[int]) -> "HeardFrames":
        """Those of some stretches."""
        log_probs = [self.log_probs[row] for row in rows] if self.log_probs else []
        return HeardFrames([self.heard[row] for row in rows], [self.counts[row] for row in rows], log_probs)


class CtcFrames(NamedTuple):
    """Log-probabilities [S, V] of some stretches, and what they are of."""

    log_probs: list[np.ndarray]
    pieces: Pieces
    seconds_per_frame: float


@dataclass(frozen=True, kw_only=True)
class AttentionDecoding:
    """How texts are found."""

    search: SearchOptions
    known: Scorers
    """What is known besides the network."""
    ctc_weight: float = 0.0
    """Share of the CTC head's log-probability in the scores of transcripts that a beam has found."""

    def spelled(self, words: Iterable[str]) -> tuple[str, ...]:
        """Those of `words` that the pieces can spell."""
        return self.known.spelled(words)

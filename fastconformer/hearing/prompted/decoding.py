"""What texts after prompts are found from, and how: frames of stretches, a search, a language model. Needs no torch.

Shapes: S encoder frames, V classes.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import ctc
from common.config import ConfigError
from common.recognition.decoding import DecodingOptions, spelled_by
from common.text.pieces import Pieces
from fastconformer.attention.pieces import PromptedPieces
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
    """How texts are found, made once, since a language model takes time to read."""

    search: SearchOptions
    options: DecodingOptions
    pieces: PromptedPieces
    scorer: ctc.Scorer | None = None
    ctc_weight: float = 0.0
    """Share of the CTC head's log-probability in the scores of transcripts that a beam has found."""

    def spelled(self, words: Iterable[str]) -> tuple[str, ...]:
        """Those of `words` that the pieces can spell."""
        return spelled_by(self.scorer, self.pieces.labels, words)

    @functools.lru_cache(maxsize=64)  # noqa: B019  a decoding lives as long as what it decodes
    def with_words(self, hot_words: tuple[str, ...]) -> ctc.Scorer | None:
        """What is known besides the network, with more words to favour. Raises ConfigError for other letters."""
        if not hot_words:
            return self.scorer
        boosts = dict.fromkeys((*self.options.hot_words, *hot_words), self.options.hot_word_boost)
        try:
            return (self.scorer or ctc.Scorer(self.pieces.labels)).with_hot_words(boosts)
        except ValueError as error:
            raise ConfigError(f"decoding: {error}") from None

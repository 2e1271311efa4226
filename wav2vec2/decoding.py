"""Log-probabilities to letters with their frames: the best path, or a beam search that may know a language model.

Shapes: S frames, V labels.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

import ctc
from common.checkpoint import CheckpointError
from common.config import ConfigError
from common.recognition.transcripts import Letter
from ctc.arpa import ArpaError
from wav2vec2.corpus.letters import Letters, is_special
from wav2vec2.network.config import ModelConfig

# A beam search and its alignment take memory with the square of the length: they are done between pauses.
LONGEST_STRETCH = 1500  # frames, 30 s
PAUSE = 15  # frames over which it is looked for where nothing is spelled
WITHIN_WORD = 1e6  # what a log-probability is lowered by, so that words are cut only where there is nothing else
NONE = -1  # in place of the number of a label that the model does not write


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How transcripts come of probabilities."""

    beam: int = 0
    """Label sequences that a beam search keeps; 0: the best label of every frame, or 100 where words are known."""
    language_model: Path | None = None
    """ARPA file (.arpa or .arpa.gz) of words, written as the model's labels are: a beam search with it."""
    weight: float = ctc.ScorerOptions.weight
    """Factor of the language model's log-probabilities."""
    word_bonus: float = ctc.ScorerOptions.word_bonus
    """Added for every word, against the language model's liking for few."""
    hot_words: tuple[str, ...] = ()
    """Words or phrases that are to be expected: a beam search that favours them."""
    hot_word_boost: float = 5.0
    """Added for each of them."""

    def __post_init__(self) -> None:
        if self.beam < 0:
            raise ValueError(f"decoding.beam = {self.beam}: expected a number of sequences, or 0")

    @property
    def searches(self) -> bool:
        """Whether more than the best path is looked at."""
        return bool(self.beam or self.language_model or self.hot_words)


class Decoder:
    """Decodes what a model with these labels gives; made once, since a language model takes time to read."""

    def __init__(self, config: ModelConfig, options: DecodingOptions | None = None):
        """Raises CheckpointError for labels without names, ConfigError for words that cannot be used."""
        self.labels, self.blank, self.options = config.labels, config.blank, options or DecodingOptions()
        self.separator = Letters(config.labels).separator
        self.separator_label = self.labels.index(self.separator) if self.separator in self.labels else NONE
        if all(map(is_special, self.labels)):
            raise CheckpointError(
                f"the checkpoint does not say what its {len(self.labels)} labels are; name its dictionary "
                "(dict.ltr.txt) with --labels"
            )
        self.scorer = self._scorer() if self.options.language_model or self.options.hot_words else None

    def __call__(self, log_probs_SV: Tensor) -> list[Letter]:
        """The letters of one recording, float32 on the CPU; separators stand between words."""
        if not self.options.searches:
            (best,) = ctc.greedy(log_probs_SV[None], [len(log_probs_SV)], blank=self.blank)
            return list(self._letters(best.labels, best.start_frames, best.end_frames, best.confidence))
        letters: list[Letter] = []
        between_words_S = self._between_words(log_probs_SV)
        for first, end in self._stretches(log_probs_SV, between_words_S):
            letters += self._searched(log_probs_SV[first:end], first)
            if between_words_S[end : end + 1].any():
                letters.append(Letter(self.separator, end, end, 1.0))
        return letters

    def _searched(self, log_probs_SV: Tensor, first: int) -> Iterator[Letter]:
        lengths = [len(log_probs_SV)]
        options = ctc.BeamOptions(beam=self.options.beam or ctc.BeamOptions.beam)
        ((found, *_),) = ctc.beam_search(
            log_probs_SV[None], lengths, blank=self.blank, scorer=self.scorer, options=options
        )
        (path,) = ctc.align(log_probs_SV[None], [found.labels], lengths, blank=self.blank)
        starts, ends = ([first + frame for frame in frames] for frames in (path.start_frames, path.end_frames))
        return self._letters(found.labels, starts, ends, map(math.exp, path.scores))

    def _letters(
        self, labels: list[int], starts: list[int], ends: list[int], confidence: Iterable[float]
    ) -> Iterator[Letter]:
        spelled = map(Letter, (self.labels[label] for label in labels), starts, ends, confidence)
        return (letter for letter in spelled if not is_special(letter.text))

    def _between_words(self, log_probs_SV: Tensor) -> Tensor:
        """[S]: whether the last letter of the best path, up to a frame, ended a word."""
        best_S = log_probs_SV.argmax(1)
        frame_S = torch.arange(len(best_S)).masked_fill(best_S == self.blank, 0).cummax(0).values
        return best_S[frame_S] == self.separator_label

    def _stretches(self, log_probs_SV: Tensor, between_words_S: Tensor) -> Iterator[tuple[int, int]]:
        """All frames, in stretches that end between words, where a blank or a separator is the surest."""
        quiet_S = log_probs_SV[:, sorted({self.blank, self.separator_label} - {NONE})].logsumexp(1)
        mean_S = F.avg_pool1d(quiet_S[None], PAUSE, stride=1, padding=PAUSE // 2, count_include_pad=False)[0]
        mean_S -= WITHIN_WORD * ~between_words_S
        bounds = [0]
        while len(log_probs_SV) - bounds[-1] > LONGEST_STRETCH:
            earliest = bounds[-1] + LONGEST_STRETCH // 2
            bounds.append(earliest + int(mean_S[earliest : bounds[-1] + LONGEST_STRETCH].argmax()))
        return pairwise([*bounds, len(log_probs_SV)])

    def _scorer(self) -> ctc.Scorer:
        options = self.options
        try:
            return ctc.Scorer(
                self.labels,
                model=ctc.read_arpa(options.language_model) if options.language_model is not None else None,
                hot_words=dict.fromkeys(options.hot_words, options.hot_word_boost),
                options=ctc.ScorerOptions(
                    boundary=self.separator, weight=options.weight, word_bonus=options.word_bonus
                ),
            )
        except (ArpaError, OSError, ValueError) as error:
            raise ConfigError(f"decoding: {error}") from None

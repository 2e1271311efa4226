"""Log-probabilities of CTC to words with their times: the best path, or a beam search that may know a language model.

Shapes: S frames, V labels with the blank.
"""

import heapq
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

import ctc
from common.config import ConfigError
from common.precision import Precision
from common.recognition.recordings import Recording, in_threads
from common.recognition.transcripts import Letter, Reading, Transcript, transcript_of
from common.text.vocabulary import is_special
from ctc.arpa import ArpaError

# A beam search and its alignment take memory with the square of the length: they are done between pauses.
LONGEST_STRETCH = 1500  # frames, 30 s of 20 ms each
PAUSE = 15  # frames over which a pause is looked for
WITHIN_WORD = 1e6  # subtracted from log-probabilities within words, which are cut only where there is nothing else
SAME_TEXT = 4  # label sequences searched for each text wanted: some differ in separators and special labels alone
NONE = -1  # in place of the number of a label that the model does not have


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How transcripts are found from the probabilities of the labels."""

    beam: int = 0
    """Label sequences kept by the beam search; 0: no search but the best label of every frame, or 100 where another
    option of decoding needs a search."""
    language_model: Path | None = None
    """ARPA file (.arpa or .arpa.gz) of words, spelled with the model's labels, for the beam search."""
    weight: float = ctc.ScorerOptions.weight
    """Factor of the language model's log-probabilities."""
    word_bonus: float = ctc.ScorerOptions.word_bonus
    """Score added for every word, because a language model prefers few words."""
    hot_words: tuple[str, ...] = ()
    """Words or phrases that the beam search favours."""
    hot_word_boost: float = 5.0
    """Score added for every hot word."""
    n_best: int = 1
    """Transcripts per recording, best first; those after the best one are written in the format json."""

    def __post_init__(self) -> None:
        if self.beam < 0:
            raise ValueError(f"decoding.beam = {self.beam}: expected a number of sequences, or 0")
        if not 1 <= self.n_best <= self.width:
            raise ValueError(f"decoding.n_best = {self.n_best}: expected 1 up to the beam, which is {self.width}")

    @property
    def width(self) -> int:
        """Label sequences that a search keeps."""
        return self.beam or ctc.BeamOptions.beam

    @property
    def knows_language(self) -> bool:
        """Whether there is a language model, or words to favour."""
        return bool(self.language_model or self.hot_words)

    @property
    def searches(self) -> bool:
        """Whether a beam search is needed."""
        return bool(self.beam or self.knows_language or self.n_best > 1)


class Decoder:
    """Decodes what a model with these labels gives; made once, since a language model takes time to read."""

    def __init__(
        self, labels: Sequence[str], *, blank: int, separator: str = " ", options: DecodingOptions | None = None
    ):
        """`labels`: all V of them, the blank included, letters or pieces of words (see `ctc.label_texts`).

        `separator`: the one between words, if it is among them.

        Labels like <s> or [UNK] are never written. Raises ConfigError for words or files that cannot be used.
        """
        self.labels, self.blank, self.separator = tuple(labels), blank, separator
        self.options = options or DecodingOptions()
        self.separator_label = self.labels.index(separator) if separator in self.labels else NONE
        texts = ctc.label_texts(self.labels, boundary=separator)
        self._parts = [[part for part in re.split("( )", text) if part] for text in texts]
        self._begins_V, self._ends_V = (
            torch.tensor([bool(parts) and parts[end] == " " for parts in self._parts]) for end in (0, -1)
        )
        self.scorer = scorer_of(self.labels, self.options, separator=separator) if self.options.knows_language else None

    def __call__(self, log_probs_SV: Tensor) -> list[Reading]:
        """The readings of one recording, float32 on the CPU: up to options.n_best with different texts, best first."""
        if not self.options.searches:
            (best,) = ctc.greedy(log_probs_SV[None], [len(log_probs_SV)], blank=self.blank)
            letters = self._letters(best.labels, best.start_frames, best.end_frames, best.confidence)
            return [Reading(letters, float(log_probs_SV.max(1).values.sum()))]
        readings = [Reading([], 0.0)]
        between_words_S = self._between_words(log_probs_SV)
        for first, end in self._stretches(log_probs_SV, between_words_S):
            found = self._searched(log_probs_SV[first:end], first)
            space = [Letter(self.separator, end, end, 1.0)] if between_words_S[end : end + 1].any() else []
            joined = (Reading([*a.letters, *b.letters, *space], a.score + b.score) for a in readings for b in found)
            readings = self._best(joined)
        return readings

    def _best(self, readings: Iterable[Reading]) -> list[Reading]:
        """The best options.n_best with different texts."""
        ordered = heapq.nsmallest(self.options.n_best**2, readings, key=lambda reading: -reading.score)
        by_text: dict[str, Reading] = {}
        for reading in ordered:
            by_text.setdefault(self._text(letter.text for letter in reading.letters), reading)
        return list(by_text.values())[: self.options.n_best]

    def _text(self, letters: Iterable[str]) -> str:
        """The words, whatever separators and special labels stand between and within them."""
        spelled = "".join(letter for letter in letters if not is_special(letter))
        return " ".join(spelled.replace(self.separator, " ").split())

    def _searched(self, log_probs_SV: Tensor, first: int) -> list[Reading]:
        wanted = self.options.n_best
        n_best = 1 if wanted == 1 else min(self.options.width, SAME_TEXT * wanted)
        (hypotheses,) = ctc.beam_search(
            log_probs_SV[None],
            [len(log_probs_SV)],
            blank=self.blank,
            scorer=self.scorer,
            options=ctc.BeamOptions(beam=self.options.width, n_best=n_best),
        )
        by_text: dict[str, ctc.Hypothesis] = {}
        for hypothesis in hypotheses:
            spelled = "".join(part for label in hypothesis.labels for part in self._parts[label])
            by_text.setdefault(" ".join(spelled.split()), hypothesis)
        readings = []
        for hypothesis in list(by_text.values())[:wanted]:
            spans = list(zip(hypothesis.labels, hypothesis.start_frames, hypothesis.end_frames, strict=True))
            sure = [math.exp(float(log_probs_SV[start:end, label].mean())) for label, start, end in spans]
            starts, ends = ([first + span[i] for span in spans] for i in (1, 2))
            readings.append(Reading(self._letters(hypothesis.labels, starts, ends, sure), hypothesis.score))
        return readings

    def _letters(
        self, labels: list[int], starts: list[int], ends: list[int], confidence: Iterable[float]
    ) -> list[Letter]:
        letters = []
        for label, start, end, sure in zip(labels, starts, ends, confidence, strict=True):
            parts = self._parts[label]
            if len(parts) == 1:
                letters.append(Letter(self.separator if parts[0] == " " else parts[0], start, end, sure))
                continue
            for place, part in enumerate(parts):  # a boundary of a piece takes no time of its own
                edge = start if place == 0 else end
                is_boundary = part == " "
                letters.append(
                    Letter(self.separator, edge, edge, 1.0) if is_boundary else Letter(part, start, end, sure)
                )
        return letters

    def _between_words(self, log_probs_SV: Tensor) -> Tensor:
        """[S]: whether the best path is between words after a frame, by the label up to it, and that after it."""
        best_S = log_probs_SV.argmax(1)
        frames = len(best_S)
        is_blank_S, at_S = best_S == self.blank, torch.arange(frames)
        before_S = at_S.masked_fill(is_blank_S, 0).cummax(0).values
        after_S = at_S.masked_fill(is_blank_S, frames).flip(0).cummin(0).values.flip(0)
        after_S = torch.cat([after_S[1:], torch.tensor([frames])[: len(after_S)]])
        begins_S = torch.cat([self._begins_V[best_S], torch.tensor([False])])
        begins_S[:frames] &= best_S != self.separator_label
        begins_S[1:frames] &= best_S[1:] != best_S[:-1]  # the others are still held
        return self._ends_V[best_S[before_S]] | begins_S[after_S]

    def _stretches(self, log_probs_SV: Tensor, between_words_S: Tensor) -> Iterator[tuple[int, int]]:
        """All frames, in stretches that end between words, where a blank or a separator is most probable."""
        quiet_S = log_probs_SV[:, sorted({self.blank, self.separator_label} - {NONE})].logsumexp(1)
        mean_S = F.avg_pool1d(quiet_S[None], PAUSE, stride=1, padding=PAUSE // 2, count_include_pad=False)[0]
        mean_S -= WITHIN_WORD * ~between_words_S
        bounds = [0]
        while len(log_probs_SV) - bounds[-1] > LONGEST_STRETCH:
            earliest = bounds[-1] + LONGEST_STRETCH // 2
            bounds.append(earliest + int(mean_S[earliest : bounds[-1] + LONGEST_STRETCH].argmax()))
        return pairwise([*bounds, len(log_probs_SV)])


def scorer_of(labels: Sequence[str], options: DecodingOptions, *, separator: str = " ") -> ctc.Scorer:
    """What `options` know of the language. The language model is one of labels where most of its words are labels.

    Raises ConfigError for words or files that cannot be used.
    """
    try:
        model = ctc.read_model(options.language_model) if options.language_model is not None else None
        words = [word for word in model.vocabulary if not is_special(word)] if model is not None else []
        known = {*labels, ctc.SPACE}
        is_of_labels = sum(word in known for word in words) > len(words) / 2
        return ctc.Scorer(
            labels,
            model=model,
            hot_words=dict.fromkeys(options.hot_words, options.hot_word_boost),
            options=ctc.ScorerOptions(
                unit="token" if is_of_labels else "word",
                boundary=separator,
                weight=options.weight,
                word_bonus=options.word_bonus,
            ),
        )
    except (ArpaError, OSError, ValueError) as error:
        raise ConfigError(f"decoding: {error}") from None


def transcripts(
    found: Iterable[tuple[Recording, Tensor | None]],
    decoder: Decoder,
    *,
    seconds_per_frame: float,
    precision: Precision,
    keep_log_probs: bool = False,
) -> Iterator[Transcript]:
    """What `decoder` reads in log_probs_SV of recordings (None where there are no frames), in order.

    Threads search, the best path is taken where it is asked for. Log-probabilities that are not finite make an
    `error` that names `precision`.
    """

    def transcript(recognised: tuple[Recording, Tensor | None]) -> Transcript:
        recording, log_probs_SV = recognised
        if log_probs_SV is None:
            log_probs_SV = torch.zeros(0, len(decoder.labels))
        error = recording.error or not_finite(recording.name, log_probs_SV, precision)
        return transcript_of(
            recording,
            decoder(log_probs_SV) if len(log_probs_SV) and not error else [],
            separator=decoder.separator,
            seconds_per_frame=seconds_per_frame,
            error=error,
            log_probs_SV=log_probs_SV if keep_log_probs and not error else None,
        )

    if not decoder.options.searches:
        return map(transcript, found)
    return in_threads(found, transcript, threads=torch.get_num_threads())


def not_finite(name: str, x_SX: Tensor, precision: Precision) -> str:
    """A message where the network gives NaN or infinity for recording `name`, as an overflow in fp16 does; else ""."""
    if x_SX.isfinite().all():
        return ""
    found = "NaN" if x_SX.isnan().any() else "infinity"
    advice = "take bf16 or fp32" if precision == "fp16" else "its weights are damaged"
    return f"{name}: the network gives {found} in {precision}; {advice}"

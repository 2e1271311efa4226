"""Log-probabilities of CTC to words with their times: the best path, or a beam search that may know a language model.

Needs no torch: log-probabilities are arrays, or tensors on the CPU, which are taken as arrays.

Shapes: S frames, V labels with the blank.
"""

import functools
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

import ctc
from common.config import ConfigError
from common.recognition.output.joining import Joined, Part
from common.recognition.output.transcripts import Letter, Reading
from common.text.vocabulary import is_special
from ctc.language_models.arpa import ArpaError

if TYPE_CHECKING:  # its module needs torch
    pass

# A beam search and its alignment take memory with the square of the length: they are done between pauses.
LONGEST_STRETCH = 1500  # frames, 30 s of 20 ms each
PAUSE = 15  # frames over which a pause is looked for
WITHIN_WORD = 1e6  # subtracted from log-probabilities within words, which are cut only where there is nothing else
SAME_TEXT = 4  # label sequences searched for each text wanted: some differ in separators and special labels alone
MOST_KEPT = 256  # sets of words to favour whose tables are kept for the next recording that has them
NONE = -1  # in place of the number of a label that the model does not have


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How transcripts are found from the probabilities of the labels."""

    beam: int = 0
    """Label sequences kept by the beam search; 0: no search but the best label of every frame, or, where another option
    of decoding needs a search, 100 by CTC and 4 by a transducer."""
    language_model: Path | None = None
    """ARPA file (plain, .gz, .bz2 or .xz) or compiled model of words, spelled with the model's labels, or of the pieces
    of a transducer, which needs no beam search for it."""
    weight: float = ctc.ScorerOptions.weight
    """Factor of the language model's log-probabilities."""
    internal_weight: float | None = None
    """Factor of the log-probabilities of a transducer's internal language model, subtracted because the language model
    replaces it: what the prediction network expects as the next label without any audio (Meng et al. 2021,
    arXiv:2011.01991). By default a third of weight with a language model of pieces, and 0 with one of words."""
    word_bonus: float = ctc.ScorerOptions.word_bonus
    """Score added for every word (every piece by a language model of pieces), because a language model prefers few."""
    hot_words: tuple[str, ...] = ()
    """Words or phrases that are favoured."""
    hot_word_boost: float = 5.0
    """Score added for every hot word."""
    n_best: int = 1
    """Transcripts per recording, best first; those after the best one are written in the format json."""
    thorough: bool | None = None
    """Whether a search by CTC is thorough: it also ranks paths that end in a blank apart, and at the end sums each text
    over all its alignments. Its score is never worse at an equal beam, in 2 to 5 times the time. By default where a
    search has all frames at once; not in models with streams, whose parts give what the whole gives."""

    def __post_init__(self) -> None:
        if self.beam < 0:
            raise ValueError(f"decoding.beam = {self.beam}: expected a number of sequences, or 0")
        if self.internal_weight is not None and not 0 <= self.internal_weight < math.inf:
            raise ValueError(f"decoding.internal_weight = {self.internal_weight}: expected a number, at least 0")
        if self.internal_weight and self.language_model is None:
            told = "expected decoding.language_model with it, which takes the place of the internal one"
            raise ValueError(f"decoding.internal_weight = {self.internal_weight}: {told}")
        if not 1 <= self.n_best <= self.width:
            raise ValueError(f"decoding.n_best = {self.n_best}: expected 1 up to the beam, which is {self.width}")

    @property
    def width(self) -> int:
        """Label sequences that a search keeps."""
        return self.beam or ctc.BeamOptions.beam

    @property
    def is_thorough(self) -> bool:
        """Whether a search by CTC of all frames at once is a thorough one."""
        return self.thorough is not False

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that decoding reads."""
        return () if self.language_model is None else (self.language_model,)

    @property
    def knows_language(self) -> bool:
        """Whether there is a language model, or words to favour."""
        return bool(self.language_model or self.hot_words)

    @property
    def language(self) -> tuple[Path | None, float, float]:
        """What a scorer takes from them beside the words to favour."""
        return self.language_model, self.weight, self.word_bonus

    @property
    def searches(self) -> bool:
        """Whether a beam search is needed."""
        return bool(self.beam or self.knows_language or self.n_best > 1 or self.thorough)


class Stretch(NamedTuple):
    """Frames of a recording from number `first` on; `space_at` where words end after them."""

    first: int
    log_probs_SV: np.ndarray
    space_at: int | None


class _Cut(NamedTuple):
    """The end of a stretch, 0 if it is not known yet; whether it is between words, and the last label ends one."""

    end: int
    is_between: bool = False
    ends_word: bool = False


class Scorers:
    """What decoding knows besides a network of these labels, made once, since a language model takes time to read."""

    def __init__(self, labels: Sequence[str], options: DecodingOptions, *, separator: str = " ", like: Any = None):
        """`separator`: the label between words, if it is among them; `like`: as for `scorer_of`. Raises ConfigError."""
        self.labels, self.options, self.separator = tuple(labels), options, separator
        self.scorer = scorer_of(self.labels, options, separator=separator, like=like)
        self._with_words: dict[tuple[str, ...], ctc.Scorer] = {}
        self._lock = threading.Lock()  # batches are decoded in several threads

    def spelled(self, words: Iterable[str]) -> tuple[str, ...]:
        """Those of `words` that the labels can spell."""
        return tuple(word for word in words if self._scorer.spells(word))

    def scorer_with(self, hot_words: tuple[str, ...]) -> ctc.Scorer | None:
        """What is known, with more words to favour. Raises ConfigError for other letters."""
        if not hot_words:
            return self.scorer
        boosts = dict.fromkeys((*self.options.hot_words, *hot_words), self.options.hot_word_boost)
        with self._lock:
            if hot_words not in self._with_words:
                try:
                    self._with_words[hot_words] = self._scorer.with_hot_words(boosts)
                except ValueError as error:
                    raise ConfigError(f"decoding: {error}") from None
            found = self._with_words[hot_words]
            if len(self._with_words) > MOST_KEPT:
                del self._with_words[next(iter(self._with_words))]
        return found

    @functools.cached_property
    def _scorer(self) -> ctc.Scorer:
        return self.scorer or ctc.Scorer(self.labels, options=ctc.ScorerOptions(boundary=self.separator))


class CTCDecoder(Scorers):
    """Decodes what a model with these labels gives."""

    def __init__(
        self,
        labels: Sequence[str],
        *,
        blank: int,
        separator: str = " ",
        options: DecodingOptions | None = None,
        like: "CTCDecoder | None" = None,
    ):
        """`labels`: all V of them, the blank included, letters or pieces of words (see `ctc.label_texts`).

        `separator`: the one between words, if it is among them. `like`: as for `scorer_of`.

        Labels like <s> or [UNK] are never written. Raises ConfigError for words or files that cannot be used.
        """
        refuse_internal_weight(options := options or DecodingOptions())
        super().__init__(labels, options, separator=separator, like=like)
        self.blank = blank
        self.separator_label = self.labels.index(separator) if separator in self.labels else NONE
        texts = ctc.label_texts(self.labels, boundary=separator)
        self._parts = [[part for part in re.split("( )", text) if part] for text in texts]
        self._begins_V, self._ends_V = (
            np.array([bool(parts) and parts[end] == " " for parts in self._parts]) for end in (0, -1)
        )

    def __call__(self, log_probs_SV: ArrayLike) -> list[Reading]:
        """The readings of one recording, float32: up to options.n_best with different texts, best first."""
        joined = self.joined(lambda letters: letters)
        for stretch in self.stretches([log_probs_SV]):
            joined.add(self.read(stretch), space_at=stretch.space_at)
        return [Reading(letters, score) for letters, score in joined.result()]

    def joined(self, finish: Callable[[Sequence[Letter]], Sequence[Part]]) -> Joined[Part]:
        """Joins the readings of stretches; `finish` as for `Joined`."""
        return Joined(finish, separator=self.separator, n_best=self.options.n_best)

    def stretches(self, parts: Iterable[ArrayLike]) -> Iterator[Stretch]:
        """A recording's log-probabilities, which come in parts, in stretches that are read one by one.

        A stretch ends where no label goes on, and for a search between words, where a blank or a separator is most
        probable. Where stretches end does not depend on where parts do.
        """
        held_SV, first, ends_word = np.zeros((0, len(self.labels)), np.float32), 0, False
        for part_SV, is_last in _and_last(map(np.asarray, parts)):
            held_SV = np.concatenate([held_SV, part_SV]) if len(held_SV) else part_SV
            while len(held_SV) and (cut := self._cut(held_SV, ends_word, is_last=is_last)).end:
                yield Stretch(first, held_SV[: cut.end], first + cut.end if cut.is_between else None)
                held_SV, first, ends_word = held_SV[cut.end :], first + cut.end, cut.ends_word

    def read(self, stretch: Stretch) -> list[Reading]:
        """The readings of one stretch, best first."""
        log_probs_SV, first = stretch.log_probs_SV, stretch.first
        if self.options.searches:
            return self.searched(log_probs_SV, first)
        (best,) = ctc.greedy(log_probs_SV[None], [len(log_probs_SV)], blank=self.blank)
        starts, ends = ([first + frame for frame in frames] for frames in (best.start_frames, best.end_frames))
        letters = self._letters(best.labels, starts, ends, best.confidence)
        return [Reading(letters, float(log_probs_SV.max(1).sum()))]

    def searched(self, log_probs_SV: np.ndarray, first: int) -> list[Reading]:
        """The best readings of a stretch that a beam search finds; `first` is the number of its first frame."""
        wanted = self.options.n_best
        n_best = 1 if wanted == 1 else min(self.options.width, SAME_TEXT * wanted)
        (hypotheses,) = ctc.beam_search(
            log_probs_SV[None],
            [len(log_probs_SV)],
            blank=self.blank,
            scorer=self.scorer,
            options=ctc.BeamOptions(beam=self.options.width, n_best=n_best, thorough=self.options.is_thorough),
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

    def _cut(self, log_probs_SV: np.ndarray, ends_word: bool, *, is_last: bool) -> _Cut:
        """Where the next stretch ends in these frames; `ends_word`: whether the last label before them ends a word."""
        frames = len(log_probs_SV)
        if not self.options.searches:
            best_S = log_probs_SV.argmax(1)
            changes = np.flatnonzero(best_S != best_S[-1])
            goes_on = not is_last and best_S[-1] != self.blank
            return _Cut((int(changes[-1]) + 1 if len(changes) else 0) if goes_on else frames)
        if frames <= LONGEST_STRETCH:
            return _Cut(frames if is_last else 0)
        seen = LONGEST_STRETCH + LONGEST_STRETCH // 2
        if frames < seen and not is_last:
            return _Cut(0)
        log_probs_SV = log_probs_SV[:seen]
        between_words_S = self.between_words(log_probs_SV, ends_word, goes_on=frames > seen or not is_last)
        quiet_S = np.logaddexp.reduce(log_probs_SV[:, sorted({self.blank, self.separator_label} - {NONE})], 1)
        window = np.ones(PAUSE)
        mean_S = np.convolve(quiet_S, window, "same") / np.convolve(np.ones_like(quiet_S), window, "same")
        mean_S[1:] -= WITHIN_WORD * ~(between_words_S[1:] & between_words_S[:-1])  # the frame before ends a word too
        earliest = LONGEST_STRETCH // 2
        end = earliest + int(mean_S[earliest:LONGEST_STRETCH].argmax())
        spoken_S = (best_S := log_probs_SV[:end].argmax(1))[best_S != self.blank]
        return _Cut(
            end,
            bool(between_words_S[end] & between_words_S[end - 1]),
            bool(self._ends_V[spoken_S[-1]]) if len(spoken_S) else ends_word,
        )

    def between_words(self, log_probs_SV: ArrayLike, ends_before: bool = False, *, goes_on: bool = False) -> np.ndarray:
        """[S]: whether the best path is between words after a frame, by the label up to it, and that after it.

        `ends_before`: whether the last label before all of them ends a word. `goes_on`: there are more frames after
        them, and where no label comes in those that are seen, the pause is long enough to stand between words.
        """
        best_S = np.asarray(log_probs_SV).argmax(1)
        frames = len(best_S)
        is_blank_S, at_S = best_S == self.blank, np.arange(frames)
        before_S = np.maximum.accumulate(np.where(is_blank_S, 0, at_S + 1))
        after_S = np.minimum.accumulate(np.where(is_blank_S, frames, at_S)[::-1])[::-1]
        after_S = np.append(after_S[1:], [frames][: len(after_S)]).astype(np.int64)
        ends_S = np.append(ends_before, self._ends_V[best_S])
        begins_S = np.append(self._begins_V[best_S], goes_on)
        begins_S[:frames] &= best_S != self.separator_label
        begins_S[1:frames] &= best_S[1:] != best_S[:-1]  # the others are still held
        either_S: np.ndarray = ends_S[before_S] | begins_S[after_S]
        return either_S


def refuse_internal_weight(options: DecodingOptions) -> None:
    """Raises ConfigError where a model that is decoded by CTC is to have an internal language model."""
    if options.internal_weight:
        told = "expected none, for this model is decoded by CTC, which has no internal language model"
        raise ConfigError(f"decoding.internal_weight = {options.internal_weight}: {told}")


def scorer_of(
    labels: Sequence[str], options: DecodingOptions, *, separator: str = " ", like: Any = None
) -> ctc.Scorer | None:
    """What `options` know of the language, if anything. The language model is one of labels where most of its words
    are labels. `like`: a decoder of the same labels, whose language model is not read again where it is the same.

    Raises ConfigError for words or files that cannot be used.
    """
    if not options.knows_language:
        return None
    try:
        if like is not None and like.scorer is not None and like.options.language == options.language:
            return like.scorer.with_hot_words(dict.fromkeys(options.hot_words, options.hot_word_boost))
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
    except OSError as error:
        raise ConfigError(f"decoding: {options.language_model}: {error.strerror}; expected a language model") from None
    except (ArpaError, ValueError) as error:
        raise ConfigError(f"decoding: {error}") from None


def _and_last(items: Iterable[np.ndarray]) -> Iterator[tuple[np.ndarray, bool]]:
    """The items, and whether each is the last one."""
    before: np.ndarray | None = None
    for item in items:
        if before is not None:
            yield before, False
        before = item
    if before is not None:
        yield before, True

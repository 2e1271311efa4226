"""What a beam search knows besides the acoustic scores: a language model, a lexicon, words to favour."""

import copy
import ctypes
import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from ctc.bindings import _native
from ctc.language_models.arpa import SPACE, BackoffModel
from ctc.language_models.compiled import NgramModel
from ctc.language_models.spelling import BOUNDARY, WordSpelling, has_pieces, spelling
from ctc.language_models.tables import (
    NONE,
    Labels,
    Lexicon,
    Phrases,
    as_labels,
    lexicon,
    lexicon_of_texts,
    native_ngram,
    ngram_automaton,
    phrases,
)

LARGEST_NUMBER = 1e6
"""Bound of weights, bonuses and boosts: a million times any log-probability of a label that one can tell from 0."""
MOST_NAMED = 5
"""Words that a warning names."""
BEFORE_WORDS = -2
"""Place in the lexicon of a prefix without a label, where pieces may begin with a boundary that closes no word."""


@dataclass(frozen=True, kw_only=True)
class ScorerOptions:
    """How much the language model counts, and what its words are."""

    unit: Literal["word", "token"] = "word"
    """Whether the words of the language model are words, or single labels (in its file, "|" stands for a space)."""
    boundary: str = BOUNDARY
    """The label between words; word pieces mark where words begin or end themselves (see `ctc.label_texts`)."""
    weight: float = 0.5
    """Factor of the language model's log-probabilities."""
    word_bonus: float = 1.5
    """Added for every word (for every label with unit "token"), against the language model's liking for few."""
    unknown_penalty: float = -2.0
    """Added for each letter of a word that the language model does not know, so that two such words do not gain by
    standing together as one."""

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise ValueError(f"weight: expected at least 0, found {self.weight}")
        if not self.unknown_penalty <= 0:
            raise ValueError(f"unknown_penalty: expected at most 0, found {self.unknown_penalty}")
        for name in ("weight", "word_bonus", "unknown_penalty"):
            if not abs(getattr(self, name)) <= LARGEST_NUMBER:
                raise ValueError(f"{name}: expected a number up to {LARGEST_NUMBER:g}, found {getattr(self, name)}")


class State(NamedTuple):
    """Where a prefix stands: history of the language model; node of the lexicon, NONE in an unknown word, or
    BEFORE_WORDS; node of the phrases.
    """

    history: int
    word: int
    phrase: int


class Scorer:
    """Scores label sequences for `ctc.beam_search`; built once, used for any number of utterances."""

    def __init__(
        self,
        labels: Sequence[str],
        *,
        model: BackoffModel | NgramModel | None = None,
        words: Iterable[str] | None = None,
        hot_words: Mapping[str, float] | None = None,
        options: ScorerOptions | None = None,
    ) -> None:
        """`labels`: text of every label in order (a blank at the end may be missing), letters or pieces of words.
        `model`: see `ctc.read_model`. `words`: nothing but these may be spelled, in whichever pieces. `hot_words`:
        words or phrases and what each adds to a score, in capitals or not as the labels are.

        Of `words` those that the labels cannot spell are left out, and a UserWarning names the first. Raises ValueError
        where no others are left, and for a hot word or a whole model that the labels cannot spell; TypeError for hot
        words that do not say what they add.
        """
        self.options = options or ScorerOptions()
        self.labels = tuple(labels)
        self.spelling = spelling(labels, boundary=self.options.boundary) if has_pieces(labels) else None
        if self.spelling is not None:
            self._number_of = dict(self.spelling.unit_of)
            self._between = BOUNDARY
        else:
            self._number_of = {text: number for number, text in enumerate(labels)}
            self._between = self.options.boundary
        self.boundary = self._number_of.get(self._between, NONE)
        self.is_closed = words is not None
        compiled = ngram_automaton(model) if isinstance(model, BackoffModel) else None
        self.ngram = model.automaton if isinstance(model, NgramModel) else compiled
        self.lexicon = self._lexicon(model, words)
        self.phrases = self._phrases({} if hot_words is None else hot_words)
        self.label_word = self._label_words(model)
        self._parts: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parts": None}  # pointers are of this process

    def with_hot_words(self, hot_words: Mapping[str, float]) -> "Scorer":
        """This scorer with other words to favour; all else is shared. Raises ValueError and TypeError as a new one."""
        other = copy.copy(self)
        other.phrases, other._parts = self._phrases(hot_words), None
        return other

    def spells(self, word: str) -> bool:
        """Whether the labels can spell a word or phrase, in capitals or not as they are."""
        return bool(word.strip() and self._labels_of(self._in_form(self._in_case(word))))

    def _phrases(self, hot_words: Mapping[str, float]) -> Phrases | None:
        if not isinstance(hot_words, Mapping):
            found = type(hot_words).__name__
            raise TypeError(f'hot_words: expected what each adds to a score, as in {{"word": 5.0}}, found {found}')
        boosts: dict[Labels, float] = {}
        for word, boost in hot_words.items():
            boosts[self._spell(self._in_form(self._in_case(word)))] = self._boost(word, boost)
        return phrases(boosts, self.boundary) if boosts else None

    def _in_case(self, word: str) -> str:
        """`word` in capitals or small letters where the labels have no others."""
        letters = [letter for letter in self._number_of if len(letter) == 1]
        has_small, has_capitals = any(map(str.islower, letters)), any(map(str.isupper, letters))
        if has_small == has_capitals:
            return word
        return word.lower() if has_small else word.upper()

    def _in_form(self, word: str) -> str:
        """`word` in the form of Unicode that the labels spell, letters and accents together or apart."""
        forms = (word, *(unicodedata.normalize(form, word) for form in ("NFC", "NFD")))
        return next((form for form in forms if self._labels_of(form)), word)

    def _lexicon(self, model: BackoffModel | NgramModel | None, words: Iterable[str] | None) -> Lexicon | None:
        is_word_model = model is not None and self.options.unit == "word"
        if words is None and not is_word_model:
            return None
        if self.boundary == NONE:
            raise ValueError(
                f"boundary: expected a label between words, found no {self.options.boundary!r} in the labels"
            )
        numbers = {word: number for number, word in enumerate(model.vocabulary)} if model and is_word_model else {}
        unknown = self.ngram.unknown_word if self.ngram is not None else 0
        if words is not None:
            return lexicon({labels: numbers.get(word, unknown) for word, labels in self._spelled(words).items()})
        if not numbers:
            raise ValueError("model: expected words in it, found none")
        spelled = lexicon_of_texts(numbers, self._number_of)
        if len(spelled.word) == 1:
            letters = "".join(self._number_of)
            raise ValueError(f"model: the labels {letters!r} spell none of its words, such as {list(numbers)[-1]!r}")
        return spelled

    def _spelled(self, words: Iterable[str]) -> dict[str, Labels]:
        """The labels of each of `words`; without those that have none, which a warning counts."""
        spelled = {word: self._labels_of(word) or () for word in words}
        lost = [word for word, labels in spelled.items() if not labels]
        if lost and len(lost) == len(spelled):
            self._spell(lost[0])
        if lost:
            named = ", ".join(map(repr, lost[:MOST_NAMED])) + (", …" if len(lost) > MOST_NAMED else "")
            told = f"words: the labels cannot spell {len(lost)} of {len(spelled)}, which are left out: {named}"
            warnings.warn(told, stacklevel=4)
        return {word: labels for word, labels in spelled.items() if labels}

    def _labels_of(self, word: str) -> Labels | None:
        return as_labels(word.replace(" ", self._between), self._number_of)

    def _spell(self, word: str) -> Labels:
        text = word.replace(" ", self._between)
        labels = self._labels_of(word)
        if not word.strip():
            raise ValueError(f"word {word!r}: is empty; expected letters")
        if not labels:
            missing = sorted({character for character in text if character not in self._number_of})
            raise ValueError(f"word {word!r}: expected characters among the labels, found {missing}")
        return labels

    @staticmethod
    def _boost(word: str, boost: float) -> float:
        if not 0 < boost <= LARGEST_NUMBER:
            raise ValueError(f"hot word {word!r}: expected a boost above 0 and up to {LARGEST_NUMBER:g}, found {boost}")
        return boost

    def _label_words(self, model: BackoffModel | NgramModel | None) -> np.ndarray | None:
        if self.ngram is None or model is None or self.options.unit == "word":
            return None
        numbers = {word: number for number, word in enumerate(model.vocabulary)}
        names = [SPACE if text == self.options.boundary and text not in numbers else text for text in self.labels]
        # One more for a blank that `labels` leaves out.
        return np.array([numbers.get(name, self.ngram.unknown_word) for name in [*names, ""]], np.int32)

    def start(self) -> State:
        """Before the first label."""
        history = self.ngram.start_state if self.ngram is not None else 0
        word = BEFORE_WORDS if self.spelling is not None and self.lexicon is not None else 0
        return State(history, word, self.phrases.start if self.phrases is not None else 0)

    def extend(self, state: State, label: int) -> tuple[float, State]:
        """(what one more label adds, -inf if it may not follow; the state after it)."""
        gain = 0.0
        if self.lexicon is None and self.ngram is not None and self.label_word is not None:
            gain, state = self._score(state, int(self.label_word[label]))
        for unit in [label] if self.spelling is None else self.spelling.of(label):
            if self.lexicon is not None:
                bonus, state = self._extend_word(state, unit)
                gain += bonus
            if self.phrases is not None:
                bonus, phrase = self.phrases.step(state.phrase, unit)
                gain, state = gain + bonus, state._replace(phrase=phrase)
        return gain, state

    def finish(self, state: State) -> float:
        """What the end of the utterance adds: the open word is complete, open promises are taken back."""
        gain = 0.0
        if self.phrases is not None:
            phrase = state.phrase
            if self.boundary != NONE:
                gain, phrase = self.phrases.step(phrase, self.boundary)
            gain -= float(self.phrases.promise[phrase])
        if self.lexicon is not None and state.word not in (0, BEFORE_WORDS):
            bonus, state = self._close_word(state)
            gain += bonus
        if self.ngram is not None and self.ngram.end_word != NONE:
            gain += self.options.weight * self.ngram.step(state.history, self.ngram.end_word)[0]
        return gain

    def _score(self, state: State, word: int) -> tuple[float, State]:
        if self.ngram is None:
            return self.options.word_bonus, state
        log_prob, history = self.ngram.step(state.history, word)
        return self.options.weight * log_prob + self.options.word_bonus, state._replace(history=history)

    def _extend_word(self, state: State, label: int) -> tuple[float, State]:
        assert self.lexicon is not None
        if label == self.boundary:
            if state.word == BEFORE_WORDS:
                return 0.0, state._replace(word=0)
            return (-np.inf, state) if state.word == 0 else self._close_word(state)  # a word is never empty
        if state.word == NONE:
            return self.options.unknown_penalty, state
        node = max(state.word, 0)
        word = self.lexicon.tree.child(node, label)
        if word != NONE:
            return 0.0, state._replace(word=word)
        penalty = self.options.unknown_penalty * (self.lexicon.tree.depth(node) + 1)
        return (-np.inf if self.is_closed else penalty), state._replace(word=NONE)

    def _close_word(self, state: State) -> tuple[float, State]:
        assert self.lexicon is not None
        word = NONE if state.word == NONE else int(self.lexicon.word[state.word])
        if word == NONE and self.is_closed:
            return -np.inf, state
        # A word that left the lexicon has paid for it already; one that stops inside pays here.
        is_incomplete = word == NONE and state.word != NONE
        penalty = self.options.unknown_penalty * self.lexicon.tree.depth(state.word) if is_incomplete else 0.0
        unknown = self.ngram.unknown_word if self.ngram is not None else 0
        gain, state = self._score(state._replace(word=0), unknown if word == NONE else word)
        return penalty + gain, state

    def table(self, place: _native.Place | None = None) -> _native.ScorerTable:
        """`ctc_scorer`, which points to arrays of this object, or to where `place` puts them and the tables of them."""
        if place is not None:
            parts = self._tables(place)
        elif self._parts is None:  # making pointers takes longer than decoding a word
            parts = self._parts = self._tables(_native.in_memory)
        else:
            parts = self._parts
        return _native.ScorerTable(
            **parts,
            boundary=self.boundary,
            is_closed=self.is_closed,
            weight=self.options.weight,
            word_bonus=self.options.word_bonus,
            unknown_penalty=self.options.unknown_penalty,
        )

    def _tables(self, place: _native.Place) -> dict[str, Any]:
        ngram = None if self.ngram is None else _pointer(native_ngram(self.ngram, place), place)
        parts = {
            "lexicon": (_native.LexiconTable, self.lexicon),
            "phrases": (_native.PhraseTable, self.phrases),
            "spelling": (_native.SpellingTable, self.spelling),
        }
        tables = {name: None if own is None else _table(kind, own, place) for name, (kind, own) in parts.items()}
        return {**tables, "ngram": ngram, "label_word": None if self.label_word is None else place(self.label_word)}


def _table(structure: type[ctypes.Structure], part: Lexicon | Phrases | WordSpelling, place: _native.Place) -> Any:
    fields: dict[str, Any] = part._asdict()
    if tree := fields.pop("tree", None):
        fields |= {"nodes": len(tree.label), **tree._asdict()}
    if units := fields.pop("unit_of", None):
        fields["unit_count"] = len(units)
    placed = {name: place(own) if isinstance(own, np.ndarray) else own for name, own in fields.items()}
    return _pointer(structure(**placed), place)


def _pointer(structure: ctypes.Structure, place: _native.Place) -> Any:
    """To where `place` puts it."""
    if place is _native.in_memory:
        return ctypes.pointer(structure)
    placed = place(np.frombuffer(bytes(structure), np.uint8))
    return ctypes.cast(placed, ctypes.POINTER(type(structure)))

"""Which of its possible readings a piece of text has: a log-linear model of what stands around it chooses.

A grammar proposes readings; every reading is made of named parts, and has the sum of the weights of its parts with the
features of the place: the words before and behind, their classes, the signs against it, its own form. Weights are
integers, so that the choice is the same on every machine; `scripts/train_reader.py` makes them of phrases.
"""

import re
import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

_HAN = "㐀-䶿一-鿿"  # of which every character is a word
_WORD = re.compile(rf"[{_HAN}]|[^\W\d_{_HAN}]+(?:'[^\W\d_{_HAN}]+)*|\d+(?:[.,]\d+)*|[^\w\s]|_")
_NEAR, _STEM = 8, 6  # words on either side that count, and letters of each
Sum = TypeVar("Sum")


class SpokenForm(NamedTuple):
    """One way to say a piece of text."""

    parts: tuple[str, ...]
    """What the model weighs; the first is the class of the token."""
    said: str | None
    """None where the text stands for itself."""


class Proposal(NamedTuple):
    """A piece of text that may be one token, and how it may be said."""

    stop: int
    own: Sequence[str]
    """Features of its form."""
    readings: Sequence[SpokenForm]


class Chosen(NamedTuple):
    """A piece of text that is said in one way."""

    stop: int
    parts: tuple[str, ...]
    said: str | None


Row = Mapping[str, int]
"""Weights of one feature by part."""


def read_table(path: Path) -> list[list[str]]:
    """The rows of a table of tab-separated values, without those that begin with "# "."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("# ")]


def read_weights(path: Path) -> dict[str, Row]:
    """Weights of parts by feature: the names of all parts; then a row a feature, pairs of a part's place and weight."""
    parts, *rows = read_table(path)
    weights: dict[str, Row] = {}
    for feature, row in rows:
        numbers = list(map(int, row.split()))
        weights[feature] = {parts[i]: weight for i, weight in zip(numbers[::2], numbers[1::2], strict=True)}
    return weights


class _Word(NamedTuple, Generic[Sum]):
    """A word of the context, and its features at each place where it may stand."""

    stem: str
    form: str
    behind: Sum
    before: Sum
    near_behind: Sum
    near_before: Sum


class KnownWords(Generic[Sum]):
    """Words and the sums of what their features are worth: weights, where a text is read, or their names.

    `total` gives what some features add together.
    """

    def __init__(self, classes: Mapping[str, Sequence[str]], total: Callable[[Iterable[str]], Sum]) -> None:
        self.classes = classes
        self.total = total
        self.word = lru_cache(maxsize=4096)(self._word)
        self._numbers = lru_cache(maxsize=64)(self._described)

    def _word(self, word: str) -> _Word[Sum]:
        stem, form = _stem(word), _form(word)
        return self._numbers(stem, form, "") if word[0].isdigit() else self._described(stem, form, word.lower())

    def _described(self, stem: str, form: str, small: str) -> _Word[Sum]:
        found = list(self.classes.get(small, ()))
        if small.endswith("s") and not found:
            found = [f"{name}s" for name in self.classes.get(small[:-1], ())]
        near = [stem, *found, *([form] if form in ("#year", "%C") else ())]
        return _Word(
            stem,
            form,
            self.total([f"n={stem}", *(f"n:{name}" for name in (*found, form))]),
            self.total([f"p={stem}", *(f"p:{name}" for name in (*found, form))]),
            self.total([f">{name}" for name in near]),
            self.total([f"<{name}" for name in near]),
        )


def named_words(classes: Mapping[str, Sequence[str]]) -> KnownWords[tuple[str, ...]]:
    """Words whose features are worth their names."""
    return KnownWords(classes, tuple)


class Before(NamedTuple):
    """What was chosen so far: the class of the last token, and how each sign was said."""

    kind: str = ""
    signs: Mapping[str, str] = {}

    def then(self, written: str, kind: str) -> "Before":
        """What was chosen with another token."""
        if written.isspace():
            return self
        if len(written) < 3 and not written.isalnum():
            is_same = self.kind == kind == self.signs.get(written)
            return self if is_same else Before(kind, {**self.signs, written: kind})
        return self if kind == self.kind else Before(kind, self.signs)


class Repeated:
    """What was chosen in a long text: where its surroundings are the same, so is the choice.

    So what is written over and over costs next to nothing, however long it goes on.
    """

    _LONG, _AHEAD, _BEHIND, _NEAR = 3000, 80, 160, 24  # characters

    def __init__(self, text: str) -> None:
        self._text = text
        self._seen: set[str] = set()
        self._chosen: dict[tuple[object, ...], tuple[int, tuple[str, ...], str | None]] | None = (
            {} if len(text) > self._LONG else None
        )

    def chosen(self, position: int, before: Before, choose: Callable[[], Chosen]) -> Chosen:
        """What stands at text[position:], from `choose` where its surroundings are new."""
        text, signs = self._text, before.signs
        if self._chosen is None or self._is_new(text[position : position + self._NEAR]):
            return choose()
        around = text[max(0, position - self._AHEAD) : position + self._BEHIND]
        same = signs.get(text[position]), signs.get(text[position : position + 2])
        key = (around, min(position, self._AHEAD), before.kind, same)
        if (known := self._chosen.get(key)) is None:
            stop, parts, said = choose()
            known = (stop - position, parts, said)
            if known[0] < self._BEHIND // 2:
                self._chosen[key] = known
        return Chosen(position + known[0], *known[1:])

    def _is_new(self, near: str) -> bool:
        """Whether what stands near was not there before, so that the whole need not be compared."""
        if near in self._seen:
            return False
        self._seen.add(near)
        return True


class Surroundings(Generic[Sum]):
    """A text in words, and what the features of its places add."""

    def __init__(self, text: str, words: KnownWords[Sum]) -> None:
        self.text = text
        found = list(_WORD.finditer(text))
        self._starts = [m.start() for m in found]
        self._words = [words.word(m[0]) for m in found]
        self._known = words
        self._general = ["all", "loud"] if text.isupper() else ["all"]
        self._added: dict[int, Sum] = {}

    def ahead(self, start: int, before: Before) -> Sum:
        """What stands before text[start:], and what was chosen there."""
        text, words = self.text, self._words
        first = bisect_left(self._starts, start)
        ahead_of_it = text[start - 1] if start else "^"
        space = " " if ahead_of_it.isspace() else ""
        names = [*self._general, f"k={before.kind}{space if start else ' '}", f"<{space or ahead_of_it}"]
        if not first:
            return self._known.total([*names, "p=^"])
        ahead = words[first - 1]
        if first > 1:
            names += (f"pp={words[first - 2].stem} {ahead.stem}", f"p2={words[first - 2].stem}")
        near = [word.near_before for word in words[max(0, first - _NEAR) : first]]
        return sum(near, ahead.before) + self._known.total(names)  # type: ignore[call-overload]

    def behind(self, start: int, stop: int, before: Before) -> Sum:
        """What stands behind text[start:stop], and on both sides."""
        text, words = self.text, self._words
        next_ = bisect_left(self._starts, stop)
        names = [f">{edge(text[stop])}" if stop < len(text) else ">$"]
        if (same := before.signs.get(text[start:stop])) is not None:
            names.append(f"same={same}")
        if next_ < len(words) and (first := bisect_left(self._starts, start)):
            ahead, behind = words[first - 1], words[next_]
            names += (f"pn={ahead.stem} {behind.stem}", f"pn:{ahead.form} {behind.form}")
        if next_ not in self._added:
            if len(self._added) > _NEAR:
                self._added.clear()
            self._added[next_] = self._words_from(next_)
        return self._added[next_] + self._known.total(names)  # type: ignore[operator]

    def _words_from(self, next_: int) -> Sum:
        """What a word and those behind it add."""
        words = self._words[next_ : next_ + _NEAR]
        if not words:
            return self._known.total(["n=$"])
        pair = f"{words[0].stem} {words[1].stem}" if len(words) > 1 else ""
        names = [f"nn={pair}", f"n2={words[1].stem}"] if pair else []
        return sum([word.near_behind for word in words], words[0].behind) + self._known.total(names)  # type: ignore[call-overload]


class Chooser:
    """Weights of parts by feature, and classes of words.

    The weights of a feature are one long integer, 16 bits a part, so that those of many features are added at once.
    """

    def __init__(self, weights: Mapping[str, Row], classes: Mapping[str, Sequence[str]]) -> None:
        self.weights = weights
        often = Counter(part for row in weights.values() for part in row)  # so that most sums are short integers
        self._places = {part: i for i, (part, _) in enumerate(often.most_common())}
        self._signs = int.from_bytes(array("H", [1 << 15] * (len(self._places) + 1)).tobytes(), sys.byteorder)
        self._rows = {feature: self._packed(row) for feature, row in weights.items()}
        self._of_form = lru_cache(maxsize=8192)(self._total)
        self._words = KnownWords(classes, self._total)
        self._where: dict[tuple[str, ...], tuple[int, ...]] = {}

    def _total(self, features: Iterable[str]) -> int:
        return sum(map(self._rows.get, features, repeat(0)))

    def _packed(self, row: Row) -> int:
        return sum(weight << 16 * self._places[part] for part, weight in row.items())

    def _parts(self, parts: tuple[str, ...]) -> tuple[int, ...]:
        """Where the weights of some parts stand; those that have none are behind the last."""
        found = self._where.get(parts)
        if found is None:
            found = self._where[parts] = tuple(self._places.get(part, len(self._places)) for part in parts)
        return found

    def context(self, text: str) -> Surroundings[int]:
        """`text` in words, to choose readings in it."""
        return Surroundings(text, self._words)

    def choose(self, context: Surroundings[int], start: int, proposals: Iterable[Proposal], before: Before) -> Chosen:
        """The reading with the highest score; of several, the first."""
        best, highest = None, -(1 << 60)
        signs, length, ahead = self._signs, 2 * len(self._places) + 2, context.ahead(start, before)
        around: dict[int, int] = {}
        for stop, own, readings in proposals:
            if stop not in around:
                around[stop] = ahead + context.behind(start, stop, before)
            total = around[stop] + self._of_form(tuple(own))
            weights = memoryview(((total + signs) ^ signs).to_bytes(length, sys.byteorder)).cast("h")
            for parts, said in readings:
                score = 0
                for place in self._where.get(parts) or self._parts(parts):
                    score += weights[place]
                if score > highest:
                    best, highest = Chosen(stop, parts, said), score
        assert best is not None
        return best

    def why(self, text: str, start: int, proposals: Sequence[Proposal], before: Before) -> "Why":
        """All readings of a place with their scores, and the features that told the first from the second."""
        named = Surroundings(text, named_words(self._words.classes))
        scored: list[tuple[int, str, dict[str, int]]] = []
        for stop, own, readings in proposals:
            features = [*named.ahead(start, before), *named.behind(start, stop, before), *own]
            for parts, said in readings:
                weights: dict[str, int] = {}
                for feature in features:
                    row = self.weights.get(feature, {})
                    if weight := sum(row.get(part, 0) for part in parts):
                        weights[feature] = weights.get(feature, 0) + weight
                scored.append(
                    (sum(weights.values()), f"{text[start:stop] if said is None else said} [{parts[0]}]", weights)
                )
        scored.sort(key=lambda row: -row[0])
        other = next((row for row in scored[1:] if row[1] != scored[0][1]), (0, "", {}))
        gained = {f: scored[0][2].get(f, 0) - other[2].get(f, 0) for f in {*scored[0][2], *other[2]}}
        deciding = sorted(gained.items(), key=lambda item: (-item[1], item[0]))[:3]
        return Why([(said, score) for score, said, _ in scored], deciding)


class Why(NamedTuple):
    """Why a reading was chosen: all readings with their scores, and the three features that decided."""

    readings: list[tuple[str, int]]
    deciding: list[tuple[str, int]]


@lru_cache(maxsize=4096)
def edge(character: str) -> str:
    """The kind of a character that stands against a token."""
    if character.isspace():
        return " "
    return "9" if character.isdigit() else "a" if character.islower() else "A" if character.isupper() else character


def _stem(word: str) -> str:
    if word[0].isdigit():
        return "#" + ("." if "." in word else "," if "," in word else str(min(len(word), 5)))
    return word.lower()[:_STEM]


def _form(word: str) -> str:
    """A class that every word has: a capital, a plural, an ending, a number that may be a year."""
    if word[0].isdigit():
        return "#year" if re.fullmatch(r"1[0-9]\d\d|20[0-4]\d", word) else "#"
    if not word[0].isalpha():
        return "%sign"
    if word[0].isupper():
        return "%L" if len(word) == 1 else "%C" if word.isupper() else "%A"
    if len(word) == 1:
        return "%l"
    for ending in ("ing", "ed", "ly"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return f"%{ending}"
    return "%s" if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else "%a"

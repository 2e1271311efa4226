"""Which of its possible readings a piece of text has: a log-linear model of what stands around it chooses.

A grammar proposes readings; every reading is made of named parts, and has the sum of the weights of its parts with the
features of the place: the words before and behind, their classes, the signs against it, its own form. Weights are
integers, so that the choice is the same on every machine; `scripts/train_reader.py` makes them of phrases.
"""

import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from common.text.engine.context import Before, KnownWords, Surroundings, named_words


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
    """Weights of parts by feature: names of all parts; then a row a feature, places of parts and weights: 3+12 5-4."""
    parts, *rows = read_table(path)
    weights: dict[str, Row] = {}
    for feature, row in rows:
        numbers = list(map(int, row.replace("+", " ").replace("-", " -").split()))
        weights[feature] = {parts[i]: weight for i, weight in zip(numbers[::2], numbers[1::2], strict=True)}
    return weights


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
        signs, length = self._signs, 2 * len(self._places) + 2
        around = context.at(start, before)
        last, added = -1, 0
        for stop, own, readings in proposals:
            if stop != last:
                last, added = stop, around(stop) + signs
            total = added + self._of_form(tuple(own))
            weights = memoryview((total ^ signs).to_bytes(length, sys.byteorder)).cast("h")
            for parts, said in readings:
                score = 0
                for place in self._where.get(parts) or self._parts(parts):
                    score += weights[place]
                if score > highest:
                    best, highest = (stop, parts, said), score
        assert best is not None
        return Chosen(*best)

    def why(self, text: str, start: int, proposals: Sequence[Proposal], before: Before) -> "Why":
        """All readings of a place with their scores, and the features that told the first from the second."""
        around = Surroundings(text, named_words(self._words.classes)).at(start, before)
        scored: list[tuple[int, str, dict[str, int]]] = []
        for stop, own, readings in proposals:
            features = [*around(stop), *own]
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

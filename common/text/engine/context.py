"""What the places of a text tell of a choice: the words before and behind, their classes, the signs against a place.

These are the features of the model, by their names, which teach it and explain its choices, and in sums of what their
names are worth, which choose.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

_HAN = "㐀-䶿一-鿿"  # of which every character is a word
_WORD = re.compile(rf"[{_HAN}]|[^\W\d_{_HAN}]+(?:'[^\W\d_{_HAN}]+)*|\d+(?:[.,]\d+)*|[^\w\s]|_")
_NEAR, _STEM = 8, 6  # words on either side that count, and letters of each
_MOST_WORDS = 4096  # and pairs of them, that are remembered
Sum = TypeVar("Sum")
Total = Callable[[Iterable[str]], Sum]


class Before(NamedTuple):
    """What was chosen so far: the class of the last token, and how each sign was said, in one dictionary all along."""

    kind: str
    signs: dict[str, str]

    def then(self, written: str, kind: str) -> "Before":
        """What was chosen with another token."""
        if written.isspace():
            return self
        if len(written) < 3 and not written.isalnum():
            self.signs[written] = kind
        return self if kind == self.kind else Before(kind, self.signs)


class ContextWord(Generic[Sum]):
    """A word of the context, and what it adds: next before or behind a place (p, n), or within eight words (<, >)."""

    __slots__ = ("before", "behind", "form", "near_before", "near_behind", "second_before", "second_behind", "stem")

    def __init__(self, stem: str, form: str, classes: Sequence[str], total: "Total[Sum]") -> None:
        self.stem, self.form = stem, form
        near = [stem, *classes, *([form] if form in ("#year", "%C") else ())]
        self.before = total([f"p={stem}", *(f"p:{name}" for name in (*classes, form))])
        self.behind = total([f"n={stem}", *(f"n:{name}" for name in (*classes, form))])
        self.second_before, self.second_behind = total([f"p2={stem}"]), total([f"n2={stem}"])
        self.near_before = total([f"<{name}" for name in near])
        self.near_behind = total([f">{name}" for name in near])


class KnownWords(Generic[Sum]):
    """Words, and the sums of what features of them, of pairs of them, and of what stands against a place are worth.

    `total` gives what some features add together: weights, where a text is read, or their names.
    """

    def __init__(self, classes: Mapping[str, Sequence[str]], total: "Total[Sum]") -> None:
        self.classes, self.total = classes, total
        self.word = lru_cache(_MOST_WORDS)(self._word)
        self._numbers = lru_cache(64)(self._described)
        self.pair_before = lru_cache(_MOST_WORDS)(lambda second, first: total([f"pp={second.stem} {first.stem}"]))
        self.pair_behind = lru_cache(_MOST_WORDS)(lambda first, second: total([f"nn={first.stem} {second.stem}"]))
        self.pair_around = lru_cache(_MOST_WORDS)(lambda ahead, behind: total([f"pn={ahead.stem} {behind.stem}"]))
        self.forms_around = lru_cache(_MOST_WORDS)(lambda ahead, behind: total([f"pn:{ahead} {behind}"]))
        self.first, self.last = total(["p=^"]), total(["n=$"])
        self.edge_ahead = lru_cache(_MOST_WORDS)(self._edge_ahead)
        self.edge_behind = lru_cache(_MOST_WORDS)(self._edge_behind)
        self.same = lru_cache(_MOST_WORDS)(lambda kind: total([f"same={kind}"]))

    def _word(self, word: str) -> ContextWord[Sum]:
        stem, form = _stem(word), _form(word)
        return self._numbers(stem, form, "") if word[0].isdigit() else self._described(stem, form, word)

    def _described(self, stem: str, form: str, word: str) -> ContextWord[Sum]:
        small = word.lower()
        found = self.classes.get(small, ())
        if word != small:  # some are of a class with a capital alone, as May and Sat
            found = [*found, *self.classes.get(small.capitalize(), ())]
        if small.endswith("s") and not found:
            found = [f"{name}s" for name in self.classes.get(small[:-1], ())]
        return ContextWord(stem, form, found, self.total)

    def _edge_ahead(self, kind: str, ahead: str, is_loud: bool) -> Sum:
        space, loud = " " if ahead.isspace() else "", ["loud"] if is_loud else []
        return self.total(["all", *loud, f"k={kind}{space if ahead else ' '}", f"<{space or ahead or '^'}"])

    def _edge_behind(self, behind: str) -> Sum:
        return self.total([f">{edge(behind)}" if behind else ">$"])


def named_words(classes: Mapping[str, Sequence[str]]) -> KnownWords[tuple[str, ...]]:
    """Words whose features are worth their names."""
    return KnownWords(classes, tuple)


class Surroundings(Generic[Sum]):
    """A text in words, and what the features of its places add."""

    def __init__(self, text: str, known: KnownWords[Sum]) -> None:
        self.text, self._known, self._is_loud = text, known, text.isupper()
        found = list(_WORD.finditer(text))
        self._starts = [m.start() for m in found]
        words = [known.word(m[0]) for m in found]
        nothing = known.total(())
        self._words = [None, None, *words, None, None]
        self._before = _Windows([word.near_before for word in words], nothing)
        self._behind = _Windows([word.near_behind for word in words], nothing)
        self._from: dict[int, Sum] = {}

    def at(self, start: int, before: Before) -> Callable[[int], Sum]:
        """What the features of a token from `start` to where it stops add, as what was chosen before it is known."""
        text, known, words, starts = self.text, self._known, self._words, self._starts
        first = bisect_left(starts, start)
        ahead = words[first + 1]
        character = text[start - 1 : start] if start else ""
        added: Any = self._before.at(first) + known.edge_ahead(before.kind, character, self._is_loud)
        if ahead is None:
            added += known.first
        else:
            added = ahead.before + added
            if second := words[first]:
                if pair := known.pair_before(second, ahead):
                    added += pair
                added += second.second_before

        def until(stop: int) -> Sum:
            next_ = bisect_left(starts, stop)
            behind = words[next_ + 2]
            if (from_next := self._from.get(next_)) is None:
                from_next = self._words_from(next_)
            found: Any = added + from_next + known.edge_behind(text[stop : stop + 1])
            if (same := before.signs.get(text[start:stop])) is not None:
                found += known.same(same)
            if ahead and behind:
                if pair := known.pair_around(ahead, behind):
                    found += pair
                found += known.forms_around(ahead.form, behind.form)
            return found

        return until

    def _words_from(self, next_: int) -> Sum:
        """What a word and those behind it add."""
        first, second = self._words[next_ + 2 : next_ + 4]
        found = self._behind.at(next_ + _NEAR)
        if first is None:
            found += self._known.last
        else:
            found = first.behind + found
            if second:
                if pair := self._known.pair_behind(first, second):
                    found += pair
                found += second.second_behind
        if len(self._from) > _NEAR:
            self._from.clear()
        self._from[next_] = found
        return found


class _Windows:
    """Sums of what the eight words before each place add; that of a place near the last is made of the last."""

    def __init__(self, numbers: list[Any], nothing: Any) -> None:
        self._numbers = [*[nothing] * _NEAR, *numbers, *[nothing] * _NEAR]
        self._nothing = nothing
        self._last, self._sum = 0, nothing

    def at(self, place: int) -> Any:
        numbers, last = self._numbers, self._last
        if self._nothing == 0 and -3 < place - last < 3:
            for i in range(last, place):
                self._sum += numbers[i + _NEAR] - numbers[i]
            for i in range(place, last):
                self._sum += numbers[i] - numbers[i + _NEAR]
        else:
            self._sum = sum(numbers[place : place + _NEAR], self._nothing)
        self._last = place
        return self._sum


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

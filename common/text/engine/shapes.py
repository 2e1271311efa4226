"""What a token may look like: a pattern, the readings of a match, and what its form tells the model."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from common.text.engine.choose import Proposal, SpokenForm

Readings = Iterator[SpokenForm]


def reading(parts: str, said: str | None) -> SpokenForm:
    """A reading by the names of its parts, separated by spaces."""
    return SpokenForm(_divided(parts), said)


@lru_cache(maxsize=4096)
def _divided(parts: str) -> tuple[str, ...]:
    return tuple(parts.split())


class TokenShape(NamedTuple):
    """What a token looks like, and the readings of a match.

    `begins` is a pattern of its first two characters, or of 0 for all digits at its beginning and the two behind them,
    of which the second is "a" for any letter; other digits are 0, too, and a space is any space.
    """

    name: str
    pattern: re.Pattern[str]
    readings: Callable[[re.Match[str], Any], Readings]
    begins: re.Pattern[str]


class Shapes:
    """Shapes in their order, and those of them that a place may have by its first characters."""

    def __init__(self, shapes: Iterable[TokenShape]) -> None:
        self.all = tuple(shapes)
        self._at: dict[str, tuple[TokenShape, ...]] = {}

    def at(self, text: str, position: int) -> tuple[TokenShape, ...]:
        """The shapes that may stand at text[position:]."""
        if digits := _DIGITS.match(text, position):
            behind, then = digits.groups("")
            head = f"0{behind}{'0' if then.isdecimal() else 'a' if then.isalnum() else then}"
        else:
            then = text[position + 1 : position + 2]
            head = f"{text[position]}{'0' if then.isdecimal() else then}"
        found = self._at.get(head)
        if found is None:
            if len(self._at) >= _MOST_PLACES:
                self._at.clear()
            plain = re.sub(r"\s", " ", head)
            found = self._at[head] = tuple(shape for shape in self.all if shape.begins.match(plain))
        return found


_MOST_PLACES = 2000  # ordinary texts make fewer than 400
_DIGITS = re.compile(r"\d{1,60}+(.?)(.?)", re.DOTALL)


def shape(name: str, pattern: str, readings: Callable[[re.Match[str], Any], Readings], begins: str = "") -> TokenShape:
    """A shape whose pattern is not compiled yet."""
    return TokenShape(name, re.compile(pattern), readings, re.compile(begins))


def either(names: Iterable[str]) -> str:
    """A pattern of any of some names, the longest first."""
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))


Memory = dict[tuple[object, ...], tuple[Sequence[str], list[SpokenForm]]]
"""Features and readings of matches, by all that they are made of."""
_MOST_REMEMBERED, _LONGEST_REMEMBERED = 4_000, 80  # matches, and characters of each


def matched(
    shapes: Iterable[TokenShape],
    text: str,
    position: int,
    style: Any,
    memory: Memory | None = None,
    behind: re.Pattern[str] | None = None,
) -> list[Proposal]:
    """What the shapes propose for text[position:], read in a style or a language.

    `memory` holds readings in this style, which depend on nothing but the match and what `behind` matches behind it.
    """
    found: list[Proposal] = []
    seen = set()
    for name, pattern, readings_of, _ in shapes:
        m = pattern.match(text, position)
        if m is None or (stop := m.end()) == position or (name, stop) in seen:
            continue
        near = behind and behind.match(text, stop)
        key = (name, m[0], m.groups(), near and near[0])
        known = memory.get(key) if memory is not None else None
        if known is None:
            known = own_features(name, m[0][:40]), list(readings_of(m, style))
            if memory is not None and len(m[0]) <= _LONGEST_REMEMBERED:
                if len(memory) > _MOST_REMEMBERED:
                    memory.clear()
                memory[key] = known
        if known[1]:
            seen.add((name, stop))
            found.append(Proposal(stop, *known))
    return found


@lru_cache(maxsize=1024)
def own_features(shape: str, written: str) -> tuple[str, ...]:
    """What the form of a token, its first 40 characters, tells: its shape, the size of its numbers, its letters."""
    found = [f"s={shape}"]
    numbers = _NUMBERS.findall(written)
    lengths = ",".join(str(min(len(n), 6)) for n in numbers)
    found.append(f"{shape} len={lengths}")
    for i, n in enumerate(numbers[:2]):
        found += (f"{shape} {i}={n[:6]}", f"{shape} {i}:{_size(n)}")
        if n[0] == "0":
            found.append(f"{shape} {i}:pad")
    if len(numbers) == 2 and numbers[0].isdigit() and numbers[1].isdigit():
        found += _compared(shape, int(numbers[0][:9]), int(numbers[1][:9]))
    letters = _SPACE.sub(" ", _FIGURES.sub("0", written[:24]))
    found.append(f"{shape} form={letters}")
    return tuple(found)


_NUMBERS, _FIGURES, _SPACE = re.compile(r"\d+(?:[.,]\d+)*"), re.compile(r"[\d.,]+"), re.compile(r"\s")


def _size(n: str) -> str:
    if not n.isdigit():
        whole, _, part = n.partition(".")
        return f".{len(whole)}.{len(part)}{'<60' if part[:2] < '60' else ''}"
    value = int(n[:9])
    for limit in (0, 1, 12, 24, 31, 59, 99, 999, 1499, 1999, 2100):
        if value <= limit:
            return f"<={limit}{'00' if n.endswith('00') else ''}"
    return ">"


def _compared(shape: str, first: int, second: int) -> list[str]:
    order = "<" if first < second else ">" if first > second else "="
    found = [f"{shape} {order}", f"{shape} {first}/{second}"]
    if first + second == 100:
        found.append(f"{shape} sum=100")
    if 1 <= first <= 12 and 1 <= second <= 31:
        found.append(f"{shape} day{order}")
    return found


def beside(text: str, start: int, stop: int) -> str:
    """What stands right beside a sign: a letter, a digit, a space."""
    return _kind(text[start - 1] if start else " ") + _kind(text[stop] if stop < len(text) else " ")


@lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    return "9" if character.isdigit() else "a" if character.isalpha() else " " if character.isspace() else character

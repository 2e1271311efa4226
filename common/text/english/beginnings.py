"""Which patterns can match where a text goes on with some characters, so that at each place only those rules are tried.

A pattern is walked as a machine would walk it, over its first characters only, and what may stand at each of them is
noted. What is not known here may be anything, and what looks behind, or forbids, is passed over.
"""

import functools
import re
from collections.abc import Sequence
from re import _parser as _parsed  # type: ignore[attr-defined]
from typing import Any

LOOKED_AT = 4
"""Characters at the beginning of a match that are told apart."""

_DIGIT, _LETTER, _SPACE, _OTHER, _END = range(128, 133)  # beyond ASCII characters are told apart by their class
_BEYOND = 1 << _DIGIT | 1 << _LETTER | 1 << _SPACE | 1 << _OTHER
_ANY = (1 << _END) - 1


class _Place(dict[int, int]):
    """The patterns, as bits, that each character can stand in at one place; counted when one is asked for."""

    def __init__(self, every: Sequence[int]) -> None:
        super().__init__()
        self._patterns_with: dict[int, int] = {}
        for i, characters in enumerate(every):
            self._patterns_with[characters] = self._patterns_with.get(characters, 0) | 1 << i

    def __missing__(self, kind: int) -> int:
        found = 0
        for characters, patterns in self._patterns_with.items():
            if characters >> kind & 1:
                found |= patterns
        self[kind] = found
        return found


class Beginnings:
    """What some patterns can begin with."""

    def __init__(self, patterns: Sequence[re.Pattern[str]]) -> None:
        self._places = [_Place(every) for every in zip(*map(allowed, patterns), strict=True)]

    def at(self, text: str, position: int) -> int:
        """The patterns that could match at a place, as bits."""
        length = len(text)
        found = -1
        for kinds in self._places:
            if position >= length:
                return found & kinds[_END]
            code = ord(text[position])
            found &= kinds[code if code < 128 else _kind(text[position])]
            if not found:
                break
            position += 1
        return found


def can_begin(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a match of `pattern` could begin with the characters of `text`; True also where that is not known."""
    return all(at >> _kind(character) & 1 for at, character in zip(allowed(pattern), text, strict=False))


@functools.cache
def allowed(pattern: re.Pattern[str]) -> tuple[int, ...]:
    """The characters that each of the first of a match can be, as bits; with that of the end where it may be over."""
    found = [0] * LOOKED_AT
    ends = _walk(_parsed.parse(pattern.pattern, pattern.flags), {0}, found, bool(pattern.flags & re.IGNORECASE))
    _anything_behind(ends, found)
    return tuple(found)


def _kind(character: str) -> int:
    if character.isascii():
        return ord(character)
    if character.isdecimal():
        return _DIGIT
    return _LETTER if character.isalnum() else _SPACE if character.isspace() else _OTHER


def _anything_behind(places: set[int], found: list[int]) -> None:
    for place in range(min(places, default=LOOKED_AT), LOOKED_AT):
        found[place] |= _ANY | 1 << _END


def _walk(items: Any, starts: set[int], found: list[int], any_case: bool) -> set[int]:
    """Notes what `items` may stand for that begin at one of the places `starts`; returns the places where they end."""
    for operation, argument in items:
        if min(starts, default=LOOKED_AT) >= LOOKED_AT:
            break
        starts = _walk_one(str(operation), argument, starts, found, any_case)
    return starts


def _walk_one(operation: str, argument: Any, starts: set[int], found: list[int], any_case: bool) -> set[int]:
    if operation in ("LITERAL", "NOT_LITERAL", "IN", "ANY"):
        characters = _characters(operation, argument, any_case)
        inside = [start for start in starts if start < LOOKED_AT]
        for start in inside:
            found[start] |= characters
        return {start + 1 for start in inside}
    if operation == "SUBPATTERN":
        _, added, removed, items = argument
        return _walk(items, starts, found, (any_case or bool(added & re.IGNORECASE)) and not removed & re.IGNORECASE)
    if operation == "BRANCH":
        return set().union(*(_walk(items, starts, found, any_case) for items in argument[1]))
    if operation in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, items = argument
        ends = set(starts) if least == 0 else set()
        for count in range(1, min(int(most), LOOKED_AT + 1) + 1):
            starts = _walk(items, starts, found, any_case)
            if count >= min(int(least), LOOKED_AT + 1):
                ends |= starts
        return ends
    if operation in ("ASSERT", "ASSERT_NOT", "AT"):
        return starts
    _anything_behind(starts, found)
    return {LOOKED_AT}


def _characters(operation: str, argument: Any, any_case: bool) -> int:
    """The characters of one step of a pattern, as bits."""
    if operation in ("ANY", "NOT_LITERAL"):
        return _ANY
    found = 1 << _kind(chr(argument)) if operation == "LITERAL" else _of_set(argument)
    if any_case:
        letters = [code for code in range(65, 123) if found >> code & 1 and chr(code).isalpha()]
        found |= sum(1 << ord(chr(code).swapcase()) for code in letters)
        found |= 1 << _LETTER if letters else 0  # as of the sign of kelvins, which is a k in another case
    return found


def _of_set(items: Any) -> int:
    found, is_negated = 0, False
    for operation, argument in items:
        kind = str(operation)
        if kind == "NEGATE":
            is_negated = True
        elif kind == "LITERAL":
            found |= 1 << _kind(chr(argument))
        elif kind == "RANGE":
            first, last = argument
            found |= sum(1 << code for code in range(first, min(last, 127) + 1)) | (_BEYOND if last > 127 else 0)
        else:
            found |= _of_category(str(argument))
    return _ANY & ~found | _BEYOND if is_negated else found


@functools.cache
def _of_category(category: str) -> int:
    is_of = str.isdecimal if "DIGIT" in category else str.isspace if "SPACE" in category else _is_of_a_word
    found = sum(1 << code for code in range(128) if is_of(chr(code)))
    if "_NOT_" in category:
        return _ANY & ~found | _BEYOND
    return found | 1 << _DIGIT | (1 << _SPACE if "SPACE" in category else 1 << _LETTER if "WORD" in category else 0)


def _is_of_a_word(character: str) -> bool:
    return character.isalnum() or character == "_"

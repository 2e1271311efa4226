"""Which characters a pattern can begin with, so that at each place only the rules are tried that could match there."""

import functools
import re
from re import _parser as _parsed  # type: ignore[attr-defined]
from typing import Any

_WIDTHLESS = ("ASSERT", "ASSERT_NOT", "AT")


def can_begin(pattern: re.Pattern[str], character: str) -> bool:
    """Whether a match of `pattern` could begin with `character`; True also where that is not known."""
    cases = {character, character.lower(), character.upper()}
    return _sequence(_tree(pattern), cases if pattern.flags & re.IGNORECASE else {character}) is not False


@functools.cache
def _tree(pattern: re.Pattern[str]) -> Any:
    return _parsed.parse(pattern.pattern, pattern.flags)


def _sequence(items: Any, characters: set[str]) -> bool | None:
    """Whether it can begin with one of `characters`; None where it may be empty, too, and what follows it tells."""
    for operation, argument in items:
        found = _one(str(operation), argument, characters)
        if found is not None:
            return found
    return None


def _one(operation: str, argument: Any, characters: set[str]) -> bool | None:
    if operation in _WIDTHLESS:
        return None
    if operation == "LITERAL":
        return chr(argument) in characters
    if operation == "IN":
        return any(_in_set(argument, character) for character in characters)
    if operation == "SUBPATTERN":
        _, added, _, items = argument
        is_any_case = added & re.IGNORECASE
        return _sequence(
            items, {case for c in characters for case in (c, c.lower(), c.upper())} if is_any_case else characters
        )
    if operation == "BRANCH":
        found = [_sequence(items, characters) for items in argument[1]]
        return True if True in found else None if None in found else False
    if operation in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, _, items = argument
        begins = _sequence(items, characters)
        return begins if begins or least else None
    return True  # what is not known here may begin with anything


def _in_set(items: Any, character: str) -> bool:
    found, is_negated = False, False
    for operation, argument in items:
        kind = str(operation)
        if kind == "NEGATE":
            is_negated = True
        elif kind == "LITERAL":
            found |= argument == ord(character)
        elif kind == "RANGE":
            found |= argument[0] <= ord(character) <= argument[1]
        else:
            found |= _is_of(str(argument), character)
    return found != is_negated


def _is_of(category: str, character: str) -> bool:
    is_other = "_NOT_" in category
    if category.endswith("DIGIT"):
        return character.isdecimal() != is_other
    if category.endswith("SPACE"):
        return character.isspace() != is_other
    return (character.isalnum() or character == "_") != is_other

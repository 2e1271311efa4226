"""Which patterns are tried at a character."""

import re

import pytest

from common.text.english import reader
from common.text.english.beginnings import can_begin
from tests.common.text.english.test_reader import CASES

BEGINNINGS = [
    (r"\d+", "5", True),
    (r"\d+", "a", False),
    (r"(?:a|b)?c", "c", True),
    (r"(?:a|b)?c", "d", False),
    (r"(?<=x)[^a-c]", "d", True),
    (r"(?<=x)[^a-c]", "b", False),
    (r"(?i:jan)\b", "J", True),
    (r"-?\w", "-", True),
    (r"\w\b", "é", True),
    (r"\s|\S", "😀", True),
    (r"[€$]", "€", True),
    (r"x*", "y", True),
]


@pytest.mark.parametrize(("pattern", "character", "begins"), BEGINNINGS)
def test_characters_that_a_pattern_can_begin_with(pattern: str, character: str, begins: bool) -> None:
    assert can_begin(re.compile(pattern), character) is begins
    assert begins or re.compile(pattern).match(character * 3) is None


def test_case_is_ignored_where_the_pattern_ignores_it() -> None:
    assert can_begin(re.compile("ab", re.IGNORECASE), "A")
    assert not can_begin(re.compile("ab"), "A")


def test_no_rule_is_left_out_that_would_match() -> None:
    texts = [written for phrases in CASES.values() for written in phrases]
    for rules in (reader._SYMBOL_RULES, reader._CAPITAL_RULES, reader._SMALL_RULES):
        tried = {character: {matched for _, matched, _ in rules.at(character)} for character in set("".join(texts))}
        for rule in rules.rules:
            for text in texts:
                match = rule.pattern.search(text)
                while match:
                    assert not match[0] or rule.pattern.match in tried[text[match.start()]]
                    match = rule.pattern.search(text, match.start() + 1)

"""Which patterns are tried at a place."""

import re

import pytest

from common.text.english import reader
from common.text.english.beginnings import Beginnings, can_begin
from tests.common.text.english.test_everyday_lists import CASES as OTHER_CASES
from tests.common.text.english.test_reader import CASES

BEGINNINGS = [
    (r"\d+", "5", True),
    (r"\d+", "a", False),
    (r"\d{3}", "55 ", False),
    (r"\d{2,3}-", "55-a", True),
    (r"\d{3,4}-", "555a", False),
    (r"\d{5}", "5555", True),
    (r"(?:a|b)?c", "c", True),
    (r"(?:a|b)?c", "d", False),
    (r"(?:ab|cb)d", "abe", False),
    (r"(?<=x)[^a-c]", "d", True),
    (r"(?<=x)[^a-c]", "b", False),
    (r"(?i:jan)\b", "JAN", True),
    (r"(?i:kg)", "\u212ag", True),
    (r"-?\w", "-", True),
    (r"\w\b", "é", True),
    (r"\d", "é", False),
    (r"\d", "٣", True),
    (r"\s|\S", "😀", True),
    (r"[€$]", "€", True),
    (r"[a-z]", "€", False),
    (r"x*", "y", True),
    (r"(a|b)\1c", "aac", True),
    (r"a{0}b", "b", True),
]


@pytest.mark.parametrize(("pattern", "text", "begins"), BEGINNINGS)
def test_characters_that_a_pattern_can_begin_with(pattern: str, text: str, begins: bool) -> None:
    assert can_begin(re.compile(pattern), text) is begins
    assert begins or re.compile(pattern).match(text * 3) is None


def test_case_is_ignored_where_the_pattern_ignores_it() -> None:
    assert can_begin(re.compile("ab", re.IGNORECASE), "A")
    assert not can_begin(re.compile("ab"), "A")


def test_a_pattern_that_needs_more_than_is_left_of_a_text_is_not_tried() -> None:
    beginnings = Beginnings([re.compile(pattern) for pattern in ("a", "ab", "ab?", "a{3}", "a(?=b)", "a(?!b)", r"a\b")])
    assert beginnings.at("xa", 1) == 0b1110101
    assert beginnings.at("xaba", 1) == 0b1110111


def test_no_rule_is_left_out_that_would_match() -> None:
    texts = [written for phrases in CASES.values() for written in phrases] + list(OTHER_CASES)
    for rules in (reader._SYMBOL_RULES, reader._NUMBER_RULES, reader._CAPITAL_RULES, reader._SMALL_RULES):
        tried = {
            (text, position): {matched for _, matched, _ in rules.at(text, position)}
            for text in texts
            for position in range(len(text))
        }
        for rule in rules.rules:
            for text in texts:
                match = rule.pattern.search(text)
                while match:
                    assert not match[0] or rule.pattern.match in tried[text, match.start()]
                    match = rule.pattern.search(text, match.start() + 1)


def test_what_is_kept_of_the_rules_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MOST_KEPT", 2)
    rules = reader._Rules(*reader._NUMBER_RULES.rules)
    for text in ("1", "1a", "1 a", "12:3", "1/2", "1.5"):
        assert rules.at(text, 0) == reader._NUMBER_RULES.at(text, 0)
        assert len(rules._tried) <= 2

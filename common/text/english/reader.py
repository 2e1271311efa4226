"""One pass from left to right: each piece of a text is classified once, by what it is and what stands beside it."""

import functools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator

from common.text.english import (
    acronyms,
    addresses,
    codes,
    electronic,
    forms,
    law_and_medicine,
    measures,
    messages,
    moments,
    money,
    names,
    quantities,
    references,
    sizes,
    sport,
    symbols,
    times,
    words,
)
from common.text.english.beginnings import Beginnings
from common.text.english.tables import MONTHS, WEEKDAYS
from common.text.english.tokens import GIVEN, NUMBER, Reading, Rule, Style, Token

_MOST_KEPT = 4096
_Tried = tuple[tuple[str, Callable[[str, int], re.Match[str] | None], Reading], ...]


class _Rules:
    """Rules in their order, of which those are tried at a place that can match what stands there."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules
        self._tried: dict[int, _Tried] = {}

    @functools.cached_property
    def _beginnings(self) -> Beginnings:
        return Beginnings([rule.pattern for rule in self.rules])

    def at(self, text: str, position: int) -> _Tried:
        """Class, match and reading of the rules that can match at a place."""
        which = self._beginnings.at(text, position)
        found = self._tried.get(which)
        if found is None:
            if len(self._tried) == _MOST_KEPT:
                self._tried.clear()
            found = self._tried[which] = tuple(
                (rule.kind, rule.pattern.match, rule.reading) for i, rule in enumerate(self.rules) if which >> i & 1
            )
        return found


_NUMBERS: tuple[Rule, ...] = (
    *forms.RULES,
    *times.FIRST_RULES,
    *sport.RULES,
    *electronic.RULES,
    *codes.RULES,
    *addresses.RULES,
    *names.RULES,
    *(rule for rule in moments.RULES if rule.kind == "date"),
    *times.RULES,
    *quantities.RULES,
    *sizes.RULES,
    *money.RULES,
    *measures.RULES,
    *sizes.INCH_RULES,
    *quantities.PART_RULES,
    *(rule for rule in moments.RULES if rule.kind != "date"),
    *names.LAST_RULES,
    *quantities.LAST_RULES,
)
_WORDS: tuple[Rule, ...] = (
    *messages.WORD_RULES,
    *law_and_medicine.WORD_RULES,
    *sport.WORD_RULES,
    *moments.WORD_RULES,
    *times.WORD_RULES,
    *names.WORD_RULES,
    *measures.WORD_RULES,
    *sizes.WORD_RULES,
    *references.WORD_RULES,
    *words.WORD_RULES,
    *symbols.WORD_RULES,
    *acronyms.WORD_RULES,
)
_CAPITAL_RULES = _Rules(
    *(rule for rule in money.RULES if rule.kind == "money"),
    *forms.WORD_RULES,
    *codes.WORD_RULES,
    *addresses.WORD_RULES,
    *_WORDS,
)
_SMALL_RULES = _Rules(
    *(rule for rule in codes.WORD_RULES if rule.kind == "telephone"),
    *(rule for rule in (*forms.WORD_RULES, *_WORDS) if rule.kind not in ("acronym", "roman")),
)
_NUMBER_RULES = _Rules(*_NUMBERS)
_SYMBOL_RULES = _Rules(*_NUMBERS, *forms.SYMBOL_RULES, *symbols.SYMBOL_RULES)
_ELECTRONIC_RULES = _Rules(*electronic.ELECTRONIC_RULES)
_NO_RULES = _Rules()

# Digits behind a letter.
_WITHIN_RULES = _Rules(*(rule for rule in _NUMBERS if rule.kind in ("ordinal", "number", "version")))

_PLAIN = re.compile(rf"\s+|(?!(?:{acronyms.NO_VOWEL}|[ivxl]{{1,6}})(?![\w']))[a-z]+(?:'[a-z]+)*(?=[\s,;:!?]|\Z)")
_WRITTEN = re.compile(r"[^\s,.;:!?]+")
_WORD = re.compile(r"[^\W\d_⁰¹²³⁴-⁹₀-₉]+(?:'[^\W\d_⁰¹²³⁴-⁹₀-₉]+)*")
# Small words that some rule reads; all other small words stand for themselves and are not tried.
_SPECIAL = frozenset([
    "mr", "mrs", "dr", "st", "phd", "e", "i", "a", "p", "aka", "v", "vs", "x", "oz", "apt", "ste", "rte", "fig",
    "ext", "vol", "ea", "yr", "mo", "exc", "pgs", "pg", "est", "inc", "incl", "nos", "he", "she", "his", "her", "him",
    "himself", "cal", "div", "ins", "def", "utils", "sin", "cos", "tan", "log", "lim", "doi", "adv",
    *messages.PLAIN_TOO, *law_and_medicine.PLAIN_TOO, *MONTHS, *MONTHS.values(),
])  # fmt: skip
_NUMERIC = frozenset(
    [
        "money",
        "measure",
        "time",
        "date",
        "ratio",
        "year",
        "decade",
        "number",
        "fraction",
        "ordinal",
        "magnitude",
        "height",
    ]
)
_BELONGS = re.compile(r"'[sS]\b|-[^\W_]")  # the 's of 12's, the -ish of 30-ish
_RANGE = re.compile(r"-\s(?=\d)|-|\s-\s")
_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_MONTH_NAME = "|".join(name.capitalize() for name in (*MONTHS, *MONTHS.values()) if name not in ("may", "march"))
_GOES_ON = re.compile(
    rf"[$£€¥₹₩]?\.?\d|(?i:{_MONTH})\w*\.?\s\d|(?:{_MONTH_NAME})\b|(?:{'|'.join(WEEKDAYS)}|{'|'.join(WEEKDAYS).upper()})\b|[A-Z][a-z]+day\b|(?:present|today|now)\b"
)
_SERIAL_AHEAD = re.compile(r"-\d+-\w")
_SERIAL_BEHIND = re.compile(r"\w-\d+\Z|(?<!\w)[A-Za-z]\w*\d\Z|\b(?:Boeing|Airbus|Embraer|Cessna)\s\w+\Z")
_NAMED_BEHIND = re.compile(
    r"\b(?:Exit|Gate|Room|Route|Rte\.?|Bus|Line|Platform|Track|Step|Item|Lesson|Stop|Mile|Lot|Table)\s\d+[A-Z]?\Z"
)
_COUNTED = re.compile(r"[$£€]|\d[\d.,]*\s?[a-z]")
_ROOM_BEHIND = re.compile(r"\b(?:Room|Rm\.?|Suite|Ste\.?|Apt\.?|Unit|Flat|Office|Lab)\s\d{1,2}\Z")
_TABLE_BEHIND = re.compile(r"\b(?:Table|Figure|Exhibit|Map)\s\d{1,2}\Z")
_OF_A_ROOM = re.compile(r"\d{3,4}(?![\w-])")
_EQUALS = re.compile(rf"\s?-\s?{NUMBER}(?:\s?[-+*/×÷]\s?{NUMBER}){{0,20}}\s?=")
_GRADE_BEHIND = re.compile(r"\b[A-F][+-]?\s?=\s?(\d\d)\Z")  # B+ = 87-89
_OF_TWO_DIGITS = re.compile(r"\d{2,3}(?!\d)")
_TERM_BEHIND = re.compile(r"[=+*×÷]\s?[\d.]+\Z")
# A sum that someone asks for: What is 81 / 9? But: what's 9-5, what's 7-11?
_OPERATOR = re.compile(r"\s?([-/x×*])\s?(?=\.?\d)")
_ASKED = re.compile(
    r"\b(?:(what(?:'s|\sis))|how\smuch\sis|calculate|compute|evaluate|solve|work\sout)\s"
    r"(?:the\s(?:sum|value|result|answer)\s(?:of|to)\s)?(?:[\d.,]+\s?[-+*/×÷x]\s?){0,5}[\d.,]+\Z",
    re.IGNORECASE,
)
_TERMS_AHEAD = re.compile(rf"{NUMBER}(?:\s?[-+*/×÷x]\s?{NUMBER}){{0,5}}\s?(?:[=?!]|\.?\s*\Z|\.\s+[A-Z])")
_OPERATIONS = {"-": "minus", "/": "divided by", "x": "times", "×": "times", "*": "times"}
_TIMES = re.compile(r"(\s?(?:[x×*]|(?<=\d)X(?=\d)|(?<=\d\s)X(?=\s\d))\s?)(?=[$£€]?\.?\d)")
# 2 x 8-inch pans, 1 x 400g tin
_PIECES = re.compile(
    r"(?<=\d) [x×] (?=\d+(?:\.\d+)?(?:"
    r"-(?:inch|foot|oz|ounce|gallon|pound|lb|day|week|hour|minute|man|person|pack)\s[a-z]+s\b"
    r"|\s?(?:k?g|m[lL]|oz|L|l|lb)\s(?:tins?|cans?|packs?|packets?|bags?|bottles?|jars?|tubs?|cartons?|bars?|pots?)\b))"
)
_MULTIPLIED = re.compile(
    rf"{NUMBER}(?:\s?-?(?:k?g|m?c?g|m[lL]|L|oz|lbs?)\b|\^-?\d|[⁰¹²³⁴-⁹⁻]|(?:\s?[-+*/x×÷]\s?{NUMBER}){{0,4}}\s?=)"
)


def tokens(text: str, style: Style) -> list[Token]:
    """All of `text` in tokens, in its order."""
    return list(_tokens(text, style))


def _tokens(text: str, style: Style) -> Iterator[Token]:
    has_address = bool(electronic.ELECTRONIC_AHEAD.search(text))
    given = sorted(style.given)
    position, previous, follows_word = 0, "", False
    while position < len(text):
        token = style.given.get(position) if given else None
        if token is None:
            token = _next(text, position, style, has_address, previous, follows_word)
            following = bisect_right(given, position) if given else 0
            if following < len(given) and position + len(token.written) > given[following]:
                token = _next(text[: given[following]], position, style, has_address, previous, follows_word)
        position += len(token.written)
        follows_word, previous = token.written[-1:].isalpha(), token.kind
        yield token


def _next(text: str, position: int, style: Style, has_address: bool, previous: str, follows_word: bool) -> Token:
    between = _between(text, position, previous)
    if between:
        return between
    if not (style.readings or has_address) and (plain := _PLAIN.match(text, position)) and plain[0] not in _SPECIAL:
        return Token(plain[0], "space" if plain[0].isspace() else "word", None)
    is_open = previous in ("range", "math", "serial") or not (text[position - 1 : position].isalnum())
    return _classified(text, position, style, has_address, is_open, follows_word)


def _between(text: str, position: int, previous: str) -> Token | None:
    """What stands between two numbers: to, minus, times, by."""
    if previous not in _NUMERIC:
        return None
    if (operator := _OPERATOR.match(text, position)) and _is_asked(text, operator):
        return Token(operator[0], "math", _OPERATIONS[operator[1]])
    if pieces := _PIECES.match(text, position):
        return Token(pieces[0], "mark", "")
    if times := _TIMES.match(text, position):
        is_product = (
            "x" not in times[0].lower()
            or times[0] == "x "
            or text[times.end()] in "$£€"
            or _MULTIPLIED.match(text, times.end())
        )
        return Token(times[0], "math", "times" if is_product else "by")
    dash = _RANGE.match(text, position)
    if dash is None or not _GOES_ON.match(text, dash.end()):
        return None
    ahead = text[max(0, position - 40) : position]
    if len(dash[0]) > 1 and _NAMED_BEHIND.search(ahead) and _COUNTED.match(text, dash.end()):
        return None
    is_room = _ROOM_BEHIND.search(ahead) and _OF_A_ROOM.match(text, dash.end())
    if dash[0] == "-" and (is_room or _TABLE_BEHIND.search(ahead)):
        return Token(dash[0], "serial", "")
    if _SERIAL_AHEAD.match(text, position) or _SERIAL_BEHIND.search(ahead):
        return Token(dash[0], "serial", "")
    of_grades = _GRADE_BEHIND.search(ahead)
    last = _OF_TWO_DIGITS.match(text, dash.end())
    if of_grades and last and int(of_grades[1]) < int(last[0]):
        return Token(dash[0], "range", "to")
    subtracts = _EQUALS.match(text, position) or _TERM_BEHIND.search(ahead)
    return Token(dash[0], "math" if subtracts else "range", "minus" if subtracts else "to")


def _is_asked(text: str, operator: re.Match[str]) -> bool:
    """Whether a sign stands in a sum that is asked for, and not in a range, a name or a size."""
    asked = _ASKED.search(text[max(0, operator.start() - 60) : operator.start()])
    is_spaced = len(operator[0]) > 2
    return bool(asked and (is_spaced or not asked[1]) and _TERMS_AHEAD.match(text, operator.end()))


def _classified(text: str, position: int, style: Style, has_address: bool, is_open: bool, follows_word: bool) -> Token:
    character = text[position]
    begins_word = not follows_word or not character.isalpha()
    own = _WRITTEN.match(text, position) if style.readings and begins_word else None
    if own and own[0] in style.readings:
        return Token(own[0], "own reading", style.readings[own[0]])
    if has_address and is_open and (found := _first(_ELECTRONIC_RULES, text, position, style)):
        return found
    rules = _NO_RULES
    if not character.isalpha():
        rules = _SYMBOL_RULES if not character.isdecimal() else _NUMBER_RULES if is_open else _WITHIN_RULES
    elif begins_word and not text[position - 1 : position].isalpha():
        rules = _SMALL_RULES if character.islower() else _CAPITAL_RULES
    if found := _first(rules, text, position, style):
        return found
    if character.isalpha():
        if begins_word and (greek := symbols.GREEK_RULE.pattern.match(text, position)):
            return Token(greek[0], "letter", symbols.GREEK_RULE.reading(greek, style))
        word = _WORD.match(text, position)
        return Token(word[0] if word else character, "word", None)
    return Token(character, "space" if character.isspace() else "mark", None)


def _first(rules: _Rules, text: str, position: int, style: Style) -> Token | None:
    for kind, matched, reading in rules.at(text, position):
        match = matched(text, position)
        if match and match[0] and (spoken := reading(match, style)) is not None:
            return Token(match[0], kind, spoken)
    return None


def spoken(found: list[Token]) -> str:
    """The tokens in words, with what stands for itself between them."""
    return "".join(spoken_each(found))


def spoken_each(found: list[Token]) -> list[str]:
    """What every token becomes: its words with the spaces that they need, or itself."""
    said = []
    for i, token in enumerate(found):
        if token.spoken is None or token.kind == GIVEN:
            said.append(token.written if token.spoken is None else token.spoken)
            continue
        behind = "".join(other.written for other in found[i + 1 : i + 3])
        opens = "" if i > 1 and found[i - 1].written == "-" and found[i - 2].written[-1:].isalnum() else " "
        closes = "" if _BELONGS.match(behind) else " "
        said.append(f"{opens}{token.spoken}{closes}")
    return said

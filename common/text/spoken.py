"""English as a voice must say it: what `normalize_english` does for a recogniser's labels, and what only a voice needs.

A recogniser writes words; a voice must also know which capitals are spelled, keep the punctuation that it pauses at,
and read addresses and telephone numbers aloud. No character is dropped that might have been said: those without a
reading in English stay where they are, for the caller to report.
"""

import re
import unicodedata
from collections.abc import Callable, Container

from common.text import pronounce
from common.text.normalize import KINGS, UNITS, normalize_english, roman
from common.text.numbers import cardinal, digits

_LETTERS = "abcdefghijklmnopqrstuvwxyz' "
_Spoken = str | Callable[[re.Match[str]], str]


def spoken_english(text: str, *, keep: str = ".,!?", known: Container[str] = ()) -> str:
    """The words of `text` in lower case, with single spaces, and with the punctuation marks of `keep`.

    `known` are words that stay in one piece although they are written in capitals, besides those of CMUdict.
    """
    said = unicodedata.normalize("NFC", text)
    for pattern, replacement in _RULES:
        said = pattern.sub(replacement, said)
    said = _CAPITALS.sub(lambda match: _capitals(match, known), said)
    said = normalize_english(said, keep=_LETTERS + keep + _without_reading(said))
    said = _AM_OR_PM.sub(lambda match: f"{match[1]} {_letters(match[2] + 'm')}", said)
    said = re.sub(r"(?<=\() | (?=\))", "", said)
    return _ended_like(text, said, keep)


def transliterated(text: str) -> str:
    """`text` in Latin letters, except for characters of alphabets that are not read letter by letter."""
    from anyascii import anyascii

    return "".join(c if c.isascii() or _has_no_reading(c) else anyascii(c) for c in unicodedata.normalize("NFC", text))


# ---------------------------------------------------------------------------------------------------------------------
# Characters

_ALPHABETS = ("LATIN", "GREEK", "CYRILLIC", "COMBINING", "FULLWIDTH", "MODIFIER")
_SYMBOLS_SAID = "°−×÷²³™®©"  # or passed over, by normalize_english


def _without_reading(text: str) -> str:
    return "" if text.isascii() else "".join({c for c in text if not c.isascii() and _has_no_reading(c)})


def _has_no_reading(character: str) -> bool:
    """A letter of another script than the alphabets of Europe, or a symbol such as an arrow or a picture."""
    kind = unicodedata.category(character)
    is_symbol = kind in ("So", "Sm", "Sk") and character not in _SYMBOLS_SAID
    is_letter = kind.startswith("L")
    return (is_symbol or is_letter) and not unicodedata.name(character, "").startswith(_ALPHABETS)


def _ended_like(text: str, said: str, keep: str) -> str:
    """A full stop that was taken for that of an abbreviation ends the sentence all the same."""
    was_ended = "." in keep and re.search(r"[.][)\"'”’\]\s]*\Z", text)
    return re.sub(r"(?<=\w)(?=[)\"']*\Z)", ".", said) if was_ended else said


# ---------------------------------------------------------------------------------------------------------------------
# Letters

LETTER_A = "ay"
"""The letter, as opposed to the article."""

# In CMUdict as words, but said letter by letter when they stand in capitals among other words.
_SPELLED = frozenset(["AD", "ID", "US"])
_LONGEST_SPELLED = 4
_CAPITALS = re.compile(r"(?<![A-Za-z])([A-Z]{2,})('?s)?(?![A-Za-z])")
_NUMERAL = re.compile(r"X{0,3}(?:IX|IV|V?I{0,3})")


def _letters(word: str) -> str:
    return " ".join(LETTER_A if letter in "Aa" else letter for letter in word)


def _capitals(match: re.Match[str], known: Container[str]) -> str:
    """Spelled out if that is how it is said: GPU, HTML; but NASA, HELLO, 10 GB."""
    word, ending = match[1], match[2] or ""
    before, rest = match.string[: match.start()], match.string[match.end() :]
    is_unit = re.search(r"\d\s?\Z", before) and (word.lower() in UNITS or word in ("AM", "PM"))
    is_numeral = _NUMERAL.fullmatch(word) and re.search(r"[A-Za-z]\s\Z", before)
    if is_unit or is_numeral or word.lower() in known:
        return match[0]
    shouts = not re.search(r"[a-z]", before + rest)
    if word in _SPELLED and not shouts:
        return _letters(word) + ending
    has_vowel = bool(re.search(r"[AEIOUY]", word))
    if pronounce.pronunciations(word.lower()) or (has_vowel and len(word) > _LONGEST_SPELLED):
        return match[0]
    return _letters(word) + ("'s" if ending else "")


# ---------------------------------------------------------------------------------------------------------------------
# Addresses and telephone numbers

_MARKS = {
    ".": "dot", "/": "slash", "_": "underscore", "-": "dash", "@": "at", "?": "question mark", "=": "equals",
    "&": "and", "#": "hash", "%": "percent", ":": "colon", "~": "tilde", "+": "plus",
}  # fmt: skip
_DOMAINS = "com|org|net|edu|gov|io|ai|dev|info|co|uk|de|fr|eu|us|ca"


def _address(match: re.Match[str]) -> str:
    """example.com/a_b → example dot com slash a underscore b"""
    words = []
    for part in re.findall(r"[A-Za-z]+|\d+|.", re.sub(r"^[a-z]+://", "", match[0].rstrip("/"))):
        if part.isdigit():
            words.append(digits(part))
        elif part.isalpha():
            words.append(_letters(part) if not pronounce.pronunciations(part.lower()) and len(part) < 4 else part)
        else:
            words.append(_MARKS.get(part, " "))
    return " ".join(words)


def _telephone(match: re.Match[str]) -> str:
    """Digit by digit, with a pause between groups."""
    plus = "plus " if match[0].startswith("+") else ""
    return plus + ", ".join(digits(group) for group in re.findall(r"\d+", match[0]))


def _dotted(match: re.Match[str]) -> str:
    """U.S. → U S, but e.g. and i.e. are words of their own."""
    letters = match[0].replace(".", "")
    return match[0] if letters.lower() in ("eg", "ie", "am", "pm") else _letters(letters)


def _roman(match: re.Match[str]) -> str:
    """Rocky II → Rocky two; what normalize_english reads as an ordinal, Elizabeth II, stays."""
    if re.search(rf"\b(?:{KINGS})\s\Z", match.string[: match.start()]):
        return match[0]
    return cardinal(roman(match[0]))


_RULES: tuple[tuple[re.Pattern[str], _Spoken], ...] = (
    # me@home.org, https://www.example.com/a_b, example.com
    (re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), _address),
    (re.compile(r"\b(?:https?://|www\.)[^\s<>\"]*[^\s<>\".,;:!?)\]]", re.IGNORECASE), _address),
    (re.compile(rf"\b[A-Za-z][\w-]*\.(?:[\w-]+\.)*(?:{_DOMAINS})\b(?:/[^\s<>\"]*[^\s<>\".,;:!?)\]])?"), _address),
    # (212) 555-1234, 1-800-555-1234, +44 20 7946 0958
    (re.compile(r"(?<![\w-])(?:\+?1[ .-])?(?:\(\d{3}\)\s?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])"), _telephone),
    (re.compile(r"(?<!\w)\+\d{1,3}(?:[ .-]?\(?\d{2,4}\)?){2,5}(?!\w)"), _telephone),
    # 3 < 4, x >= y
    (re.compile(r"(?<=\w)\s*(?:<=|≤)\s*(?=[\w-])"), " is at most "),
    (re.compile(r"(?<=\w)\s*(?:>=|≥)\s*(?=[\w-])"), " is at least "),
    (re.compile(r"(?<=\w)\s+<\s+(?=[\w-])|(?<=\d)<(?=\d)"), " is less than "),
    (re.compile(r"(?<=\w)\s+>\s+(?=[\w-])|(?<=\d)>(?=\d)"), " is greater than "),
    # 5'10"
    (re.compile(r"(?<!\w)(\d)'\s?(\d{1,2})(?:\"|''|”)"), r"\1 feet \2"),
    # AT&T, U.S., a.m. without a time before it
    (re.compile(r"\b([A-Z]{1,3})&([A-Z]{1,3})\b"), lambda match: f"{_letters(match[1])} and {_letters(match[2])}"),
    (re.compile(r"(?<!\d)(?<!\d\s)\b([ap])\.\s?m\b\.?", re.IGNORECASE), lambda match: _letters(match[1] + "m")),
    (re.compile(r"\b(?:[A-Za-z]\.){2,}(?!\w)"), _dotted),
    (re.compile(r"(?<=[a-z]\s)(?:X{1,3}(?:IX|IV|V?I{1,3})|I{2,3}|IV|VI{1,3}|IX)\b"), _roman),
)

_NUMBER_WORDS = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen"
    "|eighteen|nineteen|twenty|thirty|forty|fifty|zero"
)
_AM_OR_PM = re.compile(rf"\b({_NUMBER_WORDS}) ([ap])m\b")

"""Text that is said as something: SSML's say-as, with the interpretations of W3C's note and of other engines."""

import re
import unicodedata

from common.text.english.electronic import MARKS
from common.text.english.say import MONTHS
from common.text.english.style import Style
from common.text.english.words import SYMBOLS
from common.text.numbers import cardinal, digits, fraction, ordinal, year
from common.text.roman import is_roman, roman

_AS_WRITTEN = ("currency", "money", "time", "unit", "measure", "address", "number", "spoken", "duration")
INTERPRETATIONS = (
    "characters", "spell-out", "verbatim", "cardinal", "ordinal", "digits", "telephone", "fraction", "date", "year",
    *_AS_WRITTEN,
)  # fmt: skip
_VOICE = Style(for_voice=True)
_NUMBER = re.compile(r"[+-]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)")
_DATE = re.compile(r"[dmy]{1,3}")


class SayAsError(ValueError):
    """What cannot be said as it is asked, in one line."""


def say_as(text: str, how: str, form: str = "") -> str | None:
    """The words of `text` said as `how`; None where that is how it is read anyway. Raises SayAsError.

    `form` is the order of a date's parts: mdy, dmy, ymd, md, dm, ym, my, d, m, y.
    """
    how, text = how.lower(), text.strip()
    if how in ("characters", "spell-out", "verbatim"):
        return " ".join(word for word in map(_character, text) if word)
    if how == "telephone":
        return ", ".join(
            _VOICE.letters(g.lower()) if g.isalpha() else digits(g) for g in re.findall(r"\d+|[A-Za-z]+", text)
        )
    if how in ("cardinal", "ordinal") and is_roman(text):
        text = roman(text)
    if how == "digits":
        return digits(_matching(r"[\d\s.,-]+", text, how))
    if how == "cardinal":
        return _cardinal(text)
    if how == "ordinal":
        return ordinal(_matching(r"(\d[\d,]*)(?:st|nd|rd|th)?", text, how))
    if how == "fraction":
        return _fraction(text)
    if how == "year":
        return year(_matching(r"\d{3,4}", text, how))
    if how == "date":
        return _date(text, form.lower()) if form else None
    if how in _AS_WRITTEN:
        return None
    raise SayAsError(f'<say-as interpret-as="{how}">: expected one of {", ".join(INTERPRETATIONS)}')


def _matching(pattern: str, text: str, how: str) -> str:
    match = re.fullmatch(pattern, text)
    if not match:
        raise SayAsError(f'<say-as interpret-as="{how}">: {text[:40]!r} is none')
    return match[1] if match.re.groups else match[0]


def _character(character: str) -> str:
    if character.isdecimal():
        return digits(character)
    if character.isalpha():
        return _VOICE.letters(character.lower())
    return MARKS.get(character) or SYMBOLS.get(character) or _OTHERS.get(character, "")


_OTHERS = {
    ",": "comma", "!": "exclamation mark", ";": "semicolon", "'": "apostrophe", '"': "quotation mark", "*": "asterisk",
    "(": "open parenthesis", ")": "close parenthesis", "[": "open bracket", "]": "close bracket", "\\": "backslash",
    "|": "vertical bar", "<": "less than", ">": "greater than", "^": "caret", " ": "",
}  # fmt: skip


def _cardinal(text: str) -> str:
    number = _matching(rf"({_NUMBER.pattern})", text, "cardinal")
    sign = "minus " if number.startswith("-") else ""
    return sign + cardinal(number.lstrip("+-").lstrip("0") or "0")


def _fraction(text: str) -> str:
    text = unicodedata.normalize("NFKC", re.sub(r"(?<=\d)(?=[¼-¾⅐-⅞])", " ", text)).replace("⁄", "/")  # 2½ → 2 1/2
    match = re.fullmatch(r"(?:(\d+)[\s+]+)?(\d+)/(\d+)", text)
    if not match or not int(match[3]):
        raise SayAsError(f'<say-as interpret-as="fraction">: {text[:40]!r} is none')
    part = fraction(match[2], match[3], improper=True)
    return f"{cardinal(match[1])} and {part}" if match[1] else part


def _date(text: str, form: str) -> str:
    form = re.sub(r"(.)\1+", r"\1", form)  # yyyymmdd → ymd
    parts = re.findall(r"\d+|[A-Za-z]+", text)
    if len(parts) == 1 and re.fullmatch(r"\d{8}", text) and form == "ymd":
        parts = [text[:4], text[4:6], text[6:]]
    if not _DATE.fullmatch(form) or len({*form}) != len(form) or len(parts) != len(form):
        expected = "a date of as many parts as its format, which is mdy, dmy, ymd, md, dm, ym, my, d, m or y"
        raise SayAsError(f'<say-as interpret-as="date" format="{form}">: {text[:40]!r}: expected {expected}')
    words = {name: _part(name, part, text, form) for name, part in zip(form, parts, strict=True)}
    if "d" in words and "m" in words and form.index("d") < form.index("m"):
        ordered = ["the", words["d"], "of", words["m"], words.get("y", "")]
    else:
        ordered = [words.get("m", ""), words.get("d", ""), words.get("y", "")]
    return " ".join(filter(None, ordered))


def _part(name: str, part: str, text: str, form: str) -> str:
    if name == "m" and part.isalpha() and (named := [month for month in MONTHS if month.startswith(part.lower()[:3])]):
        return named[0]
    if name == "m" and part.isdecimal() and 1 <= int(part) <= 12:
        return MONTHS[int(part) - 1]
    if name == "d" and part.isdecimal() and 1 <= int(part) <= 31:
        return ordinal(part)
    if name == "y" and part.isdecimal() and len(part) in (2, 3, 4):
        return year(part if len(part) > 2 else ("20" if int(part) < 50 else "19") + part)
    raise SayAsError(f'<say-as interpret-as="date" format="{form}">: {part!r} in {text[:40]!r} is no {_NAMES[name]}')


_NAMES = {"d": "day", "m": "month", "y": "year"}

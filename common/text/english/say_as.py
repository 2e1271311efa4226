"""Text that is said as something: SSML's say-as, with the interpretations of W3C's note and of other engines."""

import re
import unicodedata

from common.text.english.characters import prepared
from common.text.english.electronic import MARKS
from common.text.english.reader import spoken_as
from common.text.english.say import MONTHS, in_full
from common.text.english.style import Style
from common.text.english.words import SYMBOLS
from common.text.numbers import cardinal, digits, fraction, ordinal, year

_CHARACTERS = ("characters", "spell-out", "verbatim")
_KINDS = {  # classes of readings that the model chooses among, the first that a token may have
    "cardinal": ("cardinal", "roman"), "ordinal": ("ordinal", "ranked"), "fraction": ("fraction",),
    "year": ("year", "decade", "pairs", "cardinal"), "date": ("date", "ordinal", "month", "year"),
    "time": ("clock", "half", "time", "duration"), "duration": ("duration", "measure", "clock"),
    "currency": ("money", "code"), "money": ("money", "code"), "unit": ("measure",), "measure": ("measure",),
    "number": ("cardinal",), "address": (), "spoken": (),
}  # fmt: skip
_STRICT = frozenset(["cardinal", "ordinal", "fraction", "year"])
INTERPRETATIONS = (*_CHARACTERS, "digits", "telephone", *_KINDS)
_VOICE = Style(for_voice=True)
_ERA = re.compile(r"(A\.?D\.?\s)?(\d{1,4})(?(1)|\s?(A\.?D\.?|(?:B\.?)?C\.?(?:E\.?)?))", re.IGNORECASE)
_DATE = re.compile(r"[dmy]{1,3}")
_GROUPS = re.compile(r"(?<![\d.,])\d{1,3}(?:\s\d{3})+(?!\d)")


class SayAsError(ValueError):
    """What cannot be said as it is asked, in one line."""


def say_as(text: str, how: str, form: str = "") -> str | None:
    """The words of `text` said as `how`; None where that is how it is read anyway. Raises SayAsError.

    `form` is the order of a date's parts: mdy, dmy, ymd, md, dm, ym, my, d, m, y.
    """
    how, text = how.lower(), text.strip()
    if how in _CHARACTERS:
        return _characters(text)
    if how == "telephone":
        return ", ".join(
            _VOICE.letters(g.lower()) if g.isalpha() else digits(g) for g in re.findall(r"\d+|[A-Za-z]+", text)
        )
    if how == "digits":
        return digits(_matching(r"[\d\s.,-]+", text, how))
    if how == "date" and form:
        return _date(text, form.lower())
    if how not in _KINDS:
        raise SayAsError(f'<say-as interpret-as="{how}">: expected one of {", ".join(INTERPRETATIONS)}')
    written = re.sub(r"(?<=\d)(?=[¼-¾⅐-⅞])", " ", text)  # 2½ → 2 1/2
    written = prepared(unicodedata.normalize("NFKC", written).replace("⁄", "/"))
    if how in ("cardinal", "ordinal", "number"):
        written = _GROUPS.sub(lambda groups: ",".join(groups[0].split()), written)
    if how not in _STRICT:
        return spoken_as(written, _VOICE, _KINDS[how])
    if (said := _whole(written, how)) is None:
        raise SayAsError(f'<say-as interpret-as="{how}">: {text[:40]!r} is none')
    return said


def _whole(text: str, how: str) -> str | None:
    """The words of `text` that is one number of a kind, with or without a sign."""
    if signed := re.fullmatch(r"([+-])\s?(?=[^\s+-])(.+)", text):
        said = _whole(signed[2], how)
        return said and f"{'minus' if signed[1] == '-' else 'plus'} {said}"
    if how == "year" and (era := _ERA.fullmatch(text)):
        ahead, behind = (_characters("".join(filter(str.isalpha, era[i] or ""))) for i in (1, 3))
        return f"{ahead} {_whole(era[2], how) if len(era[2]) > 2 else cardinal(era[2])} {behind}".strip()
    if how == "ordinal" and re.fullmatch(r"\d[\d,]*", text):
        return ordinal(text)
    if how == "fraction":
        text = re.sub(r"(?<=\d)\s*\+\s*(?=\d)", " ", text)  # 5+1/2
        if (m := re.fullmatch(r"(\d{1,99})\s?/\s?(\d{1,99})", text)) and int(m[2]):
            return fraction(m[1], m[2], improper=True)
    text = re.sub(r"\A0+(?=\d)", "", text) if how == "cardinal" else text
    return spoken_as(text, _VOICE, _KINDS[how], is_whole=True)


def _matching(pattern: str, text: str, how: str) -> str:
    match = re.fullmatch(pattern, text)
    if not match:
        raise SayAsError(f'<say-as interpret-as="{how}">: {text[:40]!r} is none')
    return match[1] if match.re.groups else match[0]


def _characters(text: str) -> str:
    return " ".join(word for word in map(_character, text) if word)


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
        return year(in_full(part))
    raise SayAsError(f'<say-as interpret-as="date" format="{form}">: {part!r} in {text[:40]!r} is no {_NAMES[name]}')


_NAMES = {"d": "day", "m": "month", "y": "year"}

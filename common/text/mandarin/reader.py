"""Mandarin as it is spoken: numbers, dates, times, money, measures and ranges in Chinese words.

The grammar proposes readings of what stands beside Chinese, and the model chooses. What stands beside English is left
to English.
"""

import re
import string
import unicodedata
from bisect import bisect_left
from functools import cache, partial

from common.text.engine.choose import Chooser, Proposal, read_table, read_weights
from common.text.engine.shapes import Memory, Shapes, TokenShape, either, matched, shape
from common.text.engine.token import Following, Token, read
from common.text.mandarin import say
from common.text.mandarin.phones import HAN, PUNCTUATION

_VARIANTS = str.maketrans(
    {"…": "。", "—": "，", "～": "，", "·": " ", "『": "「", "』": "」", "−": "-", "　": " ", "％": "%", "．": "."}
    | {chr(ord(plain) + 0xFEE0): plain for plain in string.digits + string.ascii_letters}
    | {"￥": "¥", "＄": "$", "－": "-", "＋": "+", "＝": "=", "\u00a0": " ", "\u2009": " ", "\u202f": " "}
)


def spoken_mandarin(text: str) -> str:
    """`text` with what stands beside Chinese characters in Chinese words, and its punctuation in one form.

    2024年 → 二零二四年, 3个 → 三个, 50%的 → 百分之五十的, −5度 → 负五度, 5-6个人 → 五到六个人.
    """
    return "".join(token.written if token.spoken is None else token.spoken for token in mandarin_tokens(text))


def mandarin_tokens(text: str) -> list[Token]:
    """All of `text` in tokens, in its order; what is written is of the same length as it was given."""
    text = in_one_form(text)
    return list(read(text, following(text), model))


def in_one_form(text: str) -> str:
    """`text` with one form of each sign, of the same length."""
    return re.sub(r"(?<=\d)[～~—–](?=-?[\d¥$€£])", "-", text).translate(_VARIANTS)  # a range, not a pause


@cache
def model() -> Chooser:
    """The weights of Mandarin."""
    return Chooser(read_weights(say.TABLES / "weights.tsv"), CLASSES)


_WORDS = {word: name for name, words in read_table(say.TABLES / "classes.tsv") for word in words.split()}
CLASSES = {word: [f"@{name}"] for word, name in _WORDS.items() if len(word) == 1}
"""Classes of single characters."""
_CLASSED = re.compile(either(_WORDS))
_CLOSE = re.compile(rf"({either(_WORDS)})(?:[是为到在：:号码]|\s)*\Z")

_VALUE = r"\d+(?:,\d{3})*(?:\.\d+)?(?![\d])"
_ELECTRONIC = shape(
    "electronic",
    r"(?a:(?<![\w.])(?:[\w-]{1,60}@)?(?:[A-Za-z\d-]{1,60}\.){1,5}(?:com|cn|net|org|edu|gov|io|tv|cc|me|info)(?![\w.-]))",
    say.electronic,
)
_IN_NAMES = (shape("number", _VALUE, say.number), shape("points", r"\d+(?:\.\d+){2,}", say.points, r"0\.0"))
_DAY = r"(?P<month>\d{1,2})%s(?P<day>\d{1,2})"
_NUMBERS = Shapes((
    _ELECTRONIC,
    *_IN_NAMES,
    shape("date", rf"(?P<year>\d{{4}})(?P<mark>[-/.]){_DAY % '(?P=mark)'}(?!\d)", say.date, "0[-/.]0"),
    shape("date", rf"(?P<year>){_DAY % '/'}(?![\d/])", say.date, "0/0"),
    shape("slash", rf"({_VALUE})/(\d+)(?:\s?(mmHg|毫米汞柱))?(?![\d/])", say.slash, "0[/.,]0"),
    shape("length", r"(\d{1,2})['′]([0-5]\d)(?:[\"″]|'')", say.minutes, "0['′]0"),
    shape("colon", r"(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)(?::(\d\d))?(?![\d:])", say.colon, "0[:.]0"),
    shape("telephone", r"\d{3,4}(?:[- ]\d{3,4})?[- ]\d{4,8}(?!\d)", say.telephone, "0[- ]0"),
    shape("measure", rf"({_VALUE})([万亿]?)\s?({either(say.UNITS)})(?![A-Za-z])", say.measure),
    shape("percents", rf"({_VALUE})\s?-\s?({_VALUE})([%‰])", say.percents, "0(?:[.,]0|[- ])"),
))  # fmt: skip
_SIGNS = Shapes((
    shape("money", rf"([¥$€£])\s?({_VALUE})(?:\s?-\s?[¥$€£]?({_VALUE}))?([万亿千百]+)?", say.money, "[¥$€£]"),
    shape("telephone", r"\+\d{1,3}(?:[- ]?\d{2,8}){1,4}(?![\d.])", say.telephone, r"\+"),
    shape("sign", either(say.SIGNS), say.sign),
    shape("per", rf"/({either(say.UNITS)})(?![A-Za-z])", say.per, "/"),
))  # fmt: skip
_ALWAYS = "".join(sign for sign in say.SIGNS if unicodedata.numeric(sign[0], None))
_FIRST = "".join(dict.fromkeys(sign[0] for sign in say.SIGNS))
_PLACE = re.compile(rf"[\d{re.escape(_FIRST)}]|(?a:(?<![\w.-])(?=[\w-]{{1,60}}[.@]\w))")
_BESIDE_SIGN = re.compile(rf"[{HAN}\d]")
_LETTERS = re.compile(rf"([{HAN}{PUNCTUATION}]+)|(?<![A-Za-z\d])[^\W\d_{HAN}]{{2,}}+(?!\s?\d)")
"""Chinese, and words of other languages that are no names with a number."""
_WITHIN = re.compile(r"(?<![A-Za-z\d])[A-Za-z][A-Za-z\d-]*\Z|\d\.\Z")
_ENDS_IN_LETTERS = re.compile(r"\d{1,4}(?:\.\d)?[A-Z]{1,2}(?![A-Za-z\d])")
_MEMORY: Memory = {}
_NEXT = re.compile(r".", re.DOTALL)


def following(text: str) -> Following:
    """What may stand in `text`, from a place on."""
    letters = [(m.start(), m[1] is not None) for m in _LETTERS.finditer(text)]
    if not any(is_chinese for _, is_chinese in letters) and letters:
        return lambda position: (len(text), [])
    return partial(_next, text, letters)


_Letters = list[tuple[int, bool]]
"""Where words of a text begin, and whether they are Chinese."""


def _next(text: str, letters: _Letters, position: int) -> tuple[int, list[Proposal]]:
    for place in _PLACE.finditer(text, position):
        if found := _at(text, place.start(), letters):
            return place.start(), found
    return len(text), []


def _at(text: str, start: int, letters: _Letters) -> list[Proposal]:
    first = bisect_left(letters, (start,))
    if letters and not any(is_chinese for _, is_chinese in letters[max(0, first - 1) : first + 2]):
        return []
    found = [
        proposal
        for proposal in matched(_shapes(text, start), text, start, None, _MEMORY, _NEXT)
        if text[proposal.stop : proposal.stop + 1] not in string.ascii_letters
        or proposal.stop == len(text)
        or _ENDS_IN_LETTERS.match(text, start)
    ]
    behind = bisect_left(letters, (max((proposal.stop for proposal in found), default=start),))
    beside = letters[max(0, first - 1) : behind + 1]  # the nearest ahead, behind and within
    if beside and not any(is_chinese for _, is_chinese in beside):
        return []
    around = _around(text, start)
    return [Proposal(stop, [*own, *around, *_behind(text, stop, own[0])], readings) for stop, own, readings in found]


def _shapes(text: str, start: int) -> tuple[TokenShape, ...]:
    """The shapes that may begin at a place; within a name such as GPT4 or PM2.5 those of plain numbers."""
    first, ahead = text[start], text[max(0, start - 12) : start]
    if not first.isdecimal():
        if first not in _FIRST:
            return (_ELECTRONIC,)
        is_arrow = (first in "-=" and text.startswith(">", start + 1)) or (
            first in "=<>" and ahead[-1:] in ("-", "=", "<")
        )
        is_name = first == "-" and _WITHIN.search(ahead)  # COVID-19
        is_beside = first in _ALWAYS or _BESIDE_SIGN.search(text[max(0, start - 2) : start + 3])
        return _SIGNS.at(text, start) if is_beside and not (is_arrow or is_name) else ()
    if within := _WITHIN.search(ahead):
        return () if re.search(r"\d", within[0]) else _IN_NAMES
    return () if ahead[-1:].isdecimal() else _NUMBERS.at(text, start)


def _around(text: str, start: int) -> list[str]:
    """What the words ahead tell of a token."""
    ahead = text[max(0, start - 12) : start]
    found = {f"<{_WORDS[m[0]]}" for m in _CLASSED.finditer(ahead)}
    if close := _CLOSE.search(ahead):
        found.add(f"<<{_WORDS[close[1]]}")
    if within := _WITHIN.search(ahead):
        found.add(f"in={re.sub('[A-Z]', 'A', re.sub('[a-z]+', 'a', within[0]))}")
    return sorted(found)


def _behind(text: str, stop: int, shape: str) -> list[str]:
    """What the words behind tell of a token."""
    behind = text[stop : stop + 10]
    found = {f">{_WORDS[m[0]]}" for m in _CLASSED.finditer(behind)}
    if close := _CLASSED.match(behind.lstrip()):
        found.add(f">>{_WORDS[close[0]]}")
    skeleton = re.sub(r"\d+", "0", behind)
    return [*sorted(found), *(f"{shape}{skeleton[:n]}" for n in (1, 2))]

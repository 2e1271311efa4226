"""Electronic addresses: mail, sites, files and paths, @names, #tags, networks, names of code."""

import re
from functools import partial

from common.text.engine.choose import Proposal, read_table
from common.text.engine.shapes import Readings, own_features, reading
from common.text.english.say import TABLES
from common.text.english.style import Style
from common.text.numbers import cardinal, digits, in_pairs, year
from common.text.pronunciation import pronounce

_LISTS = {row[0]: row[1] for row in read_table(TABLES / "electronic.tsv")}
_DOMAINS, _SHORT_DOMAINS, _EXTENSIONS = _LISTS["domains"], _LISTS["domains before a path"], _LISTS["extensions"]
_SPELLED_THERE = frozenset(_LISTS["spelled"].split("|"))
_WORDS = frozenset(_LISTS["words"].split("|"))
MARKS = {
    ".": "dot", "/": "slash", "_": "underscore", "-": "dash", "@": "at", "?": "question mark", "=": "equals",
    "\\": "backslash", "&": "ampersand", "#": "hash", "%": "percent", ":": "colon", "~": "tilde", "+": "plus",
}  # fmt: skip
# Words, unless they are a whole label or folder: en.wikipedia.org, amazon.de, but rio-de-janeiro.
_WHOLE_LABEL = re.compile(r"(?<![^./])(?:en|de|es|ca)(?=[./]|\Z)")
_YEAR_IN_A_NAME = re.compile("(?:19[5-9]|20[0-4])\\d")
INTERNET = r"((?:\d{1,3}\.){3}\d{1,3})(?::(\d{2,5}))?(?![\w.]*\d)"
_TAIL = r"(?:[/?#][^\s<>\"]*[^\s<>\".,;:!?)\]])?"
_FOLDERS = r"(?:\.{1,2}/|~/|/)?(?:[\w.-]{1,99}/){0,20}"
ADDRESS = "|".join(
    (
        rf"[^\W_][\w.+&-]{{0,99}}@[\w-]{{1,99}}(?:\.[\w-]{{1,99}}){{1,9}}{_TAIL}/?",
        r"(?i:(?:(?:https?|ftp|file)://|www\.)[^\s<>\"]*[^\s<>\".,;:!?)\]])",
        rf"(?:{_FOLDERS}[\w-]{{1,99}}(?:\(\d{{1,3}}\))?(?:\.[\w-]{{1,99}}){{0,9}}|(?<![\w.)])|(?<=\(\d\)))"
        rf"\.(?:{_EXTENSIONS}|{_EXTENSIONS.upper()})(?![\w'])",
        rf"[A-Za-z][\w-]{{0,99}}\.(?:[\w-]{{1,99}}\.){{0,9}}"
        rf"(?:{_DOMAINS}|(?:{_SHORT_DOMAINS})(?=/\w))(?![\w'])(?!\.\w)(?::\d{{2,5}}(?!\d))?{_TAIL}",
        r"(?:[A-Z]:\\(?:[\w.$-]{1,99}\\){0,20}|~/|\.{1,2}/|/(?=[\w.-]{1,99}/))(?:[\w.-]{1,99}/){0,20}(?:[\w.$-]{0,99}\w)?",
        r"(?<![^\s(])(?<!\d\s)/(?!or\b)[a-z][\w-]{1,99}(?=[\s,;:?!)]|\.?(?:\s|\Z))",
        r"(?<!\S)\.(?:[a-z]{2,12}(?:rc|ignore)|git|htaccess|ssh|github|vscode|profile)(?!\w)",
    )
)
VARIABLE = (
    r"(?:[A-Za-z]\w{1,99}\.){0,9}[A-Za-z][A-Za-z\d]{0,49}(?:_[A-Za-z\d]{1,49}){1,15}(?:\.[A-Za-z]\w{1,99}){0,9}(?!\w)"
)
_AHEAD = re.compile(  # every branch begins with a sign, so that the search passes over letters
    r"@[\w-]+\.\w|:(?://|\\)|_(?<=[^\W_]_)[^\W_]|~/|/(?<!\S/)\w"
    r"|\.(?:(?<=[\w)]\.)(?:[a-zA-Z]{2}|mp\d)|7z|(?<=www\.)|/|(?<!\S\.)[a-z]{2})"
)
"""Without it a text has no electronic token."""
_ELECTRONIC = re.compile(rf"(?<![^\W_])(?:(?P<address>{ADDRESS})|(?P<variable>{VARIABLE}))")


def addresses(text: str, style: Style) -> dict[int, Proposal]:
    """The electronic addresses and names of variables of a text, by their place."""
    found = _ELECTRONIC.finditer(text) if _AHEAD.search(text) else ()
    said = ((m, list((variable if m["variable"] else address)(m, style))) for m in found)
    own = partial(own_features, "electronic")
    return {m.start(): Proposal(m.end(), own(m[0]), readings) for m, readings in said if readings}


def address(m: re.Match[str], style: Style) -> Readings:
    """example.com/a_b → example dot com slash a underscore b"""
    words = []
    written = re.sub(r"^https?://", "", m[0].rstrip("/"), flags=re.IGNORECASE)
    for found in re.finditer(rf"(?<![\w.])(?:{INTERNET})|[^\W\d_]+|\d+|.", written):
        part = found[0]
        if found[1]:
            words.append(_internet(found, style))
        elif style.for_voice and _WHOLE_LABEL.match(written, found.start()):
            words.append(style.letters(part))
        elif part.isdecimal():
            is_port, is_year = words[-1:] == [MARKS[":"]], style.for_voice and _YEAR_IN_A_NAME.fullmatch(part)
            words.append(in_pairs(part) if is_port else year(part) if is_year else digits(part))
        else:
            words.append(_letters_or_word(part, style) if part.isalpha() else MARKS.get(part, " "))
    yield reading("electronic", " ".join(words))


def _letters_or_word(part: str, style: Style) -> str:
    """What is short, or has no vowel, and is no word is spelled."""
    is_short = len(part) < 4 or not re.search("[aeiouy]", part, re.IGNORECASE)
    small = part.lower()
    is_word = small in _WORDS or (
        pronounce.pronunciations(small) and not (pronounce.is_said_by_letter(small) or small in _SPELLED_THERE)
    )
    return style.letters(part) if style.for_voice and is_short and not is_word else part


def internet(m: re.Match[str], style: Style) -> Readings:
    """10.0.0.1:80"""
    yield reading("electronic", _internet(m, style))


def _internet(m: re.Match[str], style: Style) -> str:
    groups = m[1].split(".")
    said = " dot ".join(cardinal(g) if style.for_voice and len(g) == 2 else digits(g) for g in groups)
    return f"{said} colon {in_pairs(m[2])}" if m[2] else said


_PARTS_OF_A_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|_")


def _in_parts(name: str, style: Style) -> str:
    """BlackLivesMatter → Black Lives Matter; john_doe99 → john underscore doe ninety nine."""
    said = [
        (cardinal(part) if len(part) < 3 else in_pairs(part)) if part.isdecimal() else MARKS.get(part, part)
        for part in _PARTS_OF_A_NAME.findall(name)
    ]
    return " ".join(_letters_or_word(part, style) if part.isalpha() else part for part in said)


def handle(m: re.Match[str], style: Style) -> Readings:
    """@bob_1"""
    yield reading("electronic", f"at {_in_parts(m[1], style)}")


def hashtag(m: re.Match[str], style: Style) -> Readings:
    """#LOTR → hashtag l o t r; #A12 is a number."""
    tag = m[1]
    yield reading("hashtag", f"hashtag {_in_parts(tag.replace('_', ' '), style)}")
    if style.for_voice and (parts := re.fullmatch(r"([A-Z]{2,5})(\d{4})?", tag)):
        yield reading(
            "hashtag letters", f"hashtag {style.letters(parts[1])} {year(parts[2]) if parts[2] else ''}".strip()
        )


def variable(m: re.Match[str], style: Style) -> Readings:
    """my_file.name; x86_64 without the sign"""
    if style.for_voice:
        for parts, name in (("electronic", m[0].replace("_", " _ ")), ("electronic silent", m[0].replace("_", " "))):
            yield reading(parts, " dot ".join(_in_parts(part, style) for part in name.split(".")))
    elif "." not in m[0]:
        yield reading("electronic", _in_parts(m[0].replace("_", " "), style))


def colour(m: re.Match[str], style: Style) -> Readings:
    """#FF5733"""
    yield reading(
        "code", "hash " + " ".join(digits(sign) if sign.isdecimal() else style.letters(sign) for sign in m[1])
    )

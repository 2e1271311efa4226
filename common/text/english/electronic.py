"""Electronic addresses: mail, sites, files and paths, @names, #tags, networks; signs that belong to them."""

import re

from common.text import pronounce
from common.text.english.tables import DOMAINS, DOMAINS_BEFORE_A_PATH, EMPHASISED, EXTENSIONS, MARKS, PRONOUNCED
from common.text.english.tokens import Rule, Style, rule
from common.text.numbers import cardinal, digits, in_pairs, year

_SPELLED_THERE = frozenset(["www", "uk", "us", "pdf", "io", "ai", "html", "xls", "ppt", "eu"])
# Words, unless they are a whole label or folder: en.wikipedia.org, amazon.de, but rio-de-janeiro.
_WHOLE_LABEL = re.compile(r"(?<![^./])(?:en|de|es|ca)(?=[./]|\Z)")


def _letters_or_word(part: str, style: Style) -> str:
    """What is short, or has no vowel, and is no word is spelled."""
    is_short = len(part) < 4 or not re.search("[aeiouy]", part, re.IGNORECASE)
    small = part.lower()
    if style.for_voice and part.isupper() and len(part) < 4 and part not in PRONOUNCED and part not in EMPHASISED:
        return style.letters(part)
    is_word = small in ("wav", "tex", "bib", "env") or (
        pronounce.pronunciations(small) and not (pronounce.is_said_by_letter(small) or small in _SPELLED_THERE)
    )
    return style.letters(part) if style.for_voice and is_short and not is_word else part


_YEAR_IN_A_NAME = re.compile("(?:19[5-9]|20[0-4])\\d")


_INTERNET = re.compile(r"((?:\d{1,3}\.){3}\d{1,3})(?::(\d{2,5}))?(?![\w.]*\d)")


def _internet(match: re.Match[str], style: Style) -> str:
    """10.0.0.1:80 → ten dot zero dot zero dot one colon eighty; three digits are told apart."""
    groups = match[1].split(".")
    said = " dot ".join(cardinal(group) if style.for_voice and len(group) == 2 else digits(group) for group in groups)
    return f"{said} colon {in_pairs(match[2])}" if match[2] else said


def _electronic(match: re.Match[str], style: Style) -> str:
    """example.com/a_b → example dot com slash a underscore b"""
    words = []
    written = re.sub(r"^https?://", "", match[0].rstrip("/"), flags=re.IGNORECASE)
    if host := _INTERNET.match(written):
        words.append(_internet(host, style))
        written = written[host.end() :]
    for found in re.finditer(r"[^\W\d_]+|\d+|.", written):
        part = found[0]
        if style.for_voice and _WHOLE_LABEL.match(written, found.start()):
            words.append(style.letters(part))
        elif part.isdigit() and words[-1:] == [MARKS[":"]]:
            words.append(in_pairs(part))
        elif part.isdigit():
            words.append(year(part) if style.for_voice and _YEAR_IN_A_NAME.fullmatch(part) else digits(part))
        elif part.isalpha():
            words.append(_letters_or_word(part, style))
        else:
            words.append(MARKS.get(part, " "))
    return " ".join(words)


_PARTS_OF_A_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|_")


def _in_parts(name: str, style: Style) -> str:
    """BlackLivesMatter → Black Lives Matter; john_doe99 → john underscore doe ninety nine."""
    said = [
        (cardinal(part) if len(part) < 3 else in_pairs(part)) if part.isdigit() else MARKS.get(part, part)
        for part in _PARTS_OF_A_NAME.findall(name)
    ]
    return " ".join(_letters_or_word(part, style) if part.isalpha() else part for part in said)


def _handle(match: re.Match[str], style: Style) -> str:
    return f"at {_in_parts(match[1], style)}"


def _hashtag(match: re.Match[str], style: Style) -> str:
    """#LOTR → hashtag l o t r"""
    tag = match[1]
    is_acronym = style.for_voice and len(tag) == 4 and tag.isupper() and tag not in PRONOUNCED
    if is_acronym and not pronounce.pronunciations(tag.lower()):
        return f"hashtag {style.letters(tag)}"
    return f"hashtag {_in_parts(tag.replace('_', ' '), style)}"


def _variable(match: re.Match[str], style: Style) -> str | None:
    if not style.for_voice:
        return None
    return " dot ".join(_in_parts(part.replace("_", " _ "), style) for part in match[0].split("."))


def _sign_by_sign(match: re.Match[str], style: Style) -> str:
    """#FF5733"""
    return "hash " + " ".join(digits(sign) if sign.isdigit() else style.letters(sign) for sign in match[1])


_ELECTRONIC_TAIL = r"(?:[/?#][^\s<>\"]*[^\s<>\".,;:!?)\]])?"
_MAIL = rf"[^\W_][\w.+&-]{{0,99}}@[\w-]{{1,99}}(?:\.[\w-]{{1,99}}){{1,9}}{_ELECTRONIC_TAIL}/?"
_URL = r"(?:(?:https?|ftp|file)://|www\.)[^\s<>\"]*[^\s<>\".,;:!?)\]]"
_SITE = (
    rf"[A-Za-z][\w-]{{0,99}}\.(?:[\w-]{{1,99}}\.){{0,9}}"
    rf"(?:{DOMAINS}|(?:{DOMAINS_BEFORE_A_PATH})(?=/\w))(?![\w'])(?!\.\w)(?::\d{{2,5}}(?!\d))?{_ELECTRONIC_TAIL}"
)
_FOLDERS = r"(?:\.{1,2}/|~/|/)?(?:[\w.-]{1,99}/){0,20}"
_FILE = (
    rf"(?:{_FOLDERS}[\w-]{{1,99}}(?:\(\d{{1,3}}\))?(?:\.[\w-]{{1,99}}){{0,9}}|(?<![\w.)])|(?<=\(\d\)))"
    rf"\.(?:{EXTENSIONS}|{EXTENSIONS.upper()})(?![\w'])"
)
_PATH = (
    r"(?:[A-Z]:\\(?:[\w.$-]{1,99}\\){0,20}|~/|\.{1,2}/|/(?=[\w.-]{1,99}/))(?:[\w.-]{1,99}/){0,20}(?:[\w.$-]{0,99}\w)?"
)
ELECTRONIC_AHEAD = re.compile(  # every branch begins with a sign, so that the search passes over letters
    r"@[\w-]+\.\w|:(?://|\\)|_(?<=[^\W_]_)[^\W_]|~/|/(?<!\S/)\w"
    r"|\.(?:(?<=[\w)]\.)(?:[a-zA-Z]{2}|mp\d)|7z|(?<=www\.)|/|(?<!\S\.)[a-z]{2})"
)
"""Without it a text has no electronic token."""

ELECTRONIC_RULES: tuple[Rule, ...] = (
    rule("electronic", _MAIL, _electronic),
    rule("electronic", _URL, _electronic, any_case=True),
    rule("electronic", _FILE, _electronic),
    rule("electronic", _SITE, _electronic),
    rule("electronic", _PATH, _electronic),
    rule(
        "electronic", r"(?<!\S)\.(?:[a-z]{2,12}(?:rc|ignore)|git|htaccess|ssh|github|vscode|profile)(?!\w)", _electronic
    ),
    rule(
        "electronic",
        r"(?:[A-Za-z]\w{1,99}\.){0,9}[A-Za-z][A-Za-z\d]{0,49}(?:_[A-Za-z\d]{1,49}){1,15}(?:\.[A-Za-z]\w{1,99}){0,9}(?!\w)",
        _variable,
    ),
)

_PAPER_AHEAD = re.compile(r"\bdoi:\s?\Z", re.IGNORECASE)
RULES: tuple[Rule, ...] = (
    rule(
        "electronic",
        r"10\.\d{4,9}/[\w.()/-]{0,99}\w",
        lambda m, s: _electronic(m, s) if _PAPER_AHEAD.search(m.string[max(0, m.start() - 6) : m.start()]) else None,
    ),
    rule("electronic", r"(?<!\w)@([A-Za-z_]\w*)", _handle),
    rule("code", r"(?<!\w)#(?=\d*[A-Fa-f])(?=[A-Fa-f]*\d)([\dA-Fa-f]{6})(?!\w)", _sign_by_sign),
    rule("electronic", r"(?:(?<!\S)(?<!\S\s)|(?<=\w\s))#([A-Z]{2,8}(?:19|20)\d\d)(?!\w)", _hashtag),
    rule("electronic", r"(?<!\w)#(\d{1,4}[A-Z][a-z]{2,}\w*)", _hashtag),
    rule("reference", r"(?<!\w)#(?=[A-Z]{1,4}-?\d)", lambda match, style: "number"),
    rule("reference", r"(?<!\S)#(?=\sof\b)", lambda match, style: "number"),
    rule("reference", r"(?<=\w\s)#'?s(?!\w)", lambda match, style: "numbers"),
    rule("reference", r"(?<!\w)#([A-Za-z]\w*)", _hashtag),
    rule("IP address", rf"(?<![\d.]){_INTERNET.pattern}", _internet),
)

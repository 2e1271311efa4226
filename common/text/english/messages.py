"""Short words of messages and notes: thx, mgr, gov't, imo."""

import re

from common.text.english.abbreviations import ABBREVIATIONS, WITHOUT_DOT
from common.text.english.tokens import BEGINNING, Rule, Style, before, rule
from common.text.numbers import plural

SHORT = {
    "thx": "thanks", "ofc": "of course",
    "tks": "thanks", "tnx": "thanks", "thru": "through", "xtra": "extra",
    "thnx": "thanks", "pls": "please", "plz": "please", "ppl": "people", "tmrw": "tomorrow",
    "tmr": "tomorrow", "msg": "message", "msgs": "messages", "bday": "birthday", "abt": "about", "tho": "though",
    "wknd": "weekend", "yest": "yesterday", "wkt": "wicket", "wkts": "wickets", "hv": "have", "gd": "good",
    "btwn": "between", "tmw": "tomorrow", "wkly": "weekly",
    **{short: ABBREVIATIONS[short] for short in WITHOUT_DOT},
    "ur": "your",
    **{f"{short}s": plural(ABBREVIATIONS[short]) for short in ("mgr", "dept", "acct", "appt", "pkg", "mtg", "qtr")},
}  # fmt: skip
# Capitals of these are other names.
_ALSO_CAPITALS = frozenset(
    ["msg", "hv", "gd", "tho", "abt", "tmr", "tmw", "ur", "tnx", "pmt", "yest", "wkt", "mtg", "mkt", "mgr", "hwy"]
)
_ONLY_SHORT = frozenset(SHORT) - _ALSO_CAPITALS


def _short(match: re.Match[str], style: Style) -> str | None:
    """thx, pls, msg; but MSG, the HV line and Le Duc Tho"""
    word = match[1]
    if word.lower() in ABBREVIATIONS and match.string.startswith(".", match.end(1)):  # another class, with its dot
        return None
    if not word.islower() and word.lower() not in _ONLY_SHORT and not (word[1:].islower() and before(match, BEGINNING)):
        return None
    return SHORT[word.lower()]


_ELIDED = {
    "att'n": "attention", "rec'd": "received", "req'd": "required", "int'l": "international", "nat'l": "national",
    "gov't": "government", "dep't": "department", "cont'd": "continued", "ass'n": "association", "add'l": "additional",
    "sec'y": "secretary",
}  # fmt: skip
# Letter by letter, in small letters, too.
_SPELLED = (
    "idk",
    "ikr",
    "omw",
    "imo",
    "imho",
    "afaik",
    "fwiw",
    "iirc",
    "fyi",
    "omg",
    "icymi",
    "eod",
    "afk",
    "ily",
    "wyd",
    "ttyl",
    "omfg",
    "istg",
    "iykyk",
    "tfw",
    "ootd",
    "grwm",
    "hmu",
    "wbu",
    "hbu",
)
PLAIN_TOO = frozenset([*SHORT, *_ELIDED, *_SPELLED])
"""Words of small letters that are read otherwise than they are written."""

WORD_RULES: tuple[Rule, ...] = (
    rule("reference", r"doi(?=:\s?10\.)", lambda match, style: style.letters("doi"), any_case=True),
    rule("abbreviation", rf"({'|'.join(SHORT)})(?![\w'.-]\w|\w)(?:\.(?=\s[a-z\d]))?", _short, any_case=True),
    rule("abbreviation", rf"({'|'.join(_ELIDED)})(?!\w)", lambda m, s: _ELIDED[m[1].lower()], any_case=True),
    rule("abbreviation", rf"(?:{'|'.join(_SPELLED)})(?!\w)", lambda m, s: s.letters(m[0]) if s.for_voice else None),
)

"""Abbreviations of courts and prescriptions: Fed. R. Civ. P., Ex. A, 500 mg PO q4-6h x 10 days."""

import re

from common.text.english.tokens import Rule, Style, before, rule
from common.text.numbers import cardinal

_PROCEDURES = {
    "Civ": "civil procedure", "Crim": "criminal procedure", "App": "appellate procedure",
    "Bankr": "bankruptcy procedure", "Evid": "evidence",
}  # fmt: skip


def _every(match: re.Match[str], style: Style) -> str:
    """q4-6h → every four to six hours"""
    last = f" to {cardinal(match[2])}" if match[2] else ""
    return f"every {cardinal(match[1])}{last} hours"


def _procedure(match: re.Match[str], style: Style) -> str:
    """Fed. R. Civ. P. 12 → federal rule of civil procedure 12"""
    is_one = re.match(r"\s\d", match.string[match.end() :])
    return f"federal rule{'' if is_one else 's'} of {_PROCEDURES[match[1] or match[2]]}"


_DOSE_AHEAD = re.compile(
    r"\d\s?(?:mg|mcg|g|ml|mL|tabs?|caps?|tablets?|capsules?|units|drops|gtts?|puffs?)\.?\s(?:(?:po|iv|im|bid|tid|qid)\s)?\Z",
    re.IGNORECASE,
)
_DOSED_AHEAD = re.compile(r"\b(?:bid|tid|qid|daily|qhs|prn|day|hours|hrs)\s\Z", re.IGNORECASE)


def _dosing(match: re.Match[str], style: Style) -> str | None:
    """500 mg PO BID; but a bid of 5"""
    return style.letters(match[1].lower()) if before(match, _DOSE_AHEAD) else None


_TAKEN = re.compile(r"\s(?:by\smouth|daily\b|p\.?o\b|q\.?\d|b\.?i\.?d|t\.?i\.?d|at\sbedtime|prn|with\sfood)", re.I)
_EACH_DAY = re.compile(r"\s(?:once|twice|daily|every|with\swater)\b")
_DOSED = re.compile(r"\b[Tt]ak(?:e|es|ing)\s(?:\d+\s?-\s?)?\d+\s\Z|\bm?c?g\b,?\s(?:\d+\s?-\s?)?\d+\s\Z")


def _form(match: re.Match[str], style: Style) -> str | None:
    """1 tab. by mouth; but 3 tabs of a browser"""
    name = {"tab": "tablet", "cap": "capsule"}[match[1].lower()]
    text, behind = match.string, match.end()
    is_dose = _TAKEN.match(text, behind) or (_EACH_DAY.match(text, behind) and before(match, _DOSED))
    return f"{name}{match[2] or ''}" if is_dose else None


_BLOOD_AHEAD = re.compile(r"\b(?:[Tt]ype|[Bb]lood(?:\stype)?(?:\s(?:is|was))?:?)\s\Z")
_NO_BLOOD = re.compile(r"\s(?:personalit|students?|grades?|rating|game|behaviou?r)")
_BLOOD_BEHIND = re.compile(r"\s(?:blood|donors?|patients?(?!\s(?:care|rat|satisf|serv|exper|review)))\b")


def _blood(match: re.Match[str], style: Style) -> str | None:
    """type O-; but a grade of A-"""
    if _NO_BLOOD.match(match.string, match.end()):
        return None
    if not before(match, _BLOOD_AHEAD) and not _BLOOD_BEHIND.match(match.string, match.end()):
        return None
    return f"{style.letters(match[1])} {'positive' if match[2] == '+' else 'negative'}"


def _for_so_long(match: re.Match[str], style: Style) -> str | None:
    """twice daily x 10 days"""
    return "for" if before(match, _DOSED_AHEAD) else None


PLAIN_TOO = frozenset(["tab", "tabs", "cap", "caps", "po", "bid", "tid", "qid", "im"])
"""Words of small letters that a prescription reads otherwise."""

WORD_RULES: tuple[Rule, ...] = (
    rule("reference", r"Fed\.\s?R\.\s?(?:(Civ|Crim|App|Bankr)\.\s?P|(Evid))\.", _procedure),
    rule("abbreviation", r"Pub\.\s?L\.", lambda match, style: "public law"),
    rule(
        "reference",
        r"Ex\.(?=\s[A-HJ-Z](?![\w'])(?!\s(?!(?:and|or|to|is|was|shows|at)\b)[a-z]))",
        lambda match, style: "exhibit",
    ),
    rule(
        "time",
        r"(?:(?<=mg )|(?<=m[lL] )|(?<=cg )|(?<=PO )|(?<=IV )|(?<=units )|(?<=drops )|(?<=puffs ))q(\d{1,2})()h(?!\w)",
        _every,
    ),
    rule("time", r"q\.?(\d{1,2})(?:-(\d{1,2}))?\s?h(?:rs?|ours)?(?!\w)\.?(?!\Z)", _every),
    rule("blood", r"(AB|A|B|O)([+-])(?![\w-])", _blood),
    rule("abbreviation", r"(?<=\d\s)(tab|cap)(s)?(?!\w)\.?", _form, any_case=True),
    rule("abbreviation", r"(po|bid|tid|qid|prn|qhs|iv|im)(?!\w)", _dosing, any_case=True),
    rule(
        "time",
        r"x\s?(\d{1,3})\s?d(?!\w)",
        lambda m, s: f"for {cardinal(m[1])} day{'' if m[1] == '1' else 's'}" if before(m, _DOSED_AHEAD) else None,
    ),
    rule("abbreviation", r"([HD])x(?=\s(?:of|:)|:)", lambda m, s: "history" if m[1] == "H" else "diagnosis"),
    rule("abbreviation", r"s/p(?=\s[a-z])", lambda match, style: "status post"),
    rule(
        "abbreviation",
        r"c/o(?=\s(?:\w+\s)?(?:pain|headache|nausea|dizziness|fever|cough|fatigue|chills|vomiting|weakness|itching|SOB)s?\b)",
        lambda match, style: "complaining of",
    ),
    rule("time", r"x\s?(?=\d+\s(?:days?|weeks?|wks?|months?|hrs?|hours?|doses)\b)", _for_so_long),
)

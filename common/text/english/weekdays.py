"""Days of the week cut short: Mon thru Fri, free Sat?, Sun closed, T/Th, M-F."""

import re

from common.text.english.tables import MONTHS, WEEKDAYS
from common.text.english.tokens import BEGINNING, Rule, Style, anywhere, before, rule

NAMES = "|".join(sorted(WEEKDAYS, key=len, reverse=True))
_MONTH = rf"(?i:{'|'.join(sorted({*MONTHS, *MONTHS.values()}, key=len, reverse=True))})\.?"

_DAYS = {day[:2]: day.lower() for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")}
_INITIALS = {"M": "monday", "T": "tuesday", "W": "wednesday", "R": "thursday", "F": "friday", "S": "saturday"}
_INITIALS |= {**_DAYS, "Sun": "sunday", "Sat": "saturday"}

# What stands beside a day, where "Sat" and "Sun" may be words.
_ON_A_DAY = re.compile(
    r"(?:\b(?:on|this|next|last|every|each|by|until|till|since|and|or|open|closed|for|from|thru|through|late|early|before|after"
    r"|free|see (?:yo)?u|cya|busy|available|due|start(?:s|ing)?|begin(?:s|ning)?|ends?|ending|arrives?|leaving|leaves?"
    r"|works?|except|all day)\s|[&/+(]\s?|-\s"
    r"|(?:day|noon|[ap]\.?m\.?|\d|[Cc]losed|[Oo]pen|Mon|Fri|Sat|Sun)[,;]\s)\Z",
    re.IGNORECASE,
)
_OF_A_DAY = re.compile(
    r"\.?,?\s(?:closed|open|off|only|brunch|breakfast|lunch|dinner|supper|mass|services?|roast|[AP]M|eve|night|morning|noon"
    r"|afternoon|evening|mid(?:day|night)|early|late|thru|through|til|till)\b"
    rf"|\.?\s?(?:[&/+-]|\band\b|\bor\b|\bto\b|\bthru\b|\bthrough\b|,)\s?(?:{NAMES}|holidays?|[A-Z][a-z]+day)\b"
    rf"|\.?,?\s(?:the\s)?(?:{_MONTH}\s)?\d|\)"
)
_NAMED_BEHIND = re.compile(
    r"\s(?:Dieu|ami|amour|Microsystems|Valley|City|Belt|Prairie|Life|Tzu|Nav|Devils?|King|God|Down|Up|Beside|Next)\b"
)
_NAMED_AHEAD = re.compile(
    r"\b(?:the|a|our|your|its|[Jj]ust|[Nn]ewly|The|that|who|[Hh]e|[Ss]he|[Ii]t|[Ww]e|[Tt]hey|I|and then|which|Baltimore"
    r"|Vancouver|Toronto|Phoenix)\s\Z"
)
_OTHER_DAY = re.compile(
    r"\b(?:Tue|Tues|Weds|Thur?s?|Fri|Mon|Wed)(?!\w)|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b"
)


def _weekday(match: re.Match[str], style: Style) -> str | None:
    """Sat and Sun, too, where they can be nothing else."""
    name, text, behind = match[1], match.string, match.end()
    if name not in ("Sat", "Sun", "Wed", "Mon"):
        return WEEKDAYS[name]
    if _NAMED_BEHIND.match(text, behind) or before(match, _NAMED_AHEAD):
        return None
    is_alone = before(match, BEGINNING)
    is_a_day = _OF_A_DAY.match(text, behind) or before(match, _ON_A_DAY)
    if name == "Sun":  # shines, where no other day stands beside it
        is_a_day = is_a_day or (not is_alone and anywhere(text, _OTHER_DAY))
    elif name == "Mon":
        is_a_day = True
    else:  # a verb at the beginning of a sentence
        is_a_day = is_a_day or not is_alone
    return WEEKDAYS[name] if is_a_day else None


def _two_days(match: re.Match[str], style: Style) -> str:
    """Tu-Su"""
    return f"{_DAYS[match[1]]} to {_DAYS[match[2]]}"


def _initials(match: re.Match[str], style: Style) -> str:
    """M-Th, M-Sat"""
    return f"{_INITIALS[match[1]]} to {_INITIALS[match[2]]}"


def _listed(match: re.Match[str], style: Style) -> str:
    """T/Th, M/W/F"""
    return " ".join(_INITIALS[name] for name in match[0].split("/"))


def _weekday_among(match: re.Match[str], style: Style) -> str:
    """Mon/Wed/Fri"""
    return WEEKDAYS[match[1] or match[2]]


_LOUD = {name.upper(): day for name, day in WEEKDAYS.items()}
_LOUD_NAMES = "|".join(sorted(_LOUD, key=len, reverse=True))
_HELD_ON = re.compile(r"\b(?:Th|Tu)\s\d")


def _initial(match: re.Match[str], style: Style) -> str | None:
    """T 2-4, Th 10-12"""
    return _INITIALS[match[1]] if anywhere(match.string, _HELD_ON) else None


WORD_RULES: tuple[Rule, ...] = (
    rule(
        "date",
        rf"({_LOUD_NAMES})(?:(?=\.?\s?[-/&]\s?(?:{_LOUD_NAMES})\b)"
        r"|(?<=-...)(?<=[A-Z]-...)(?!\w)|(?<=-....)(?<=[A-Z]-....)(?!\w)"
        r"|(?<!SAT)(?=:?\s\d)|(?<!SAT)(?=:?\s(?:CLOSED|ONLY))"
        r"|(?:(?<=CEPT SUN)|(?<=CEPT SAT)|(?<=CEPT MON)|(?<=OSED SUN)|(?<=OSED SAT)|(?<=THRU FRI))(?!\w))",
        lambda match, style: _LOUD[match[1]],
    ),
    rule("date", r"(M|Tu|T|W|Th|F)(?=\s\d{1,2}(?::\d\d)?\s?-\s?\d)", _initial),
    rule(
        "date", r"(Mo|Tu|We|Th|Fr|Sa|Su)\.?\s?-\s?(Mo|Tu|We(?!\s[a-z])|Th|Fr|Sa|Su)(?!\w)(?:\.(?=,?\s\d))?", _two_days
    ),
    rule(
        "date",
        r"(?<!\d\s)(MTWThF|MTWTF|MWF|MTWR|TuTh|TTh|TR|MW)(?=\s\d{1,2}(?::|\s?-|\s?[ap]m))",
        lambda match, style: " ".join(_INITIALS[name] for name in re.findall(r"T[uh]|[MTWRF]", match[1])),
    ),
    rule("date", r"(?:M/W/F|M/W|T/Th|Tu/Th|T/R)(?!\w|/)", _listed),
    rule("date", r"([A-Z][a-z]+day)(?=\s?-\s?[A-Z][a-z]+day\b)", lambda match, style: match[1]),
    rule(
        "date",
        rf"({NAMES})(?:\.(?=,?\s)|\.?(?=\s?-\s?(?:{NAMES})\b)|(?<=-...)(?!\w)"
        rf"|(?=,\s+(?:{_MONTH}|\d)|\s{_MONTH}\s\d|\s(?:the\s|@\s?|(?<!Sat\s)at\s)?\d|\sat\s\d{{1,2}}(?::\d\d|\s?[ap]\.?m)"
        r"|\s(?:morning|afternoon|evening|night)\b))",
        lambda match, style: WEEKDAYS[match[1]],
    ),
    rule("date", rf"({NAMES})(?=\s?[/&]\s?(?:{NAMES})\b)|(?<=[a-z]{{3}}/)({NAMES})(?!\w)", _weekday_among),
    rule(
        "date", r"(M|Tu?|W|Th|F|Sa)\s?-\s?(Th|F|Sat?|Sun?)(?<!-S)(?=[\s,:;]+(?:from\s)?\d|\s?[,.;)]|\s?\Z)", _initials
    ),
    rule("date", rf"({NAMES})(?![\w'-])", _weekday),
)

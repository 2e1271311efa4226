"""Dates, times, years and decades."""

import re

from common.text.english import weekdays
from common.text.english.tables import MONTH_NAMES, MONTHS
from common.text.english.tokens import Rule, Style, anywhere, before, rule, text_before
from common.text.numbers import cardinal, digits, ordinal, pair, plural, year

# "may" and "march" are months with a capital only.
_FULL = rf"(?:(?:{'|'.join(name for name in MONTH_NAMES if name not in ('march', 'may'))})|(?-i:March|May|MARCH|MAY))"
_SHORT = rf"(?:{'|'.join(short for short in MONTHS if short not in ('may', 'mar'))}|(?-i:Mar|MAR))"
_MONTH = rf"(?:{_FULL}|{_SHORT}\b\.?(?!'))"
_WEEKDAY = weekdays.NAMES
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_YEAR_AFTER = r"(?:(?:,\s*|\s+)(\d{4})(?![\w%]|[.,:]\d))?"
# Before four digits that are no year, a word in the plural follows: 1066 items.
_COUNTED = re.compile(
    r"\s(?!was|is|has|as|its|this|does|us|plus|yes|his|alas|always|perhaps|thus|across)[a-z]{2,}s\b"
    r"|\s(?:people|men|women|children|sheep|deer|fish|mice|feet|geese)\b"
)
# What a year has, and nobody counts by the thousand.
_OF_A_YEAR = re.compile(
    r"\s(?:results|earnings|revenues|profits|highlights|elections|holidays|standings|finals|playoffs|forecasts|midterms"
    r"|statistics|stats|taxes|figures|predictions|trends|guidelines|numbers|winners|medals|nominees|awards|festivals)\b"
)
_COUNT_AHEAD = re.compile(
    r"\b(?:has|have|had|found|got|gets?|shows?|showed|returns?|returned|lists?|with|over|than|about|all|some|first|won|are|were"
    r"|only|gave|gives?|these|those|its|almost|nearly|roughly|around|up to|another)\s\Z",
    re.IGNORECASE,
)
_SEASON_AHEAD = re.compile(r"\b(?:Q[1-4]|[1-4]Q|[HST][12]|FY|[Ss]pring|[Ss]ummer|[Ff]all|[Aa]utumn|[Ww]inter)\s\Z")
_MEASURED = re.compile(r"-\d+(?!\d|s\b)[A-Za-z%]")
_YEAR_AHEAD = re.compile(
    r"\b(?:in|since|by|until|till|from|after|before|during|around|circa|the|of|to|and|early|late|mid|year|\d{4},?|"
    + "|".join(MONTH_NAMES)
    + r")[\s-]\Z",
    re.IGNORECASE,
)


def _month(name: str) -> int:
    return MONTH_NAMES.index(MONTHS[name.lower().rstrip(".")[:3]]) + 1


def _in_full(in_year: str | None) -> str | None:
    """24 → 2024, 87 → 1987"""
    if in_year and len(in_year) == 2:
        return ("20" if int(in_year) < 50 else "19") + in_year
    return in_year


def _date(month: int, day: str, in_year: str | None, *, day_first: bool = False) -> str | None:
    if not 1 <= month <= 12 or not 1 <= int(day) <= 31:
        return None
    in_year = _in_full(in_year)
    name = MONTH_NAMES[month - 1]
    said = f"the {ordinal(day)} of {name}" if day_first else f"{name} {ordinal(day)}"
    return f"{said} {year(in_year)}" if in_year else said


def _year_first(match: re.Match[str], style: Style) -> str | None:
    return _date(int(match[3]), match[4], match[1])


def _stamp(match: re.Match[str], style: Style) -> str | None:
    """2024-03-15T10:30:00Z → march fifteenth twenty twenty four, ten thirty u t c"""
    day = _date(int(match[2]), match[3], match[1])
    if day is None or int(match[4]) > 24 or int(match[5]) > 59:
        return None
    hour = cardinal(str(int(match[4]))) if match[4] != "00" else "zero"
    zone = f" {style.letters('utc') if style.for_voice else 'utc'}" if match[6] == "Z" else ""
    return f"{day}{',' if style.for_voice else ''} {hour} {pair(match[5]) if match[5] != '00' else 'hundred'}{zone}"


def _numbers(match: re.Match[str], style: Style) -> str | None:
    """American order, unless the first number cannot be a month."""
    first, second, in_year = match[1], match[3], match[4]
    if int(first) > 12:
        return _date(int(second), first, in_year, day_first=match[2] == ".")
    return _date(int(first), second, in_year)


_COUNTED_AHEAD = re.compile(
    r"(?:\d|\b(?:[Ff]lat|[Aa]pt\.?|[Uu]nit|[Ll]ot|[Pp]lot|[Bb]lock|[Rr]oom|is|a|an|scored?|got|was|by|went|shot|hit))\s\Z"
)
_IN_A_SUM = re.compile(r"[=+×÷*]\s?\Z")
_PART_OF = re.compile(
    r"\s(?:(?:of|people|students|questions|marks|points|correct|inch\w*|in|the|a|miles?|cups?|acres?|tanks?|sheets?|size|price|full)\b|\(\d)"
)
_WEEKDAY_AHEAD = re.compile(rf"\b(?:{_WEEKDAY}|[A-Z][a-z]+day)\.?,?\s\Z")
_ON = re.compile(
    r"\b(?:on|by|until|till|since|before|after|from|due|dated|cob|eod|deadline(?: is| of|:)"
    r"|eta:?|arriv(?:es?|ed|ing)|deliver(?:y|ed):?|posted:?|updated:?|\d{1,2}/\d{1,2} (?:to|and|or|through)"
    r"|shipped|sent|born|starts?|ends?|begins?|opens?|closes?|expires?|through|thru|(?:week|weekend|wk) of"
    r"|(?:birthday|bday|b-day|date|day) (?:is|was)"
    r"|(?:e-?mail|letter|mail|memo|message|invoice|order|report|statement|meeting|minutes|call|visit|appt\.?|appointment"
    r"|session|flight|booking|issue|edition|post|game|night|evening|morning|afternoon|week|as|ending|beginning|commencing"
    r"|effective|eff\.|dtd\.?|w/[ec]|received|rcvd\.?|paid|scheduled|rescheduled|moved|postponed|delayed|pushed|dob:?|date:?)"
    r"(?:\s(?:of|on|for|to|until|till|from))?"
    rf"|(?-i:{_WEEKDAY}|[A-Z][a-z]+day)\.?,?)\s\Z",
    re.IGNORECASE,
)
# A fraction of nothing: we meet on 3/4.
_MET = re.compile(
    r"\b(?:on|until|till|dated|due|posted:?|expires?|starts?|ends?|opens?|date:?|dob:?|as of)\s\Z", re.IGNORECASE
)
_NOTHING_BEHIND = re.compile(
    r"\s*(?:[,;.!?)]|\Z)|\s(?:at|@|from|for|and|or|to|we|i|so|but|if|with|because|through|thru|until|till|about)\s",
    re.IGNORECASE,
)
_OF_MATHS = re.compile(
    r"[=+*×÷^π√<>]|\b(?:odds|ratio|fractions?|equals?|times|divided|multipl\w+|simplif\w+|slope|music|rhythm|beats?|bars?|inch\w*)\b",
    re.IGNORECASE,
)


_HOUR_BEHIND = re.compile(r",?\s(?:@\s?|at\s)?\d{1,2}(?::\d\d(?!\d)|\s?[ap]\.?m\b)", re.IGNORECASE)


def _day_after_a_word(match: re.Match[str], style: Style) -> str | None:
    """By 4/30, which is no fraction that people use."""
    month, day = int(match[1]), int(match[3])
    if (
        not (month <= 12 and day <= 31)
        or _PART_OF.match(match.string, match.end())
        or _IN_A_SUM.search(text_before(match))
    ):
        return None
    if _HOUR_BEHIND.match(match.string, match.end()):
        return _numbers(match, style)
    if day == 1 < month:  # a first of a month, since nobody writes such a fraction
        return _numbers(match, style)
    is_part = (month, day) in ((1, 2), (1, 3), (2, 3), (1, 4), (3, 4), (1, 5), (1, 8)) or day == 16
    if before(match, _MET) and _NOTHING_BEHIND.match(match.string, match.end()):
        is_part = False
    if month > day and not anywhere(match.string, _OF_MATHS) and not before(match, _COUNTED_AHEAD):
        return _numbers(match, style)  # above one: nobody writes such a fraction
    is_day = (
        (not is_part or before(match, _WEEKDAY_AHEAD))
        if before(match, _ON)
        else _is_no_part(day) or _of_a_range_of_days(match)
    )
    return _numbers(match, style) if is_day else None


def _is_no_part(day: int) -> bool:
    return day > 20 and day != 32


_DAY_BEFORE = re.compile(r"(?<![\d/])(?:1[0-2]|0?[1-9])/(\d\d)\s?-\s?\Z")
_DAY_BEHIND = re.compile(r"\s?-\s?(?:1[0-2]|0?[1-9])/(\d\d)(?![\d/])")


_MONTH_BEFORE = re.compile(r"(?<![\d/])(\d{1,2})/\d{1,2}\s?-\s?\Z")
_MONTH_BEHIND = re.compile(r"\s?-\s?(\d{1,2})/\d{1,2}(?![\d/])")


def _same_month(match: re.Match[str]) -> bool:
    """6/3-6/7, which nobody writes of parts"""
    other = _MONTH_BEFORE.search(text_before(match)) or _MONTH_BEHIND.match(match.string, match.end())
    return bool(other and other[1] == match[1])


def _of_a_range_of_days(match: re.Match[str]) -> bool:
    """12/23-1/2: the other one is no fraction."""
    ahead = _DAY_BEFORE.search(match.string[max(0, match.start() - 10) : match.start()])
    other = ahead or _DAY_BEHIND.match(match.string, match.end())
    if match[1] != "1" and _same_month(match):
        return True
    return bool(other and _is_no_part(int(other[1])) and int(other[1]) <= 31) or before(match, _DAYS_AHEAD)


_DAYS_AHEAD = re.compile(r"\b(?:(?:week|weekend) of|from|dates?:?|open)\s\d{1,2}/\d{1,2}\s?-\s?\Z", re.IGNORECASE)


_EXPIRES = re.compile(
    r"\b(?:exp(?:\.|ires?|iry|iration)?(?: date)?:?|valid (?:thru|through|until|to)|best before)\s\Z", re.IGNORECASE
)


def _month_of_a_year(match: re.Match[str], style: Style) -> str:
    """12/2024"""
    return f"{MONTH_NAMES[int(match[1]) - 1]} {year(match[2])}"


def _expiry(match: re.Match[str], style: Style) -> str | None:
    """Exp. 09/27"""
    return f"{MONTH_NAMES[int(match[1]) - 1]} {year('20' + match[2])}" if before(match, _EXPIRES) else None


def _month_and_day(match: re.Match[str], style: Style) -> str | None:
    month, day, last, in_year = _month(match[1]), match[2], match[3], match[4]
    said = _date(month, day, None)
    if said is None:
        return None
    if last:
        said += f" to {ordinal(last)}"
    return f"{said} {year(in_year)}" if in_year else said


def _day_and_month(match: re.Match[str], style: Style) -> str | None:
    day, of, name, in_year = match[1], match[2], match[3], _in_full(match[4])
    if not 1 <= int(day) <= 31:
        return None
    said = f"{ordinal(day)} {'of ' if of else ''}{MONTH_NAMES[_month(name) - 1]}"
    pause = "," if "," in match[0] and style.for_voice else ""
    return f"{said}{pause} {year(in_year)}" if in_year else said


def _month_alone(match: re.Match[str], style: Style) -> str | None:
    said = MONTH_NAMES[_month(match[1]) - 1]
    return f"{said} {year(match[2])}" if match[2] else said


def _form_of_a_date(match: re.Match[str], style: Style) -> str:
    """MM/DD/YYYY"""
    return "month day year" if match[0].startswith("M") else "day month year"


def _month_and_short_year(match: re.Match[str], style: Style) -> str:
    """Jan '24"""
    short = pair(match[2]) if match[2] != "00" else "two thousand"
    return f"{MONTH_NAMES[_month(match[1]) - 1]} {short}"


_OF_OUR_TIME = frozenset(["195", "196", "197", "198", "199", "200", "201", "202", "203"])


def _in_years(match: re.Match[str], style: Style) -> str | None:
    """Four digits without a comma are a year, unless they count what follows."""
    if _MEASURED.match(match.string, match.end()):
        return None
    counts = _COUNTED.match(match.string, match.end()) and not before(match, _YEAR_AHEAD)
    if counts and match[0][:3] in _OF_OUR_TIME:
        had = _OF_A_YEAR.match(match.string, match.end()) and not before(match, _COUNT_AHEAD)
        counts = not (had or before(match, _SEASON_AHEAD))
    return None if counts else year(match[0])


def _years(match: re.Match[str], style: Style) -> str:
    return f"{year(match[1])} to {pair(match[2])}"


_MONTH_AHEAD = re.compile(rf"\b(?:{_SHORT})\.?\s?[-/]\s?\Z", re.IGNORECASE)


def _month_behind_another(match: re.Match[str], style: Style) -> str | None:
    """Jan-Mar"""
    return _month_alone(match, style) if before(match, _MONTH_AHEAD) else None


RULES: tuple[Rule, ...] = (
    rule("date", r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?(?!\w)", _stamp),
    rule("date", r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?![\d/-])", _year_first),
    rule("date", r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(?![\d/-])", _numbers),
    rule("date", r"(\d{1,2})(/)(\d{1,2})/(\d\d)(?![\d/-])", _numbers),
    rule("date", r"(0[1-9]|1[0-2])/(\d\d)(?![\d/])", _expiry),
    rule("date", r"(\d{1,2})(/)(\d{1,2})()(?![\d/])(?!\s(?:of|cup|inch|time))", _day_after_a_word),
    rule("date", r"(0?[1-9]|1[0-2])/((?:19|20)\d\d)(?![\d/])", _month_of_a_year),
    rule("date", r"(0[1-9])(/)([0-3]\d)()(?![\d/])", _numbers),
    rule("date", r"(1[0-2])(/)(0[1-9])()(?![\d/])", _numbers),
    rule("date", rf"{_DAY}-()({_SHORT}|(?-i:May|MAY))-(\d{{4}}|\d\d)\b", _day_and_month, any_case=True),
    rule("date", rf"{_DAY}[-\s](of\s+)?({_FULL})\b{_YEAR_AFTER}", _day_and_month, any_case=True),
    rule("date", rf"{_DAY}[-\s](of\s+)?({_SHORT})\b(?!')\.?{_YEAR_AFTER}", _day_and_month, any_case=True),
    rule("year", r"([12]\d{3})-(\d\d)(?![\w-])", _years),
    rule(
        "year",
        r"(?<!the )(?<!early )(?<!late )(?<!mid-)([12]\d{2}0)'s"
        r"(?=\s(?:best|worst|top|[a-z]{3,}est|most|last|first|budget|elections?)\b)",
        lambda match, style: f"{year(match[1])}'s",
    ),
    rule("decade", r"(\d{3}0)'?s\b", lambda match, style: plural(year(match[1]))),
    rule("decade", r"'00s\b|(?:(?<=the )|(?<=early )|(?<=late )|(?<=mid-))00s\b", lambda match, style: "two thousands"),
    rule("decade", r"'?([2-9]0)'?s\b", lambda match, style: plural(cardinal(match[1]))),
    rule(
        "year",
        r"'(\d\d)\b(?!['\"])",
        lambda match, style: digits(match[1]) if match[1][0] == "0" else cardinal(match[1]),
    ),
    rule("year", r"[12]\d{3}(?![\w%‰°]|[.,]\d)", _in_years),
)

WORD_RULES: tuple[Rule, ...] = (
    rule(
        "date",
        rf"({_MONTH})[\s-]\s*(\d{{1,2}})(?:st|nd|rd|th)?(?:\s?-\s?(\d{{1,2}})(?:st|nd|rd|th)?)?(?![\w:%/]|[.,]\d){_YEAR_AFTER}",
        _month_and_day,
        any_case=True,
    ),
    rule("date", rf"({_FULL})()(?!\w)(?=\s+\d)", _month_alone, any_case=True),
    rule("date", rf"({_FULL})()(?=\s?-\s?(?:{_FULL})\b)(?<=[a-z])", _month_alone, any_case=True),
    rule("date", r"((?-i:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?),?\s+(\d{4})\b", _month_alone),
    rule("date", r"(Jan|Feb|Apr|Aug|Sept?|Oct|Nov|Dec)()\.", _month_alone),
    rule("date", rf"({_SHORT})(?=\s?[-/]\s?(?:{_SHORT}|{_FULL})\b)(?<=[A-Z]..)()", _month_alone, any_case=True),
    rule("date", rf"({_SHORT})()(?!\w)\.?", _month_behind_another, any_case=True),
    rule("date", r"(?:MM[/-]DD|DD[/-]MM)[/-]YY(?:YY)?(?!\w)", _form_of_a_date),
    *weekdays.WORD_RULES,
    rule("date", rf"({_MONTH})\s'(\d\d)(?!\w)", _month_and_short_year, any_case=True),
    rule("date", r"ca?\.\s?(?=\d{3,4}(?!\w))", lambda match, style: "circa"),
)

"""Dates, times, years and decades."""

import re

from common.text.english.tables import BOOKS, MONTH_NAMES, MONTHS, VERSES, WEEKDAYS
from common.text.english.tokens import Rule, Style, before, before_noun, rule
from common.text.numbers import cardinal, digits, ordinal, pair, plural, year

# "may" and "march" are months with a capital only.
_FULL = rf"(?:(?:{'|'.join(name for name in MONTH_NAMES if name not in ('march', 'may'))})|(?-i:March|May|MARCH|MAY))"
_SHORT = rf"(?:{'|'.join(short for short in MONTHS if short not in ('may', 'mar'))}|(?-i:Mar|MAR))"
_MONTH = rf"(?:{_FULL}|{_SHORT}\b\.?(?!'))"
_WEEKDAY = "|".join(sorted(WEEKDAYS, key=len, reverse=True))
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_YEAR_AFTER = r"(?:(?:,\s*|\s+)(\d{4})(?![\w%]|[.,:]\d))?"
_ZONE = r"(?:\s?((?:[ecmp]\.?[sd]\.?t|(?-i:[ECMP]T)|gmt|utc|cet|bst)(?!\w)))?"
_CLOCK_NOT_RATIO = re.compile(r"\b(?:ratio|score|odds|beat|won|lost|aspect)\b[^.]*\Z", re.IGNORECASE)

# Before four digits that are no year, a word in the plural follows: 1066 items.
_COUNTED = re.compile(
    r"\s(?!was|is|has|as|its|this|does|us|plus|yes|his|alas|always|perhaps|thus|across)[a-z]{2,}s\b"
    r"|\s(?:people|men|women|children|sheep|deer|fish|mice|feet|geese)\b"
)
_MEASURED = re.compile(r"-\d+(?!\d|s\b)[A-Za-z%]")
_YEAR_AHEAD = re.compile(
    r"\b(?:in|since|by|until|till|from|after|before|during|around|circa|the|of|to|and|early|late|mid|year|\d{4},?|"
    + "|".join(MONTH_NAMES)
    + r")[\s-]\Z",
    re.IGNORECASE,
)


_LASTED = re.compile(r"\b(?:in|after|for|took|takes|lasts|lasted|time of|record of)\s\Z", re.IGNORECASE)


def _month(name: str) -> int:
    return MONTH_NAMES.index(MONTHS[name.lower().rstrip(".")[:3]]) + 1


def _date(month: int, day: str, in_year: str | None, *, day_first: bool = False) -> str | None:
    if not 1 <= month <= 12 or not 1 <= int(day) <= 31:
        return None
    if in_year and len(in_year) == 2:
        in_year = ("20" if int(in_year) < 50 else "19") + in_year
    name = MONTH_NAMES[month - 1]
    said = f"the {ordinal(day)} of {name}" if day_first else f"{name} {ordinal(day)}"
    return f"{said} {year(in_year)}" if in_year else said


def _year_first(match: re.Match[str], style: Style) -> str | None:
    return _date(int(match[3]), match[4], match[1])


def _numbers(match: re.Match[str], style: Style) -> str | None:
    """American order, unless the first number cannot be a month."""
    first, second, in_year = match[1], match[3], match[4]
    if int(first) > 12:
        return _date(int(second), first, in_year, day_first=match[2] == ".")
    return _date(int(first), second, in_year)


_ON = re.compile(
    r"\b(?:on|by|until|till|since|before|after|from|due|dated|(?:birthday|date|day) (?:is|was)"
    rf"|(?-i:{_WEEKDAY}|[A-Z][a-z]+day)\.?,?)\s\Z",
    re.IGNORECASE,
)


def _day_after_a_word(match: re.Match[str], style: Style) -> str | None:
    """By 4/30, which is no fraction that people use."""
    is_day = before(match, _ON) and int(match[1]) <= 12 and 12 < int(match[3]) <= 31 and int(match[3]) != 16
    return _numbers(match, style) if is_day else None


def _month_and_day(match: re.Match[str], style: Style) -> str | None:
    month, day, last, in_year = _month(match[1]), match[2], match[3], match[4]
    said = _date(month, day, None)
    if said is None:
        return None
    if last:
        said += f" to {ordinal(last)}"
    return f"{said} {year(in_year)}" if in_year else said


def _day_and_month(match: re.Match[str], style: Style) -> str | None:
    day, of, name, in_year = match[1], match[2], match[3], match[4]
    if not 1 <= int(day) <= 31:
        return None
    said = f"{ordinal(day)} {'of ' if of else ''}{MONTH_NAMES[_month(name) - 1]}"
    pause = "," if "," in match[0] and style.for_voice else ""
    return f"{said}{pause} {year(in_year)}" if in_year else said


def _month_alone(match: re.Match[str], style: Style) -> str | None:
    said = MONTH_NAMES[_month(match[1]) - 1]
    return f"{said} {year(match[2])}" if match[2] else said


def _clock(match: re.Match[str], style: Style) -> str | None:
    hour, minute, second, half, zone = int(match[1]), match[2], match[3], match[4], match[5]
    if hour > 24 or int(minute or 0) > 59:
        return None
    if not half and not second and before(match, _CLOCK_NOT_RATIO):
        return None
    if second and (minute == "00" or (not half and (len(match[1]) == 2 or before(match, _LASTED)))):
        spoken = [_duration(hour, int(minute), int(second))]
    else:
        spoken = [cardinal(str(hour))]
        if minute and minute != "00":
            spoken.append(pair(minute))
        elif not half:
            spoken.append("o'clock" if 0 < hour <= 12 else "hundred")
        if second:
            spoken.append(f"and {cardinal(str(int(second)))} seconds")
    if half:
        spoken.append(style.half(half))
    if zone:
        zone = zone.replace(".", "").lower()
        spoken.append(style.letters(zone) if style.for_voice else zone)
    return " ".join(spoken)


def _duration(hours: int, minutes: int, seconds: int) -> str:
    parts = [(hours, "hour"), (minutes, "minute"), (seconds, "second")]
    said = [f"{cardinal(str(n))} {name if n == 1 else name + 's'}" for n, name in parts]
    return f"{said[0]} {said[1]} and {said[2]}"


def _hours_and_minutes(match: re.Match[str], style: Style) -> str:
    """2h 15m → two hours fifteen minutes; a 2h 15m flight → a two hour fifteen minute flight."""
    names = ("hour", "minute", "second")
    parts = [(n, name) for n, name in zip(match.groups(), names, strict=True) if n]
    one = before_noun(match)
    return " ".join(f"{cardinal(str(int(n)))} {name if one or int(n) == 1 else name + 's'}" for n, name in parts)


_ON_A_DAY = re.compile(r"\b(?:on|this|next|last|every|by|until|till|since|and|or|open|closed)\s\Z", re.IGNORECASE)


def _weekday(match: re.Match[str], style: Style) -> str | None:
    """Sat and Sun, too, where they can be nothing else."""
    is_word = match[1] in ("Sat", "Sun", "Wed", "Mon")
    return WEEKDAYS[match[1]] if not is_word or before(match, _ON_A_DAY) else None


_BOOK = re.compile(rf"\b(?:{VERSES}|{'|'.join(BOOKS)})\.?\s\Z")


def _ratio(match: re.Match[str], style: Style) -> str:
    between = " " if before(match, _BOOK) else " to "  # of chapter and verse
    return f"{cardinal(match[1])}{between}{cardinal(match[2])}"


def _in_years(match: re.Match[str], style: Style) -> str | None:
    """Four digits without a comma are a year, unless they count what follows."""
    if _MEASURED.match(match.string, match.end()):
        return None
    counts = _COUNTED.match(match.string, match.end()) and not before(match, _YEAR_AHEAD)
    return None if counts else year(match[0])


def _years(match: re.Match[str], style: Style) -> str:
    return f"{year(match[1])} to {cardinal(match[2])}"


RULES: tuple[Rule, ...] = (
    rule("date", r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?![\d/-])", _year_first),
    rule("date", r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(?![\d/-])", _numbers),
    rule("date", r"(\d{1,2})(/)(\d{1,2})/(\d\d)(?![\d/-])", _numbers),
    rule("date", r"(\d{1,2})(/)(\d{1,2})()(?![\d/])(?!\s(?:of|cup|inch|time))", _day_after_a_word),
    rule("date", r"(0[1-9])(/)([0-3]\d)()(?![\d/])", _numbers),
    rule("date", rf"{_DAY}[-\s](of\s+)?({_FULL})\b{_YEAR_AFTER}", _day_and_month, any_case=True),
    rule("date", rf"{_DAY}[-\s](of\s+)?({_SHORT})\b(?!')\.?{_YEAR_AFTER}", _day_and_month, any_case=True),
    rule("date", rf"{_DAY}-()({_SHORT})-(\d{{4}}|\d\d)\b", _day_and_month, any_case=True),
    rule(
        "time",
        rf"(\d{{1,2}})(?:[:.](\d\d))?(?::(\d\d))?\s*([ap])(?:m\b|\.\s?m\b\.?){_ZONE}",
        _clock,
        any_case=True,
    ),
    rule("time", rf"(\d{{1,2}}):(\d\d)(?::(\d\d))?()(?:\s+o'clock)?(?![:\d]){_ZONE}", _clock, any_case=True),
    rule(
        "time",
        r"(\d+)\s?h(?:rs?|ours?)?\s?(\d{1,2})\s?(?:m|mins?)?(?:\s(\d{1,2})\s?s(?:ecs?)?)?(?!\w)",
        _hours_and_minutes,
    ),
    rule("time", r"()(\d+)\s?m(?:in)?\s?(\d{1,2})\s?s(?:ecs?)?(?!\w)", _hours_and_minutes),
    rule("ratio", r"(\d+):(\d+)\b", _ratio),
    rule("year", r"([12]\d{3})-(\d\d)(?![\w-])", _years),
    rule("decade", r"(\d{3}0)'?s\b", lambda match, style: plural(year(match[1]))),
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
    rule("date", r"((?-i:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?),?\s+(\d{4})\b", _month_alone),
    rule("date", r"(Jan|Feb|Apr|Aug|Sept?|Oct|Nov|Dec)()\.", _month_alone),
    rule("date", rf"({_SHORT})(?=\s?-\s?(?:{_SHORT}|{_FULL})\b)(?<=[A-Z]..)()", _month_alone, any_case=True),
    rule("date", r"([A-Z][a-z]+day)(?=\s?-\s?[A-Z][a-z]+day\b)", lambda match, style: match[1]),
    rule(
        "date",
        rf"({_WEEKDAY})(?:\.(?=,?\s)|(?=\s?-\s?(?:{_WEEKDAY})\b)|(?<=-...)(?!\w)|(?=,\s+(?:(?i:{_MONTH})|\d)|\s(?:the\s)?\d))",
        lambda match, style: WEEKDAYS[match[1]],
    ),
    rule("date", rf"({_WEEKDAY})(?![\w'-])", _weekday),
    rule("date", r"ca?\.\s?(?=\d{3,4}(?!\w))", lambda match, style: "circa"),
    rule("time", r"T-(?=\d+\s(?:second|minute|hour|day)s?\b)", lambda match, style: "t minus "),
)

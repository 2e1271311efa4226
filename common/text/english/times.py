"""Times of day, lengths of time, ratios, which are written alike."""

import re
from itertools import pairwise

from common.text.english.abbreviations import BOOKS, VERSES
from common.text.english.tokens import Rule, Style, anywhere, before, before_noun, rule
from common.text.numbers import cardinal, digits, pair, year

_ZONE_NAME = (
    r"(?:[ecmp]\.?[sd]\.?t|(?-i:[ECMP]T|IST|AEST|AEDT|JST|KST|HKT|SGT|EET|WET|MSK|SAST|NZST|NZDT"
    r"|AK[SD]T|H[SD]T|N[SD]T|A[SD]T|PKT|AC[SD]T|AW[SD]T|EEST|WEST|BRT|ART|CLT|EAT|CAT|WAT|GST|PHT|ICT|WIB|NPT|TRT)|gmt|utc|cest|cet|bst)"
)
_ZONE = rf"(?:\s?\(?({_ZONE_NAME}(?!\w))(?:\s?([+-])\s?(\d{{1,2}})(?::?(\d\d))?(?!\w))?\)?)?"
_CLOCK_NOT_RATIO = re.compile(r"\b(?:ratio|score|odds|beat|won|lost|aspect)\b[^.]*\Z", re.IGNORECASE)


_LASTED = re.compile(
    r"\b(?:in|after|for|took|takes|lasts|lasted|time of|record of|time:|duration:?|runtime:?|length:?|elapsed:?"
    r"|total:?)\s\Z",
    re.IGNORECASE,
)


_NOON_BEHIND = re.compile(r"\s(?:noon|midnight)\b")


_LONG = re.compile(r"\s(?:long|marathon|half|finish|run|race|ride|video|runtime|remaining|left|elapsed|total)\b")


def _is_length(match: re.Match[str]) -> bool:
    """It took 1:02:45; the video is 1:02:45 long; but at 8:05:30."""
    return before(match, _LASTED) or bool(_LONG.match(match.string, match.end()))


def _clock(match: re.Match[str], style: Style) -> str | None:
    hour, minute, second, half, zone = int(match[1]), match[2], match[3], match[4], match[5]
    if zone is None and match[0].endswith(")"):
        return None
    if hour > 24 or int(minute or 0) > 59:
        return None
    if not half and not second and before(match, _CLOCK_NOT_RATIO):
        return None
    if second and (
        minute == "00"
        or (not half and (len(match[1]) == 2 or _is_length(match) or (hour < 6 and not before(match, _AT_A_TIME))))
    ):
        spoken = [_duration(hour, int(minute), int(second))]
    else:
        spoken = [cardinal(str(hour))]
        if minute and minute != "00":
            spoken.append(pair(minute))
        elif _NOON_BEHIND.match(match.string, match.end()):
            pass
        elif not half and hour == 0 and not second:
            spoken = ["midnight"]
        elif not half:
            spoken.append("o'clock" if 0 < hour <= 12 else "hundred")
        if match[0].endswith(("h", "hrs", "hours")) and not half:
            spoken.append("hours")
        if second:
            spoken.append(f"and {cardinal(str(int(second)))} seconds")
    if half:
        spoken.append(style.half(half))
    if zone:
        zone = zone.replace(".", "").lower()
        spoken.append(style.letters(zone) if style.for_voice else zone)
        spoken += _offset(*match.group(6, 7, 8))
    return " ".join(spoken)


def _offset(sign: str | None, hours: str | None, minutes: str | None) -> list[str]:
    """UTC+5:30 → plus five thirty"""
    if not sign or not hours:
        return []
    return ["plus" if sign == "+" else "minus", cardinal(str(int(hours))), *([cardinal(minutes)] if minutes else [])]


def _to_the_hundredth(match: re.Match[str], style: Style) -> str:
    """1:02:03.5, a length of time"""
    hours, minutes, seconds = match.groups()
    whole, _, part = seconds.partition(".")
    said = _duration(int(hours), int(minutes), int(whole)).removesuffix(" seconds").removesuffix(" second")
    return f"{said} point {digits(part)} seconds"


def _minutes_and_seconds(match: re.Match[str], style: Style) -> str:
    """3:45 min"""
    if match[2] == "00":
        return f"{cardinal(match[1])} minute{'' if match[1] == '1' else 's'}"
    return f"{cardinal(match[1])} {pair(match[2])} minutes"


def _zone(match: re.Match[str], style: Style) -> str:
    name = match[1].lower()
    return " ".join([style.letters(name) if style.for_voice else name, *_offset(*match.group(2, 3, 4))])


def _halves(match: re.Match[str], style: Style) -> str:
    """7a-3p"""
    first, first_half, last, last_half = match.groups()
    return f"{cardinal(first)} {style.half(first_half)} to {cardinal(last)} {style.half(last_half)}"


_AT_AN_HOUR = re.compile(
    r"(?:\b(?:at|from|until|till|til|around|starts?|opens?|closes?)|@|\d[ap]\s(?:to|and|or))\s?\Z", re.IGNORECASE
)


def _at_an_hour(match: re.Match[str], style: Style) -> str | None:
    """doors at 7p"""
    if not before(match, _AT_AN_HOUR) or not 0 < int(match[1]) <= 12:
        return None
    minute = f" {pair(match[2])}" if match[2] and match[2] != "00" else ""
    return f"{cardinal(str(int(match[1])))}{minute} {style.half(match[3])}"


def _hour_with_h(match: re.Match[str], style: Style) -> str | None:
    """at 19h30"""
    if (
        not (before(match, _AT_A_TIME) or (match[2] == "00" and int(match[1]) > 12))
        or int(match[1]) > 24
        or int(match[2]) > 59
    ):
        return None
    return f"{cardinal(str(int(match[1])))} {pair(match[2]) if match[2] != '00' else 'hundred'}"


_AT_A_TIME = re.compile(
    r"\b(?:at|by|from|until|till|before|after|around|since|departs|arrives|leaves)\s\Z", re.IGNORECASE
)

_RANKS = "smhdwoy"
_LENGTHS = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "o": "month", "y": "year"}
_LENGTH = (
    r"\d+\s?(?:years?|yrs?|y|months?|mos?|weeks?|wks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)"
    r"(?![A-Za-z])\.?"
)


def _lengths(match: re.Match[str], style: Style) -> str | None:
    """1h30m, 2d 4h, 3 hrs. 20 mins.: units in falling order."""
    parts = [(n, "o" if unit.startswith("mo") else unit[0]) for n, unit in re.findall(r"(\d+)\s?([a-z]+)", match[0])]
    ranks = [_RANKS.index(unit) for _, unit in parts]
    is_length = any(unit != "m" for _, unit in parts) and all(a > b for a, b in pairwise(ranks))
    if not is_length:
        return None
    one = before_noun(match)
    return " ".join(f"{cardinal(str(int(n)))} {_LENGTHS[unit]}{'' if one or int(n) == 1 else 's'}" for n, unit in parts)


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


_BOOK = re.compile(rf"\b(?:{VERSES}|Quran|Qur'an|Surah|{'|'.join(BOOKS)})\.?\s(?:\d+:\d+[a-z]?\s?[-,;]\s?){{0,2}}\Z")


def _of_thousands(match: re.Match[str], style: Style) -> str:
    """A map of 1:25,000."""
    return f"{cardinal(match[1])} to {cardinal(match[2])}"


_STANDARD_AHEAD = re.compile(r"\b(?:ISO|IEC|EN|BS|DIN|ASTM|IEEE|ANSI)(?:[/\s][A-Z]{2,4}){0,2}[\s-]?(?:\d+-)?\Z")


def _ratio(match: re.Match[str], style: Style) -> str:
    first, second = match.groups()
    is_length = first.isdigit() and len(first) < 4 and re.fullmatch(r"[0-5]\d", second)
    if is_length and (second[0] == "0" or (int(first) > 24 and before(match, _LASTED_TO))):  # 47:03
        return f"{cardinal(first)} {pair(second)}"
    if second[:2] in ("19", "20") and len(second) == 4 and before(match, _STANDARD_AHEAD):
        return f"{cardinal(first)} {year(second)}"
    between = " " if before(match, _BOOK) else " to "  # of chapter and verse
    return f"{cardinal(match[1])}{between}{cardinal(match[2])}"


_LASTED_TO = re.compile(r"\b(?:in|time(?: of| was| is)?|\d+[kK]|finish\w*(?: in| at)|at|mark|ran):?\s\Z")


# ---------------------------------------------------------------------------------------------------------------------
# One to so many

_HALF_BEHIND = re.compile(r"\s?[ap]\.?m\b", re.IGNORECASE)
_DILUTED = re.compile(r"\b(?:dilut\w*|mix\w*|solution|ratio|bleach|vinegar|parts|scale|concentrat\w*|v/v|w/v)\b", re.I)
_BY_THE_CLOCK = re.compile(r"\b(?:at|by|from|until|till|before|after|around|since|to|-)\s?\Z", re.IGNORECASE)
_RATIO_AHEAD = re.compile(
    r"\b(?:dilut\w*|ratios?|proportions?|concentrat\w*|(?:a|the|to)\sscale)(?:\s(?!at|by|from|until)[a-z-]+){0,3}:?\s\(?\Z",
    re.IGNORECASE,
)
_MIXED_AHEAD = re.compile(r"\b[Mm]ix(?:ed)?(?:\s(?:it|them|well|with|water|\w+\s(?:and|with)\s\w+))?:?\s\Z")
_RATIO_BEHIND = re.compile(r"\s(?:(?:[a-z]+\s){0,2}(?:solution|dilution|ratio|scale|mixture|concentration)|mix)\b")
_BRACKETED = re.compile(r"\(\Z")
_MIXTURE = re.compile(r"\b(?:[Mm]ix\w*|parts?|[Dd]ilut\w*|ratio)\b")
_BY_VOLUME = re.compile(r"\s\(?(?:[vw]/[vw]\b|by\s(?:volume|weight)\b)")
_THING_AHEAD = re.compile(r"\b(?:an?|the|with|using|in)\s\Z", re.IGNORECASE)


def _dilution(match: re.Match[str], style: Style) -> str | None:
    """Dilute it 1:10, which is no time; but at 1:15 we talk about parts."""
    text, (start, stop) = match.string, match.span()
    if _HALF_BEHIND.match(text, stop) or match[1] == "00":
        return None
    if len(match[1]) == 2 and match[1] < "60":  # may be a time
        is_bracketed = before(match, _BRACKETED) and anywhere(text, _MIXTURE)
        is_ratio = (
            is_bracketed
            or bool(_BY_VOLUME.match(text, stop))
            or (
                not before(match, _BY_THE_CLOCK)
                and (
                    before(match, _RATIO_AHEAD)
                    or before(match, _MIXED_AHEAD)
                    or (before(match, _THING_AHEAD) and _RATIO_BEHIND.match(text, stop))
                )
            )
        )
    else:
        is_ratio = bool(_DILUTED.search(text[max(0, start - 60) : start] + text[stop : stop + 40]))
    return f"one to {cardinal(match[1])}" if is_ratio else None


_TOGETHER = re.compile(
    r"\s(?:meetings?|sessions?|calls?|chats?|coaching|lessons?|tutoring|time\b(?!\s(?:ratio|scale)))|(?P<whom>\swith\s[A-Z])"
)
_OWN_AHEAD = re.compile(r"\b(?:my|our|your|his|her|their|weekly|monthly|next|today's)\s\Z", re.IGNORECASE)
_MET_AHEAD = re.compile(
    r"\b(?:an?|the|this|that|my|our|your|his|her|their|weekly|monthly|next|today's|regular|quick|meet\w*|met|chat\w*"
    r"|spoke|speak\w*|talk\w*|work\w*|teach\w*)\s\Z",
    re.IGNORECASE,
)
_MEETING_BEHIND = re.compile(
    r"\s?(?:[.,;:!?)]|\Z)|\s(?:is|was|are|will|went|has|got|on|at|in|to|from|for|with|about|and|or|but|before|after|until"
    r"|today|tonight|tomorrow|yesterday|next|this|last|every|notes?|agenda|doc|slot|because|so|that|if|when|until)\b"
)


def _one_on_one(match: re.Match[str], style: Style) -> str | None:
    """a 1:1 meeting, our 1:1; but a 1:1 ratio"""
    text, behind = match.string, match.end()
    is_meeting = before(match, _OWN_AHEAD) and bool(_MEETING_BEHIND.match(text, behind))
    if together := _TOGETHER.match(text, behind):
        is_meeting = not together["whom"] or before(match, _MET_AHEAD)
    if not is_meeting and not match[0].endswith("s"):
        return None
    return f"one on {'ones' if match[0].endswith('s') else 'one'}"


FIRST_RULES: tuple[Rule, ...] = (
    rule("ratio", r"1:1s?(?!\w|[:.]\d)", _one_on_one),
    rule("ratio", r"1:(\d{1,4})(?![\w:]|,\d)", _dilution),
)
"""Those that come before all others."""

RULES: tuple[Rule, ...] = (
    rule("ratio", r"(\d+):(\d{1,3}(?:,\d{3})+|\d{5,7})(?![\w:]|[.,]\d)", _of_thousands),
    rule(
        "time",
        rf"(\d{{1,2}})(?:[:.](\d\d))?(?::(\d\d))?\s*([ap])(?:m\b|\.\s?m\b\.?){_ZONE}",
        _clock,
        any_case=True,
    ),
    rule("time", r"(\d{1,2})([ap])m?\s?-\s?(\d{1,2})([ap])m?\b", _halves),
    rule("time", r"(\d{1,2})(?::(\d\d))?([ap])(?!\w|\.\s?m|\s(?:each|per|an?|off|coin|piece|stamp)\b)", _at_an_hour),
    rule("time", r"(\d{1,2})(A)\s?-\s?(\d{1,2})(P)(?!\w)", _halves),
    rule("time", rf"([1-9]|1[0-2])([0-5]\d)()\s?([ap])(?:m\b|\.\s?m\b\.?){_ZONE}", _clock, any_case=True),
    rule("time", r"(\d{1,2}):(\d\d):(\d\d\.\d{1,3})(?!\w)", _to_the_hundredth),
    rule("time", r"(\d{1,3}):([0-5]\d)\s?mins?(?!\w)\.?", _minutes_and_seconds),
    rule("ratio", r"(\d{1,4})\s:\s(\d{1,4})(?!\w|[.:]\d)", lambda m, s: f"{cardinal(m[1])} to {cardinal(m[2])}"),
    rule("time", r"(\d{1,2})\s?-\s?(noon|midnight)\b", lambda m, s: f"{cardinal(m[1])} to {m[2]}", any_case=True),
    rule("time", r"(\d{1,2})h(\d\d)(?!\w)", _hour_with_h),
    rule(
        "time",
        rf"(\d{{1,2}}):(\d\d)(?::(\d\d))?()(?:\s+o'clock|\s?h(?:rs|ours)?\b)?(?!:?\d){_ZONE}",
        _clock,
        any_case=True,
    ),
    rule("time", rf"{_LENGTH}(?:,?\s?(?:and\s)?{_LENGTH}){{1,5}}(?!\w)", _lengths),
    rule(
        "time",
        r"(\d+)\s?h(?:rs?|ours?)?\s?(\d{1,2})\s?(?:m|mins?)?(?:\s(\d{1,2})\s?s(?:ecs?)?)?(?!\w)",
        _hours_and_minutes,
    ),
    rule("time", r"()(\d+)\s?m(?:in)?\s?(\d{1,2})\s?s(?:ecs?)?(?!\w)", _hours_and_minutes),
    rule("ratio", r"\d{1,2}:\d{1,2}:\d(?![\w:])", lambda m, s: " to ".join(map(cardinal, m[0].split(":")))),
    rule("ratio", r"(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)(?![\w:])", _ratio),
)

WORD_RULES: tuple[Rule, ...] = (
    rule("time", r"(UTC|GMT)\s?([+-])\s?(\d{1,2})(?::(\d\d))?(?!\w)", _zone),
    rule("time", r"T-(?=\d+\s(?:second|minute|hour|day)s?\b)", lambda match, style: "t minus "),
)

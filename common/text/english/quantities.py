"""Numbers and what they count: money, measures, fractions, ordinals."""

import re

from common.text.english.tables import (
    COUNTED_IN_MILLIONS,
    COURSES,
    CURRENCIES,
    MAGNITUDES,
    MANY,
    ONLY_AFTER_A_SLASH,
    UNITS,
)
from common.text.english.tokens import LARGE, NUMBER, Rule, Style, before, before_noun, rule
from common.text.numbers import cardinal, digits, fraction, ordinal, pair, plural

# ---------------------------------------------------------------------------------------------------------------------
# Money

_SIGN = r"(?:US\$|AU?\$|CA?\$|HK\$|NZ\$|R\$|[$£€¥₹₩₽₿₱])"
_CODE = "USD|CAD|AUD|EUR|GBP|JPY|CNY|RMB|CHF|INR"
_PART = rf"(?:[\s-]?({LARGE})\b|\s?(mn|mil|[kKmMbB]n?|BN|MM|mm|trn?|tn|T)(?![\w/']))?"
_PER = r"(?:\s?/\s?([A-Za-z]+)\b)?"
_PERIODS = {"mo": "month", "wk": "week", "hr": "hour", "h": "hour", "yr": "year", "min": "minute", "s": "second"}
_ARTICLE = re.compile(r"\b(?:a|an)\s\Z", re.IGNORECASE)
_NOTE = re.compile(r"\s(?:bill|note|coin|gift|fine|ticket|cheque|check|voucher|coupon|fee|deposit|discount)")
_RESOLUTIONS = frozenset(["144", "240", "360", "480", "540", "576", "720", "1080", "1440", "2160", "4320"])


def _amount(number: str, magnitude: str | None, currency: str, *, one: bool = False) -> str:
    singular, several, one_part, many_parts = CURRENCIES[currency]
    if magnitude:
        return f"{cardinal(number)} {MAGNITUDES.get(magnitude, magnitude)} {singular if one else several}"
    whole, _, parts = number.partition(".")
    if len(parts) == 3 and parts.endswith("0"):
        parts = parts[:2]
    if len(parts) == 1 and not whole.strip("0"):
        parts += "0"
    if len(parts) != 2 or not many_parts:
        return f"{cardinal(number)} {singular if number == '1' or one else several}"
    spoken = []
    if whole.strip("0"):
        spoken.append(f"{cardinal(whole)} {singular if whole == '1' or one else several}")
    if parts != "00" or not spoken:
        spoken.append(f"{cardinal(str(int(parts)))} {one_part if parts == '01' else many_parts}")
    return " ".join(spoken)


def _money(match: re.Match[str], style: Style) -> str:
    currency, number, last, large, letter, per = match.groups()
    one = before(match, _ARTICLE) or bool(_NOTE.match(match.string, match.end()))
    said = _amount(last or number, large or letter, currency.strip(), one=one)
    if style.for_voice:
        said = re.sub(r"\bus\b", style.letters("us"), said)
    if last:
        said = f"{cardinal(number)} to {said}"
    return said + _per(per) if per else said


def _per(unit: str) -> str:
    return f" per {_PERIODS.get(unit) or UNITS.get(unit) or UNITS.get(unit.lower()) or unit}"


def _money_behind(match: re.Match[str], style: Style) -> str:
    number, large, letter, currency, per = match.groups()
    said = _amount(number, large or letter, currency, one=before_noun(match))
    said = re.sub(r"\bus\b", style.letters("us"), said) if style.for_voice else said
    return said + _per(per) if per else said


def _pence(match: re.Match[str], style: Style) -> str | None:
    if match[1] in _RESOLUTIONS:
        return None
    return f"{cardinal(match[1])} {'penny' if match[1] == '1' else 'pence'}"


# ---------------------------------------------------------------------------------------------------------------------
# Measures

_UNIT = r"(?:°\s?[CF]\b|[%‰°℃℉]|(?:sq|cu)\.?\s(?:ft|in|mi|m|km|yd)\b\.?|[A-Za-zµμΩ]+)"
_MIXED = r"\d+\s\d+/\d+"
_POWERS = {"²": "square", "2": "square", "³": "cubic", "3": "cubic", "sq": "square", "cu": "cubic"}


def _named(unit: str, style: Style) -> str | None:
    """The name of a unit as it is written, in the singular."""
    if unit in style.units:
        return style.units[unit]
    unit = unit.replace(" ", "")
    if unit in UNITS or (len(unit) == 1 and unit != "°"):
        return UNITS.get(unit)
    return UNITS.get(unit.lower())


def _several(name: str) -> str:
    """`kilometer per hour` → kilometers per hour; `square foot` → square feet; `kilowatt hour` → kilowatt hours."""
    head, per, rest = name.partition(" per ")
    if " of " in head or head.startswith(("degree ", "part ")):
        first, _, others = head.partition(" ")
        return f"{plural(first)} {others}{per}{rest}"
    words = head.split()
    if words[-1] == "mille" or head == "c c" or words[-1].endswith("hertz"):
        return name
    words[-1] = MANY.get(words[-1]) or plural(words[-1])
    return f"{' '.join(words)}{per}{rest}"


def _with_power(unit: str, power: str | None, style: Style) -> str | None:
    square = re.fullmatch(r"(sq|cu)\.?\s(\w+)\.?", unit)
    if square:
        unit, power = square[2], square[1]
        name = {"in": "inch"}.get(unit) or _named(unit, style)
    else:
        name = _named(unit, style)
    return f"{_POWERS[power]} {name}" if name and power else name


_BITS = {"kb": "kilobit", "Kb": "kilobit", "Mb": "megabit", "Gb": "gigabit", "Tb": "terabit"}  # MB/s are megabytes


def _measure(match: re.Match[str], style: Style) -> str | None:
    number, large, hyphen, unit, power, below, below_power = match.groups()
    # 9.58s, but not the 90s; 24h
    seconds = (unit == "s" and "." in number) or (unit == "h" and number.isdigit() and not hyphen)
    if (unit in ONLY_AFTER_A_SLASH and not (below or seconds)) or (
        power and unit not in ("m", "km", "cm", "mm", "ft", "yd", "mi")
    ):
        return None
    is_apart, is_quality = match.string[match.start(4) - 1].isspace(), before_noun(match)
    if unit in ("in", "IN") or (
        unit == "W" and is_apart and re.match(r"\.?\s[A-Z\d]", match.string[match.end() :])
    ):  # west
        return None
    if unit == "V" and is_apart and not is_quality and match.string[match.end() :][:1].isalpha():
        return None
    name = _BITS.get(unit) if below == "s" else None
    name = name or _with_power(unit, power, style)
    if name is None:
        return None
    if unit == "m" and re.match(rf"\s(?:{COUNTED_IN_MILLIONS})\b", match.string[match.end() :]):
        return f"{_count(number)} million"
    if below:
        lower = _PERIODS.get(below) or _named(below, style)
        if lower is None:
            return None
        if below_power:
            lower = (
                f"{lower} {'squared' if below_power in '2²' else 'cubed'}"
                if below == "s"
                else f"{_POWERS[below_power]} {lower}"
            )
        name = f"{name} per {lower}"
    if not ((number == "1" and not large) or hyphen == "-" or is_quality):
        name = _several(name)
    if "/" in number and " " not in number:
        return f"{_count(number)} {'of a ' if number[0] != '1' else ''}{_with_power(unit, power, style)}"
    return " ".join(filter(None, (_count(number), large, name)))


def _count(number: str) -> str:
    if "/" not in number:
        return cardinal(number)
    whole, _, part = number.rpartition(" ")
    top, _, bottom = part.partition("/")
    return _mixed(whole, top, bottom) if whole else fraction(top, bottom)


def _mixed(whole: str, top: str, bottom: str) -> str:
    part = fraction(top, bottom, improper=True)
    if part.startswith("one "):
        part = ("an " if bottom in ("8", "11", "18") else "a ") + part[4:]
    return f"{cardinal(whole)} and {part}"


def _per_unit(match: re.Match[str], style: Style) -> str | None:
    name = _named(match[2], style)
    known = name or (
        match[2] if match[2] in ("day", "week", "month", "year", "hour", "night", "person", "user") else None
    )
    return f"{cardinal(match[1])} per {known}" if known else None


def _inches(match: re.Match[str], style: Style) -> str | None:
    """Inches, unless the mark closes a quotation that was opened before."""
    opened = len(re.findall(r'(?<!\d)"', match.string[: match.start()]))
    if opened % 2:
        return None
    return f"{_count(match[1])} {'inch' if match[1] == '1' or before_noun(match) else 'inches'}"


def _with_exponent(match: re.Match[str], style: Style) -> str:
    """1e-4 → one e minus four"""
    sign = "minus " if match[2] == "-" else ""
    return f"{cardinal(match[1])} {style.letters('e')} {sign}{cardinal(match[3])}"


def _hexadecimal(match: re.Match[str], style: Style) -> str:
    return " ".join(["zero x", *(cardinal(sign) if sign.isdigit() else style.letters(sign) for sign in match[1])])


def _feet(match: re.Match[str], style: Style) -> str:
    return f"{cardinal(match[1])} {'foot' if match[1] == '1' else 'feet'}"


def _height(match: re.Match[str], style: Style) -> str:
    return f"{cardinal(match[1])} feet {cardinal(match[2])}"


# ---------------------------------------------------------------------------------------------------------------------
# Plain numbers

_CODE_AHEAD = re.compile(
    r"\b(?:(?:code|pin|otp|password|passcode|zip|postcode|extension|ext\.?|account|combination"
    r"|(?:account|tracking|order|confirmation|reference|serial|card|phone|case|policy|student|employee|my|your|the)"
    r"\s(?:number|no\.|id))(?:\sis|\swas|:|\snumber|\sno\.)?|ending in|number is|dial|call|text(?:\s\w+\sto)?)\s#?\Z",
    re.IGNORECASE,
)
_LETTER_AHEAD = re.compile(r"(?<!\dx)(?<=[^\W\d_])\Z")
_NAME_AHEAD = re.compile(
    r"\b(?:Boeing|Airbus|Flight(?:\s[A-Z]{2})?|Route|Highway|Interstate|Hwy|Room|Area|Porsche|Peugeot|Xbox|RTX|GTX|Apartment|Apt\.?"
    rf"|Suite|Ferrari|Port|HTTP|Error|Status|(?-i:{COURSES})\.?)\s\Z|\b(?:US|I|CA|SR|Route)-\Z|[A-Za-z]\d+-\Z",
    re.IGNORECASE,
)
_CAPITALS_AHEAD = re.compile(r"[A-Z]{2}\Z")
_SERIAL_AHEAD = re.compile(r"[A-Za-z]\d*-\Z")


_RACE_AHEAD = re.compile(r"\b(?:the|a|an|this|my|our|her|his|first)\s\Z", re.IGNORECASE)


def _ordinal(match: re.Match[str], style: Style) -> str | None:
    """Where the ending is that of the number; `11st` is a serial number."""
    number, ending = match[1], match[2].lower()
    last_two = int(number.replace(",", "")[-2:])
    right = "th" if 10 < last_two < 20 else {1: "st", 2: "nd", 3: "rd"}.get(last_two % 10, "th")
    return ordinal(number) if ending == right else None


_SCORED_AHEAD = re.compile(
    r"\b(?:g[ia]ve(?:s|n)?(?:\s\w+)?\s(?:an?|it|us|them)|rat(?:e|ed|ing|ings)(?:\s(?:of|it|is|was|at))?|scor(?:e|ed|es|ing)"
    r"(?:\s(?:of|is|was))?|got|solid|an?|easily|definitely|about|pain (?:is|was))(?:\s(?:a|an|of))?\s\Z",
    re.IGNORECASE,
)


def _score(match: re.Match[str], style: Style) -> str | None:
    """I'd give it a 7/10, which is no fraction of something."""
    is_part = re.match(r"\s(?:of|inch|in\b|mile|cup)|-inch", match.string[match.end() :])
    return f"{cardinal(match[1])} out of {cardinal(match[2])}" if before(match, _SCORED_AHEAD) and not is_part else None


_A_QUALITY = re.compile(r"\s(?!a\b|an\b|per\b|as\b|more\b|less\b|daily|weekly|monthly|yearly|each|every)[a-z]{3,}")


def _times(match: re.Match[str], style: Style) -> str | None:
    """3x daily, 2 x coffee; but not 3x + 5, nor a 4x zoom."""
    is_quality = before(match, _RACE_AHEAD) and _A_QUALITY.match(match.string, match.end())
    if is_quality or re.match(r"\s[a-z](?!\w)(?<!a)", match.string[match.end() :]):
        return None
    return f"{cardinal(match[1])} times"


_BEAT_BEHIND = re.compile(r"[-\s](?:time|meter|metre|beat|signature|measure|bar|waltz)s?\b")


def _part(match: re.Match[str], style: Style) -> str | None:
    if _BEAT_BEHIND.match(match.string, match.end()):  # of music
        return f"{cardinal(match[1])} {cardinal(match[2])}"
    return fraction(match[1], match[2])


def _thousands(match: re.Match[str], style: Style) -> str | None:
    letter = match[2]
    if before(match, _SERIAL_AHEAD):
        return None
    follows = match.string[match.end() :]
    if letter in "KM" and re.match(r"\s(?:TV|video|monitor|display|screen|resolution|run|race)", follows):
        return None
    is_name = match[1] in ("4", "8") or before(match, _RACE_AHEAD)  # a resolution, a distance
    if letter == "K" and is_name and not re.match(r"\s(?:[a-z]+s|people)\b", follows):
        return None
    if letter in "mB" and not re.match(r"\s[a-z]", follows) and "." not in match[1]:
        return None
    if letter == "m" and not re.match(rf"\s(?:{COUNTED_IN_MILLIONS})\b", follows):
        return None
    return f"{cardinal(match[1])} {MAGNITUDES[letter]}"


def _code(match: re.Match[str], style: Style) -> str | None:
    return digits(match[0]) if before(match, _CODE_AHEAD) else None


def _number(match: re.Match[str], style: Style) -> str:
    number = match[0]
    if number.isdigit():
        length = len(number)
        if length >= 3 and before(match, _LETTER_AHEAD):
            # A380, RTX4090; but ab9453, C2766
            is_name = _CAPITALS_AHEAD.search(match.string[: match.start()]) if length == 4 else length == 3
            return in_pairs(number) if is_name else digits(number)
        if length > 4 and match.string[match.start() - 1 : match.start()] == "/":
            return digits(number)
        if length in (3, 4) and before(match, _NAME_AHEAD):
            return in_pairs(number)
    return cardinal(number)


def in_pairs(number: str) -> str:
    """A house or a flight: `747` → seven forty seven; `1428` → fourteen twenty eight; others digit by digit."""
    if number.startswith("0") or not 3 <= len(number) <= 4:
        return digits(number) if len(number) > 2 else cardinal(number)
    if number.endswith("00"):
        return (
            cardinal(number)
            if len(number) == 3
            else f"{cardinal(number[:2])} hundred"
            if number[1] != "0"
            else cardinal(number)
        )
    return f"{cardinal(number[:-2])} {pair(number[-2:])}"


_ROUGHLY = {
    "10s": "tens", "100s": "hundreds", "1,000s": "thousands", "10,000s": "tens of thousands",
    "100,000s": "hundreds of thousands", "1,000,000s": "millions",
}  # fmt: skip

RULES: tuple[Rule, ...] = (
    rule("code", r"0x([\dA-Fa-f]+)\b", _hexadecimal),
    rule("number", rf"({NUMBER})[eE]([-+]?)(\d+)\b", _with_exponent),
    rule("code", r"\d{3,}(?![\w%]|[.,/:-]\d)", _code),
    rule("number", r"1[\d,]*0s\b", lambda match, style: _ROUGHLY.get(match[0])),
    rule(
        "measure",
        rf"({_MIXED}|\d+/\d+|{NUMBER})\s?[cC]\.(?=\s[a-z])",  # of recipes
        lambda match, style: f"{_count(match[1])} {'cup' if match[1] == '1' or '/' in match[1][:2] else 'cups'}",
    ),
    rule("fraction", r"1/(\d{1,3})(?:ths|nds|rds)\b", lambda match, style: plural(ordinal(match[1]))),
    rule("measure", rf"({NUMBER})'(?=\s?(?:[x×]\s?\d|by\b|long\b|wide\b|tall\b|high\b|deep\b|thick\b))", _feet),
    rule("name", r"(\d{1,2})W-(\d\d)\b", lambda match, style: f"{cardinal(match[1])} w {cardinal(match[2])}"),  # oil
    rule("score", r"(\d{1,3})/(5|10|100)(?![\w/])", _score),
    rule("math", r"(\d+)\s?x(?=\s(?:[a-z]{3,}|a\s))", _times),
    rule("score", r"(\d+\.\d+)/(\d+)(?![\w/])", lambda m, s: f"{cardinal(m[1])} out of {cardinal(m[2])}"),
    rule(
        "math",
        rf"({NUMBER})\s?[/÷]\s?({NUMBER})(?=\s?=)",
        lambda m, s: f"{cardinal(m[1])} divided by {cardinal(m[2])}",
    ),
    rule("height", r"(\d)'\s?(\d{1,2})(?:\"|''|”)", _height),
    rule("money", rf"({_SIGN}|(?:{_CODE})\s)\s?({NUMBER})(?:-({NUMBER})(?![\w-]))?{_PART}{_PER}", _money),
    rule("money", rf"({NUMBER}){_PART}\s?([£€¥₹¢₩₽₿]|(?:{_CODE})\b|\$(?!\d)){_PER}", _money_behind),
    rule("money", r"(\d+)p\b", _pence),
    rule(
        "fraction",
        r"(24)/(7)\b|(9)/(11)\b|(50)[-/](50)\b|(20)/(20)\b",
        lambda m, s: " ".join(cardinal(n) for n in m.groups() if n),
    ),
    rule(
        "measure",
        rf"({_MIXED}|\d+/\d+|{NUMBER})(?:\s({LARGE}))?(\s|-)?({_UNIT})([²³23])?(?:/([A-Za-z]+)([²³23])?)?(?![\w²³])(?:\.(?=\s+[a-z\d]))?",
        _measure,
    ),
    rule("measure", rf"({NUMBER})/([A-Za-z]+)\b", _per_unit),
    rule(
        "measure",
        rf"({_MIXED}|{NUMBER})(?:\"|″|\s?in\.(?=\s[a-z]|\s*\Z)|\s?in(?=\s(?:tall|long|wide|high|deep|thick)\b))(?!\w)",
        _inches,
    ),
    rule(
        "fraction",
        r"(?<!/)(\d+)\s+(\d+)/(\d+)(?![\d/])",
        lambda match, style: _mixed(match[1], match[2], match[3]),
    ),
    rule("fraction", r"(?<![/])(?<![A-Za-z]-)(\d+)/(\d+)(?:th|rd|nd|st)?(?![\w/])", _part, any_case=True),
    rule("magnitude", rf"({NUMBER})\s?((?:k|K|M|mn|bn|tn|B|m)(?<!\s[KMBm]))\b", _thousands),
    rule("ordinal", r"(\d[\d,]*)(st|nd|rd|th)\b", _ordinal, any_case=True),
)

LAST_RULES: tuple[Rule, ...] = (
    rule("resolution", r"(\d{3,4})([pi])\b", lambda m, s: f"{in_pairs(m[1])} {m[2]}" if m[1] in _RESOLUTIONS else None),
    rule("version", r"\d+(?:\.\d+){2,}", lambda match, style: " point ".join(map(cardinal, match[0].split(".")))),
    rule("number", NUMBER, _number),
)

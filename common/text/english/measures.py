"""Measures: a number and its unit, compound units, temperatures, lengths in feet and inches, ages."""

import functools
import re
from bisect import bisect_left

from common.text.english.tables import COUNTED_IN_MILLIONS
from common.text.english.tokens import (
    ARTICLE,
    LARGE,
    NUMBER,
    PLACE_AHEAD,
    Rule,
    Style,
    anywhere,
    before,
    before_noun,
    of_a_thing,
    rule,
)
from common.text.english.units import BARE, BARE_PER, MANY, ONLY_AFTER_A_SLASH, PERIODS, UNITS
from common.text.numbers import cardinal, fraction, ordinal, plural

MIXED = r"\d+(?:\s|-)\d+/\d+"
_UNIT = (
    r"(?:°\s?[CF]\b|[%‰°℃℉]|(?:sq|cu)\.?[\s-](?:ft|in|mi|m|km|yd)\b\.?|fl\.?\s?oz\b"
    r"|(?:ft|lbs?|kN|N|kW|W|A|Pa|n)[·⋅-](?:lbs?|ft|m|h|s)\b|[A-Za-zµμΩ]+)"
)
_POWER = r"([²³]|\^?[23](?!\d))?"
_OF_TIMES = r"[1-9]\d{0,2}\s?(?=(?:h|hrs?|hours?|d|days?|min|wks?|weeks?|months?|s|sec)\b)"
_PER = rf"(?:\s?/\s?(?:{_OF_TIMES}|10*\s?)?(?:(?:sq|cu)\.?\s)?[A-Za-zµμ]+(?:[²³]|\^?[23](?!\d))?)"
_LINK = re.compile(r"\s?/\s?([1-9]\d*)?\s?((?:(?:sq|cu)\.?\s)?[A-Za-zµμ]+)([²³]|\^?[23])?")
_POWERS = {"²": "square", "2": "square", "³": "cubic", "3": "cubic", "sq": "square", "cu": "cubic"}
_BITS = {"kb": "kilobit", "Kb": "kilobit", "Mb": "megabit", "Gb": "gigabit", "Tb": "terabit"}  # MB/s are megabytes


def _named(unit: str, style: Style) -> str | None:
    """The name of a unit as it is written, in the singular."""
    if unit in style.units:
        return style.units[unit]
    unit = unit.replace(" ", "").replace("⋅", "·").removesuffix(".")
    if unit in UNITS or (len(unit) == 1 and unit != "°"):
        return UNITS.get(unit)
    return UNITS.get(unit.lower()) or UNITS.get(unit.lower().replace(".", ""))


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
    square = re.fullmatch(r"(sq|cu)\.?[\s-](\w+)\.?", unit)
    if square:
        unit, power = square[2], square[1]
        name = {"in": "inch"}.get(unit) or _named(unit, style)
    else:
        name = _named(unit, style)
    return f"{_POWERS[power.lstrip('^')]} {name}" if name and power else name


def _below(chain: str, style: Style) -> str | None:
    """`/100km` → per one hundred kilometers; `/kg/min` → per kilogram per minute; /s² → per second squared."""
    said = []
    for count, unit, power in _LINK.findall(chain):
        name = PERIODS.get(unit) or (_with_power(unit, None, style) if len(unit) > 1 or unit in "gmLVKWJNA" else None)
        if name is None and re.fullmatch("[a-z]{3,}", unit) and not power:
            name = unit
        if name is None:
            return None
        if power:
            power = power.lstrip("^")
            is_time = unit == "s"
            name = f"{name} {'squared' if power in '2²' else 'cubed'}" if is_time else f"{_POWERS[power]} {name}"
        if count and count != "1":
            name = f"{cardinal(count)} {_several(name) if unit in UNITS else name}"
        said.append(f" per {name}")
    return "".join(said)


_HOUR_LONG = re.compile("hr|yr|wk")


def _measure(match: re.Match[str], style: Style) -> str | None:
    number, large, hyphen, unit, power, chain = match.groups()
    behind = match.string[match.end() :]
    # 9.58s, but not the 90s; 24h
    is_time = (unit == "s" and ("." in number or hyphen == " " or before(match, _LASTING))) or (
        unit == "h" and number.isdigit() and hyphen != "-"
    )
    is_time = is_time or bool(unit in ("A", "N", "J") and hyphen == " " and _ELECTRIC.match(behind))
    is_alone = hyphen != " " or not of_a_thing(match)  # 5 A students
    is_time = is_time or (unit == "A" and is_alone and anywhere(match.string, _VOLTS))
    is_time = is_time or (unit == "K" and is_alone and _is_kelvin(match))
    if unit == "mo" and (not hyphen or re.match(r"\.?\s?(?:old|ago|baby|contract)\b|\.?\s?[@=]", behind)):
        is_time = True
    if unit == "l" and not chain and _POURED.match(behind):
        return f"{cardinal(number)} {'liter' if number == '1' else 'liters'}"
    if (unit in ONLY_AFTER_A_SLASH and not (chain or is_time)) or (
        power and unit not in ("m", "km", "cm", "mm", "ft", "yd", "mi", "in")
    ):
        return None
    if unit in ("W", "A", "N") and hyphen != "-" and before(match, _ROAD):
        return None
    is_apart, is_quality = match.string[match.start(4) - 1].isspace(), before_noun(match)
    is_height = before(match, _FEET_AHEAD) and not _SOMETHING.match(behind)
    if unit in ("in", "IN") and not power and not is_height:
        return None
    if unit == "W" and is_apart and not chain and re.match(r"\.?\s[A-Z\d]", behind):  # west
        return None
    if unit == "V" and is_apart and not is_quality and behind[:1].isalpha():
        return None
    per_second = chain in ("/s", "/sec")
    if _SEVERAL_CAPITALS.fullmatch(unit):
        return None
    name = _BITS.get(unit) if per_second else "percentage point" if unit == "pp" else None
    name = "point" if unit == "pt" and hyphen == "-" else name or _with_power(unit, power, style)
    if name is None or (unit == "pp" and is_apart and "." not in number):
        return None
    if unit == "m" and not chain and re.match(rf"\s(?:{COUNTED_IN_MILLIONS})\b", behind):
        return f"{_count(number)} million"
    below = _below(chain, style)
    if below is None:
        return None
    adjective = not hyphen and _HOUR_LONG.fullmatch(unit) and of_a_thing(match)
    if not ((number == "1" and not large) or hyphen == "-" or is_quality or adjective):
        name = _several(name)
    if "/" in number and not re.search(r"\d[\s-]\d", number):
        if number[0] == "1" and before(match, ARTICLE):  # a 1/2 mile
            return f"{_count(number).removeprefix('one ')} {_with_power(unit, power, style)}{below}"
        part_of = "" if hyphen == "-" else "of a " if number[0] != "1" else ""
        return f"{_count(number)} {part_of}{_with_power(unit, power, style)}{below}"
    return " ".join(filter(None, (_count(number), large, name))) + below


_SEVERAL_CAPITALS = re.compile("HRs|PTs|MIs|PCs|MPs|MBs?As")  # 28 HRs are no hours
_VOLTS = re.compile(r"\d\s?(?:VAC|VDC|V|Hz|kW)(?![A-Za-z])")
_SCALE_BESIDE = re.compile(r"\d\s?°\s?[CF]\b|\bkelvin", re.IGNORECASE)


def _is_kelvin(match: re.Match[str]) -> bool:
    return match[3] == " " and anywhere(match.string, _SCALE_BESIDE)


_POURED = re.compile(r"\sof\s(?!the\b)[a-z]")  # 2 l of water
_ELECTRIC = re.compile(r"\s?(?:[,;)]|\.?\Z)|\s(?:at\s\d|of\s(?:current|force)|fuse|current|breaker)")
_SOMETHING = re.compile(r"\s(?:the|an?|this|that|these|those|my|your|his|her|its|our|their)\b")
_FEET_AHEAD = re.compile(r"\d\s?(?:ft|feet|foot)\.?\s\Z")
_ROAD = re.compile(r"\b(?:Route|Rte\.?|Rt\.?|Highway|Hwy\.?|US|I|Exit|Apt\.?|Unit|Flat|Room|Seat)[\s-]\Z")
_LASTING = re.compile(
    r"\b(?:in|for|after|every|only|just|under|took|takes?|wait|lasts?|lasted|by|than|about|within|timeout|ran)\s\Z"
)


def _count(number: str) -> str:
    if "/" not in number:
        return cardinal(number)
    whole, part = re.fullmatch(r"(?:(\d+)[\s-])?(\d+/\d+)", number).groups()  # type: ignore[union-attr]
    top, _, bottom = part.partition("/")
    return mixed(whole, top, bottom) if whole else fraction(top, bottom)


def mixed(whole: str, top: str, bottom: str) -> str:
    """Two and a half."""
    part = fraction(top, bottom, improper=True)
    if part.startswith("one "):
        part = ("an " if bottom in ("8", "11", "18") else "a ") + part[4:]
    return f"{cardinal(whole)} and {part}"


def _per_unit(match: re.Match[str], style: Style) -> str | None:
    """3 apples/day, 60 beats/min, 50/month"""
    below = _below(match[2], style)
    unit = match[2].strip("/ ")
    is_noun = match[1].isdigit() and _ONE_THING.fullmatch(unit) is not None
    is_word = unit in BARE_PER or unit in _PER_WORDS or unit in PERIODS or is_noun
    if below is None or not (is_word or (unit in UNITS and not match[1][-1].isalpha())):
        return None
    number = re.match(NUMBER, match[1])
    said = cardinal(number[0]) if number else ""
    return f"{said}{match[1][number.end() if number else 0 :]}{below}"


_ONE_THING = re.compile(  # 6/customer, but no number, and no plural
    r"(?!(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|and|or|not|none|more|less|both|each|either|neither|some|many|most|half|every|other|another|then|than|also|plus|with|from|even|less)\Z)[a-z]{4,}(?<!s)"
)
_PER_WORDS = frozenset(
    [
        "night",
        "person",
        "user",
        "head",
        "game",
        "match",
        "team",
        "class",
        "player",
        "week",
        "session",
        "visit",
        "dose",
        "serving",
        "household",
        "student",
        "seat",
        "set",
        "side",
        "table",
        "page",
        "line",
        "child",
        "adult",
        "room",
        "unit",
        "piece",
        "item",
        "family",
        "pound",
        "ounce",
        "bottle",
        "box",
        "mile",
        "acre",
        "hectare",
        "trip",
        "ride",
    ]
)


def _bare(match: re.Match[str], style: Style) -> str | None:
    """km/h, mg/dL, kg/m³ without a number before them."""
    unit, power, chain = match.groups()
    links = _LINK.findall(chain)
    if unit not in BARE or links[0][1] not in BARE_PER:
        return None
    name = _with_power(unit, power, style) if unit in UNITS else unit
    below = _below(chain, style)
    if name is None or below is None:
        return None
    return f"{_several(name) if unit in UNITS else name}{below}"


@functools.lru_cache(maxsize=8)
def _quotation_marks(text: str) -> list[int]:
    return [mark.start() for mark in re.finditer(r'(?<!\d)"', text)]


@functools.lru_cache(maxsize=8)
def _single_marks(text: str) -> list[int]:
    return [mark.start() for mark in re.finditer(r"(?<![\w'])'(?=\w)", text)]


def _inches(match: re.Match[str], style: Style) -> str | None:
    """Inches, unless the mark closes a quotation that was opened before."""
    if bisect_left(_quotation_marks(match.string), match.start()) % 2:
        return None
    one = match[1] == "1" or before_noun(match) or ('"' in match[0] and of_a_thing(match))
    if "/" in match[1] and not re.search(r"\d[\s-]\d", match[1]):
        return f"{_count(match[1])} {'inch' if one else 'of an inch'}"
    return f"{_count(match[1])} {'inch' if one else 'inches'}"


def _feet(match: re.Match[str], style: Style) -> str | None:
    if bisect_left(_single_marks(match.string), match.start()) % 2:
        return None
    return f"{cardinal(match[1])} {'foot' if match[1] == '1' or before_noun(match) else 'feet'}"


def _height(match: re.Match[str], style: Style) -> str:
    return f"{cardinal(match[1])} feet {_count(match[2])}"


# ---------------------------------------------------------------------------------------------------------------------
# Temperatures and ages

_HEAT = re.compile(
    r"\b(?:oven|preheat\w*|bak(?:e|ing)|roast\w*|grill\w*|temp(?:erature)?s?|degrees?|hot|cold|weather|highs?|lows?|outside"
    r"|heat\w*|freez\w*|boil\w*|warm\w*|cool\w*|chill\w*|fever\w*|forecast|tonight|internal|simmer|sunny|thermostat|melts?"
    r"|sous|fridge|freezer|wash|degrees|summer|winter|windchill|water|reached|hits?|cook(?:ed|ing)?)\b",
    re.IGNORECASE,
)
_SCALES = {"F": "fahrenheit", "C": "celsius"}


def _temperature(match: re.Match[str], style: Style) -> str | None:
    """Bake at 375F; but seat 20C, flat 3F."""
    number, scale = match[1], match[2]
    is_hot = scale == "F" and re.fullmatch(r"[1-5]\d\d", number)
    is_negative = match.string[match.start() - 1 : match.start()] == "-"
    is_place = before(match, PLACE_AHEAD)
    if is_place or not (is_hot or is_negative or "." in number or anywhere(match.string, _HEAT)):
        return None
    return f"{cardinal(number)} {'degree' if number == '1' else 'degrees'} {_SCALES[scale]}"


def _age(match: re.Match[str], style: Style) -> str:
    """a 2yo boy → a two year old boy; she is 5 y/o → five years old"""
    one = (
        match[1] == "1"
        or before_noun(match)
        or bool(re.match(r"s\b|\s(?:boy|girl|man|woman|male|female|son|daughter|kid)s?\b", match.string[match.end() :]))
    )
    return f"{cardinal(match[1])} {'year' if one else 'years'} old"


def _of_a_second(match: re.Match[str], style: Style) -> str:
    return f"{fraction('1', '2') if match[1] == '2' else 'one ' + ordinal(match[1]).removeprefix('one ')} of a second"


def _cups(match: re.Match[str], style: Style) -> str:
    return f"{_count(match[1])} {'cup' if match[1] == '1' or '/' in match[1][:2] else 'cups'}"


_BASIS = re.compile(r"\d{4,}")


def _basis_points(match: re.Match[str], style: Style) -> str | None:
    """25 bps of interest; but 9600 bps are bits per second."""
    unit = "bits per second" if _BASIS.fullmatch(match[1]) else "basis points"
    return f"{cardinal(match[1])} {unit}"


RULES: tuple[Rule, ...] = (
    rule("measure", rf"({MIXED}|\d+/\d+|{NUMBER})\s?[cC]\.(?=\s[a-z])", _cups),  # of recipes
    rule(
        "measure",
        rf"({NUMBER})'(?!\w|'|\s?\d)(?=\s?(?:[x×]\s?\d|by\b|long\b|wide\b|tall\b|high\b|deep\b|thick\b)|(?<=[x×]\s\d\d')|(?<=[x×]\s\d'))",
        _feet,
    ),
    rule("measure", rf"({NUMBER})\s?([FC])(?![\w'+#/-]|\.\w)", _temperature),
    rule("height", r"(\d{1,2})'\s?(\d{1,2}(?:\s\d/\d)?)(?:\"|''|”)", _height),
    rule("age", r"(\d+)[\s-]?(?:yo|y/o|y\.o)\b\.?", _age),
    rule("measure", r"1/(\d{1,4})\s?s(?:ec)?\b", _of_a_second),
    rule("measure", r"(\d+)\s?bps\b", _basis_points),
)

UNIT_RULES: tuple[Rule, ...] = (
    rule(
        "measure",
        rf"({MIXED}|\d+/\d+|{NUMBER})(?:\s({LARGE}))?(\s|-)?({_UNIT}){_POWER}({_PER}*)(?![\w²³])(?:\.(?=\s+[a-z\d]))?",
        _measure,
    ),
    rule("measure", rf"({NUMBER}(?:\s?[A-Za-z]+)?)(/[A-Za-z]+)\b(?!/)", _per_unit),
    rule(
        "measure",
        rf"({MIXED}|\d+/\d+|{NUMBER})(?:\"|″|[\s-]?in\.(?=\s[a-z(]|\s*\Z|\s?[x×])|\s?in(?=\s(?:tall|long|wide|high|deep|thick)\b)|\s?in(?=\s?[x×]\s?\d))(?!\w)",
        _inches,
    ),
)

WORD_RULES: tuple[Rule, ...] = (rule("measure", rf"([A-Za-zµμ]+){_POWER}({_PER}+)(?![\w²³/])", _bare),)

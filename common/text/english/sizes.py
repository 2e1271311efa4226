"""Sizes, temperatures and ages: feet and inches, spoons and cups, carats, areas without a number."""

import functools
import re
from bisect import bisect_left

from common.text.english.measures import MIXED, count
from common.text.english.tables import DIRECTIONS
from common.text.english.tokens import (
    ARTICLE,
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
from common.text.english.units import MAGNITUDES, MANY
from common.text.numbers import cardinal, fraction, ordinal, plural


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
    is_marked = '"' in match[0] and (of_a_thing(match) or re.match(r"\s[A-Z][a-z]", match.string[match.end() :][:3]))
    one = match[1] == "1" or "-in" in match[0] or before_noun(match) or is_marked or _is_a_side(match)
    if "/" in match[1] and not re.search(r"\d[\s-]\d", match[1]):
        return f"{count(match[1])} {'inch' if one else 'of an inch'}"
    return f"{count(match[1])} {'inch' if one else 'inches'}"


_OTHER_SIDES = re.compile(
    r"(?:\s?[x×]\s?[\d./]{1,6}(?:\"|″|[\s-]?in\.?)){1,2}\s(?!of|to|and|or|in|for|at|is|was|x\b)[a-z]{3,}"
)


def _is_a_side(match: re.Match[str]) -> bool:
    """a 9"x13" pan: nine inch by thirteen inch"""
    return bool(_OTHER_SIDES.match(match.string, match.end()))


def _feet(match: re.Match[str], style: Style) -> str | None:
    if bisect_left(_single_marks(match.string), match.start()) % 2:
        return None
    return f"{cardinal(match[1])} {'foot' if match[1] == '1' or before_noun(match) else 'feet'}"


_ELEVATED = re.compile(
    r"\b(?:elev(?:\.|ation)?|altitude|depth|height|length|width|max|min)(?:\s(?:of|is|was))?:?\s\Z", re.I
)


def _height(match: re.Match[str], style: Style) -> str:
    """5'10", a height; 5'30" is a time."""
    if match[2].isdigit() and int(match[2]) > 12:
        return f"{cardinal(match[1])} minute{'' if match[1] == '1' else 's'} {cardinal(match[2])} seconds"
    return f"{cardinal(match[1])} feet {count(match[2])}"


_IN_ALL = {"sq": "square", "cu": "cubic", "lin": "linear"}
_LENGTHS = {"ft": "foot", "yd": "yard", "in": "inch", "mi": "mile"}


def _area(match: re.Match[str], style: Style) -> str:
    """price per sq. ft., the area in sq. yd."""
    length = _LENGTHS[match[2]]
    return f"{_IN_ALL[match[1].lower()]} {length if before(match, _ONE_OF) else MANY.get(length) or plural(length)}"


_ONE_OF = re.compile(r"(?:\b(?:a|an|one|each|every|per)\s|/\s?)\Z", re.IGNORECASE)


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
        or before(match, ARTICLE)
        or bool(
            re.match(
                r"s\b|\s(?:boy|girl|man|woman|male|female|son|daughter|kid)s?\b|\s[FM]\b", match.string[match.end() :]
            )
        )
    )
    return f"{cardinal(match[1])} {'year' if one else 'years'} old"


_LASTING_DAYS = re.compile(r"(?:\b\d{1,3}\s?-\s?|\b(?:for|in|after|within|every|x|of|lasts|takes|took)\s)\Z")
_CUT_AHEAD = re.compile(r"\b(?:into|in|to|by|of)\s\Z")


def _in_parts(match: re.Match[str], style: Style) -> str | None:
    """Cut it into 1/8s, which are no parts of a second."""
    if not before(match, _CUT_AHEAD) or match[1] in ("1", "0"):
        return None
    return _several_parts(match[1])


def _several_parts(bottom: str) -> str:
    return fraction("2", bottom, improper=True).partition(" ")[2]


def _of_a_second(match: re.Match[str], style: Style) -> str:
    return f"{fraction('1', '2') if match[1] == '2' else 'one ' + ordinal(match[1]).removeprefix('one ')} of a second"


_SPOONS = {"c": "cup", "t": "teaspoon", "T": "tablespoon"}
_KITCHEN = re.compile(
    r"\s(?:[a-z]+\s){0,2}(?:flour|sugar|salt|butter|oil|vanilla|cinnamon|milk|water|cream|honey|vinegar|yeast|garlic|pepper"
    r"|soy|sauce|juice|powder|soda|cornstarch|rice|stock|broth|mayo|mustard|lemon)\b"
)


def _cups(match: re.Match[str], style: Style) -> str | None:
    """1 c. flour, 2 T. oil, ½ t vanilla"""
    number, letter, dot = match.groups()
    if not dot and (re.match(r"[\d,]{3}|[3-9]\d", number) or not _KITCHEN.match(match.string, match.end())):
        return None  # 200 t rice are tons
    ends = not match.string[match.end() :].strip()
    if ends and "/" not in number and not anywhere(match.string, _KITCHEN):  # it costs 16c.
        return None
    name = _SPOONS["c" if letter == "C" else letter]
    return f"{count(number)} {name if number == '1' or '/' in number[:2] else plural(name)}"


_JEWEL = re.compile(
    r"\s(?:\w+\s)?(?:diamonds?|gold|ring|studs|tw\b|t\.w\.|stones?|gems?|sapphires?|rub(?:y|ies)|emeralds?)"
)


def _carats(match: re.Match[str], style: Style) -> str:
    """a 2-ct. diamond, 100 ct. of a box"""
    return f"{count(match[1])} {'carat' if _JEWEL.match(match.string, match.end()) else 'count'}"


_SIDES = {"w": "wide", "l": "long", "h": "high", "d": "deep"}


def _side(match: re.Match[str], style: Style) -> str:
    """24"W x 36"L"""
    return f"{cardinal(match[1])} {'inch' if match[1] == '1' else 'inches'} {_SIDES[match[2].lower()]}"


_BASIS = re.compile(r"\d{4,}")


def _basis_points(match: re.Match[str], style: Style) -> str | None:
    """25 bps of interest; but 9600 bps are bits per second."""
    unit = "bits per second" if _BASIS.fullmatch(match[1]) else f"basis point{'' if match[2] == '-' else 's'}"
    return f"{cardinal(match[1])} {unit}"


_DEGREES = (("degree", 1), ("minute", 2), ("second", 3))


def coordinate(match: re.Match[str], style: Style) -> str:
    """40°26′46″N → forty degrees twenty six minutes forty six seconds north"""
    said = [f"{cardinal(n)} {name if n == '1' else name + 's'}" for name, i in _DEGREES if (n := match[i])]
    return " ".join([*said, DIRECTIONS[match[4]]])


_SIZE_AHEAD = re.compile(r"\b(?:sizes?|jeans|waist(?:/inseam)?)\s\Z", re.IGNORECASE)


def _gauges(match: re.Match[str], style: Style) -> str | None:
    """a 1/4-20 bolt, a 10-32 screw, 14/2 wire"""
    first, sign, last = match.groups()
    is_thread = sign == "-" and last in ("13", "16", "18", "20", "24", "28", "32", "36", "40")
    is_cable = sign == "/" and first in ("10", "12", "14", "16", "18") and last in ("2", "3", "4")
    said = f"{count(first)} {cardinal(last)}"
    said = said.removeprefix("one ") if "/" in first and before(match, ARTICLE) else said
    return said if is_thread or is_cable else None


RULES: tuple[Rule, ...] = (
    rule(
        "measure",
        rf"({MIXED}|\d+/\d+|{NUMBER})\s?([cCtT])(?:(\.)(?=\s[a-z]|[),;]|(?<=c\.)\s*\Z)|(?<=/\d\sc)(?=\s*(?:[,;)]|\Z))|(?<=\s[ctT])(?=\s(?!of\b|shirts?\b|rex|cells?\b|bones?\b|then\b|stop\b|scanner|batter|lorr|truck|train)[a-z]{{3}}))",
        _cups,
    ),
    rule(
        "measure",
        rf"({NUMBER})'(?!(?![x×]\s?\d)\w|'|\s?\d)(?=\s?(?:[x×]\s?\d|by\b|long\b|wide\b|tall\b|high\b|deep\b|thick\b|(?:above|below|elev\w*|gain|climb|drop|ladder|boat|yacht|trailer|truck|ceilings?)\b|of\s(?:elev\w*|gain|climb\w*|descent|vert\w*|rope|cable|fenc\w+|wire|hose|pipe|water|snow)\b)|(?<=[x×]\s\d\d')|(?<=[x×]\s\d')|(?<=[x×]\d')|(?<=[x×]\d\d')|(?<=[x×]\d\d\d'))",
        _feet,
    ),
    rule(
        "measure",
        rf"({NUMBER})'(?=\s*(?:[,;)]|\.?\s*\Z))",
        lambda m, s: _feet(m, s) if before(m, _ELEVATED) else None,
    ),
    rule("measure", rf"({NUMBER})\s?([FC])(?![\w'+#-]|/(?!\d|gas)|\.\w)", _temperature),
    rule("measure", rf"({NUMBER})\s?(?:\"|″)\s?([WLHDwlhd])(?![\w'])", _side),
    rule(
        "size",
        r"(\d\d)([RSL])(?=\s(?:jacket|suit|blazer|coat|tux\w*)s?\b)",
        lambda m, s: f"{cardinal(m[1])} {s.letters(m[2])}",
    ),
    rule(
        "size",
        r"(\d{1,2}(?:/\d{1,2})?)([-/])(\d{1,2})(?=\s(?:(?:machine|wood|cap)\s)?(?:screws?|bolts?|threads?|nuts?|taps?|wir(?:e|ing)|Romex|cables?)\b)",
        _gauges,
    ),
    rule(
        "size",
        r"(\d\d)/(\d\d)(?![\w/])",
        lambda m, s: f"{cardinal(m[1])} {cardinal(m[2])}" if before(m, _SIZE_AHEAD) else None,
    ),
    rule("measure", r"(\d{1,4})-pc\b\.?", lambda m, s: f"{cardinal(m[1])} piece"),
    rule("measure", rf"({NUMBER}|\d+/\d+)[\s-]ct\b\.?", _carats),
    rule(
        "measure",
        rf"({NUMBER})°(?=\s(?:angles?|turns?|views?|rotations?|videos?|cameras?|bends?|arcs?|panoramas?)\b)",
        lambda m, s: f"{cardinal(m[1])} degree",
    ),
    rule("height", r"(\d{1,2})'[\s-]?(\d{1,2}(?:\.\d|\s\d/\d)?)(?:\"|″|''|”)", _height),
    rule(
        "height",
        r"(\d{1,2})\s?ft\.?\s?(\d{1,2})(?![\w./'\"-]|\s?(?:x\s?\d|lbs?|kg|by|feet|ft|of|to|people|in|ins|inch|inches|%)\b|\.\d)",
        lambda m, s: f"{cardinal(m[1])} feet {cardinal(m[2])}" if int(m[2]) < 12 else None,
    ),
    rule(
        "measure",
        r"(\d{1,2})\s?st(?=\.?\s?\d{1,2}(?:\.\d)?\s?lbs?\b)",
        lambda m, s: f"{cardinal(m[1])} stone",
    ),
    rule(
        "measure",
        r"(\d{1,3})\s?V(AC|DC)(?!\w)",
        lambda m, s: f"{cardinal(m[1])} {'volt' if before_noun(m) or of_a_thing(m) else 'volts'} {s.letters(m[2])}",
    ),
    rule("measure", r"1/(\d{1,2})s(?!\w)(?!\s(?:shutter|exposure))", _in_parts),
    rule(
        "measure",
        r"(\d{1,3})\s(d)(?!\w|['.]\w)",
        lambda m, s: f"{cardinal(m[1])} days" if before(m, _LASTING_DAYS) else None,
    ),
    rule("measure", r"(\d{1,3})[\s-]min(?=\sread\s*(?:[.,;!?)]|\Z))", lambda m, s: f"{cardinal(m[1])} minute"),
    rule("number", r"(\d{1,2})%er(s?)(?!\w)", lambda m, s: f"{cardinal(m[1])} percenter{m[2]}"),
    rule("age", r"(\d+)[\s-]?(?:yo|y/o|y\.o)\b\.?", _age),
    rule("measure", r"1/(\d{1,4})\s?s(?:ec)?\b", _of_a_second),
    rule(
        "age",
        rf"({NUMBER})\s?([kKmMbB])y(a|r\sago)(?!\w)",
        lambda m, s: f"{cardinal(m[1])} {MAGNITUDES[m[2]]} years ago",
    ),
    rule(
        "measure",
        rf"({NUMBER})\s?ac\b\.?(?=\s(?:lot|of|parcel|farm|ranch|site|property|land)\b|[,;)]|\s*\Z)",
        lambda m, s: f"{cardinal(m[1])} {'acre' if m[1] == '1' or before_noun(m) or of_a_thing(m) else 'acres'}",
    ),
    rule(
        "measure",
        r"(9|10|14|18|22|24)[\s-]?kt\b\.?(?=[\s-](?:(?:white|yellow|rose|solid)\s)?(?:gold|ring|plated|necklace|chain)\b)",
        lambda m, s: f"{cardinal(m[1])} carat",
    ),
    rule("measure", r"(\d+)([\s-])?bps\b", _basis_points),
)
INCH_RULES: tuple[Rule, ...] = (
    rule(
        "measure",
        rf"({MIXED}|\d+/\d+|{NUMBER})(?:\"|″|[\s-]?in\.(?=\s[a-z(]|\s*\Z|\s?[x×])|\s?in(?=\s(?:tall|long|wide|high|deep|thick)\b)|\s?in(?=\s?[x×]\s?\d)|\s?in\.?(?=\s?(?:=|≈|/\s?\d|\(\d))|(?<=\(\d)\sin(?=\))|(?<=\(\d\d)\sin(?=\))|(?<=/\d)\sin(?=\s*[,;)]|\s*\Z))(?!(?!x\s?\d)\w)",
        _inches,
    ),
)
WORD_RULES: tuple[Rule, ...] = (
    rule("measure", r"(?:(?<=[\"″] )|(?<=in\. )|(?<=[mc]m ))dia(?:\.|(?!\w))", lambda match, style: "diameter"),
    rule("measure", r"([Ss]q|cu|lin)\.\s(ft|yd|in|mi)\b\.?", _area),
)

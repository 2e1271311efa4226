"""Measures: a number and its unit, compound units, temperatures, lengths in feet and inches, ages."""

import re

from common.text.english.tables import COUNTED_IN_MILLIONS
from common.text.english.tokens import (
    ARTICLE,
    LARGE,
    NUMBER,
    Rule,
    Style,
    anywhere,
    before,
    before_noun,
    of_a_thing,
    rule,
)
from common.text.english.units import BARE, BARE_PER, IN_THIS_CASE, MANY, ONLY_AFTER_A_SLASH, PERIODS, UNITS
from common.text.numbers import cardinal, fraction, plural

MIXED = r"\d+(?:\s|-)\d+/\d+"
_UNIT = (
    r"(?:°\s?[CF]\b|[%‰°℃℉]|deg(?:s|rees)?\.?\s[CF](?![\w#+])|(?:sq|cu)\.?[\s-](?:ft|in|mi|m|km|yds?)\b\.?|fl\.?\s?oz\b"
    r"|(?:ft|lbs?|kN|N|kW|W|A|Pa|n)[·⋅-](?:lbs?|ft|m|h|s)\b|[A-Za-zµμΩ]+)"
)
_POWER = r"([²³]|\^?[23](?!\d))?"
_OF_TIMES = r"[1-9]\d{0,2}\s?(?=(?:h|hrs?|hours?|d|days?|min|wks?|weeks?|months?|s|sec)\b)"
_PER = rf"(?:\s?/\s?(?:{_OF_TIMES}|10*\s?)?(?:(?:sq|cu)\.?\s)?[A-Za-zµμ]+(?:[²³]|\^?[23](?!\d))?)"
_LINK = re.compile(r"\s?/\s?([1-9]\d*(?:\.\d)?)?\s?((?:(?:sq|cu)\.?\s)?[A-Za-zµμ]+)([²³]|\^?[23])?")
_POWERS = {"²": "square", "2": "square", "³": "cubic", "3": "cubic", "sq": "square", "cu": "cubic"}
_BITS = {"kb": "kilobit", "Kb": "kilobit", "Mb": "megabit", "Gb": "gigabit", "Tb": "terabit"}  # MB/s are megabytes


def _named(unit: str, style: Style) -> str | None:
    """The name of a unit as it is written, in the singular."""
    if unit in style.units:
        return style.units[unit]
    unit = unit.replace(" ", "").replace("⋅", "·").removesuffix(".")
    if unit.startswith("deg") and unit[-1] in "CF":
        return f"degree {'celsius' if unit[-1] == 'C' else 'fahrenheit'}"
    if unit in UNITS or (len(unit) == 1 and unit != "°"):
        return UNITS.get(unit)
    if unit.lower() in IN_THIS_CASE:
        return None
    return UNITS.get(unit.lower()) or UNITS.get(unit.lower().replace(".", ""))


def _several(name: str) -> str:
    """`kilometer per hour` → kilometers per hour; `square foot` → square feet; `kilowatt hour` → kilowatt hours."""
    head, per, rest = name.partition(" per ")
    if " of " in head or head.startswith(("degree ", "part ")):
        first, _, others = head.partition(" ")
        return f"{MANY.get(first) or plural(first)} {others}{per}{rest}"
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
        name = PERIODS.get(unit) or (_with_power(unit, None, style) if len(unit) > 1 or unit in "gmLlVKWJNA" else None)
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


_OF_A_DEVICE = re.compile("hr|yr|wk|V|W|A|kW|GB|TB|MB|Hz|MP|mAh|Ah|cc|hp|HP")  # a 24hr gym, 20V drill


def _measure(match: re.Match[str], style: Style) -> str | None:
    number, large, thousand, hyphen, unit, power, chain = match.groups()
    large = "thousand" if thousand else large
    behind = match.string[match.end() :]
    # 9.58s, but not the 90s; 24h
    is_long = before(match, _LASTING) or _LASTING_BEHIND.match(behind)
    is_time = bool(unit == "s" and ("." in number or hyphen == " " or is_long)) or (
        unit == "h" and number.isdigit() and hyphen != "-"
    )
    is_time = is_time or bool(unit in ("A", "N", "J") and hyphen == " " and _ELECTRIC.match(behind))
    is_alone = hyphen != " " or not of_a_thing(match)  # 5 A students
    is_time = is_time or (unit == "A" and is_alone and anywhere(match.string, _VOLTS))
    is_time = is_time or (unit == "K" and is_alone and _is_kelvin(match))
    if unit == "mo" and not _NO_MONTHS.match(behind):
        is_time = True
    if unit == "inn" and not re.match(r"\.|\)", behind) and match[0][-1] != ".":
        return None
    if unit in ("sh", "eps", "rds", "rnds") and (not hyphen or behind.startswith(" -")):  # sh -c
        return None
    is_time = is_time or (unit == "v" and not hyphen and number.isdigit())
    is_time = is_time or (unit == "sf" and len(number) > 2 and not number.startswith("0"))
    if unit == "pt" and _OF_A_LETTER.match(behind):
        one = number == "1" or hyphen == "-" or _FONT.match(behind) or before_noun(match)
        return f"{count(number)} point{'' if one else 's'}"
    if unit == "l" and not chain and (not hyphen or _POURED.match(behind)):
        return f"{count(number)} {'liter' if number == '1' or '/' in number or before_noun(match) else 'liters'}"
    if (unit in ONLY_AFTER_A_SLASH and not (chain or is_time)) or (
        power and unit not in ("m", "km", "cm", "mm", "ft", "yd", "yds", "mi", "in", "dm", "nm", "µm", "μm")
    ):
        return None
    if unit in ("HP", "MP") and anywhere(match.string, _GAMES) and not anywhere(match.string, _MACHINES):
        return None
    if unit == "L" and _LOW_BEHIND.match(behind) and before(match, _HIGH_AHEAD):  # H 75 L 58
        return None
    if unit == "GA":  # tickets, a state
        return None
    if unit in ("W", "A", "N") and hyphen != "-" and before(match, _ROAD):
        return None
    is_apart, is_quality = match.string[match.start("unit") - 1].isspace(), before_noun(match)
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
    name = _BITS.get(unit) if per_second or _LINKED.match(behind) else "percentage point" if unit == "pp" else None
    name = "point" if unit == "pt" and hyphen == "-" else name or _with_power(unit, power, style)
    if name is None or (unit == "pp" and is_apart and "." not in number):
        return None
    if unit == "m" and not chain and re.match(rf"\s(?:{COUNTED_IN_MILLIONS})\b", behind):
        return f"{count(number)} million"
    below = _below(chain, style)
    if below is None:
        return None
    adjective = not hyphen and not chain and _OF_A_DEVICE.fullmatch(unit) and of_a_thing(match)
    if not ((number == "1" and not large) or hyphen == "-" or is_quality or adjective):
        name = _several(name)
    if "/" in number and not re.search(r"\d[\s-]\d", number):
        if number[0] == "1" and before(match, ARTICLE):  # a 1/2 mile
            return f"{count(number).removeprefix('one ')} {_with_power(unit, power, style)}{below}"
        part_of = "" if hyphen == "-" else "of a " if number[0] != "1" else ""
        return f"{count(number)} {part_of}{_with_power(unit, power, style)}{below}"
    return " ".join(filter(None, (count(number), large, name))) + below


_LOW_BEHIND = re.compile(r":?\s?\d")
_HIGH_AHEAD = re.compile(r"\bH:?\s?\Z")
_SEVERAL_CAPITALS = re.compile("HRs|PTs|MIs|PCs|MPs|MBs?As")  # 28 HRs are no hours
_GAMES = re.compile(
    r"\b(?:[Ll]evel \d+|boss(?:es)?|damage|heals?|healed|mana|spells?|monsters?|enem(?:y|ies)|potions?|XP"
    r"|(?:its|his|her|your|my|the) (?:HP|MP))\b|\d HP(?:,| and|/)\s?\d+ MP\b"
)
_MACHINES = re.compile(
    r"\b(?:engines?|motors?|outboards?|boats?|trucks?|cars?|tractors?|mowers?|pumps?|turbo\w*|torque|rpm|mph|cameras?|photos?"
    r"|sensors?|lens(?:es)?|pictures?|horsepower)\b"
)
_VOLTS = re.compile(r"\d\s?(?:VAC|VDC|V|Hz|kW)(?![A-Za-z])")
_SCALE_BESIDE = re.compile(
    r"\d\s?°\s?[CF]\b|\b(?:kelvin|heated|cooled|warmed|temperatures?|melting|boiling|superconduct\w*|cryogenic|anneal\w*|sinter\w*)",
    re.IGNORECASE,
)


def _is_kelvin(match: re.Match[str]) -> bool:
    return match["gap"] == " " and anywhere(match.string, _SCALE_BESIDE)


_LINKED = re.compile(
    r"\s(?:[Ee]thernet|internet|fib(?:er|re)|networks?|LAN|links?|ports?|uplink|connections?|NIC|switch(?:es)?|broadband)\b"
)
_POURED = re.compile(r"\sof\s(?!the\b)[a-z]|\s?[,;)]|\s?\Z|\s(?:bottle|jug|tank|pot|pan|engine)")  # 2 l of water
_NO_MONTHS = re.compile(r"\s(?:money|problems?|time|better|like)\b")
_FONT = re.compile(r"\.?\s(?:font|type|text|serif|headings?|letters)\b")
_OF_A_LETTER = re.compile(
    r"\.?\s(?:font|type|text|serif|headings?|letters|Times|Arial|Helvetica|Calibri|lead|margin|bold|scale|increase|drop|rise|gain)\b"
)
_ELECTRIC = re.compile(r"\s?(?:[,;)]|\.?\Z)|\s(?:at\s\d|of\s(?:current|force)|fuse|current|breaker)")
_SOMETHING = re.compile(r"\s(?:the|an?|this|that|these|those|my|your|his|her|its|our|their)\b")
_FEET_AHEAD = re.compile(r"\d\s?(?:ft|feet|foot)\.?\s\Z")
_ROAD = re.compile(r"\b(?:[Ss]izes?|Route|Rte\.?|Rt\.?|Highway|Hwy\.?|US|I|Exit|Apt\.?|Unit|Flat|Room|Seat)[\s-]\Z")
_LASTING = re.compile(
    r"\b(?:in|for|after|every|only|just|under|took|takes?|wait|lasts?|lasted|by|than|about|within|timeout|ran"
    r"|(?:delay|pause|timeout|interval|gap|lag|lead|limit|penalty)\sof)\s\Z|~\s?\Z"
)
_LASTING_BEHIND = re.compile(r"\s(?:delay|pause|timeout|interval|gap|lag|lead|limit|penalty|window|sprint|rule)\b")


def count(number: str) -> str:
    """A number or a fraction in words."""
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
    if unit not in BARE or links[0][1] not in BARE_PER or unit == links[0][1]:  # m/m is month over month
        return None
    name = _with_power(unit, power, style) if unit in UNITS else unit
    below = _below(chain, style)
    if name is None or below is None:
        return None
    return f"{_several(name) if unit in UNITS else name}{below}"


def _dose(match: re.Match[str], style: Style) -> str | None:
    """500 mg/5 mL, 52 kcal/100 g; but 150kg/330lb are the same"""
    number, unit, count_of, below = match.groups()
    name, name_below = _named(unit, style), _named(below, style)
    if name is None or name_below is None:
        return None
    of = name_below if count_of == "1" else f"{cardinal(count_of)} {_several(name_below)}"
    return f"{cardinal(number)} {name if number == '1' else _several(name)} per {of}"


RULES: tuple[Rule, ...] = (
    rule(
        "measure",
        rf"({NUMBER})\s?(mg|mcg|µg|μg|g|IU|mEq|mmol|cal|kcal|kJ)/(\d{{1,4}}(?:\.\d)?)\s?(m[lL]|L|l|tsp|tbsp|(?<=100\s)g|(?<=100)g|(?<=l/\d)oz|(?<=l/\d\s)oz)(?!\w)",
        _dose,
    ),
    rule(
        "measure",
        rf"({MIXED}|\d+/\d+|{NUMBER})(?:\s({LARGE})|([kK])(?=\s(?:mi|lbs?|kg|ft|hrs?|rpm)\b))?(?P<gap>\s|-)?(?P<unit>{_UNIT}){_POWER}(?:\.(?=/[a-z]))?({_PER}{{0,6}})(?![\w²³])(?:\.(?=\s+[a-z\d&]|\s\(|[,;:)/]|-\d|\s-\s\d))?",
        _measure,
    ),
    rule("measure", rf"({NUMBER}(?:\s?[A-Za-z]+)?)(/[A-Za-z]+)\b(?!/)", _per_unit),
)

_HIGH_BEFORE = re.compile(r"\bH:?\s?\d{1,3}°?[FC]?[,/]?\s?\Z")
WORD_RULES: tuple[Rule, ...] = (
    rule("measure", r"H(?=:?\s?\d{1,3}°?[FC]?[,/]?\s?L:?\s?\d)", lambda match, style: "high"),
    rule("measure", r"L(?=:?\s?\d)", lambda match, style: "low" if before(match, _HIGH_BEFORE) else None),
    rule("measure", r"(Hi|Lo)(?=:?\s\d{1,3}°)", lambda match, style: "high" if match[1] == "Hi" else "low"),
    rule("measure", rf"([A-Za-zµμ]+){_POWER}({_PER}{{1,6}})(?![\w²³/])", _bare),
)

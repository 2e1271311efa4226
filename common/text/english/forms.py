"""What stands in forms, lists and messages: labelled codes, units alone, short words, an answer."""

import re

from common.text.english import roman
from common.text.english.tables import ELEMENTS
from common.text.english.tokens import (
    BEGINNING,
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
from common.text.english.units import MANY, PERIODS, UNITS
from common.text.numbers import cardinal, digits, ordinal, pair, plural

# ---------------------------------------------------------------------------------------------------------------------
# Codes behind their label

_LABEL = (
    r"\b(?:(?:acct|account|invoice|inv|order|serial|part|model|item|ref|reference|case|policy|permit|licen[cs]e|patent"
    r"|docket|claim|ticket|tracking|confirmation|booking|batch|lot|catalog|catalogue|product|member|membership|customer"
    r"|client|asset|file|job|contract|certificate|passport|registration|art|article|sku|upc|ean|vin|imei|s/n"
    r"|p/n|m/n)\.?(?:\s(?:no\.?|nos\.?|number|num\.|nr\.?|id|code))?(?:\sis)?\s?[#:]{0,2}|\b(?:no\.|number|code|pin):?)"
    r"\s?#?\Z"
)
_LABEL_AHEAD = re.compile(_LABEL, re.IGNORECASE)
_MODEL = re.compile(r"[A-Z]{1,4}-\d{1,4}")  # XJ-900 is read as other names are
_YEARS = re.compile(r"(?:1[89]|20)\d\d-(?:1[89]|20)?\d\d")
_WITH_LETTER = re.compile(r"\d{1,4}-[A-Z]")  # Exhibit No. 133-A
_RUNS = re.compile(r"\d+|[A-Za-z]+")


def _code(match: re.Match[str], style: Style) -> str | None:
    """S/N: 8F3-22K-901, acct. no. 5532-8841, order #48213-A: no range, no year, no large number."""
    code = match[0]
    has_letter = any(map(str.isalpha, code))
    is_short = (len(code) < 7 and not has_letter) or _MODEL.fullmatch(code) or _WITH_LETTER.fullmatch(code)
    if is_short or _YEARS.fullmatch(code) or not any(map(str.isdigit, code)) or not before(match, _LABEL_AHEAD):
        return None
    return " ".join(_run(run, style) for run in _RUNS.findall(code))


def _run(run: str, style: Style) -> str:
    if run.isalpha():
        return style.letters(run)
    return cardinal(run) if len(run) < 3 and run[0] != "0" else digits(run)


_WINDOW = r"(?=[A-Z\d-]{0,24}\d)"
_CODE = rf"{_WINDOW}(?:\d{{5,}}|[A-Z\d]{{2,12}})(?:-[A-Z\d]{{1,12}}){{1,6}}(?![\w-])"


# ---------------------------------------------------------------------------------------------------------------------
# Versions side by side, minutes

_IN_VERSIONS = re.compile(
    r"\b(?:Windows|iOS|iPadOS|Android|macOS|Python|Java|Angular|Xbox|iPhone|PHP|Ubuntu|Fedora|Debian|Kotlin|Chrome|Firefox|Safari"
    r"|Node(?:\.js)?|PostgreSQL|Postgres|MySQL|Redis|Django|Rails|React|Angular|Swift|Ruby|Rust|CUDA|PyTorch|Blender|Unity"
    r"|Kubernetes|[Kk]ernel|(?<!\bfirst )(?<!\bsecond )[Vv]ersion|(?P<word>Go))"
    r"\s(?:v|[\d.]+\s?[/-]\s?)?\Z|(?<![\w-])[vV]\.?\s?\Z"
)


_OF_SOFTWARE = re.compile(
    r"\b(?:versions?|releases?|released|compilers?|toolchain|golang|generics|Rust|Java|Python|Docker)\b"
)


def _is_version(match: re.Match[str]) -> bool:
    """Behind a name of software; Go is a verb, too: Go 1/2 mile."""
    start, stop = match.span()
    name = _IN_VERSIONS.search(match.string[max(0, start - 40) : start])
    near = match.string[max(0, start - 60) : start] + match.string[stop : stop + 60]
    return bool(name and not (name["word"] and not _OF_SOFTWARE.search(near)))


def _side_by_side(match: re.Match[str], style: Style) -> str | None:
    """Windows 10/11; but 1/2 cup"""
    is_part = _OF_SOMETHING.match(match.string, match.end())
    return f"{cardinal(match[1])} {cardinal(match[2])}" if _is_version(match) and not is_part else None


_OF_SOMETHING = re.compile(
    r"\s(?:of|cups?|miles?|inch\w*|hours?|pounds?|ounces?|tea\w+|table\w+|tsp|tbsp|lbs?|oz|price)\b"
)


def _release(match: re.Match[str], style: Style) -> str | None:
    """Python 3.12, Ubuntu 22.04: the second number is one, and no decimals."""
    return f"{cardinal(match[1])} point {pair(match[2])}" if _is_version(match) else None


_ABOUT = r"(?:\s(?:is|was|of|for|about|by|another|in))?:?\s(?:about\s|approx\.\s|~)?\Z"
_TIMED = re.compile(r"\b(?:time|times|prep|cook|bake|chill|duration|runtime|timeout|eta|timer)" + _ABOUT, re.IGNORECASE)
_SOON = re.compile(
    r"\b(?:active|wait|waiting|waited|delay|delayed|late|(?:back|ready|left|ends|starts|leaving|there) in)" + _ABOUT,
    re.IGNORECASE,
)
_LATE = re.compile(r"\s(?:ago|late|early|remaining)\b")
_IN_SPACE = re.compile(
    r"\s(?:wide|long|deep|tall|high|thick|away|apart|behind|above|below|from|of|up|down|ahead|in\sfront|sprint|race|mark)\b"
)


def _minutes(match: re.Match[str], style: Style) -> str | None:
    """Prep time: 15m; but a length of 25 m."""
    number, apart = match.groups()
    text, behind = match.string, match.end()
    if int(number) > 90 and not before(match, _TIMED):
        return None
    is_late = _LATE.match(text, behind)
    is_time = before(match, _TIMED) or (not apart and (before(match, _SOON) or is_late))
    if not is_time or _IN_SPACE.match(text, behind):
        return None
    return f"{cardinal(number)} minute{'' if number == '1' else 's'}"


_NO_HOURS = re.compile(
    r"(?:\b(?:grades?|sections?|appendices|suites|units|apts?\.?|costs?|costing|priced?|paid|pay|articles?|steps|tickets?)\s"
    r"|[£$€#§]\s?)\Z",
    re.IGNORECASE,
)


def _hours(match: re.Match[str], style: Style) -> str | None:
    """6-9a, 4:30-7p"""
    first, minute, last, last_minute, half = match.groups()
    if int(first) > 12 or int(last) > 12 or before(match, PLACE_AHEAD) or before(match, _NO_HOURS):
        return None
    return f"{_at(first, minute)} to {_at(last, last_minute)} {style.half(half)}"


def _hour(match: re.Match[str], style: Style) -> str | None:
    """6:42a"""
    return f"{_at(match[1], match[2])} {style.half(match[3])}" if int(match[1]) <= 12 else None


def _at(hour: str, minute: str | None) -> str:
    return f"{cardinal(hour)} {pair(minute)}" if minute and minute != "00" else cardinal(hour)


def _either(match: re.Match[str], style: Style) -> str | None:
    """50/60Hz, 128/256 GB: no fraction of anything."""
    first, last = int(match[1]), int(match[2])
    if match[3] in ("GB", "TB", "MB"):
        is_either = first > 1 and ({first, last} <= _OF_MEMORY or first >= 100)
    else:
        is_either = first >= 10 and 10 <= last < 1000 and last not in (32, 64, 100)
    name = UNITS.get(match[3]) or UNITS.get(match[3].lower())
    if not is_either or name is None:
        return None
    return f"{cardinal(match[1])} {cardinal(match[2])} {_named(name, one=before_noun(match))}"


_OF_MEMORY = frozenset(2**power for power in range(13))
_OF_AN_OFFER = re.compile(r"\b(?:an?|the|this|my|his|her|our|their)\s\Z", re.IGNORECASE)


def _pieces(match: re.Match[str], style: Style) -> str:
    """2x HDMI → two; a 4x Olympic champion → four time"""
    return f"{cardinal(match[1])}{' time' if before(match, _OF_AN_OFFER) else ''}"


# ---------------------------------------------------------------------------------------------------------------------
# Units without a number, isotopes

_ALONE = (
    "kWh|MWh|GWh|TWh|mAh|GHz|MHz|kHz|Hz|dB|Mbps|Gbps|kbps|mmHg|hPa|kPa|kcal|kJ|kW|MW|GW|km|kg|cm|mm|mg|mcg|ml|mL|mph"
    "|lbs?|oz|tbsp|tsp|sqft|ms|ns|MB|GB|TB|KB|kB"
)
_ONE = re.compile(r"(?:\b(?:a|an|one|each|every|per|the|first|last)\s|/\s?)\Z", re.IGNORECASE)


_COUNTED_IN = re.compile(r"(?:\b(?:in|per|how\smany)|\d)\s\Z", re.IGNORECASE)
_MEASURED_IN = re.compile(r"\b(?:in|of|per|the|a|each|every|few|many|several|some|half)\s\Z", re.IGNORECASE)


_BYTES = frozenset(["MB", "GB", "TB", "KB", "kB"])
_SIZE_AHEAD = re.compile(
    r"\b(?:(?:sizes?|memory|storage|capacity|RAM|disk|space|data|usage|traffic|limit|quota)(?:\s\w+)?\s(?:in\s|\()"
    r"|how\smany\s|per\s)\Z",
    re.IGNORECASE,
)
_IN_BRACKETS = re.compile(r"(?<=[A-Za-z]\s)\(\w+\)")


def _unit(match: re.Match[str], style: Style) -> str | None:
    """How many kWh? The price per kg."""
    name = UNITS.get(match[1]) or UNITS.get(match[1].lower())
    if match[1] in _BYTES and not before(match, _SIZE_AHEAD):  # in GB, that is Great Britain
        return None
    if name and match[1] not in ("MW", "GW") and _IN_BRACKETS.match(match.string, match.start() - 1):  # Length (mm)
        return _named(name, one=False)
    if name is None or (match[1] == "mm" and not before(match, _MEASURED_IN)):  # mm, tasty
        return None
    if match[1] in ("MW", "GW", "ms", "ns") and not before(match, _COUNTED_IN):  # GW University
        return None
    return _named(name, one=match[1] != "lbs" and before(match, _ONE))


def _named(name: str, *, one: bool) -> str:
    head, per, rest = name.partition(" per ")
    if not one:
        words = head.split()
        words[-1] = words[-1] if words[-1].endswith("hertz") else MANY.get(words[-1]) or plural(words[-1])
        head = " ".join(words)
    return head + per + rest


_NUCLIDES = {
    "H": "hydrogen", "He": "helium", "C": "carbon", "N": "nitrogen", "O": "oxygen", "K": "potassium", "Co": "cobalt",
    "Sr": "strontium", "I": "iodine", "Cs": "cesium", "Pb": "lead", "Ra": "radium", "Th": "thorium", "U": "uranium",
    "Pu": "plutonium", "P": "phosphorus", "S": "sulfur", "Fe": "iron", "Ca": "calcium",
}  # fmt: skip
_SMALL = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def _isotope(match: re.Match[str], style: Style) -> str | None:
    """¹⁴C → carbon fourteen"""
    if match[2] not in ELEMENTS:
        return None
    number = match[1].translate(_SMALL)
    said = cardinal(number) if len(number) < 3 else f"{cardinal(number[0])} {cardinal(number[1:])}"
    return f"{_NUCLIDES.get(match[2]) or style.letters(match[2])} {said}"


# ---------------------------------------------------------------------------------------------------------------------
# Words


_OF_LETTERS = re.compile(
    r"\b(?:vitamin|hepatitis|plan|grade|option|group|type|class|letter|part|and|or|figure|fig\.|table|section|item"
    r"|appendix|exhibit|panel|column|row|question|answer|point|key)\s\Z",
    re.I,
)
_STATUTE_AHEAD = re.compile(r"\b[IVX]+[.,]?,?\s\Z")


def _circa(match: re.Match[str], style: Style) -> str | None:
    """c. 68 million years ago; but vitamin C, and 31 George III. c. 46"""
    if before(match, _STATUTE_AHEAD) and not re.match(r"\d{4}", match.string[match.end() :][:4]):
        return "chapter"
    return None if before(match, _OF_LETTERS) else "circa"


def _ranked(match: re.Match[str], style: Style) -> str | None:
    """XXII Winter Games"""
    return ordinal(roman.roman(match[1])) if roman.is_roman(match[1]) else None


_MADE = {
    "dir": "directed", "prod": "produced", "writ": "written", "ed": "edited", "trans": "translated", "arr": "arranged",
    "illus": "illustrated", "comp": "composed", "perf": "performed", "pub": "published", "rev": "revised",
}  # fmt: skip

# "no." that answers, and ends a sentence: She said no. 5 people left.
_ANSWERED = re.compile(
    r"(?:\b(?:sa(?:id|ys?|ying)|answer(?:s|ed)?|repl(?:y|ies|ied)|told\s\w+|mean[st]?|vote[sd]?)|,)"
    r"\s[\"']?\Z",
    re.IGNORECASE,
)
_PEOPLE = r"(?:people|persons|men|women|kids|children|guys|folks|players|members|students|passengers)"
_COUNTS = re.compile(
    rf"\d[\d,.]*\s(?:more\s|other\s|of\s|{_PEOPLE}\b"
    r"|(?:minutes|hours|days|weeks|months|years|times|percent|dollars|euros|pounds|miles)\b)"
)
_PLURAL = re.compile(r"\d[\d,.]*\s(?:[a-z]+\s)?[a-z]{2,}s\b")


def answers_no(ahead: str, behind: str) -> bool:
    """Whether "no." behind `ahead` is an answer, and does not say which number `behind` it is."""
    if not behind[:1].isdigit():
        return False
    if _ANSWERED.search(ahead[-40:]):
        return bool(_PLURAL.match(behind) or _COUNTS.match(behind))
    return bool(BEGINNING.search(ahead[-40:]) and _COUNTS.match(behind))


def number_or_no(match: re.Match[str], style: Style) -> str | None:
    """No. 5 → number 5; She said no. 5 people left. → no."""
    text = match.string
    return None if answers_no(text[max(0, match.start() - 40) : match.start()], text[match.end() :][:80]) else "number"


def _codes(match: re.Match[str], style: Style) -> str:
    """Q1-Q3 → q one to q three"""
    letter = style.letters(match[1])
    return f"{letter} {cardinal(match[2])} to {letter} {cardinal(match[3])}"


def _how_often(match: re.Match[str], style: Style) -> str:
    """once/wk"""
    return f"{match[1]} per {PERIODS.get(match[2].lower(), match[2])}"


def _stars(match: re.Match[str], style: Style) -> str:
    """Rated 4.7★, a 5★ hotel"""
    return f"{cardinal(match[1])} {'star' if match[1] == '1' or of_a_thing(match) else 'stars'}"


RULES: tuple[Rule, ...] = (
    rule("serial", rf"{_CODE}|\d{{5,}}(?![\w,.:/-])", _code),
    rule("measure", rf"({NUMBER})\s?[★⭐]", _stars),
    rule("time", r"(\d{1,2})(?::(\d\d))?\s?-\s?(\d{1,2})(?::(\d\d))?([ap])(?!\w)(?!\.\s?m)", _hours),
    rule("time", r"(\d{1,2}):([0-5]\d)([ap])(?!\w)(?!\.\s?m)", _hour),
    rule("measure", r"(\d{1,4})/(\d{1,4})\s?(Hz|V|W|GB|TB|MB|mm|cm|kg)(?![\w²³/^])", _either),
    rule("version", r"(\d+)/(\d+)(?![\w/])", _side_by_side),
    rule("version", r"(\d{1,2})\.(\d\d)(?!\w|[.,]\d)", _release),
    rule("time", r"(\d{1,3})(\s)?m(?![\w²³/])", _minutes),
    rule(
        "rooms",
        r"(\d)[\s-]?(?:BR|BD|bd|br|bed)s?[\s,/]+(\d(?:\.5)?)[\s-]?(?:BA|ba|bth|bath)s?(?!\w|\s(?:towels?|mats?|sheets?|robes?|rugs?|bombs?|salts?)\b)",
        lambda m, s: f"{cardinal(m[1])} bedroom {cardinal(m[2])} bath",
    ),
    rule(
        "rooms",
        r"(\d(?:\.5)?)\s?(BR|BA(?!\s(?!house|home|condo|ap(?:t|artment)|unit|flat|and|with?|for|in|on)[a-z])|bd|bdr|ba|bth)s?(?!\w|\s?[\d(])",
        lambda m, s: f"{cardinal(m[1])} {'bath' if m[2][1] in 'Aat' else 'bedroom'}",
    ),
    rule(
        "time",
        r"(\d{1,3})'(?=\s(?:before|after|later|into|walk|drive|ago|break)\b)",
        lambda m, s: f"{cardinal(m[1])} minutes",
    ),
    rule("number", r"(\d{1,2})\s?x(?=\s[A-Z])(?!\s[A-Z](?!\w))", _pieces),
    rule("number", r"(\d{1,3})ish\b", lambda m, s: f"{cardinal(m[1])}ish"),
    rule("fraction", r"(\d+)/([a-z])(?![\w/])(?<!\d/[hsda])", lambda m, s: f"{cardinal(m[1])} over {s.letters(m[2])}"),
)
_LETTERED = re.compile(
    r"\b(?:letters?|rows?|seats?|grades?|sections?|groups?|parts?|aisles?|wards?|gates?|questions?|options?|columns?|blocks?|zones?|items?)\b|\bfrom\s[A-Z]-",
    re.IGNORECASE,
)


def _letters_in_order(match: re.Match[str], style: Style) -> str | None:
    """rows A-F, from A-Z"""
    first, last = match.string[match.start() - 1], match.string[match.end()]
    is_range = first + last == "AZ" or (first < last and anywhere(match.string, _LETTERED))
    return "to" if is_range else None


def _over(match: re.Match[str], style: Style) -> str | None:
    """a/b = c/d; but n/a = not"""
    is_side = before(match, _EQUALS_AHEAD) or _EQUALS_BEHIND.match(match.string, match.end())
    return "over" if is_side else None


_EQUALS_AHEAD = re.compile(r"(?<!\w)[\w)]{1,2}\s?=[^=a-z]{0,9}[a-z\d)]\Z")
_EQUALS_BEHIND = re.compile(r"[^=/]{1,9}=\s?[\w(]{1,2}(?!\w)")


SYMBOL_RULES: tuple[Rule, ...] = (
    rule("range", r"-(?:(?<=[\s(][A-Z]-)|(?<=\A[A-Z]-))(?=[A-Z](?![\w-]))", _letters_in_order),
    rule("math", r"/(?:(?<=[\s(][a-z\d)]/)|(?<=\A[a-z\d)]/))(?=[a-z\d(](?!\w))", _over),
    rule("reference", r"(?<=[a-z]\s)#(?=\s?:|\s*\Z|\s(?:is|of)\b)", lambda match, style: "number"),
    rule("name", r"([⁰¹²³⁴-⁹]{1,3})([A-Z][a-z]?)(?!\w)", _isotope),
    rule("range", r"(?<=[a-z\d]\))\s?-\s?(?=\([a-zA-Z\d]{1,4}\))", lambda match, style: "to"),
)
WORD_RULES: tuple[Rule, ...] = (
    rule("serial", _CODE, _code),
    rule("letters", r"(?<=[\d)]\()a(?=\))", lambda match, style: style.letters("a")),
    rule("abbreviation", rf"({'|'.join(_MADE)})\.(?=\sby\b)", lambda m, s: _MADE[m[1].lower()], any_case=True),
    rule("abbreviation", r"d\.(?=(?:\s[A-Z][\w'-]+){1,2}\s[67]-\d)", lambda match, style: "defeated"),
    rule(
        "abbreviation",
        r"(?:(?<=Q\d\s)|(?<=FY\d\d\s)|(?<=[Nn]et\s)|(?<=[Tt]otal\s)|(?<=[Aa]d\s))[Rr]ev\.",
        lambda match, style: "revenue",
    ),
    rule("reference", r"fwd(?=:)", lambda match, style: "forward", any_case=True),
    rule("abbreviation", r"inv\.(?=\s(?:no|num|#|\d))", lambda match, style: "invoice", any_case=True),
    rule("abbreviation", r"b?cc(?=:\s)", lambda match, style: style.letters(match[0].lower()), any_case=True),
    rule("reference", r"no\.\s*(?=\d)", number_or_no, any_case=True),
    rule("date", r"c\.\s?(?=\d)(?<!\d\sc\.\s)(?<!\d\sc\.)", _circa),
    rule("measure", rf"({_ALONE})(?![\w'/²³.-]|\s?\^)", _unit),
    rule("measure", rf"({_ALONE})(?=\.(?:\s|\Z))", _unit),
    rule("measure", r"(?<=\d\+\s)(mins?|hrs?|yrs?|secs?|mi)(?!\w)\.?", _unit),
    rule("range", r"(?<![\w-])([A-Z])(\d{1,2})\s?-\s?\1(\d{1,2})(?![\w-])", _codes),
    rule(
        "time",
        r"(noon|midnight)\s?-\s?(?=\d)(?!\d+\s(?:of|hours?|hrs?|minutes?|mins?|days?|people|men|more|years?)\b)",
        lambda match, style: f"{match[1]} to",
        any_case=True,
    ),
    rule("measure", r"(once|twice)/(wk|week|mo|month|yr|year|d|day|hr|hour)(?!\w)", _how_often, any_case=True),
    rule("roman", r"([XVI]{2,6})(?=\s(?:Winter|Summer|Olymp|Games|Congress|Corps|Army|Biennale))", _ranked),
    rule("math", r"(?:(?<=\b[A-Z]\s)|(?<=\b[A-Z]))x(?=\s?[A-Z](?:\b|x))", lambda match, style: "by"),
)

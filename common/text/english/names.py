"""Numbers that are names, or two in one: models, roads, forms, screens, blood pressure, odds, shares, chess."""

import re

from common.text.english.abbreviations import BOOKS_IN_PARTS
from common.text.english.tokens import Rule, Style, anywhere, before, rule
from common.text.numbers import cardinal, in_pairs, ordinal, pair, plural

_SCREENS = frozenset(["144", "240", "360", "480", "540", "576", "720", "1080", "1440", "2160", "4320"])

# ---------------------------------------------------------------------------------------------------------------------
# Two numbers with a slash

_BETS = re.compile(
    r"\b(?:odds|bets?|bett(?:or|ing)|favou?rites?|outsiders?|priced|backed|bookies?|bookmakers?|longshots?)\b",
    re.IGNORECASE,
)
_PRESSURE = re.compile(r"\b(?:blood pressure|BP|systolic|diastolic|hypertensi\w+|vitals|pressures?)\b", re.IGNORECASE)
_SIGHT = re.compile(r"\b(?:vision|eyesight|sight|acuity|see)\b", re.IGNORECASE)
_BEHIND = re.compile(
    r"\s(?:of|cups?|inch\w*|miles?|pounds?|teaspoons?|tablespoons?|tsp|tbsp|lbs?|students|people|hours?)\b"
)
_STARS = re.compile(r"\s(?:stars?|rating|times|would|recommend)\b|\s?★")
_NOT_SHARES = re.compile(r"\s(?:of|students|people|questions|marks|points|correct)\b")


_DAY_AHEAD = re.compile(r"\b(?:on|by|until|till|since|from|before|after|through|due|starting)\s\Z", re.IGNORECASE)


def _slashed(match: re.Match[str], style: Style) -> str | None:
    first, second = int(match[1]), int(match[2])
    text, behind = match.string, match.end()
    both = f"{_short(match[1])} {_short(match[2])}"
    if (first, second) in ((24, 7), (9, 11), (50, 50), (20, 20)):
        return both
    if first == 20 and second in (10, 12, 15, 25, 30, 40, 50, 60, 70, 80, 100, 200, 400) and anywhere(text, _SIGHT):
        return both
    if (first, second) == (6, 6) and anywhere(text, _SIGHT):
        return both
    if (80 <= first <= 250 and 40 <= second <= 150 and first > second) and (
        (first >= 100 and second >= 50 and second != 100) or anywhere(text, _PRESSURE)
    ):
        unit = " millimeters of mercury" if match[3] else ""
        return f"{_short(match[1])} over {_short(match[2])}{unit}"
    is_odds = second == 1 and first > 12
    if (anywhere(text, _BETS) and not _BEHIND.match(text, behind)) or is_odds:
        return f"{cardinal(match[1])} to {cardinal(match[2])}"
    if first + second == 100 and not _NOT_SHARES.match(text, behind):
        return both
    if _STARS.match(text, behind) or (first == second and first in (3, 5, 10, 100) and not _BEHIND.match(text, behind)):
        return f"{cardinal(match[1])} out of {cardinal(match[2])}"
    return None


_HOME_AHEAD = re.compile(r"\b(?:Flat|Apt\.?|Unit|Lot|Plot)\s\Z")
_GONE_THROUGH = re.compile(
    r"\b(?:match(?:day)?s?|rounds?|games?|laps?|pages?|parts?|steps?|slides?|questions?|days?|weeks?|chapters?|episodes?|ep\.|legs?|stages?|levels?|discs?|tracks?"
    r"|photos?|pics?|lessons?|modules?|holes?|box|attempts?|files?|tasks?)\s\Z",
    re.IGNORECASE,
)


def _so_many_of(match: re.Match[str], style: Style) -> str | None:
    """lap 12/57, page 3/10; but a level 1/2 cup"""
    first, last = int(match[1]), int(match[2])
    if not 0 < first <= last or _BEHIND.match(match.string, match.end()) or not before(match, _GONE_THROUGH):
        return None
    return f"{cardinal(match[1])} of {cardinal(match[2])}"


def _shares(match: re.Match[str], style: Style) -> str | None:
    """a 60-40 split"""
    first, second = match[1] or match[3], match[2] or match[4]
    return f"{cardinal(first)} {cardinal(second)}" if int(first) + int(second) == 100 else None


def _tire(match: re.Match[str], style: Style) -> str:
    """225/45R17"""
    return f"{in_pairs(match[1])} {cardinal(match[2])} {style.letters('r')} {cardinal(match[4])}"


_BY_THE_CLOCK = re.compile(
    r"\b(?:arriv|depart|leav|left|start|open|clos|meet|met|begin|began|kick|land|board|woke|wake|finish|train|bus|flight|ferry"
    r"|coach|lunch|dinner|breakfast|doors|show)\w*\s(?:off\s|up\s)?(?:at|by|from|until|till|before|after|around|about)\s\Z",
    re.IGNORECASE,
)
_NEAR_A_TIME = re.compile(
    r"\b(?:at|by|until|till|before|after|around|between\s\d{1,2}(?:\.[0-5]\d)?\sand)\s\Z", re.IGNORECASE
)
_ON_A_DAY = re.compile(
    r"\s(?:tomorrow|tonight|today|(?:this|in\sthe|every)\s(?:morning|afternoon|evening)|(?:on\s)?(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)\b"
)
_RIDE = re.compile(r"\s(?:train|bus|flight|ferry|coach|service|departure|tram|kick-off|screening|sharp|from\s[A-Z])")


def _time_with_a_dot(match: re.Match[str], style: Style) -> str | None:
    """the 11.36 train, as the British write it"""
    text, end = match.string, match.end()
    is_of_a_day = before(match, _NEAR_A_TIME) and _ON_A_DAY.match(text, end)
    if not (before(match, _BY_THE_CLOCK) or _RIDE.match(text, end) or is_of_a_day) or not 0 < int(match[1]) <= 24:
        return None
    hour = cardinal(str(int(match[1])))
    if match[2] == "00":
        return f"{hour} hundred" if int(match[1]) > 12 else hour
    return f"{hour} {pair(match[2])}"


def _counted(number: str) -> str:
    return cardinal(str(int(number)))


def _short(number: str) -> str:
    return in_pairs(number) if len(number) == 3 else cardinal(number)


def _screen(match: re.Match[str], style: Style) -> str:
    """1920x1080"""
    return f"{in_pairs(match[1])} by {in_pairs(match[2])}"


def _players(match: re.Match[str], style: Style) -> str:
    """49ers → forty niners"""
    number = cardinal(match[1])
    return f"{number}{'rs' if number.endswith('e') else 'ers'}"


def _season(match: re.Match[str], style: Style) -> str | None:
    """the 2023/24 season"""
    return f"{_year(match[1])} {pair(match[2])}" if int(match[1]) % 100 + 1 == int(match[2]) else None


def _year(number: str) -> str:
    return in_pairs(number) if number[1:3] != "00" else cardinal(number)


# ---------------------------------------------------------------------------------------------------------------------
# Names

_CHESSMEN = {"K": "king", "Q": "queen", "R": "rook", "B": "bishop", "N": "knight"}
_CHECK = {"+": " check", "#": " checkmate"}


def _chess(match: re.Match[str], style: Style) -> str | None:
    """Nf3 → knight f three; Qxf7# → queen takes f seven checkmate; exd5 → e takes d five"""
    piece, origin, takes, column, row, queen, check = match.groups()
    if not style.for_voice or not (piece or takes or queen):
        return None
    words = [_CHESSMEN.get(piece or "", ""), *(style.letters(o) if o.isalpha() else cardinal(o) for o in origin or "")]
    words += ["takes" if takes else "", style.letters(column), cardinal(row), _CHESSMEN[queen[-1]] if queen else ""]
    return " ".join(filter(None, words)) + _CHECK.get(check, "")


def _model(match: re.Match[str], style: Style) -> str | None:
    """320i, 5800X: a number of three or four digits with a letter against it."""
    number = match[1]
    return in_pairs(number) if not number.endswith("00") and not before(match, _SIGN_AHEAD) else None


_SIGN_AHEAD = re.compile(r"[$£€.,:]\Z")


def _several(match: re.Match[str], style: Style) -> str:
    """747s, F-16s"""
    return plural(in_pairs(match[1]) if len(match[1]) > 2 else cardinal(match[1]))


def _military(match: re.Match[str], style: Style) -> str | None:
    """0600 hours → oh six hundred hours; 1430 → fourteen thirty"""
    hour, minute, hours = match.groups()
    if int(hour) > 24 or int(minute) > 59:
        return None
    said = f"oh {cardinal(hour[1])}" if hour[0] == "0" else cardinal(hour)
    said += " hundred" if minute == "00" else f" {pair(minute)}"
    return f"{said} hours" if hours else said


_AT = re.compile(
    r"\b(?:at|by|from|until|till|to|before|after|around|since|wake up|depart\w*|arriv\w*|leav\w*|left|land\w*|board\w*)"
    r"\s\Z",
    re.IGNORECASE,
)


def _military_bare(match: re.Match[str], style: Style) -> str | None:
    return _military(match, style) if before(match, _AT) else None


def _form(match: re.Match[str], style: Style) -> str:
    """501(c)(3) → five oh one c three"""
    letters = [style.letters(match[2]), cardinal(match[3]) if match[3] else ""]
    return " ".join(filter(None, (in_pairs(match[1]), *letters)))


_BATS = re.compile(
    r"\b(?:bat|hit|averag|slugg|on-base|percentage)\w*(?:\s(?:of|was|is|at|over|under|above|below|just))*\s\Z"
)


def _average(match: re.Match[str], style: Style) -> str | None:
    """batting .300 → three hundred"""
    if not before(match, _BATS):
        return None
    number = match[1]
    return (
        cardinal(number)
        if number.endswith("00")
        else f"oh {_short(number[1:])}"
        if number[0] == "0"
        else in_pairs(number)
    )


_SOUNDS_OF_NUMBERS = {
    "2nite": "tonight", "2night": "tonight", "2day": "today", "2moro": "tomorrow", "2morrow": "tomorrow",
    "2mrw": "tomorrow", "4ever": "forever", "4eva": "forever", "4u": "for you", "2u": "to you", "1st": "first",
}  # fmt: skip
_LETTERS_AND_NUMBERS = {
    "gr8": "great", "l8r": "later", "l8": "late", "m8": "mate", "h8": "hate", "w8": "wait", "sk8": "skate",
    "str8": "straight", "b4": "before", "some1": "someone", "any1": "anyone", "every1": "everyone", "no1": "no one",
}  # fmt: skip


def _sharp(match: re.Match[str], style: Style) -> str:
    """F# → F sharp; C#m7 → C sharp minor 7"""
    return f"{style.letters(match[1])} sharp{' minor' if match[2] else ''}"


_CHORDS = {"maj": "major", "min": "minor", "m": "minor", "dim": "diminished", "aug": "augmented"}
_SHIFTS = {"#": " sharp", "♯": " sharp", "b": " flat", "♭": " flat"}


def _chord(match: re.Match[str], style: Style) -> str:
    """Cmaj7 → C major seven"""
    kind = _CHORDS.get(match[3], match[3])
    return f"{style.letters(match[1])}{_SHIFTS.get(match[2], '')} {kind} {cardinal(match[4])}"


RULES: tuple[Rule, ...] = (
    rule(
        "text message",
        r"2n(?:ite|ight)\b|2day\b|2mor(?:o|row)\b|2mrw\b|4eva?\b|4ever\b|4u\b|2u\b",
        lambda m, s: _SOUNDS_OF_NUMBERS[m[0]],
    ),
    rule("resolution", r"(\d{3,4})\s?[x×]\s?(\d{3,4})(?!\w|\.\d)", _screen),
    rule(
        "resolution",
        r"(\d{3,4})([pi])(?:\b|(?=(?:24|25|30|50|60|120)\b))",
        lambda m, s: f"{in_pairs(m[1])} {m[2]}" if m[1] in _SCREENS else None,
    ),
    rule("version", r"(\d{1,2})((?:\.x){1,2})(?!\w)", lambda m, s: cardinal(m[1]) + m[2].replace(".", " point ")),
    rule("name", r"(\d{1,2})W-(\d\d)\b", lambda match, style: f"{cardinal(match[1])} w {cardinal(match[2])}"),  # oil
    rule(
        "name",
        r"802\.(\d{1,2})([a-z]{0,2})\b",
        lambda m, s: f"eight oh two dot {cardinal(m[1])} {s.letters(m[2])}".strip(),
    ),
    rule("named number", r"(\d{3})\(([a-z])\)(?:\((\d)\))?", _form),
    rule(
        "caliber",
        r"\.(\d\d)(?=[\s-](?:cal|caliber|calibre|ACP|Magnum|pistol|rifle|revolver|gun|handgun)\b)",
        lambda m, s: cardinal(m[1]),
    ),
    rule("average", r"\.(\d{3})(?!\w)", _average),
    rule("time", r"([0-2]\d)([0-5]\d)(\s?(?:hours|hrs?|h)(?!\w))", _military),
    rule("time", r"(0\d)([0-5]\d)()(?!\w|[.,:/-]\d)", _military_bare),
    rule("year", r"(?<!\w)'(0\d)(?![\w'])", lambda match, style: pair(match[1])),
    rule("year", r"([12]\d{3})/(\d\d)(?![\d/])", _season),
    rule("reference", r"((?:19|20)\d\d)/(\d{3,4})(?![\d/])", lambda m, s: f"{_year(m[1])} slash {in_pairs(m[2])}"),
    rule("time", r"(\d{1,2})/(\d{1,2})c\b", lambda m, s: f"{cardinal(m[1])} {cardinal(m[2])} central"),
    rule(
        "named number",
        r"(?:(?<=open )|(?<=available )|(?<=working )|(?<=work )|(?<=runs ))24-7(?![\w-]|[.,]\d)"
        r"|24-7(?=\s(?:support|service|access|care|help|online|hotline|coverage|emergency)\b)",
        lambda match, style: "twenty four seven",
    ),
    rule("named number", r"24/7/365(?!\w)", lambda match, style: "twenty four seven three sixty five"),
    rule(
        "citation", r"(\d{1,4})(?=\s(?:U\.\s?S\.|F\.\s?\dd|F\.\s?Supp\.|S\.\s?Ct\.)\s\d)", lambda m, s: in_pairs(m[1])
    ),
    rule("citation", r"(?<=U\.S\.\s)(\d{3,4})(?=\s\((?:1[789]|20)\d\d\)|\s*[,.;]|\Z)", lambda m, s: in_pairs(m[1])),
    rule(
        "year",
        r"(\d{3})(?=(?:\s?-\s?\d{1,3})?\s(?:A\.?D|B\.?C|C\.?E|B\.?C\.?E)\b)|(?<=A\.D\.\s)(\d{3})(?!\w)|(?<=AD\s)(\d{3})(?!\w)",
        lambda m, s: in_pairs(m[1] or m[2] or m[3]),
    ),
    rule("name", r"(\d{3})/(\d\d)\s?Z?(R)\s?(\d\d)(?!\d)", _tire),
    rule(
        "pair",
        r"(\d\d)-(\d\d)(?=\W*(?:split|chance|odds|rule|mix|blend|ratio|share|shot|deal)s?\b)|(50)-(50)(?![\w%-])",
        _shares,
    ),
    rule("time", r"(\d{1,2})\.([0-5]\d)(?!\s?[ap]\.?m)(?!\w|%|[.,]\d)", _time_with_a_dot),
    rule(
        "address",
        r"(\d{1,4})/(\d{1,4})(?![\w/])",
        lambda m, s: f"{_short(m[1])} slash {_short(m[2])}" if before(m, _HOME_AHEAD) else None,
    ),
    rule("pair", r"(\d{1,3})/(\d{1,3})(\s?mm\s?Hg)?(?![\w/]|\.\d|\s?=)", _slashed),
    rule("ordinal", rf"([123])(?=\s(?:{BOOKS_IN_PARTS})(?!\w))", lambda match, style: ordinal(match[1])),
    rule(
        "serial",
        r"(?:(?<=No\. )|(?<=Pub\. L\. ))(\d{2,3})-(\d{2,5})(?!\w)",
        lambda m, s: f"{in_pairs(m[1])} {in_pairs(m[2])}",
    ),
    rule("count", r"(\d{1,3})/(\d{1,3})(?![\w/]|[.,]\d)", _so_many_of),
    rule(
        "name",
        r"7[0-8]7(?=\s(?:MAX|Max|[Dd]reamliner|jet|plane|aircraft|jumbo|pilot|crash)\b)",
        lambda m, s: in_pairs(m[0]),
    ),
    rule("name", r"911(?=\s(?:Turbo|GT\d|Carrera|Targa)\b)", lambda m, s: "nine eleven"),
    rule("name", r"(7[0-8]7)-(\d{3})(?![\w-])", lambda m, s: f"{in_pairs(m[1])} {in_pairs(m[2])}"),
    rule("name", r"((?<=[A-Za-z]-)\d{1,4}|(?<=\dx)\d{1,2}|\d{3})s\b", _several),
)

LAST_RULES: tuple[Rule, ...] = (
    rule("name", r"(\d?[1-9])ers\b", _players),
    rule("name", r"(\d{3,4})(?=[A-Za-z]{1,2}\b|[A-Z]\d)", _model),
)

WORD_RULES: tuple[Rule, ...] = (
    rule("name", r"([A-G])[#♯](m(?!aj))?(?=\d|\W|\Z|maj|min|dim|sus|add)", _sharp),
    rule(
        "name",
        r"([A-G])(?:b(?=\s(?:major|minor|flat))|♭)(?!\w)",
        lambda match, style: f"{style.letters(match[1])} flat",
    ),
    rule(
        "name", r"S(\d{1,2})[\s.:]?E(\d{1,3})(?!\w)", lambda m, s: f"season {_counted(m[1])} episode {_counted(m[2])}"
    ),
    rule(
        "chess",
        r"([KQRBN])?([a-h]?[1-8]?)(x)?([a-h])([1-8])(=[QRBN])?([+#])?(?![\w-])",
        _chess,
    ),
    rule("music", r"([A-G])([#♯b♭])?(maj|min|m|sus|dim|aug|add)(\d{1,2})(?!\w|\.\d)", _chord),
    rule("chess", r"O-O-O(?!\w)", lambda m, s: "castles queenside"),
    rule("chess", r"O-O(?![\w-])", lambda m, s: "castles kingside"),
    rule(
        "text message",
        r"(gr8|l8r|(?-i:l8|m8|h8|w8)|sk8|str8|(?:some|any|every)1|no1|b4(?=\s(?:the|you|u|i|we|it|my|he|she|they|noon|bed|work|school|lunch|dinner|christmas|midnight|\d)\b))(?!\w)",
        lambda m, s: _LETTERS_AND_NUMBERS[m[1].lower()],
        any_case=True,
    ),
    rule("name", r"(?<=\d\s)Ti(?!\w)", lambda m, s: s.letters("ti")),
)

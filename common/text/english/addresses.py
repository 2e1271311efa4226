"""Postal addresses and ways: houses, postcodes, states behind a town, directions, turns."""

import re

from common.text.english.tables import DIRECTIONS, PROVINCES, STATES, STREETS
from common.text.english.tokens import Rule, Style, anywhere, before, rule
from common.text.numbers import cardinal, digits, in_pairs


def _postcode(match: re.Match[str], style: Style) -> str:
    """SW1A 1AA, K1A 0B1"""
    groups = re.findall(r"[A-Z]+|\d+", match[0])
    said = [style.letters(g) if g.isalpha() else cardinal(g) if len(g) > 1 else digits(g) for g in groups]
    return " ".join(said)


_COURTS = {"Ct": "court", "Pl": "place", "Sq": "square", "Cir": "circle", "Ter": "terrace"}
_HOUSE_BEFORE = re.compile(r"\b\d+[A-Z]?\s(?:[NSEW]\.?\s)?(?:[A-Z]\w+\s|\d+\w\w\s){1,3}\Z")


def _after_a_house(match: re.Match[str], style: Style) -> str | None:
    return _COURTS[match[1]] if before(match, _HOUSE_BEFORE) else None


_STREET_BEFORE = re.compile(
    rf"\b(?:(?:{STREETS})\.?,?|[Ww]inds?:?|heading|facing|towards?|[Hh]ead|[Gg]o|[Cc]ontinue|[Tt]urn|[Dd]rive|[Ww]alk|(?:I|US|SR|CA|Route|Rte\.?|Highway|Hwy\.?|Interstate)[-\s]\d+)"
    r"\s\Z"
)


_NAME_AHEAD = re.compile(r"\b[A-Z][\w.]*\s\Z")
_INITIAL_AHEAD = re.compile(r"\b[A-Z]\.\s?\Z")


def _house(match: re.Match[str], style: Style) -> str:
    return f"{in_pairs(match[1])} {style.letters(match[2])}".strip()


_FAR = re.compile(
    r"\b(?:km|mi|miles?|kilometers?|kilometres?|m|ft|feet|blocks?|minutes?|mins?|hours?|just|far)\.?\)?\s\Z"
)
_SO_FAR = re.compile(r"\d\s?(?:km|mi|miles?|kilomet(?:er|re)s?|blocks?|blks?)\.?\s\Z")
_LYING_AHEAD = re.compile(
    r"(?<![\w-])(?!(?:the|an?|this|vitamin|letter|value|size|point|row|type|group|section|team|grade|plan|class|set|and|or|is"
    r"|case|number|axis|order|node|step|of|with|for)\s)[\w\"'-]+,?\s\Z",
    re.IGNORECASE,
)
_OF_A_PLACE = re.compile(
    r"\sof\s(?:[A-Z][A-Za-z-]|(?:the\s)?(?:city|town|river|border|lake|highway|freeway|downtown)\b)"
)


def _lies(match: re.Match[str]) -> bool:
    """snow N of I-90"""
    return before(match, _LYING_AHEAD) and bool(_OF_A_PLACE.match(match.string, match.end()))


_TOWN_AHEAD = re.compile(r"\b[A-Z][a-z]+,\s\Z")
_WORDS_TOO = frozenset(["OK", "HI", "OH", "ME", "IN", "OR", "PA", "MA", "LA", "ID", "AL", "CO", "DE"])


_DEGREES_TOO = frozenset(["MD", "MA", "MS", "PA"])
_TITLED_AHEAD = re.compile(r"\b(?:Dr|Prof|Mr|Mrs|Ms|Doctor|Professor)\.?\s(?:[A-Z][\w.'-]*\s){0,2}[A-Z][\w'-]*,\s\Z")


def _state(match: re.Match[str], style: Style) -> str | None:
    """Austin, TX is hot; but not: Well, OK then."""
    if match[1] in _DEGREES_TOO and before(match, _TITLED_AHEAD):
        return None
    goes_on = not re.match(r"\s*(?:[,.;:!?)]|\Z)", match.string[match.end() :])
    return None if goes_on and (match[1] in _WORDS_TOO or not before(match, _TOWN_AHEAD)) else STATES[match[1]]


_TURN = re.compile(r"\b(?:[Tt]urn|[Bb]ear|[Kk]eep)\s(?:[RL]|left|right)\b")
_DIRECTED = re.compile(
    r"(?:\A|[,;.:]\s|\b(?:[Tt]urn|[Bb]ear|[Kk]eep|then|and|or|go|slight|sharp|next|first|second|(?:make|take|hang)\san?)\s)\Z",
    re.IGNORECASE,
)
_OF_A_VALUE = re.compile(
    r"\s(?:at|to|below|above|under|over|between|near)\s(?:zero|one|\d+(?!\w))|\s(?:fixed|constant|the|as|small|large|low|high)\b"
    r"|\s(?:On|Off)\b|\son\s(?:Windows|Linux|macOS|Mac|Ubuntu|an?\s(?:PC|Mac|laptop|server))\b"
)


def _side(match: re.Match[str], style: Style) -> str | None:
    """Turn R on Oak, then L on 5th; but turn it on: the R on the dial"""
    if not before(match, _DIRECTED) or _OF_A_VALUE.match(match.string, match.end()):
        return None
    return ("right" if match[0] == "R" else "left") if anywhere(match.string, _TURN) else None


_STREET_AHEAD = (
    rf"(?=\s(?:(?:[NSEW]|[NS][EW])\.?\s)?(?:[A-Z][a-z]+\s|\d+(?:st|nd|rd|th)\s){{1,4}}(?:(?:{STREETS})\b|st\b))"
)

_NAMED_STREET = rf"(?=\s(?:[A-Z][a-z]+|\d+(?:st|nd|rd|th))\s(?:{STREETS})\b)"

RULES: tuple[Rule, ...] = (
    rule(
        "address",
        rf"(\d{{2,3}})-(\d\d)(?=\s\d+(?:st|nd|rd|th)\s(?:{STREETS})\b)",
        lambda m, s: f"{cardinal(m[1])} {cardinal(m[2])}",
    ),
    rule(
        "address",
        r"(?:(?<=[a-z\d],\s)|(?<!\S)(?<!\S\s))\d{5}(?=\s[A-Z][a-z]+(?<!ans)(?<!ers)(\s[IVX\d]+)?(?:\s*[,.;)]|\s*\Z))",
        lambda match, style: digits(match[0]),
    ),
    rule("address", rf"(\d{{3,5}})([A-Z]?){_STREET_AHEAD}", _house),
    rule(
        "address",
        r"\d{5}(?=\s*(?:[.;)]|\Z))",
        lambda match, style: digits(match[0]) if before(match, _TOWN_AHEAD) else None,
    ),
)

WORD_RULES: tuple[Rule, ...] = (
    rule("direction", r"(?:(?<=[Tt]urn )|(?<=[Bb]ear )|(?<=[Kk]eep ))[RL](?!\w)|[RL](?=\s(?:on|onto|at)\s)", _side),
    rule("address", r"[A-Z]{1,2}\d[A-Z\d]?\s\d[A-Z]{2}(?!\w)|[A-Z]\d[A-Z]\s?\d[A-Z]\d(?!\w)", _postcode),
    rule(
        "address",
        rf"(?<=\d\s)([NSEW]|[NS][EW])\.?(?=\s(?:[A-Z][a-z]+\s|\d+(?:st|nd|rd|th)\s){{1,4}}(?:(?:{STREETS})\b|st\b))",
        lambda match, style: DIRECTIONS[match[1]],
    ),
    rule(
        "address",
        r"(?<=\d\s)([NSEW])\.?(?=\s(?!Minor|Major|Flat|Sharp)[A-Z][a-z]+(?:,\s[A-Z]|\s*\Z))",
        lambda match, style: DIRECTIONS[match[1]],
    ),
    rule("address", r"(?<=,\s)Fl\.?\s?(?=\d)", lambda match, style: "floor "),
    rule(
        "address",
        r"([NSEW])\.(?=\s(?:Korea|Africa|America|Carolina|Dakota|Virginia|Ireland|Germany|Sudan|Yorkshire|Sussex)\b)",
        lambda match, style: DIRECTIONS[match[1]],
    ),
    rule(
        "address",
        rf"([NSEW])\.{_NAMED_STREET}",
        lambda match, style: DIRECTIONS[match[1]],
    ),
    rule(
        "address",
        rf"({'|'.join(STATES)})\s+(\d{{5}})(?:-(\d{{4}}))?\b",
        lambda match, style: f"{STATES[match[1]]} {digits(match[2] + (match[3] or ''))}",
    ),
    rule(
        "address",
        r"([NS][EW]|[NSEW])(?=\s(?:corner|side|edge|end|coast|bank|entrance)\sof\b)",
        lambda match, style: DIRECTIONS[match[1]],
    ),
    rule("address", r"([NS][EW])(?=\sof\s(?!the\s(?:axis|matrix))[a-zA-Z])", lambda match, style: DIRECTIONS[match[1]]),
    rule(
        "address",
        r"([NS][EW]|[NSEW])(?=\s*(?:[,;)]|\.(?!\s[a-z]))|\s*\Z)",
        lambda match, style: DIRECTIONS[match[1]] if before(match, _SO_FAR) else None,
    ),
    rule("address", rf"({'|'.join(PROVINCES)})(?=\s[A-Z]\d[A-Z]\s?\d[A-Z]\d(?!\w))", lambda m, s: PROVINCES[m[1]]),
    rule("address", r"NY(?=,\sNY(?!\w))", lambda match, style: STATES["NY"]),
    rule("address", rf"(?<=[a-z],\s)({'|'.join(STATES)})(?=\s*[,.;:!?)]|\Z|\s[a-z])", _state),
    rule(
        "address",
        rf"([NS][EW]){_NAMED_STREET}",
        lambda match, style: DIRECTIONS[match[1]],
    ),
    rule(
        "address",
        rf"([NSEW])(?=\s\d+(?:st|nd|rd|th)\s(?:{STREETS})\b)",
        lambda match, style: DIRECTIONS[match[1]],
    ),
    rule(
        "address",
        rf"([NS])\.\s?([EW])\.{_NAMED_STREET}",
        lambda match, style: None if before(match, _INITIAL_AHEAD) else DIRECTIONS[match[1] + match[2]],
    ),
    rule(
        "address",
        r"([NSEW])\.(?=\s\d+(?:st|nd|rd|th)\b(?!\s(?:of|time|place|option|choice|came|is|was)\b))",
        lambda match, style: None if before(match, _NAME_AHEAD) else DIRECTIONS[match[1]],
    ),
    rule(
        "address",
        r"([NS][EW]|[NSEW])(?!\w)",
        lambda match, style: DIRECTIONS[match[1]] if before(match, _STREET_BEFORE) else None,
    ),
    rule(
        "address",
        r"([NS][EW]|[NSEW])\b\.?(?=\s(?:of|on|along|toward|towards)\s)",
        lambda m, s: DIRECTIONS[m[1]] if before(m, _FAR) or _lies(m) else None,
    ),
    rule("address", r"(Ct|Pl|Sq|Cir|Ter)(?!\w)\.?(?!\s[A-Z])", _after_a_house),
)

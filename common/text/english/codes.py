"""What is read sign by sign: electronic and postal addresses, turns on a way, telephone numbers, codes."""

import re

from common.text import pronounce
from common.text.english.tables import DIRECTIONS, DOMAINS, DOMAINS_BEFORE_A_PATH, EXTENSIONS, MARKS, STATES, STREETS
from common.text.english.tokens import Rule, Style, anywhere, before, rule
from common.text.numbers import cardinal, digits, in_pairs, year

# Numbers that have a name of their own.
_NAMED = {"401": "four oh one k", "403": "four oh three b", "911": "nine one one", "411": "four one one"}


_SPELLED_THERE = frozenset(["www", "uk", "us", "pdf", "io", "ai", "html", "xls", "ppt", "eu"])


def _letters_or_word(part: str, style: Style) -> str:
    """What is short, or has no vowel, and is no word is spelled."""
    is_short = len(part) < 4 or not re.search("[aeiouy]", part, re.IGNORECASE)
    small = part.lower()
    is_word = small in ("wav", "tex", "bib", "env") or (
        pronounce.pronunciations(small) and not (pronounce.is_said_by_letter(small) or small in _SPELLED_THERE)
    )
    return style.letters(part) if style.for_voice and is_short and not is_word else part


_YEAR_IN_A_NAME = re.compile("(?:19[5-9]|20[0-4])\\d")


def _electronic(match: re.Match[str], style: Style) -> str:
    """example.com/a_b → example dot com slash a underscore b"""
    words = []
    written = re.sub(r"^https?://", "", match[0].rstrip("/"), flags=re.IGNORECASE)
    for part in re.findall(r"[^\W\d_]+|\d+|.", written):
        if part.isdigit():
            words.append(year(part) if style.for_voice and _YEAR_IN_A_NAME.fullmatch(part) else digits(part))
        elif part.isalpha():
            words.append(_letters_or_word(part, style))
        else:
            words.append(MARKS.get(part, " "))
    return " ".join(words)


_PARTS_OF_A_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|_")


def _in_parts(name: str, style: Style) -> str:
    """BlackLivesMatter → Black Lives Matter; john_doe99 → john underscore doe ninety nine."""
    said = [
        (cardinal(part) if len(part) < 3 else in_pairs(part)) if part.isdigit() else MARKS.get(part, part)
        for part in _PARTS_OF_A_NAME.findall(name)
    ]
    return " ".join(_letters_or_word(part, style) if part.isalpha() else part for part in said)


def _handle(match: re.Match[str], style: Style) -> str:
    return f"at {_in_parts(match[1], style)}"


def _hashtag(match: re.Match[str], style: Style) -> str:
    return f"hashtag {_in_parts(match[1].replace('_', ' '), style)}"


def _variable(match: re.Match[str], style: Style) -> str | None:
    if not style.for_voice:
        return None
    return " dot ".join(_in_parts(part.replace("_", " _ "), style) for part in match[0].split("."))


def _sign_by_sign(match: re.Match[str], style: Style) -> str:
    """#FF5733"""
    return "hash " + " ".join(digits(sign) if sign.isdigit() else style.letters(sign) for sign in match[1])


def _postcode(match: re.Match[str], style: Style) -> str:
    """SW1A 1AA, K1A 0B1"""
    groups = re.findall(r"[A-Z]+|\d+", match[0])
    said = [style.letters(g) if g.isalpha() else cardinal(g) if len(g) > 1 else digits(g) for g in groups]
    return " ".join(said)


def _extension(match: re.Match[str], style: Style) -> str | None:
    return (
        f"extension {digits(match[1]) if len(match[1]) > 2 else cardinal(match[1])}"
        if before(match, _DIALLED)
        else None
    )


_DIALLED = re.compile(r"\d{3}[\s.-]?\d{4},?\s?\Z|\b(?:call|dial|at|phone|reach \w+ at)\s\Z", re.IGNORECASE)

_DEGREES = (("degree", 1), ("minute", 2), ("second", 3))


def _coordinate(match: re.Match[str], style: Style) -> str:
    """40°26′46″N → forty degrees twenty six minutes forty six seconds north"""
    said = [f"{cardinal(n)} {name if n == '1' else name + 's'}" for name, i in _DEGREES if (n := match[i])]
    return " ".join([*said, DIRECTIONS[match[4]]])


def _sharp(match: re.Match[str], style: Style) -> str:
    """F# → F sharp; C#m7 → C sharp minor 7"""
    return f"{style.letters(match[1])} sharp{' minor' if match[2] else ''}"


_COURTS = {"Ct": "court", "Pl": "place", "Sq": "square", "Cir": "circle", "Ter": "terrace"}
_HOUSE_BEFORE = re.compile(r"\b\d+[A-Z]?\s(?:[NSEW]\.?\s)?(?:[A-Z]\w+\s|\d+\w\w\s){1,3}\Z")


def _after_a_house(match: re.Match[str], style: Style) -> str | None:
    return _COURTS[match[1]] if before(match, _HOUSE_BEFORE) else None


_STREET_BEFORE = re.compile(
    rf"\b(?:(?:{STREETS})\.?,?|[Ww]inds?|heading|facing|towards?|[Hh]ead|[Gg]o|[Cc]ontinue|[Tt]urn|[Dd]rive|[Ww]alk|(?:I|US|SR|CA|Route|Rte\.?|Highway|Hwy\.?|Interstate)[-\s]\d+)"
    r"\s\Z"
)


def _telephone(match: re.Match[str], style: Style) -> str:
    """Digit by digit, with a pause between groups; letters as they stand."""
    plus = "plus " if match[0].startswith("+") else ""
    groups = re.findall(r"\d+|[A-Z]+", match[0])
    is_free = len(groups) > 2 and groups[0] == "1"
    return plus + ", ".join(
        f"{digits(group[0])} hundred" if is_free and i == 1 and group in ("800", "900") else _dialled(group)
        for i, group in enumerate(groups)
    )


def _dialled(group: str) -> str:
    return digits(group) if group.isdigit() else group


_NAME_AHEAD = re.compile(r"\b[A-Z][\w.]*\s\Z")
_INITIAL_AHEAD = re.compile(r"\b[A-Z]\.\s?\Z")


def _serial(match: re.Match[str], style: Style) -> str | None:
    """0781-1506-10"""
    groups = match[0].split("-")
    lengths = set(map(len, groups))
    is_code = any(group[0] == "0" for group in groups) or (len(lengths) > 1 and max(lengths) > 3)
    return _telephone(match, style) if is_code else None


_ROUND_NUMBERS = re.compile(r"\d00 \d00 \d{2}00")


def _american(match: re.Match[str], style: Style) -> str | None:
    """A telephone number; but 100 200 3000 are numbers."""
    return None if _ROUND_NUMBERS.fullmatch(match[0]) else _telephone(match, style)


def _seven_digits(match: re.Match[str], style: Style) -> str:
    return digits(match[0])


def _internet(match: re.Match[str], style: Style) -> str:
    return " dot ".join(digits(group) for group in match[0].split("."))


def _house(match: re.Match[str], style: Style) -> str:
    return f"{in_pairs(match[1])} {style.letters(match[2])}".strip()


_FAR = re.compile(
    r"\b(?:km|mi|miles?|kilometers?|kilometres?|m|ft|feet|blocks?|minutes?|mins?|hours?|just|far)\.?\)?\s\Z"
)
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


_ELECTRONIC_TAIL = r"(?:[/?#][^\s<>\"]*[^\s<>\".,;:!?)\]])?"
_MAIL = rf"[^\W_][\w.+&-]{{0,99}}@[\w-]{{1,99}}(?:\.[\w-]{{1,99}}){{1,9}}{_ELECTRONIC_TAIL}/?"
_URL = r"(?:(?:https?|ftp|file)://|www\.)[^\s<>\"]*[^\s<>\".,;:!?)\]]"
_SITE = (
    rf"[A-Za-z][\w-]{{0,99}}\.(?:[\w-]{{1,99}}\.){{0,9}}"
    rf"(?:{DOMAINS}|(?:{DOMAINS_BEFORE_A_PATH})(?=/\w))(?![\w'])(?!\.\w){_ELECTRONIC_TAIL}"
)
_STREET_AHEAD = (
    rf"(?=\s(?:(?:[NSEW]|[NS][EW])\.?\s)?(?:[A-Z][a-z]+\s|\d+(?:st|nd|rd|th)\s){{1,4}}(?:(?:{STREETS})\b|st\b))"
)

_FOLDERS = r"(?:\.{1,2}/|~/|/)?(?:[\w.-]{1,99}/){0,20}"
_FILE = (
    rf"(?:{_FOLDERS}[\w-]{{1,99}}(?:\(\d{{1,3}}\))?(?:\.[\w-]{{1,99}}){{0,9}}|(?<![\w.)]))\.(?:{EXTENSIONS})(?![\w'])"
)
_PATH = (
    r"(?:[A-Z]:\\(?:[\w.$-]{1,99}\\){0,20}|~/|\.{1,2}/|/(?=[\w.-]{1,99}/))(?:[\w.-]{1,99}/){0,20}(?:[\w.$-]{0,99}\w)?"
)
ELECTRONIC_AHEAD = re.compile(  # every branch begins with a sign, so that the search passes over letters
    r"@[\w-]+\.\w|:(?://|\\)|_(?<=[^\W_]_)[^\W_]|~/|/(?<!\S/)\w"
    r"|\.(?:(?<=[\w)]\.)(?:[a-zA-Z]{2}|mp\d)|(?<=www\.)|/|(?<!\S\.)[a-z]{2})"
)
"""Without it a text has no electronic token."""

ELECTRONIC_RULES: tuple[Rule, ...] = (
    rule("electronic", _MAIL, _electronic),
    rule("electronic", _URL, _electronic, any_case=True),
    rule("electronic", _FILE, _electronic),
    rule("electronic", _SITE, _electronic),
    rule("electronic", _PATH, _electronic),
    rule(
        "electronic",
        r"(?:[A-Za-z]\w{1,99}\.){0,9}[A-Za-z][A-Za-z\d]{0,49}(?:_[A-Za-z\d]{1,49}){1,15}(?:\.[A-Za-z]\w{1,99}){0,9}(?!\w)",
        _variable,
    ),
)

RULES: tuple[Rule, ...] = (
    rule("electronic", r"(?<!\w)@([A-Za-z_]\w*)", _handle),
    rule("code", r"(?<!\w)#(?=\d*[A-Fa-f])(?=[A-Fa-f]*\d)([\dA-Fa-f]{6})(?!\w)", _sign_by_sign),
    rule("reference", r"(?<!\w)#(?=[A-Z]{1,4}-?\d)", lambda match, style: "number"),
    rule("reference", r"(?<=\w\s)#'?s(?!\w)", lambda match, style: "numbers"),
    rule("reference", r"(?<!\w)#([A-Za-z]\w*)", _hashtag),
    rule(
        "coordinate",
        r"(\d+(?:\.\d+)?)°\s?(?:(\d+(?:\.\d+)?)['′]\s?)?(?:(\d+(?:\.\d+)?)(?:[″\"]|'')\s?)?([NSEW])(?!\w)",
        _coordinate,
    ),
    rule(
        "telephone",
        r"(?:\+?\d{1,2}[ .-]?)?(?:\(\d{3}\)\s?|\d{3}[ ./-])\d{3}[ .-]\d{4}(?:-\d{1,4})?(?![\w-])(?!\.\d)",
        _american,
    ),
    rule("card", r"\d{4}(?:[ -]\d{4}){3}(?![\w-])|\d{4}[ -]\d{6}[ -]\d{5}(?![\w-])", _telephone),
    rule("telephone", r"\+(?=(?:[ .()-]*\d){8})\d{1,3}(?:[ .-]*\(?\d{1,5}\)?){2,6}(?!\w)", _telephone),
    rule(
        "telephone", r"0\d(?:[ .]\d\d){4}(?!\w)|\(?0\d{1,4}\)?[ /-]\d{5,8}(?!\w)|1[38]00 \d{3} \d{3}(?!\w)", _telephone
    ),
    rule("telephone", r"0\d{2,4}[ -]\d{3,4}[ -]\d{3,4}(?![\w-])|0\d{3} \d{3} \d{3}(?![\w-])", _telephone),
    rule("telephone", r"1-8\d\d-(?=[A-Z\d-]{0,19}[A-Z])[A-Z\d]+(?:-[A-Z\d]+){0,5}(?!\w)", _telephone),
    rule("telephone", r"\d{3}-\d{4}(?![\w-])", _seven_digits),
    rule("telephone", r"\(0\) ?\d{2,4}[ -]\d{3,4}[ -]\d{3,4}(?![\w-])", _telephone),
    rule("telephone", r"\(0\d{1,4}\) ?\d{3,4}[ -]\d{3,4}(?![\w-])", _telephone),
    rule("telephone", r"\d{3} (?!\d\d00 \d\d00)\d{4} \d{4}(?![\w,-]|[.:]\d)", _telephone),
    rule(
        "serial",
        r"(?!\d{1,2}-\d{1,2}-\d{4}(?!\d)|\d{4}-\d\d?-\d\d?(?!\d))\d{2,6}(?:-\d{2,6}){2,5}(?![\w-])|\d\d-\d{7}(?![\w-])",
        _serial,
    ),
    rule("telephone", r"0\d{2,4}\s(?:\d{6}|\d{3,4}\s\d{3,4})(?![\w-])", _telephone),
    rule("social security", r"\d{3}-\d{2}-\d{4}(?![\w-])", _telephone),
    rule("IP address", r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)", _internet),
    rule(
        "named number",
        r"(401(?:\(k\)|[kK](?!\s(?:an?|per|each|people|views|users|followers|subscribers|downloads)\b))|403(?:\(b\)|b))(s)?(?!\w)",
        lambda m, s: _NAMED[m[1][:3]] + ("'s" if m[2] else ""),
    ),
    rule(
        "named number",
        r"[49]11(?![\w/,-]|\.\d)(?!\s(?:[a-z]+s|people|Turbo|GT\d|Carrera|Targa)\b)",
        lambda m, s: _NAMED[m[0]],
    ),
    rule("code", r"(?<=ISBN )\d[\dX-]+", lambda match, style: digits(match[0])),
    rule(
        "address",
        rf"(\d{{2,3}})-(\d\d)(?=\s\d+(?:st|nd|rd|th)\s(?:{STREETS})\b)",
        lambda m, s: f"{cardinal(m[1])} {cardinal(m[2])}",
    ),
    rule("address", r"\d{5}-\d{4}(?![\w-])", _telephone),
    rule(
        "address",
        r"(?:(?<=[a-z\d],\s)|(?<!\S)(?<!\S\s))\d{5}(?=\s[A-Z][a-z]+(?<!ans)(?<!ers)(\s[IVX\d]+)?(?:\s*[,.;)]|\s*\Z))",
        lambda match, style: digits(match[0]),
    ),
    rule("address", rf"(\d{{3,5}})([A-Z]?){_STREET_AHEAD}", _house),
)

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


WORD_RULES: tuple[Rule, ...] = (
    rule("card", r"(?:[xX]{3,4}[\s-]?)(?:[xX]{2,4}[\s-]?){0,3}(\d{4})(?!\w)", lambda match, style: digits(match[1])),
    rule("direction", r"(?:(?<=[Tt]urn )|(?<=[Bb]ear )|(?<=[Kk]eep ))[RL](?!\w)|[RL](?=\s(?:on|onto|at)\s)", _side),
    rule("address", r"[A-Z]{1,2}\d[A-Z\d]?\s\d[A-Z]{2}(?!\w)|[A-Z]\d[A-Z]\s?\d[A-Z]\d(?!\w)", _postcode),
    rule("telephone", r"x\.?\s?(\d{1,5})(?!\w)", _extension),
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
        rf"([NSEW])\.(?=\s(?:[A-Z][a-z]+|\d+(?:st|nd|rd|th))\s(?:{STREETS})\b)",
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
    rule("address", r"NY(?=,\sNY(?!\w))", lambda match, style: STATES["NY"]),
    rule("address", rf"(?<=[a-z],\s)({'|'.join(STATES)})(?=\s*[,.;:!?)]|\Z|\s[a-z])", _state),
    rule(
        "address",
        rf"([NS][EW])(?=\s(?:[A-Z][a-z]+|\d+(?:st|nd|rd|th))\s(?:{STREETS})\b)",
        lambda match, style: DIRECTIONS[match[1]],
    ),
    rule(
        "address",
        rf"([NSEW])(?=\s\d+(?:st|nd|rd|th)\s(?:{STREETS})\b)",
        lambda match, style: DIRECTIONS[match[1]],
    ),
    rule(
        "address",
        rf"([NS])\.\s?([EW])\.(?=\s(?:\d+(?:st|nd|rd|th)|[A-Z][a-z]+)\s(?:{STREETS})\b)",
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
        r"([NS][EW]|[NSEW])(?=\s(?:of|on|along|toward|towards)\s)",
        lambda m, s: DIRECTIONS[m[1]] if before(m, _FAR) or _lies(m) else None,
    ),
    rule("name", r"([A-G])[#♯](m(?!aj))?(?=\d|\W|\Z|maj|min|dim|sus|add)", _sharp),
    rule("address", r"(Ct|Pl|Sq|Cir|Ter)(?!\w)\.?(?!\s[A-Z])", _after_a_house),
    rule(
        "name",
        r"([A-G])(?:b(?=\s(?:major|minor|flat))|♭)(?!\w)",
        lambda match, style: f"{style.letters(match[1])} flat",
    ),
    rule("name", r"(CO|SO|NO|O|H)([2₂])(O?)(?!\w)", lambda m, s: " ".join((s.letters(m[1]), cardinal("2"), m[3]))),
    rule(
        "name",
        r"([A-Z]{1,3})&([A-Z]{1,3})(s?)(?!\w)",
        lambda match, style: (
            f"{style.letters(match[1])} and {style.letters(match[2])}{match[3] and chr(39) + 's'}"
            if style.for_voice
            else f"{match[1]} and {match[2]}"
        ),
    ),
)

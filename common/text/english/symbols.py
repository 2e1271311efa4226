"""Signs: of mathematics, of comparison, emoticons, ranges, and all that have a name."""

import re

from common.text.english.abbreviations import FUNCTIONS
from common.text.english.tables import GREEK, SYMBOLS
from common.text.english.tokens import Rule, Style, anywhere, before, rule, text_before
from common.text.numbers import cardinal, digits

POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉⁻⁺", "01234567890123456789-+")


def _power(match: re.Match[str], style: Style) -> str:
    exponent = match[1].translate(POWERS).lstrip("+")
    if exponent in ("2", "3"):
        return "squared" if exponent == "2" else "cubed"
    number = exponent.lstrip("-")
    return f"to the power of {'minus ' if exponent.startswith('-') else ''}{cardinal(number) if number else ''}"


_OF_TERMS = re.compile(r"[=^²³+]")


def _minus(match: re.Match[str], style: Style) -> str | None:
    """Between two terms, where another sign tells that they are terms."""
    return "minus" if anywhere(match.string, _OF_TERMS) else None


def _compared(match: re.Match[str], style: Style) -> str:
    return _related(match, "less than" if match[0] == "<" else "greater than")


_VERB_AHEAD = re.compile(r"\b(?:is|are|was|were|be)\s\Z")
_ASKED_WHETHER = re.compile(
    r"(?<!\w)(?:(?:Is|Are|Was|Were)|(Does|Do|Did))\s(?:(?!\b(?:that|sure|if|whether|you|it|there|where|when)\b)(?:[^.?!:;]|\.\d)){1,38}\Z"
)


# Of what has more than so much, or is for it: he earns > 50%, a score of > 80.
_AMOUNT_AHEAD = re.compile(
    r"(?<!\bthe\s)(?<!\bits\s)\b(?:of|in|with|for|at|by|to|from|over|than|has|have|had|having|got|gets?|needs?|requires?|wants?|costs?|weigh(?:s|ed)?"
    r"|earn(?:s|ed)?|makes?|made|spends?|spent|pays?|paid|saves?|lasts?|takes?|took|runs?|ran|walks?|reads?|uses?|wins?|won|gains?"
    r"|lost|loses?|contains?|holds?|held|covers?|owns?|sold|sells?|scores?|scored|drinks?|drank|eats?|ate|sees?|saw|about|least)\s\Z",
    re.IGNORECASE,
)
_AMOUNT_BEHIND = re.compile(r"\s*[$£€]?\.?\d")


def _related(match: re.Match[str], said: str) -> str:
    """7 > 5 is greater than, which 7 is > 5 and "Is 7 > 5?" have the verb of already; he earns > 50 % of it."""
    if before(match, _AMOUNT_AHEAD) and _AMOUNT_BEHIND.match(match.string, match.end()):
        return said.replace("greater", "more")
    has_verb = before(match, _VERB_AHEAD) or before(match, _ASKED_WHETHER)
    return said if has_verb else f"is {said}"


def _equals(match: re.Match[str], style: Style) -> str | None:
    """Is 2 + 2 = 4? Does 2 + 2 = 4?"""
    asked = _ASKED_WHETHER.search(text_before(match))
    if asked is None:
        return "equal to" if before(match, _VERB_AHEAD) else None
    return "equal" if asked[1] else "equal to"


def _is_not(match: re.Match[str], style: Style) -> str:
    return "not equal to" if before(match, _VERB_AHEAD) or before(match, _ASKED_WHETHER) else "does not equal"


_LIMIT_AHEAD = re.compile(r"\blim\s?[a-z]\s?\Z")
_COMMAND = re.compile(
    r"(?:\A|[`$\s])(?:git|sudo|npm|npx|pip|rm|ls|cd|cp|mv|docker|curl|wget|python3?|apt|apt-get|brew|grep|chmod|tar|ssh|make"
    r"|ffmpeg|kubectl)\s(?:[\w./-]+\s){0,4}-"
)


def _option(match: re.Match[str], style: Style) -> str | None:
    """git push -f, with --force; but he left -and came back"""
    return "dash " * len(match[0]) if anywhere(match.string, _COMMAND) else None


_REACTION = re.compile(
    r"(?<![\w.])\d{0,2}[A-Z][a-z]?[\d₂-₉]?[A-Za-z\d₂-₉]{0,9}\s\+\s\d{0,2}[A-Z]|\s\+\s\d{0,2}[A-Z][A-Za-z\d]*\s*\Z"
)
_NUMBER_AHEAD = re.compile(r"\d\s?[a-zA-Z%°]{0,3}\s?\Z")
_NUMBER_BEHIND = re.compile(r"\s?[$€£]?\d")


def _arrow(match: re.Match[str], style: Style) -> str | None:
    """2H2 + O2 → 2H2O yields, 10 → 20 to"""
    if before(match, _LIMIT_AHEAD):
        return "approaches"
    if anywhere(match.string, _REACTION):
        return "yields"
    return "to" if before(match, _NUMBER_AHEAD) and _NUMBER_BEHIND.match(match.string, match.end()) else None


_SIGNS = {"+": "plus", "-": "minus"}


def _terms(terms: str, style: Style) -> str:
    said = [_SIGNS.get(t) or (cardinal(t) if t.isdigit() else style.letters(t)) for t in terms if not t.isspace()]
    return " ".join(said)


_MENU_AHEAD = re.compile(r"\b[A-Z]\w*(?:\s[a-z]\w*)?\s\Z")
_CLICKED = re.compile(
    r"\b(?:[Cc]lick|[Gg]o\sto|[Ss]elect|[Cc]hoose|[Oo]pen\s(?:the|your|up|[A-Z])|[Tt]ap|[Mm]enu|Settings|File|Edit)\b"
)


def _menu(match: re.Match[str], style: Style) -> str | None:
    """Click File > Save As."""
    if not before(match, _MENU_AHEAD) or not anywhere(match.string, _CLICKED):
        return None
    return "," if style.for_voice else ""


def _symbol(match: re.Match[str], style: Style) -> str | None:
    return SYMBOLS.get(match[0])


def _greek(match: re.Match[str], style: Style) -> str | None:
    letter = match[0].lower()
    return GREEK.get(letter)


_LOVED = re.compile(
    r"\b(?:you|u|it|this|that|them|him|her|me|guys|all|much|so|love|thanks|day|night)[.!,]*\s\Z", re.IGNORECASE
)

_KEYED = re.compile(r"\b(?:[Pp]ress|[Dd]ial|[Hh]it|[Pp]ush|[Ee]nter)\b")
_KEY_AHEAD = re.compile(r"\b(?:press|dial|hit|push|enter|then|or|and|by|with|the)\s\Z|\d\s\Z", re.IGNORECASE)


_DIALLED_AHEAD = re.compile(r"\b(?:[Dd]ial|[Pp]ress|[Cc]all|[Ee]nter)\s\Z")
_NAMED_AHEAD = re.compile(r"\b(?:an?|the|this|each|every|by|with)\s\Z", re.IGNORECASE)


def _telephone_key(match: re.Match[str], style: Style) -> str | None:
    """Press * then #."""
    if not (before(match, _KEY_AHEAD) and anywhere(match.string, _KEYED)):
        return "asterisk" if match[0] == "*" and before(match, _NAMED_AHEAD) else None
    return "star" if match[0] == "*" else "pound"


_COMPARED_AHEAD = re.compile(
    r"(?:\b(?:is|are|was|were|be|of|at|if|with|when|where|score|scores|age|aged|ages|number|value|values|count|rate|rating|ratio"
    r"|level|levels|index|risk|p|n|only|under|kids|children)|[^\w.,!)])\s\Z",
    re.IGNORECASE,
)
_WORD_AHEAD = re.compile(r"[a-z]{2}[.,!)]*\s\Z")


def _heart(match: re.Match[str], style: Style) -> str | None:
    """thx for the gift <3, which ends a message; but: the score is <3"""
    ends = before(match, _WORD_AHEAD) and not before(match, _COMPARED_AHEAD)
    return "heart" if ends or before(match, _LOVED) else None


_OF_A_NETWORK = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}\Z")

SYMBOL_RULES: tuple[Rule, ...] = (
    rule(
        "card",
        r"(?:(?:\*{4}[\s-]?){1,4}|(?:•{2,4}[\s-]?){1,4}|\*{3}-\*{2}-)(\d{2,4})(?!\w)",
        lambda match, style: digits(match[1]),
    ),
    rule(
        "IP address",
        r"/(?:(?<=\.\d/)|(?<=\.\d\d/)|(?<=\.\d\d\d/))(?=[0-3]?\d(?!\w))",
        lambda match, style: "slash" if _OF_A_NETWORK.search(match.string[: match.start()][-20:]) else None,
    ),
    rule("electronic", r"/(?:(?<=localhost/)|(?<=localhost:\d\d\d\d/))(?=\w)", lambda match, style: "slash"),
    rule("music", r"♩(?=\s?=)", lambda match, style: "quarter note"),
    rule(
        "key",
        r"([*#])(\d{2,4})(#?)(?!\w)",
        lambda m, s: (
            f"{'star' if m[1] == '*' else 'pound'} {digits(m[2])}{' pound' if m[3] else ''}"
            if before(m, _DIALLED_AHEAD)
            else None
        ),
    ),
    rule("key", r"(?<!\S)[*#](?=[\s,.;)]|\Z)", _telephone_key),
    rule("sign", r"(?<=[A-Za-z]{2}\s)(?:≥|>=)(?=[$£€]?\.?\d)", lambda match, style: "at least"),
    rule("sign", r"(?<=[A-Za-z]{2}\s)(?:≤|<=)(?=[$£€]?\.?\d)", lambda match, style: "at most"),
    rule("emoticon", r"<3+(?=\s*(?:\Z|[.!~]\s*\Z))", _heart),
    rule("sign", r"(?<=[A-Za-z]{2}\s)[<>](?=[$£€]?\.?\d)", lambda m, s: "less than" if m[0] == "<" else "more than"),
    rule("math", r"(?<=[\w)])([⁻⁺]?[⁰¹²³⁴-⁹]+)", _power),
    rule("math", r"(?<=[\w)])\^(-?\d+)(?!\w)", _power),
    rule("math", r"(?:(?<=[\w)|])|(?<=[\w)|]\s))(?:<=|≤)\s*(?=[\w-])", lambda match, style: _related(match, "at most")),
    rule(
        "math", r"(?:(?<=[\w)|])|(?<=[\w)|]\s))(?:>=|≥)\s*(?=[\w-])", lambda match, style: _related(match, "at least")
    ),
    rule("math", r"(?:(?<=[\w|]\s)<(?=\s+(?:[\w-]|\.\d))|(?<=\d)<(?=\d))", _compared),
    rule("menu", r"(?<=[a-z]\s)>(?=\s[A-Z][a-z])", _menu),
    rule("arrow", r"(?:(?<=[\w)%°]\s)|(?<=[\w)%°]))(?:-{1,2}>|→|⟶)(?=\s?[\dA-Z$€£])", _arrow),
    rule("math", r"(?<=\d)\s?[·⋅]\s?(?=\d)", lambda match, style: "times"),
    rule("option", r"(?<=\s)--?(?=[A-Za-z])", _option),
    rule("sign", r"[▲▼](?=\s?[$£€]?\d)", lambda match, style: "up" if match[0] == "▲" else "down"),
    rule("math", r"\|(?<=P\([A-Z]\|)", lambda match, style: "given"),
    rule("math", r"\|(-?\w|\w\s?[-+]\s?\w)\|", lambda m, s: f"absolute value of {_terms(m[1], s)}"),
    rule("math", r"(?<=\w\s)/(?=\s[$£€]?[\d.,]+(?:\s(?:thousand|[mb]illion))?\s?=)", lambda match, style: "divided by"),
    rule("math", r"(?:(?<=[\w|]\s)>(?=\s+(?:[\w-]|\.\d))|(?<=\d)>(?=\d))", _compared),
    rule("sign", r"(?<![\w.,)])-(?=[$£€]?\.?\d)", lambda match, style: "minus"),
    rule("range", r"(?<=\d[a-z])-(?=\d{1,3}[a-z]?\b)", lambda match, style: "to"),
    rule("sign", r"~\s?(?=[$£€¥₹]?\.?\d)|(?<![\w)]\s)(?<![\w)])≈\s?(?=[$£€¥₹]?\.?\d)", lambda match, style: "about"),
    rule("emoticon", r"(?<![\d=)\w])(?<!\b[a-z]\s)<3+(?=\s*(?:\Z|[^\w\s]|[A-Za-z]{2}))", lambda match, style: "heart"),
    rule("emoticon", r"(?<![\w:;])[:;=8]['-]?[)(\]\[DPpO|*\\](?:[)(])*(?![\w:])", lambda match, style: ""),
    rule("sign", r"<=?\s?(?=[$£€]?\.?\d)", lambda m, s: "at most" if "=" in m[0] else "less than"),
    rule("sign", r"(?<!-)>=?\s?(?=[$£€]?\.?\d)", lambda m, s: "at least" if "=" in m[0] else "more than"),
    rule("sign", r"≤\s?(?=[$£€]?\.?\d)", lambda match, style: "at most"),
    rule("sign", r"≥\s?(?=[$£€]?\.?\d)", lambda match, style: "at least"),
    rule("math", r"(?:(?<=[\w)])|(?<=[\w)]\s))(?:!=|≠)\s?(?=[\w-])", _is_not),
    rule("math", r"(?<=\s)=(?=\s[\w-])", _equals),
    rule("math", r"(?:(?<=[\w)])|(?<=[\w)]\s))==+\s?(?=[\w-])", lambda match, style: "equals"),
    rule("math", r"(?<=[\w)])\^([a-z])(?!\w)", lambda match, style: f"to the {style.letters(match[1])}"),
    rule("name", r"\.NET\b", lambda match, style: "dot net"),
    rule("measure", r"°\s?([CF])(?!\w)", lambda m, s: f"degrees {'celsius' if m[1] == 'C' else 'fahrenheit'}"),
    rule("symbol", r"(?<=\w)§§?(?=\s?\d)|§§", lambda match, style: "sections"),
    rule("reference", r"#\s?(?=\d)", lambda match, style: "number"),
    rule("abbreviation", r"&c\b\.?", lambda match, style: "et cetera"),
    rule("symbol", r"&&", lambda match, style: "and"),
    rule("footnote", r"(?:(?<=[a-z]{3})|(?<=[.,;!?)\"']))\[\d{1,3}\]", lambda match, style: ""),
    rule("math", r"(?<=[\w)²³] )-(?= \d*[a-z]?\b)", _minus),
    rule(
        "symbol", r"(?<=[\w.] )(?<![ECMP]T )(?<![SD]T )(?<![AP]M )/(?= \w)|(?<=\w)/(?=\s)", lambda match, style: "slash"
    ),
    rule("number", r"([⁰¹²³⁴-⁹₀-₉]+)", lambda match, style: cardinal(match[1].translate(POWERS))),
    rule("symbol", r"[^\w\s'\"]|_", _symbol),
)
GREEK_RULE = rule("letter", r"[α-ωΑ-Ω](?![A-Za-z]{2}|[^\W\d_A-Za-z⁰¹²³⁴-⁹₀-₉])", _greek)
WORD_RULES: tuple[Rule, ...] = (
    rule("math", r"d([a-z])/d([a-z])(?![\w/])", lambda m, s: " ".join(map(s.letters, ("d", m[1], "d", m[2])))),
    rule(
        "math", r"(sin|cos|tan|log|ln)(?=[²³]|\^\d|\s?[θαβγφψωπ]|\s[xyt](?![\w']))", lambda m, s: FUNCTIONS[m[1]][:-3]
    ),
    rule("math", r"lim(?=\s?[a-z]\s?(?:→|->))", lambda match, style: "limit as"),
    rule("math", r"log([₀-₉]{1,3})\(?", lambda m, s: f"log base {cardinal(m[1].translate(POWERS))} of"),
    rule(
        "math",
        r"([fghFG])('{1,2})(?=\([^()\s]{1,8}\))",
        lambda m, s: f"{s.letters(m[1])} {'double ' if len(m[2]) > 1 else ''}prime of",
    ),
    rule("math", r"O(?=\([\w\s^*+/-]{1,20}\))", lambda match, style: f"{style.letters('O')} of"),
    rule("math", r"([fghPEO])(?=\([^()\s]{1,8}\))", lambda match, style: f"{style.letters(match[1])} of"),
    rule("math", r"(sin|cos|tan|log|ln)(?=\()", lambda match, style: FUNCTIONS[match[1]]),
    rule("math", r"([nkN])!(?=\s?[=+*/)]|\s(?:is|ways))", lambda match, style: f"{match[1]} factorial"),
)

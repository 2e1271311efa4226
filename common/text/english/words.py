"""Words that are not said as they are written: abbreviations and initials."""

import re

from common.text.english.abbreviations import (
    ABBREVIATIONS,
    ALSO_WORDS,
    CAPITALISED,
    IRISH_COUNTIES,
    KEYS,
    NAMES_TOO,
    OLD_STATES,
    SLASHED,
)
from common.text.english.tables import STATES, STREETS
from common.text.english.tokens import Rule, Style, anywhere, before, rule
from common.text.english.units import PAID_PER
from common.text.numbers import cardinal

# What follows "St." or "Dr." where it ends an address: these words do not begin a name.
NOT_A_NAME = re.compile(
    "(?:a|an|and|are|as|at|because|but|by|for|from|has|he|her|his|i|in|into|is|it|its|my|near|next|no|of|on|or|our|she|so"
    "|that|the|then|there|these|they|this|to|until|was|we|were|when|where|which|while|who|will|with|you)",
    re.IGNORECASE,
)


def _title_or_street(match: re.Match[str], style: Style) -> str:
    """A title stands before a name; a kind of street stands behind one."""
    title, street = ("saint", "street") if match[1][0] in "Ss" else ("doctor", "drive")
    follows = re.compile(r"[\s-]+([\w']+)").match(match.string, match.end())
    ahead = re.search(r"([\w']+)\s+$", match.string[max(0, match.start() - 40) : match.start()])
    if ahead is None or NOT_A_NAME.fullmatch(ahead[1]):
        return title
    if follows is None:
        return street
    if title == "doctor" and ahead[1].islower() and follows[1][0].isupper():  # said Dr. Who; a street would have a name
        return title
    if NOT_A_NAME.fullmatch(follows[1]) or (title == "saint" and re.fullmatch("[NSEW]|[NS][EW]", follows[1])):
        return street
    is_name = follows[1][0].isupper() or match[0][0].islower()
    return title if is_name else street


_IN_CAPITALS = frozenset(
    ["MR", "MRS", "JR", "SR", "DR", "ST", "VS", "AVE", "RD", "INC", "LTD", "MT", "FT", "ETC", "CO", "LT", "MSS"]
)


_SMALL_LETTER = re.compile("[a-z]")


_GOES_ON = re.compile(r":|,?\s(?:[a-z\d$£€¥<>~#(@]|[A-Z]\.)|,|-[a-z]")


def _abbreviation(match: re.Match[str], style: Style) -> str | None:
    if (
        match[1].isupper()
        and len(match[1]) < 4
        and match[1] not in _IN_CAPITALS
        and anywhere(match.string, _SMALL_LETTER)
    ):
        return None
    if match[1].islower() and match.string[match.end() : match.end() + 1].isalpha():  # pd.DataFrame
        return None
    goes_on = _GOES_ON.match(match.string, match.end())
    is_word = (
        match[1] in ALSO_WORDS or match[1] in NAMES_TOO
    ) and not goes_on  # at the end of a sentence; the abbreviation has a capital
    return None if is_word else ABBREVIATIONS.get(match[1].lower())


_ORDINAL_AHEAD = re.compile(r"\d(?:st|nd|rd|th)\s\Z")


def _minute(match: re.Match[str], style: Style) -> str | None:
    """In the 89th min."""
    return f"minute{match[1] or ''}" if before(match, _ORDINAL_AHEAD) else None


def _degree(match: re.Match[str], style: Style) -> str:
    """B.Sc., LL.B. → letters; M.Eng. → m eng"""
    level, subject = match[0].split(".")[:2]
    is_spelled = len(subject) < 3 and subject != "Ed"
    return style.letters(level + subject) if is_spelled else f"{style.letters(level)} {subject.lower()}"


def _party(match: re.Match[str], style: Style) -> str | None:
    """D-Calif. → D California"""
    state = OLD_STATES.get(match[2].rstrip(".")) or STATES.get(match[2].replace(".", ""))
    return f"{style.letters(match[1])} {state}" if state else None


def _initials(match: re.Match[str], style: Style) -> str | None:
    """U.S. → U S, but e.g. and i.e. are words of their own."""
    letters = match[0].replace(".", "")
    return style.letters(letters)


_PATIENT = re.compile(
    r"\b(?:pain|denies|presents|reports|complain\w*|cough|fever|symptoms?|medications?|mg|admitted|discharged|[HDRT]x|y/o|HTN|hx|c/o|prn|bid)\b",
    re.IGNORECASE,
)
_PRICE_AHEAD = re.compile(r"[$£€][\d.,]*\d\s\Z|(?<![\d.])\d[\d.,]*\s?[€£]\s\Z")


def _persons_or_pages(match: re.Match[str], style: Style) -> str:
    """$15 pp, 320 pp."""
    return "per person" if before(match, _PRICE_AHEAD) else "pages"


_GRADED = re.compile(
    r"\b(?:an?|grades?|graded|got|earned|gave|rated|rating|with|of|to|from|or|solid|straight)\s\Z", re.IGNORECASE
)


def _grade(match: re.Match[str], style: Style) -> str | None:
    """an A- in chemistry"""
    if not before(match, _GRADED):
        return None
    return f"{style.letters(match[1])} {'plus' if match[2] == '+' else 'minus'}"


def _either_of_two(match: re.Match[str], style: Style) -> str | None:
    """he/she"""
    first, last = match[0].split("/")
    return f"{first} or {last}" if first.lower() != last.lower() else None


_ESTIMATED = re.compile(
    r"\.?\s(?:time|costs?|arrival|delivery|completion|value|price|total|wait|repairs?|travel|budget|duration|reading|date|ship\w*"
    r"|weight|[$£€~]|\d+(?:\.\d+)?\s?(?:-\s?\d+\s?)?(?:min|h|d|w|mo|k|%|people|miles|km|mi|million|billion))"
)
_INCLUDED = re.compile(
    r"\.?\s(?:VAT|GST|HST|taxes|tax|p&p|P&P|postage|delivery|shipping|breakfast|bills|free|wifi|parking|service|utilities|fees|batteries)\b"
)
# Behind the first word, before the second
_EXTRA = {
    "adj": ("adjunct", "(?:prof|faculty|instr|lect)"),
    "adv": ("advance", "(?:notice|booking|tickets?|purchase|payment)"), "alg": ("algebra", "(?:\\d|I)"),
    "trig": ("trig", "\\d"), "div": ("divided", "by\\b"), "prof": ("professional", "(?:dev|development)"),
    "dev": ("development", "(?:team|kit|board|tools?|plan|cycle)"), "rt": ("right", "Hon"),
    "sep": ("separate", "[a-z]"),
    "sub": ("substitute", "(?:teacher|for)"), "vet": ("veterinary", "(?:clinic|med|bill)"),
    "trans": ("transaction", "(?:fee|date|id|no|amount)"),
    "ins": ("insurance", "(?:co|claim|card|policy|agent|agency|premium)"),
    "occ": ("occupancy", "(?:limit|rate|\\d)"), "util": ("utilities", "(?:incl|not)"),
    "pref": ("preferred", "(?:not|but|time|\\d)"),
    "cal": ("calories", "(?:per|a|from)\\b"), "kit": ("kitchen", "(?:w/|with|has|and|&)"),
    "acad": ("academic", "(?:year|advis|probation)"),
    "sec": ("security", "dep"), "mo": ("monthly", "(?:rent|fee|payment|cost|pmt|bill|budget)"),
    "wkly": ("weekly", "[a-z]"),
}  # fmt: skip


def _by_what_follows(match: re.Match[str], style: Style) -> str | None:
    """adv. notice, div. by, mo. rent"""
    said, behind = _EXTRA[match[1].lower()]
    return said if re.match(rf"\s{behind}", match.string[match.end() :]) else None


WORD_RULES: tuple[Rule, ...] = (
    rule("abbreviation", r"RE(?=:)|FW(?=:)", lambda match, style: "re" if match[0] == "RE" else style.letters("fw")),
    rule(
        "abbreviation",
        r"[Ee]st\b\.?",
        lambda m, s: "estimated" if _ESTIMATED.match(m.string, m.end()) and m[0][-1] == "." else None,
    ),
    rule(
        "abbreviation", r"(?:inc|incl)\b\.?", lambda m, s: "including" if _INCLUDED.match(m.string, m.end()) else None
    ),
    rule("abbreviation", r"exc?l?\b\.?", lambda m, s: "excluding" if _INCLUDED.match(m.string, m.end()) else None),
    rule("abbreviation", rf"({'|'.join(_EXTRA)})\.", _by_what_follows, any_case=True),
    rule(
        "abbreviation",
        r"(?:(?<=security )|(?<=sec\. )|(?<=pet )|(?<=damage )|(?<=[$£€]\d\d\d )|(?<=no ))dep\.",
        lambda match, style: "deposit",
    ),
    rule(
        "abbreviation",
        r"[Pp]t(s)?\b\.?(?=\s(?:is|was|are|were|has|had|denies|reports|presents|complains|states|c/o|admitted|seen)\b)",
        lambda m, s: f"patient{m[1] or ''}" if anywhere(m.string, _PATIENT) else None,
    ),
    rule("code", r"(?<=\d-)(cv|cr|mc|md|bk|ap)(?=-\d)", lambda match, style: style.letters(match[1])),
    rule("abbreviation", r"[Rr]d\.?(?=\sof\s\d)", lambda match, style: "round"),
    rule("abbreviation", r"Nos(?=\s\d)", lambda match, style: "numbers"),
    rule("abbreviation", r"pgs?\s(?=\d)", lambda match, style: "pages " if "s" in match[0] else "page "),
    rule("abbreviation", r"op\.\scit\b\.?", lambda match, style: "op cit"),
    rule("abbreviation", r"w/e(?=\s\d)", lambda match, style: "week ending"),
    rule("abbreviation", r"r/t(?=\s(?:ticket|flight|fare|airfare|trip))", lambda match, style: "round trip"),
    rule("abbreviation", r"w/(?=\s*[.,;!?)]|\s*\Z)", lambda match, style: "with"),
    rule(
        "abbreviation",
        r"(?:s?he/s?he|his/hers?|her/his|him/her|himself/herself)(?!\w|/)",
        _either_of_two,
        any_case=True,
    ),
    rule("abbreviation", r"s/he(?!\w)", lambda match, style: "he or she"),
    rule("abbreviation", r"[Cc]or\.(?=\sof\b)", lambda match, style: "corner"),
    rule("abbreviation", r"(st)\.", _title_or_street, any_case=True),
    rule("abbreviation", r"(St)(?![\w.])", _title_or_street),
    rule("abbreviation", r"(?<=\d(?:st|nd|rd|th)\s)(st)(?=\W*\Z)", lambda match, style: "street"),
    rule("abbreviation", r"(?<!/)(dr)(?!\w)\.?", _title_or_street, any_case=True),
    rule("abbreviation", r"(mrs?)(?!\w)\.?", _abbreviation, any_case=True),
    rule("abbreviation", r"Ms(?=\s[A-Z][a-z])", lambda match, style: ABBREVIATIONS["ms"]),
    rule("abbreviation", r"e\.\s?g\b\.?", lambda match, style: "for example", any_case=True),
    rule("abbreviation", r"i\.\s?e\b\.?", lambda match, style: "that is", any_case=True),
    rule("abbreviation", r"(?:[BMD]\.(?:Sc|Eng|Ed|Phil|Tech|Com|Arch|Mus)|LL\.[BMD]|Ed\.D)\b\.?", _degree),
    rule("abbreviation", r"ph\.?d\b\.?", lambda match, style: style.letters("phd"), any_case=True),
    rule("abbreviation", r"([ap])\.\s?m\b\.?", lambda match, style: style.half(match[1]), any_case=True),
    rule("abbreviation", r"b\.\s?(?=(?:1\d|20)\d\d(?!\d))", lambda match, style: "born "),
    rule("abbreviation", r"r\.\s?(?=\d{3,4}\s?-\s?\d)", lambda match, style: "reigned "),
    rule(
        "abbreviation",
        r"(?:(?<=[Ll]ast )|(?<=[Nn]ew )|(?<=[Nn]ext )|(?<=[Tt]his )|(?<=[Ee]very )|(?<=per )|(?<=[Ee]ach ))"
        r"(mo|yr|wk|qtr)(?!\w)\.?",
        lambda match, style: ABBREVIATIONS[match[1]],
    ),
    rule("abbreviation", r"[Dd]isc\.(?=\s(?:\d+\s?%|[$£€]))", lambda match, style: "discount"),
    rule("address", rf"({'|'.join(OLD_STATES)})\.(?=\s(?:{STREETS})\b)", lambda match, style: OLD_STATES[match[1]]),
    rule("name", r"Gen\.(?=\s[XYZ](?!\w))", lambda match, style: "gen"),
    rule("abbreviation", r"[Rr]ev\.(?=\s?[:$£€])", lambda match, style: "revenue"),
    rule("abbreviation", r"div\.", lambda match, style: "dividend" if before(match, _PRICE_AHEAD) else None),
    rule("abbreviation", r"d\.\s?(?=(?:1\d|20)\d\d(?!\d))", lambda match, style: "died "),
    rule("abbreviation", r"pop\.\s?(?=\d)", lambda match, style: "population ", any_case=True),
    rule("abbreviation", r"min(s)?(?!\w)(?:\.(?=\s[a-z]))?", _minute),
    rule("abbreviation", r"incl\.(?=\s?(?:[.,;)]|\Z))", lambda match, style: "included"),
    rule(
        "name",
        r"Pt\.(?=\s[A-Z][a-z])(?!\s\w+\s(?:was|is|has|had|came|reports|denies|states|presents)\b)",
        lambda match, style: None if anywhere(match.string, _PATIENT) else "point",
    ),
    rule(
        "abbreviation",
        r"(?:(?<=yrs\.\s)|(?<=yrs\s)|(?<=yrs'\s)|(?<=years\s)|(?<=years'\s)|(?<=of\s))exp\b\.?"
        r"|exp\b\.?(?=\s(?:req|pref|needed|necessary|in\s|w/|with\s|a\splus|only|level))",
        lambda match, style: "experience",
    ),
    rule("abbreviation", r"(?<=\d\s)pp\b\.?", _persons_or_pages),
    rule(
        "abbreviation",
        r"[Bb]/[Ww](?=\s(?!photo|film|print|image|pic|movie|copi|camera)[\w$£€])",
        lambda match, style: "between",
    ),
    rule("name", r"([A-DF])([+-])(?![\w+-])", _grade),
    rule("abbreviation", r"(?<=\d\s)ea\b\.?", lambda match, style: "each"),
    rule("abbreviation", r"WW([12])(?!\w)", lambda match, style: f"world war {cardinal(match[1])}"),
    rule("abbreviation", r"[FB]r\.(?=\s[A-Z])", lambda m, s: "father" if m[0][0] == "F" else "brother"),
    rule("abbreviation", r"[Ee]xp\.(?=\sdate)", lambda match, style: "expiration"),
    rule(
        "abbreviation",
        rf"({'|'.join(SLASHED)})(?![\w/])",
        lambda m, s: SLASHED[m[1].lower()] if m[1] != "B/C" else None,
        any_case=True,
    ),
    rule("abbreviation", r"[rud]/(?=[A-Za-z]\w)", lambda match, style: f"{style.letters(match[0][0])} slash "),
    rule("abbreviation", r"P\.?O\.?(?=\sBox)", lambda match, style: style.letters("po")),
    rule("abbreviation", r"(?:(?<=\w\s)|(?<=\w\.\s))vs?(?:\.(?=\s\w)|(?=\s[A-Z]))", lambda match, style: "versus"),
    rule("abbreviation", r"(?<=\d(?:st|nd|rd|th)\s)[Ff]l\b\.?", lambda match, style: "floor"),
    rule(
        "abbreviation",
        r"(?:(?<=\d\s)|(?<=\d[kKmM]\s))(pcm|pw|p\.?a\.|pppn|p\.w\.|p\.h\.|p/[hwam])(?!\w)",
        lambda m, s: f"per {PAID_PER[re.sub('[./]', '', m[1])]}" if m[1][1] != "/" or before(m, _PRICE_AHEAD) else None,
    ),
    rule("abbreviation", r"Sec\.(?=\sof\b)", lambda match, style: "secretary"),
    rule("abbreviation", r"(?<=\d(?:st|nd|rd|th)\s)(?:c|cent)\.", lambda match, style: "century"),
    rule(
        "name",
        r"([A-Z])\.(?=\s(?:coli|rex|pylori|aureus|elegans|pneumoniae|difficile|diff|melanogaster|sapiens|cerevisiae|vulgaris)\b)",
        lambda match, style: style.letters(match[1]),
    ),
    rule("abbreviation", r"adv\b\.?", lambda match, style: "advance" if before(match, _PRICE_AHEAD) else None),
    rule(
        "abbreviation",
        r"(?:(?<=good )|(?<=great )|(?<=exc\. )|(?<=excellent )|(?<=mint )|(?<=fair )|(?<=used ))cond\.",
        lambda match, style: "condition",
    ),
    rule("abbreviation", r"(?<=per )cust\.", lambda match, style: "customer"),
    rule("abbreviation", r"(?<=[Hh]appy )hr(?!\w)\.?", lambda match, style: "hour"),
    rule("abbreviation", r"(?:(?<=\+ )|(?<=& )|(?<=all )|(?<=plus ))utils?(?!\w)\.?", lambda match, style: "utilities"),
    rule("abbreviation", r"([afd])/([kb])/a(?!\w)", lambda m, s: s.letters(f"{m[1]}{m[2]}a")),
    rule("abbreviation", r"a\.?k\.?a\b\.?", lambda match, style: style.letters("aka"), any_case=True),
    rule("abbreviation", r"(?:(?<=[a-z],\s)|(?<=[a-z]\.,\s))([A-Z][a-z]+)\.", lambda m, s: OLD_STATES.get(m[1])),
    rule(
        "abbreviation",
        r"(Ala|Ariz|Calif|Colo|Conn|Fla|Mich|Minn|Okla|Tenn|Tex|Wis|Wyo)\.(?=,?\s[A-Za-z])",
        lambda m, s: OLD_STATES[m[1]],
    ),
    rule("abbreviation", r"([RDI])-([A-Z][a-z]+\.|[A-Z]{2}(?=\))|[A-Z]\.[A-Z]\.(?=\)))", _party),
    rule("key", rf"({'|'.join(KEYS)})\s?[+-]\s?(?=\w)", lambda m, s: f"{KEYS[m[1]]} "),
    rule("abbreviation", r"[Ww]k(?=\sof\s(?:\d|[A-Z]))", lambda match, style: "week"),
    rule("abbreviation", r"w/([ce])(?=\s\d)", lambda m, s: f"week {'commencing' if m[1] == 'c' else 'ending'}"),
    rule("abbreviation", r"w/(?=\s?\w)", lambda match, style: "with"),
    rule("abbreviation", rf"Co\.(?=\s(?:{IRISH_COUNTIES})(?!\w))", lambda match, style: "county"),
    rule("abbreviation", r"Sec\.[\s-]Gen\.", lambda match, style: "secretary general"),
    rule("abbreviation", r"([A-Za-z]{2,6})\.", _abbreviation),
    rule("abbreviation", rf"(?!Ave\s(?:Maria|Verum)\b)({'|'.join(CAPITALISED)})(?!\w)", _abbreviation),
    rule("initials", r"(?:[A-Za-z]\.){2,}(?!\w)|(?:[A-Za-z]\.)+[A-Za-z](?!\w)", _initials),
)

"""Words that are not said as they are written: abbreviations, initials, acronyms, Roman numerals."""

import re

from common.text import pronounce
from common.text.english import roman
from common.text.english.abbreviations import (
    ABBREVIATIONS,
    ALSO_WORDS,
    BOOKS,
    CAPITALISED,
    FUNCTIONS,
    IRISH_COUNTIES,
    KEYS,
    LABELLED,
    LEGAL,
    NAMES_TOO,
    OLD_STATES,
    REFERENCES,
    SHORT_PHRASES,
    SLASHED,
)
from common.text.english.symbols import POWERS
from common.text.english.tables import (
    ELEMENTS,
    EMPHASISED,
    INTERJECTIONS,
    MIXED_CASE,
    PRONOUNCED,
    SPELLED,
    STATES,
    STREETS,
    WORDS_TOO,
)
from common.text.english.tokens import Rule, Style, anywhere, before, rule
from common.text.english.units import UNITS
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
    if NOT_A_NAME.fullmatch(follows[1]):
        return street
    is_name = follows[1][0].isupper() or match[0][0].islower()
    return title if is_name else street


_IN_CAPITALS = frozenset(
    ["MR", "MRS", "JR", "SR", "DR", "ST", "VS", "AVE", "RD", "INC", "LTD", "MT", "FT", "ETC", "CO", "LT", "MSS"]
)


_SMALL_LETTER = re.compile("[a-z]")
_SMALL_BUT_S = re.compile("[a-rt-z]")


_GOES_ON = re.compile(r",?\s(?:[a-z\d$£€¥<>~#(@]|[A-Z]\.)|,|-[a-z]")


def _abbreviation(match: re.Match[str], style: Style) -> str | None:
    if (
        match[1].isupper()
        and len(match[1]) < 4
        and match[1] not in _IN_CAPITALS
        and anywhere(match.string, _SMALL_LETTER)
    ):
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


def _reference(match: re.Match[str], style: Style) -> str:
    """Apt 12, fig. 3"""
    return ABBREVIATIONS[match[1].lower()]


# Which of them stand before Roman numerals; the others may end a sentence before "I".
_IN_ROMAN = "eps?|chs|chaps?|pt|bks?|vols|figs|sects?|lect|app|amend"
_OWN_WORD = frozenset(["cat", "mob", "app", "tab", "ex", "rule", "prop", "ref", "def", "col"])
_OWNER_AHEAD = re.compile(
    r"\b(?:(?P<owner>my|your|his|her|our|their|an?)|the|this|that|\w+'s)\s(?:[a-z]+\s)?\Z", re.IGNORECASE
)
_COUNTED_BEHIND = re.compile(r"[\d,]+\s[a-z]")


def _ends_a_sentence(match: re.Match[str]) -> bool:
    """My ex. 5 years ago we met."""
    if match[1] not in _OWN_WORD:
        return False
    ahead = _OWNER_AHEAD.search(match.string[max(0, match.start() - 40) : match.start()])
    return bool(ahead and (ahead["owner"] or _COUNTED_BEHIND.match(match.string, match.end())))


def _party(match: re.Match[str], style: Style) -> str | None:
    """D-Calif. → D California"""
    state = OLD_STATES.get(match[2].rstrip(".")) or STATES.get(match[2])
    return f"{style.letters(match[1])} {state}" if state else None


def _initials(match: re.Match[str], style: Style) -> str | None:
    """U.S. → U S, but e.g. and i.e. are words of their own."""
    letters = match[0].replace(".", "")
    return style.letters(letters)


# ---------------------------------------------------------------------------------------------------------------------
# Capitals

NO_VOWEL = "[bcdfghjklmnpqrstvwxz]{2,5}"
_LONGEST_SPELLED = 4
_NUMERAL = re.compile(r"X{0,3}(?:IX|IV|V?I{0,3})")


def _capitals(match: re.Match[str], style: Style) -> str | None:
    """Spelled out if that is how it is said: GPU, HTML, TV; but NASA, HELLO."""
    word, ending = match[1], f"'{match[2][-1]}" if match[2] else ""
    ending = " ing" if ending == "'g" else ending  # CC'ing
    if not style.for_voice or word.lower() in style.known or word in PRONOUNCED:
        return None
    start, stop = match.span()
    before_it, rest = match.string[max(0, start - 40) : start], match.string[stop : stop + 40]
    if before_it[-1:].isdigit() and len(word) <= 3:  # C-3PO, 4WD
        return style.letters(word)
    if re.match(r"-?\d", rest) and (len(word) == 2 or not re.search("[AEIOUY]", word)):  # SR-71, AR-15
        return style.letters(word)
    shouts = not anywhere(match.string, _SMALL_BUT_S if ending else _SMALL_LETTER)
    shouts = shouts and _has_loud_words(match.string, word)
    is_acronym = word in SPELLED or pronounce.is_said_by_letter(word.lower())
    is_word_too = word in WORDS_TOO or word in ("US", "ID", "AD")
    is_loud = shouts or _shouted(before_it, rest) or (word == "AM" and before_it.endswith("I "))
    if is_acronym and not (is_word_too and is_loud):
        return style.letters(word) + ending
    if _NUMERAL.fullmatch(word) and re.search(r"[A-Za-z]\s\Z", before_it):
        return None
    if len(word) <= 3 and not shouts and word not in EMPHASISED and not _shouted(before_it, rest):  # ERA, COB
        return style.letters(word) + ending
    has_vowel = bool(re.search(r"[AEIOUY]", word))
    if pronounce.pronunciations(word.lower()) or (has_vowel and len(word) > _LONGEST_SPELLED):
        return None
    return style.letters(word) + ending


def _has_loud_words(text: str, besides: str) -> bool:
    """Whether a text in capitals has words that are no acronyms; AD 79 and SF 31, LA 24 have none."""
    beside = (word for word in re.findall(r"[A-Z]{2,}", text[:_READ]) if word != besides)
    return any(word not in SPELLED and (len(word) > 3 or word in EMPHASISED) for word in beside)


_READ = 400  # characters


def _shouted(ahead: str, behind: str) -> bool:
    """Whether a word in capitals stands beside another that is a word: THE CAT sat."""
    beside = [*re.findall(r"\b([A-Z]{2,})\W{1,2}\Z", ahead), *re.findall(r"\A\W{1,2}([A-Z]{2,})\b", behind)]
    return any(
        re.search("[AEIOUY]", word)
        and word not in PRONOUNCED
        and pronounce.pronunciations(word.lower())
        and not pronounce.is_said_by_letter(word.lower())
        for word in beside
    )


def _without_vowels(match: re.Match[str], style: Style) -> str | None:
    """npm, html: no word, although in small letters; but hmm."""
    is_word = match[0] in INTERJECTIONS or match[0] in style.known or pronounce.pronunciations(match[0])
    return style.letters(match[0]) if style.for_voice and not is_word else None


def _mixed_case(match: re.Match[str], style: Style) -> str | None:
    """iOS, macOS, mRNA, OpenAI: what stands in capitals is spelled."""
    if not style.for_voice:
        return None
    first, capitals, ending = match.groups()
    is_spelled = capitals in SPELLED or not re.search("[AEIOUY]", capitals) or len(first) == 1
    if not is_spelled or (len(capitals) > 3 and pronounce.pronunciations(capitals.lower())):
        return None  # ReLU
    said = capitals if capitals in PRONOUNCED else style.letters(capitals)
    return f"{style.letters(first) if len(first) == 1 else first} {said}{ending and chr(39) + 's'}"


_LETTER_AHEAD = re.compile(
    r"(?:\d|\b(?:[a-z]+|Plan|Grade|Hepatitis|Vitamin|Group|Type|Section|Option|Class|Part|Block)\s)\Z"
)


def _letter_a(match: re.Match[str], style: Style) -> str | None:
    """A4, 23A, vitamin A: the letter, and not the article."""
    is_letter = re.match(r"-?\d|\+", match.string[match.end() :]) or before(match, _LETTER_AHEAD)
    return style.letters("A") if style.for_voice and is_letter else None


def _mixed_name(match: re.Match[str], style: Style) -> str | None:
    return style.letters(match[0].lower()) if style.for_voice else None


_ELEMENT = re.compile(r"([A-Z][a-z]?|\))([\d₀-₉]*)")


def _formula(match: re.Match[str], style: Style) -> str | None:
    """H2SO4 → H two S O four, but COP27 is no formula, nor is any name with other letters than those of elements."""
    parts = _ELEMENT.findall(match[0])
    has_number_within = any(number for _, number in parts[:-1])
    is_formula = len(parts) == 2 or has_number_within or not match[0].isupper()
    has_number = any(number for _, number in parts) or (len(parts) > 2 and not match[0].isupper())  # NaClO has none
    if not (is_formula and has_number and all(element in ELEMENTS or element == ")" for element, _ in parts)):
        return None
    return " ".join(
        f"{style.letters(element.strip(')'))} {cardinal(number.translate(POWERS)) if number else ''}".strip()
        for element, number in parts
    )


_SEVERAL = {"ch": "chapters", "p": "pages", "pp": "pages", "fig": "figures", "sec": "sections", "vol": "volumes"}
_RANKED = re.compile(r"\b(?:the|an?|his|her|my|our|your|their|is|was|at|as|from|to|of|and|world|seed|ranked)\s\Z")
_PATIENT = re.compile(
    r"\b(?:pain|denies|presents|reports|complain\w*|cough|fever|symptoms?|medications?|mg|admitted|discharged|[HDRT]x)\b",
    re.IGNORECASE,
)
_PRICE_AHEAD = re.compile(r"[$£€][\d.,]*\d\s\Z|(?<![\d.])\d[\d.,]*\s?[€£]\s\Z")
_PAID = {"pcm": "per calendar month", "pw": "per week", "pa": "per annum", "pppn": "per person per night"}


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


WORD_RULES: tuple[Rule, ...] = (
    rule("name", r"(?<=\b[Dd]ew )pt(?!\w)\.?|(?<=ing )pt(?!\w)\.?", lambda match, style: "point"),
    rule("abbreviation", r"[Cc]or\.(?=\sof\b)", lambda match, style: "corner"),
    rule(
        "reference",
        r"(?:ch|pp?|fig|sec|vol)\.\s*(?=\d+\s?-\s?\d)",
        lambda m, s: _SEVERAL[m[0].lower().partition(".")[0]],
        any_case=True,
    ),
    rule("abbreviation", r"(st)\.", _title_or_street, any_case=True),
    rule("abbreviation", r"(St)(?![\w.])", _title_or_street),
    rule("abbreviation", r"(?<=\d(?:st|nd|rd|th)\s)(st)(?=\W*\Z)", lambda match, style: "street"),
    rule("abbreviation", r"(dr)(?!\w)\.?", _title_or_street, any_case=True),
    rule("abbreviation", r"(mrs?)(?!\w)\.?", _abbreviation, any_case=True),
    rule("abbreviation", r"Ms(?=\s[A-Z][a-z])", lambda match, style: ABBREVIATIONS["ms"]),
    rule("abbreviation", r"e\.\s?g\b\.?", lambda match, style: "for example", any_case=True),
    rule("abbreviation", r"i\.\s?e\b\.?", lambda match, style: "that is", any_case=True),
    rule("abbreviation", r"(?:[BMD]\.(?:Sc|Eng|Ed|Phil|Tech|Com|Arch|Mus)|LL\.[BMD]|Ed\.D)\b\.?", _degree),
    rule("abbreviation", r"ph\.?d\b\.?", lambda match, style: style.letters("phd"), any_case=True),
    rule("abbreviation", r"([ap])\.\s?m\b\.?", lambda match, style: style.half(match[1]), any_case=True),
    rule("reference", r"[Nn]o\.(?=\sof\s(?!course\b)[a-z])", lambda match, style: "number"),
    rule("reference", r"nos\.\s*(?=\d)|(?<=[QH]\d\s)nos\.?(?!\w)", lambda match, style: "numbers", any_case=True),
    rule("abbreviation", r"b\.\s?(?=(?:1\d|20)\d\d(?!\d))", lambda match, style: "born "),
    rule("abbreviation", r"r\.\s?(?=\d{3,4}\s?-\s?\d)", lambda match, style: "reigned "),
    rule("abbreviation", r"fl\.\s?(?=\d{3,4}(?!\w)|\d{1,2}(?:st|nd|rd|th)\sc)", lambda match, style: "flourished "),
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
    rule("reference", r"op\.\s*(?=\d)", lambda match, style: "opus", any_case=True),
    rule("reference", r"p\.\s*(?=\d|(?-i:[ivxl]{1,6})(?![\w']))", lambda match, style: "page", any_case=True),
    rule("reference", r"pp\.\s*(?=\d|(?-i:[ivxl]{1,6})(?![\w']))", lambda match, style: "pages", any_case=True),
    rule("reference", r"(apt|ste|rte|rm|bldg|fig|ext|vol|ch)\.?\s+(?=#?\d)", _reference, any_case=True),
    rule(
        "reference",
        rf"({'|'.join(REFERENCES)})\.\s*(?=[(\[]?[A-Z]?\d)",
        lambda m, s: None if _ends_a_sentence(m) else REFERENCES[m[1].lower()] + " ",
        any_case=True,
    ),
    rule(
        "reference",
        rf"({_IN_ROMAN})\.\s*(?=(?-i:[IVXL]{{1,6}})\b(?!'))(?!(?-i:I)\s(?!of\b|is\b|by\b)(?-i:[a-z]))",
        lambda m, s: REFERENCES[m[1].lower()] + " ",
        any_case=True,
    ),
    rule("reference", r"(Arts?|Secs?|Paras?|Cls?)\.\s*(?=\d|[IVX]+\b)", lambda match, style: LEGAL[match[1]]),
    rule("abbreviation", r"min(s)?(?!\w)(?:\.(?=\s[a-z]))?", _minute),
    rule("reference", r"[Nn]o\.(?=:\s?[A-Z#]?\d)", lambda match, style: "number"),
    rule("reference", r"qty(?=\s\d)", lambda match, style: "quantity", any_case=True),
    rule(
        "reference",
        r"(?:(lat)|long)\.\s?(?=-?\d[\d.]{0,12}\s?°)",
        lambda m, s: f"{'lat' if m[1] else 'long'}itude ",
        any_case=True,
    ),
    rule("reference", r"(?<=\d(?:st|nd|rd|th)\s)ed\.", lambda match, style: "edition"),
    rule("abbreviation", r"incl\.(?=\s?(?:[.,;)]|\Z))", lambda match, style: "included"),
    rule(
        "name",
        r"Pt\.(?=\s[A-Z][a-z])(?!\s\w+\s(?:was|is|has|had|came|reports|denies|states|presents)\b)",
        lambda match, style: None if anywhere(match.string, _PATIENT) else "point",
    ),
    rule("reference", r"Pss?\.?\s(?=\d)", lambda match, style: "psalm"),
    rule("reference", r"no\.\s*(?=[A-Z]{1,4}-?\d)", lambda match, style: "number", any_case=True),
    rule("reference", r"(?<=\d(?:st|nd|rd|th)\s)gr\.", lambda match, style: "grade"),
    rule("reference", r"v\.?\s?(?=\d+\.\d)", lambda match, style: "version"),
    rule("reference", r"[Rr]eg\.(?=\s\()", lambda match, style: "regulation"),
    rule(
        "reference",
        rf"(?<!-)(?!(?:Alt|Dim)\.?:\s[^\d~-])({'|'.join(LABELLED)})\.?(?=:\s)",
        lambda match, style: LABELLED[match[1]],
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
    rule("reference", rf"({'|'.join(BOOKS)})\.?\s(?=\d+:\d)", lambda match, style: BOOKS[match[1]]),
    rule("reference", r"[Rr]ev\.\s(?=\d+(?!\w|:\d))", lambda match, style: "revision "),
    rule(
        "reference",
        r"(?<!\d)(?<!\d\s)(?<!\ba\s)(?<!few\s)(?<!more\s)secs?\.\s(?=\d)",
        lambda match, style: "sections " if match[0].startswith("secs") else "section ",
    ),
    rule("reference", r"No\s(?=\d+(?!\w))", lambda match, style: "number " if before(match, _RANKED) else None),
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
    rule("abbreviation", r"(?<=\d\s)(pcm|pw|p\.?a\.|pppn|p\.w\.)(?!\w)", lambda m, s: _PAID[m[1].replace(".", "")]),
    rule("abbreviation", r"Sec\.(?=\sof\b)", lambda match, style: "secretary"),
    rule("abbreviation", r"(?<=\d(?:st|nd|rd|th)\s)(?:c|cent)\.", lambda match, style: "century"),
    rule("abbreviation", r"a\.?k\.?a\b\.?", lambda match, style: style.letters("aka"), any_case=True),
    rule("abbreviation", r"(?:(?<=[a-z],\s)|(?<=[a-z]\.,\s))([A-Z][a-z]+)\.", lambda m, s: OLD_STATES.get(m[1])),
    rule(
        "abbreviation",
        r"(Ala|Ariz|Calif|Colo|Conn|Fla|Mich|Minn|Okla|Tenn|Tex|Wis|Wyo)\.(?=,?\s[A-Za-z])",
        lambda m, s: OLD_STATES[m[1]],
    ),
    rule("abbreviation", r"([RDI])-([A-Z][a-z]+\.|[A-Z]{2}(?=\)))", _party),
    rule("math", r"log([₀-₉]{1,3})\(?", lambda m, s: f"log base {cardinal(m[1].translate(POWERS))} of"),
    rule("key", r"(Ctrl|Cmd|Alt|Shift|Option|Command|Control)\s?[+-]\s?(?=\w)", lambda m, s: f"{KEYS[m[1]]} "),
    rule("math", r"([fghPEO])(?=\([^()\s]{1,8}\))", lambda match, style: f"{style.letters(match[1])} of"),
    rule("math", r"(sin|cos|tan|log|ln)(?=\()", lambda match, style: FUNCTIONS[match[1]]),
    rule("math", r"([nkN])!(?=\s?[=+*/)]|\s(?:is|ways))", lambda match, style: f"{match[1]} factorial"),
    rule("abbreviation", r"w/([ce])(?=\s\d)", lambda m, s: f"week {'commencing' if m[1] == 'c' else 'ending'}"),
    rule("abbreviation", r"w/(?=\s?\w)", lambda match, style: "with"),
    rule("reference", r"no\.(?=\s(?:is|was)\s[\d#(+])", lambda match, style: "number"),
    rule("abbreviation", rf"Co\.(?=\s(?:{IRISH_COUNTIES})(?!\w))", lambda match, style: "county"),
    rule("abbreviation", r"Sec\.[\s-]Gen\.", lambda match, style: "secretary general"),
    rule("abbreviation", r"([A-Za-z]{2,6})\.", _abbreviation),
    rule("abbreviation", rf"(?!Ave\s(?:Maria|Verum)\b)({'|'.join(CAPITALISED)})(?!\w)", _abbreviation),
    rule("initials", r"(?:[A-Za-z]\.){2,}(?!\w)|(?:[A-Za-z]\.)+[A-Za-z](?!\w)", _initials),
    rule("name", r"(?:[A-Z][a-z]?[\d₀-₉]*|\((?:[A-Z][a-z]?[\d₀-₉]*)+\)[\d₀-₉]+){2,}(?![A-Za-z\d])", _formula),
    rule("name", rf"(?:{'|'.join(MIXED_CASE)})(?!\w)", _mixed_name),
    rule("abbreviation", rf"({'|'.join(SHORT_PHRASES)})(?![A-Za-z])", lambda match, style: SHORT_PHRASES[match[1]]),
    rule("name", r"Ph\.?Ds(?!\w)", lambda match, style: style.letters("phd") + "'s"),
    rule("name", r"([a-z]{1,5}|[A-Z][a-z]+)([A-Z]{2,})(s?)(?![A-Za-z])", _mixed_case),
    rule("letters", r"[a-z]{2,3}(?=[²³])", lambda m, s: s.letters(m[0]) if m[0] not in UNITS else None),
    rule("letters", rf"{NO_VOWEL}(?![A-Za-z\d_'-]|\.(?!\s+[A-Z]|\s*\Z))", _without_vowels),
    rule("name", r"A(?![A-Za-z'.]|\s[A-Z])", _letter_a),
    *roman.WORD_RULES,
    rule("acronym", r"TL;?DR(?!\w)", lambda m, s: s.letters("tldr") if s.for_voice else None, any_case=True),
    rule("acronym", r"([A-Z]{2,})('?s|'d|'ed|'ing)?(?![A-Za-z])", _capitals),
)

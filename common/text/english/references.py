"""References: abbreviations that stand before a number, as of a page, a chapter, a verse or a room."""

import re

from common.text.english.abbreviations import ABBREVIATIONS, BOOKS, LABELLED, LEGAL, REFERENCES
from common.text.english.tokens import Rule, Style, before, rule


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


_SEVERAL = {"ch": "chapters", "p": "pages", "pp": "pages", "fig": "figures", "sec": "sections", "vol": "volumes"}
_RANKED = re.compile(r"\b(?:the|an?|his|her|my|our|your|their|is|was|at|as|from|to|of|and|world|seed|ranked)\s\Z")

_VERSE_AHEAD = re.compile(r"(?:\A|\(|\d[,;]\s|\b(?:[Ii]n|[Ss]ee|ch\.\s\d+,|chapter\s\d+,?)\s)\Z")
_GRADES_AHEAD = re.compile(r"\b[Gg]rades\s\Z")
_BOOKS_ALONE = "Exod|Deut|Lev|Josh|Judg|Neh|Eccl|Isa|Jer|Ezek|Zech|Matt|Eph|Thess|Hab|Heb|Prov"

WORD_RULES: tuple[Rule, ...] = (
    rule("reference", r"vv\.\s?(?=\d)", lambda match, style: "verses "),
    rule(
        "reference",
        r"v\.\s(?=\d{1,3}(?![\w.]\d|\w))",
        lambda match, style: "verse " if before(match, _VERSE_AHEAD) else None,
    ),
    rule("reference", rf"({_BOOKS_ALONE})\.\s(?=\d)", lambda match, style: f"{BOOKS[match[1]]} "),
    rule("reference", r"[Ss]ubsecs?\.(?=\s[\d(])", lambda m, s: "subsections" if "s." in m[0][5:] else "subsection"),
    rule("reference", r"[Rr]ev\.(?=\s[A-H](?![\w.]))", lambda match, style: "revision"),
    rule("reference", r"Conf\.?\s?#(?=\s?[A-Z\d])", lambda match, style: "confirmation number "),
    rule("name", r"Ste\.(?=\s[A-Z][a-z])", lambda match, style: "saint"),
    rule("range", r"K-(?=(?:[1-9]|1[0-2])(?!\w))", lambda m, s: "k to " if before(m, _GRADES_AHEAD) else None),
    rule("reference", r"[Aa]lt\.(?=\s[\d,]+\s?(?:ft|feet|m|meters|metres)\b)", lambda match, style: "altitude"),
    rule("reference", r"Vis\.(?=\s\d)", lambda match, style: "visibility"),
    rule("reference", r"Int\.(?=\s[\d.]+\s?%)", lambda match, style: "interest"),
    rule("reference", r"App\.(?=\s[A-H](?!\w))", lambda match, style: "appendix"),
    rule("reference", r"[Ee]xhs?\.(?=\s[A-Z\d])", lambda match, style: "exhibits" if "s" in match[0] else "exhibit"),
    rule("reference", r"(?:(?<=[Bb]oard of )|(?<=Dept\. of )|(?<=Department of ))Ed\.", lambda m, s: "education"),
    rule("name", r"(?<=\b[Dd]ew )pt(?!\w)\.?|(?<=ing )pt(?!\w)\.?", lambda match, style: "point"),
    rule("abbreviation", r"fl\.\s?(?=\d{3,4}(?!\w)|\d{1,2}(?:st|nd|rd|th)\sc)", lambda match, style: "flourished "),
    rule(
        "reference",
        r"(?:(?<=1 )|(?<=2 ))(Cor|Thess|Tim|Chron|Sam)\.?(?=\s\d)",
        lambda m, s: BOOKS.get(m[1], "chronicles"),
    ),
    rule("reference", r"No\s(?=\d{1,3}\s*(?:[,.;:)](?!\d)|\Z))", lambda match, style: "number "),
    rule(
        "reference",
        r"(?:ch|pp?|fig|sec|vol)\.\s*(?=\d+\s?-\s?\d)",
        lambda m, s: _SEVERAL[m[0].lower().partition(".")[0]],
        any_case=True,
    ),
    rule("reference", r"[Nn]o\.(?=\sof\s(?!course\b)[a-z])", lambda match, style: "number"),
    rule("reference", r"nos\.\s*(?=\d)|(?<=[QH]\d\s)nos\.?(?!\w)", lambda match, style: "numbers", any_case=True),
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
    rule("reference", r"[Nn]o\.(?=:\s?[A-Z#]?\d)", lambda match, style: "number"),
    rule("reference", r"qty(?=\s\d)", lambda match, style: "quantity", any_case=True),
    rule(
        "reference",
        r"(?:(lat)|long)\.\s?(?=-?\d[\d.]{0,12}\s?°)",
        lambda m, s: f"{'lat' if m[1] else 'long'}itude ",
        any_case=True,
    ),
    rule("reference", r"(?<=\d(?:st|nd|rd|th)\s)ed\.", lambda match, style: "edition"),
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
    rule("reference", rf"({'|'.join(BOOKS)})\.?\s(?=\d+:\d)", lambda match, style: BOOKS[match[1]]),
    rule("reference", r"[Rr]ev\.\s(?=\d+(?!\w|:\d))", lambda match, style: "revision "),
    rule(
        "reference",
        r"(?<!\d)(?<!\d\s)(?<!\ba\s)(?<!few\s)(?<!more\s)secs?\.\s(?=\d)",
        lambda match, style: "sections " if match[0].startswith("secs") else "section ",
    ),
    rule("reference", r"No\s(?=\d+(?!\w))", lambda match, style: "number " if before(match, _RANKED) else None),
    rule("reference", r"no\.(?=\s(?:is|was)\s[\d#(+])", lambda match, style: "number"),
)

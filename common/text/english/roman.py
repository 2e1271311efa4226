"""Roman numerals: of kings, of chapters, of wars and sequels, of years and pages."""

import re

from common.text.english.tables import COUNTED, KINGS
from common.text.english.tokens import Rule, Style, anywhere, before, rule
from common.text.numbers import cardinal, ordinal, year

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_IN_NAMES = "(?:X{1,3}(?:IX|IV|V?I{1,3})|I{2,3}|IV|VI{1,3}|IX|XX?(?<=XX)V?)"
_NUMERAL = re.compile("(?=.)(?:M{0,3})(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_YEAR = re.compile("M{1,2}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")


def roman(numeral: str) -> str:
    """The digits of a Roman numeral: XIV → 14."""
    values = [_VALUES[letter] for letter in numeral]
    return str(sum(-value if value < max(values[i:]) else value for i, value in enumerate(values)))


def is_roman(text: str) -> bool:
    """Whether `text` is a Roman numeral in capitals."""
    return bool(_NUMERAL.fullmatch(text))


_KING_AHEAD = re.compile(
    rf"\b(?:(?:{KINGS})|(?:Pope|King|Queen|Emperor|Empress|Tsar|Czar|Kaiser|Sultan|Shah|Prince|Duke|Pharaoh)"
    r"\s[A-Z]\w+(?:\s[A-Z]\w+)?)\s+\Z"
)
_HEIR_AHEAD = re.compile(
    rf"\b(?:{KINGS}|Robert|John|Thomas|Thurston|Martin|Michael|Daniel|Donald|Patrick|Andrew|David|Joseph|Walter|Harry|Frank|Samuel)\s(?:[A-Z]\.\s|[A-Z][a-z]+\s)?[A-Z][a-z]+,?\s\Z"
)
_OF_A_COUNTRY = re.compile(r"(?:'s)?\sof\s[A-Z]")
_REIGNED = re.compile(r"\s(?:of\s[A-Z]|ruled|reigned|died|succeeded|\()|'s\b|\Z|[,;:)]")
_DID = re.compile(r"\s(?:was|is|had|never|became|took|gave|made|came|led|won|lost|wrote|built|began|[a-z]+ed)\b")
_SENTENCE_OF_A_KING = re.compile(
    r"(?:\A|[.!?]\s)(?:Pope|King|Queen|Emperor|Empress|Tsar|Czar|Kaiser|Sultan)\s[A-Z]\w+(?:\s[A-Z]\w+)?\s\Z"
)
_COUNTED_AHEAD = re.compile(rf"\b(?:{COUNTED})(?:(?<=[a-z])s)?\s+\Z")
_PART_AHEAD = re.compile(
    r"\b(?:(?:chapter|part|volume|book|act|scene|section|article|canto)s?|ch\.|pt\.|vol\.|art\.|sec\.)\s\Z"
)
_KIND_AHEAD = re.compile(
    r"\b(?:phase|type|stage|grade|level|class|tier|category|episode|season|appendix|figure|table)\s\Z"
)
_OF_A_KIND = re.compile(
    r"\s(?:diabetes|errors?|trials?|clinical|cancer|tumou?rs?|drugs?|stud(?:y|ies)|supernova\w*|fractures?|collagen|hypersens\w*)\b"
)
_SHORT_AHEAD = re.compile(r"\b(?:Ep|Pt|Ch|Bk)\.\s+\Z|[a-z]s\s+\Z(?<!\bClass\s)")
_SAID_BY_ME = re.compile(r"\s(?!of\b|is\b|by\b)[a-z]")
_PRODUCT_AHEAD = re.compile(
    r"\b(?:iPhone|OS|Fantasy|Rocky|Saw|Mega Man|Mark|MK|Mk|GTA|Grand Theft Auto|Street Fighter|Saturn|Civ|Civilization"
    r"|Diablo|Mk\.|Figs?\.|WW)\s\Z"
)


def _roman(match: re.Match[str], style: Style) -> str | None:
    """Henry VIII → the eighth; Chapter IV → four; Rocky II → two, for a voice."""
    numeral, own = match[1], "'s" if match[2] else ""
    if not _NUMERAL.fullmatch(numeral) or numeral in ("L", "C", "D", "M"):  # "Grade C beef", "Class D airspace"
        return None
    if numeral == "IV" and anywhere(match.string, _OF_MEDICINE):
        return None
    number = roman(numeral)
    is_king = before(match, _KING_AHEAD)
    if style.for_voice and _is_beside_another(match, is_king=is_king):
        return cardinal(number)
    if before(match, _COUNTED_AHEAD):
        is_pronoun = numeral == "I" and before(match, _SHORT_AHEAD) and _SAID_BY_ME.match(match.string, match.end())
        return None if is_pronoun else cardinal(number)
    is_part = before(match, _PART_AHEAD) or (len(numeral) > 1 and before(match, _KIND_AHEAD))
    if is_part and numeral != "I":  # "the part I like"
        return cardinal(number)
    if numeral == "I" and before(match, _KIND_AHEAD) and _OF_A_KIND.match(match.string, match.end()):
        return cardinal(number)
    if len(numeral) == 1 and before(match, _PRODUCT_AHEAD) and numeral != "I":
        return cardinal(number)
    if numeral == "I":
        behind = match.string[match.start() + 1 :]
        is_first = _REIGNED.match(behind) or (_DID.match(behind) and before(match, _SENTENCE_OF_A_KING))
        return f"the first{own}" if is_king and is_first and behind else None
    if is_king or (before(match, _NAME_AHEAD) and _OF_A_COUNTRY.match(match.string, match.end(1))):
        return f"the {ordinal(number)}{own}" if len(numeral) > 1 or numeral in "VX" else None
    if numeral in ("II", "III", "IV") and before(match, _HEIR_AHEAD):
        return f"the {ordinal(number)}{own}"
    if style.for_voice and len(numeral) > 3 and _YEAR.fullmatch(numeral):
        return year(number) if len(number) == 4 else cardinal(number)
    is_name = style.for_voice and re.fullmatch(_IN_NAMES, numeral)
    return f"{cardinal(number)}{own}" if is_name and before(match, _WORD_AHEAD) else None


_OTHERS_BEHIND = re.compile(r"(?:,\s|\s?[-/&]\s?|\s(?:and|or|to|through|vs\.?)\s)I{2,3}(?![\w'])")
_OTHERS_AHEAD = re.compile(r"(?<![\w'])[IVX]+(?:,\s|\s?[/&]\s?|,?\s(?:and|or|to|through|vs\.?)\s)\Z")
_PERSON_AHEAD = re.compile(r"\b(?:and|or|than|but|that|as|you)\s\Z", re.IGNORECASE)


def _is_beside_another(match: re.Match[str], *, is_king: bool) -> bool:
    """annexes I and II; but you and I, and Elizabeth I and II"""
    if match[1] == "I":
        is_person = is_king or before(match, _PERSON_AHEAD)
        return not is_person and bool(_OTHERS_BEHIND.match(match.string, match.end()))
    return re.fullmatch(_IN_NAMES, match[1]) is not None and before(match, _OTHERS_AHEAD)


def _range(match: re.Match[str], style: Style) -> str | None:
    """Parts I-III; but the I-V curve"""
    first, last = match[1], match[2]
    if not (is_roman(first) and is_roman(last) and int(roman(first)) < int(roman(last))):
        return None
    is_counted = before(match, _COUNTED_AHEAD) or before(match, _PART_AHEAD)
    is_range = is_counted or (len(first + last) > 2 and set(first + last) <= set("IVX"))
    return f"{cardinal(roman(first))} to {cardinal(roman(last))}" if is_range else None


_OF_MEDICINE = re.compile(
    r"\b(?:fluids?|drip|saline|NaCl|mg|m[lL]|antibiotics?|bolus|infusion|catheter|patients?|nurse|hospital|dose|doses|therapy|push)\b"
)
_NAME_AHEAD = re.compile(r"\b[A-Z][a-z]+\s\Z")
_WORD_AHEAD = re.compile(r"(?:[a-z]|[A-Z]\d|\d)\s\Z")


def _century(match: re.Match[str], style: Style) -> str | None:
    """the XXI century → the twenty first century"""
    return ordinal(roman(match[1])) if _NUMERAL.fullmatch(match[1]) else None


_PAGES = re.compile(
    r"\b(?:pages?|pp\.|p\.|[Ss]cene|[Cc]hapter|[Ss]ection|[Pp]art|[Cc]lause|[Vv]ol\.|-)\s?\Z|[ivx]\s?-\s?\Z"
)


_GOES_ON = re.compile(r"[,.;:)]|\Z|\s(?:of|and|or|to|through|is|has)\b")


def _small(match: re.Match[str], style: Style) -> str | None:
    """pages iv-vii, Scene ii"""
    numeral = match[1].upper()
    if not _NUMERAL.fullmatch(numeral) or not before(match, _PAGES):
        return None
    is_pronoun = numeral == "I" and not _GOES_ON.match(match.string, match.end())  # the part i like
    return None if is_pronoun else cardinal(roman(numeral))


def _small_range(match: re.Match[str], style: Style) -> str | None:
    first, last = match[1].upper(), match[2].upper()
    if not (_NUMERAL.fullmatch(first) and _NUMERAL.fullmatch(last) and before(match, _PAGES)):
        return None
    return f"{cardinal(roman(first))} to {cardinal(roman(last))}"


def world_war(match: re.Match[str], style: Style) -> str:
    """WWII"""
    return f"world war {cardinal(roman(match[1]))}"


def _chords(match: re.Match[str], style: Style) -> str | None:
    """a ii-V-I in C"""
    chords = match[0].upper().split("-")
    is_progression = len(set(chords)) > 1 and all(map(_CHORD.fullmatch, chords))
    return " ".join(cardinal(roman(chord)) for chord in chords) if is_progression else None


_CHORD = re.compile("I{1,3}|IV|VI{0,2}")


_BOOKS = "Samuel|Kings|Chronicles|Corinthians|Thessalonians|Timothy|Maccabees|Peter|John"


def _book(match: re.Match[str], style: Style) -> str:
    """II Corinthians"""
    return ordinal(roman(match[1] or match[2]))


_SEVERAL_ITEMS = re.compile(r"\(ii\)")


def _enumerated(match: re.Match[str], style: Style) -> str | None:
    """(i) this and (ii) that"""
    is_item = match[1] in ("ii", "iii", "iv") or anywhere(match.string, _SEVERAL_ITEMS)
    return cardinal(roman(match[1].upper())) if is_item and is_roman(match[1].upper()) else None


WORD_RULES: tuple[Rule, ...] = (
    rule("music", r"[ivIV]{1,3}(?:-[ivIV]{1,3}){2,5}(?![\w-])", _chords),
    rule("abbreviation", r"WW\s?(II?)(?!\w)", world_war),
    rule("name", r"M[kK]\.?(?=\s?(?:[IVX]{1,4}|\d{1,3})(?!\w))", lambda match, style: "mark"),
    rule("ordinal", r"([XVI]{1,6})(?:th|st|nd|rd)(?!\w)", _century),
    rule("ordinal", rf"(I{{1,3}})(?=\s(?:{_BOOKS})\s\d)|(II|III)(?=\s(?:{_BOOKS})\b)", _book),
    rule("number", r"(?<=\()([ivx]{1,5})(?=\))", _enumerated),
    rule("number", r"([ivxl]{1,6})\s?-\s?([ivxl]{1,6})(?![\w'])", _small_range),
    rule("number", r"([ivxl]{1,6})(?![\w'-])", _small),
    rule("roman", r"([XVI]{1,6})(?=(?:\s|-)centur)", _century),
    rule("roman", r"([IVXLC]{1,6})\s?-\s?([IVXLC]{1,6})(?![\w'-])", _range),
    rule("roman", r"([IVXLCDM]+)('s)?(?![\w'])(?:\.(?=,|\s+[a-z]))?", _roman),
)

"""Capitals and mixed case: acronyms, words without a vowel, formulas, letters that are names."""

import re

from common.text import pronounce
from common.text.english import roman
from common.text.english.abbreviations import SHORT_PHRASES
from common.text.english.symbols import POWERS
from common.text.english.tables import (
    ELEMENTS,
    EMPHASISED,
    INTERJECTIONS,
    MIXED_CASE,
    PRONOUNCED,
    SPELLED,
    WORDS_TOO,
)
from common.text.english.tokens import BEGINNING, Rule, Style, anywhere, before, rule
from common.text.english.units import UNITS
from common.text.numbers import cardinal

_SMALL_LETTER = re.compile("[a-z]")
_SMALL_BUT_S = re.compile("[a-rt-z]")

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
    r"(?:\d|[A-Z]-|\b(?:[a-z]+|Plan|Grade|Hepatitis|Vitamin|Group|Type|Section|Option|Class|Part|Block)\s)\Z"
)


def _letter_a(match: re.Match[str], style: Style) -> str | None:
    """A4, 23A, vitamin A: the letter, and not the article."""
    is_letter = re.match(r"-?\d|\+|/[A-Z](?![A-Za-z])|-[a-z]{3}", match.string[match.end() :]) or before(
        match, _LETTER_AHEAD
    )
    is_answer = match.string.startswith(":", match.end()) and before(match, BEGINNING)  # Q: … A: …
    return style.letters("A") if style.for_voice and (is_letter or is_answer) else None


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


_IONS = (
    "Na|Ca|Mg|Cl|Li|Ag|Cu|Fe|Zn|Al|Pb|Ba|Br|Hg|Mn|Ni|OH|NH4|NO3|SO4|CO3|PO4|HCO3|H3O|H|K|NH₄|NO₃|SO₄|CO₃|PO₄|HCO₃|H₃O"
)


def _ion(match: re.Match[str], style: Style) -> str | None:
    """Ca2+ → c a two plus"""
    if not style.for_voice:
        return None
    charge = match[2].translate(POWERS).lstrip("^")
    said = re.sub(r"\d", lambda n: f" {cardinal(n[0])} ", style.letters(match[1].translate(POWERS)))
    number = cardinal(charge[:-1]) if charge[:-1] else ""
    return " ".join(f"{said} {number} {'plus' if charge[-1] == '+' else 'minus'}".split())


WORD_RULES: tuple[Rule, ...] = (
    rule("name", rf"({_IONS})(\^?\d?[+-]|[²³⁴]?[⁺⁻])(?![\w+])", _ion),
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
    rule("name", r"(?:[A-Z][a-z]?[\d₀-₉]*|\((?:[A-Z][a-z]?[\d₀-₉]*)+\)[\d₀-₉]+){2,}(?![A-Za-z\d])", _formula),
    rule("name", rf"(?:{'|'.join(MIXED_CASE)})(?!\w)", _mixed_name),
    rule(
        "acronym",
        r"(DM|PM|ID|CC|OK|OD|KO|IM)(ed|ing)(?![\w])",
        lambda m, s: s.letters(m[1]) + ("'d" if m[2] == "ed" else " ing") if s.for_voice else None,
    ),
    rule(
        "letters",
        r"(?:(?<=straight )|(?<=three )|(?<=two )|(?<=four )|(?<=several )|(?<=all ))([A-Z])s(?!\w)",
        lambda m, s: f"{s.letters(m[1])}'s",
    ),
    rule("name", r"IPv(?=[46](?!\w))", _mixed_name),
    rule("abbreviation", rf"({'|'.join(SHORT_PHRASES)})(?![A-Za-z])", lambda match, style: SHORT_PHRASES[match[1]]),
    rule("name", r"Ph\.?Ds(?!\w)", lambda match, style: style.letters("phd") + "'s"),
    rule("name", r"([a-z]{1,5}|[A-Z][a-z]+)([A-Z]{2,})(s?)(?![A-Za-z])", _mixed_case),
    rule("letters", r"[a-z]{2,3}(?=[²³]|\^\d)", lambda m, s: s.letters(m[0]) if m[0] not in UNITS else None),
    rule("letters", rf"{NO_VOWEL}(?![A-Za-z\d_'-]|\.(?!\s+[A-Z]|\s*\Z))", _without_vowels),
    rule("name", r"A(?![A-Za-z'.]|\s[A-Z])", _letter_a),
    *roman.WORD_RULES,
    rule("acronym", r"TL;?DR(?!\w)", lambda m, s: s.letters("tldr") if s.for_voice else None, any_case=True),
    rule("acronym", r"([A-Z]{2,})('?s|'d|'ed|'ing)?(?![A-Za-z])", _capitals),
)

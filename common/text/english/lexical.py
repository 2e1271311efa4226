"""The shapes of words: plain words, abbreviations, capitals, numerals, and what has letters and signs."""

import re
from functools import lru_cache

from common.text.engine.choose import Proposal, SpokenForm
from common.text.engine.context import edge
from common.text.engine.shapes import Shapes, beside, either, matched, reading, shape
from common.text.english import electronic, words
from common.text.english.say import says
from common.text.english.style import Style
from common.text.english.words import SIGN_ROWS

CORE = re.compile(r"[^\W\d_⁰¹²³⁴-⁹₀-₉]+(?:'[^\W\d_⁰¹²³⁴-⁹₀-₉]+)*")
_SIGNED = re.compile(
    rf"(?:{either(short for short in words.ENTRIES if not short.isalpha())})(?:(?-i:(?<=w/))|(?!\w))", re.IGNORECASE
)
_SMALL_BEHIND = re.compile(r"\s+[\w$£€.\"'(-]\S")
_WORD_AHEAD = re.compile(r"[a-z\d]\s\Z")
_GOES_ON = re.compile(r"\.(?:,|\s+[a-z])")
_WITHIN_A_NAME = re.compile(r"\.?[-\w]")
_GREEK = re.compile(r"[α-ωΑ-Ω](?![A-Za-z]{2}|[^\W\d_A-Za-z⁰¹²³⁴-⁹₀-₉])")
_TRIANGLE = re.compile(r"[Δ∆]([A-Z]{3})(?!\w)")
_INITIALS = re.compile(r"(?:[A-Za-z]\.\s?){1,9}[A-Za-z](?:\.|(?!\w))|(?:[A-Za-z]\.){2,9}")
_CAPITALS = re.compile(r"([A-Z]{2,})('?s|'d|'ed|'ing|ed|ing)?(?![A-Za-z])")
_NUMERAL = re.compile(r"([IVXLCDM]+|[ivxlcdm]+)('s)?(?![\w'])")

CAPITALS = (
    shape("season", r"S(\d{1,2})[\s.:]?E(\d{1,3})(?!\w)", says("season", "season {1} episode {2}"), "S0"),
    shape("formula", r"((?:[A-Z][a-z]?[\d₀-₉]{0,3}|\((?:[A-Z][a-z]?[\d₀-₉]{0,3}){1,9}\)[\d₀-₉]{1,3}){1,20})"
           r"(\^?\d?(?:\+|-(?!-))|\s\d?[+-](?=\sions?\b)|[²³⁴]?[⁺⁻])?(?![A-Za-z\d+'])", words.formula),
    shape("chess", r"([KQRBN])?([a-h]?[1-8]?)(x)?([a-h])([1-8])(=[QRBN])?([+#])?(?![\w-])"
           r"|O-O(?:-O)?(?![\w-])", words.chess, "[KQRBNa-h][a-h0x]|x[a-h]|O-"),
    shape("chord", r"([A-G])([#♯♭]|b(?=\s(?:major|minor|flat)|m|[0-9]))?"
           r"(maj|min|m|sus|dim|aug|add)?(\d{1,2})?(?!\w|\.\d)", words.chord, "[A-G][#♯♭bmdsa]"),
    shape("key", r"([A-G])(?:([#♯♭])|-(flat|sharp))?\s(maj|min)\b\.?", words.key, "[A-G][ #♯♭-]"),
    shape("numeral", r"([XVI]{1,6})(?:th|st|nd|rd)(?!\w)", words.numeral_and_ending, "[XVI][XVItsnr]"),
    shape("zone", r"(UTC|GMT)\s?([+-])\s?(\d{1,2})(?::(\d\d))?(?!\w)", words.zone, "UT|GM"),
    shape("ampersand", r"([A-Z]{1,3})&([A-Z]{1,3})(s?)(?!\w)", words.name_and_capital, "[A-Z][A-Z&]"),
    shape("degree", r"(?:[BMD]\.(?:Sc|Eng|Ed|Phil|Tech|Com|Arch|Mus)|LL\.[BMD]|Ed\.D)\b\.?", words.degree,
          "[BMLED][.Ld]"),
    shape("grade", r"(AB|[A-DFO])([+-])(?![\w+-])", words.grade, "[A-DFO][B+-]"),
)  # fmt: skip
LETTERS = (
    shape("mixed", r"([a-z]{1,5}|[A-Z][a-z]+)([A-Z]{2,})(s?)(?![A-Za-z])", words.mixed_case, "[A-Za-z]{2}"),
    shape("mixed", r"([a-z])([A-Z])(?![A-Za-z])()", words.mixed_case, "[a-z][A-Z]"),
    shape("mixed", r"[a-z]{2,}(?:[A-Z][a-z]+)*[A-Z][a-z]{2,}(?![A-Za-z])", electronic.variable, "[a-z]{2}"),
    shape("chords", r"[ivIV]{1,3}(?:-[ivIV]{1,3}){2,5}(?![\w-])", words.chords, "[ivIV][ivIV-]"),
    shape("function", r"([fghFGPEO])('{0,2})(?=\([^()\n]{1,20}\))", words.function, "[fghFGPEO]['(]"),
    shape("derivative", r"d([a-z])/d([a-z])(?![\w/])", says("function", "d {1:s} d {2:s}"), "d[a-z]"),
    shape("logarithm", r"log([₀-₉]{1,3})\(?", says("function", "log base {1} of"), "lo"),
    shape("dosage", r"q\.?(\d{1,2})\s?h(?:rs?|ours)?(?!\w)\.?", says("time", "every {1} hours"), "q[.0]"),
    shape("dosage", r"q\.?(\d{1,2})-(\d{1,2})\s?h(?:rs?|ours)?(?!\w)\.?", says("time", "every {1} to {2} hours"),
          "q[.0]"),
    shape("masked", r"(?:[xX]{3,4}[\s-]?)(?:[xX]{2,4}[\s-]?){0,3}(\d{4})(?!\w)", says("card", "{1:d}"), "[xX]{2}"),
    shape("code", r"(?=[A-Za-z\d-]{0,24}\d)[A-Z\d]{1,12}(?:-[A-Z\d]{1,12}){0,6}(?![\w-])", words.labelled,
          "[A-Z][0A-Z-]"),
)  # fmt: skip
_STANDS_ALONE = re.compile(r"(?![xX]|[A-G]\s(?:maj|min)\b)[A-Za-z][a-z]*(?=[\s,;:!?)]|\.(?:\s|\Z)|\Z)")
_ION = re.compile(r"\s\d?[+-]\sions?\b")  # Cu 2+ ions
_AT_CAPITALS, _AT_SMALL = Shapes(LETTERS + CAPITALS), Shapes(LETTERS + CAPITALS[2:3])


def of_words(text: str, position: int, style: Style) -> list[Proposal]:
    """All that a letter may begin."""
    if greek := _GREEK.match(text, position):
        return [Proposal(position + 1, [], [reading("greek", words.GREEK[greek[0].lower()])])]
    if triangle := _TRIANGLE.match(text, position):
        return [Proposal(triangle.end(), [], [reading("greek", f"triangle {style.letters(triangle[1])}")])]
    core = CORE.match(text, position)
    assert core
    word, stop = core[0], core.end()
    if word.lower() in style.known:
        return [Proposal(stop, [], [SpokenForm(("word",), None)])]
    if len(word) < 3 and _ION.match(text, stop):
        ions = matched(_AT_CAPITALS.at(text, position), text, position, style, style.memory)
        if ions := [ion for ion in ions if ion.own[0] == "s=formula"]:
            return ions
    own = [f"w={word.lower()}", f"s={_case(word)}"]
    plain = [SpokenForm(("word",), None)]
    place = words.Place(text, position, stop)
    plain += words.abbreviations(word, style, dot=False, place=place)
    dotted = words.abbreviations(word, style, dot=True, place=place) if text.startswith(".", stop) else []
    is_name = word.isupper() or _WITHIN_A_NAME.match(text, stop)
    if (len(plain) > 1 or dotted) and not is_name and words.is_short(word):
        del plain[0]
    plain += _letters(text, position, stop, word, style)
    spelled, own, found = _spelled(text, position, stop, word, style, own)
    plain += spelled
    numerals, others = _numerals(text, position, stop, own)
    plain += numerals
    found += others
    if word in SIGN_ROWS and _between_terms(text, position, stop):
        plain += SIGN_ROWS[word]
        own.append(f"s={word}{beside(text, position, stop)}")
    found.insert(0, Proposal(stop, own, plain))
    if dotted:
        too = "too" if words.is_word_too(word) else ""
        behind = next((c for c in text[stop + 1 : stop + 4] if not c.isspace()), "$")
        own += (f"entry {too}", f"entry {too}{edge(behind)}")
        found.append(Proposal(stop + 1, own, dotted))
        found[0] = found[0]._replace(own=own)
    if not (word[1:].islower() and text[stop : stop + 1] in _ENDS and word[0] not in "xX"):
        found += _with_signs(text, position, style, own)
    return found


_ENDS = frozenset(["", *" ,;:!?)\n\t"])


def _letters(text: str, position: int, stop: int, word: str, style: Style) -> list[SpokenForm]:
    """The letter A, which is no article; 5p and 5 pm; As and Bs."""
    found = []
    ahead = text[max(0, position - 12) : position]
    if word in ("A", "a") and not (word == "a" and _SMALL_BEHIND.match(text, stop)):
        found.append(reading("letter", style.letters("A")))
    if word in ("pm", "PM") or (word.lower() in ("am", "pm") and ahead[-3:].rstrip()[-1:].isdigit()):
        found.append(reading("half", style.half(word[0])))
    if ahead[-1:].isdigit() and word in ("A", "a", "P", "p"):
        found.append(reading("half", style.half(word)))
    if len(word) == 2 and word[0].isupper() and word[1] == "s" and _WORD_AHEAD.search(ahead):
        found.append(reading("letters", f"{style.letters(word[0])}'s"))
    return found


@lru_cache(maxsize=64)
def _is_loud(text: str) -> bool:
    return text.isupper()


def _spelled(
    text: str, position: int, stop: int, word: str, style: Style, own: list[str]
) -> tuple[list[SpokenForm], list[str], list[Proposal]]:
    """The letters of what stands in capitals or may be no word, its features, and pieces of other lengths."""
    capitals = _CAPITALS.match(text, position) if style.for_voice and word[0].isupper() else None
    if capitals:
        looks = words.looks(capitals[1])
        if _is_loud(text):
            looks += tuple(f"loud {name}" for name in looks)
        own_too = [*own, *looks, f"w={capitals[1].lower()}"]
        readings = words.capitals(capitals[1], capitals[2] or "", style)[1:]
        if capitals.end() == stop or not text[stop - 1].isalpha():
            return readings, own_too, []
        return [], own, [Proposal(capitals.end(), own_too, readings)]
    if _is_unsaid(text, position, stop, word) and word not in ("am", "pm"):
        return words.spelled(word, style), [*own, *words.looks(word)], []
    return [], own, []


def _numerals(text: str, position: int, stop: int, own: list[str]) -> tuple[list[SpokenForm], list[Proposal]]:
    """What a Roman numeral says, and with what stands against it."""
    numeral = _NUMERAL.match(text, position) if text[position] in "IVXLCDMivxlcdm" else None
    readings = words.numerals(numeral[1], "'s" if numeral[2] else "") if numeral else []
    if not numeral or not readings:
        return [], []
    if numeral.end() != stop:
        return [], [Proposal(numeral.end(), own, readings)]
    return readings, [Proposal(stop + 1, own, readings)] if _GOES_ON.match(text, stop) else []


def _between_terms(text: str, start: int, stop: int) -> bool:
    """Whether an x stands beside a number, or between two capitals."""
    ahead, behind = text[max(0, start - 2) : start].rstrip()[-1:], text[stop : stop + 2].lstrip()[:1]
    return ahead.isdigit() or behind.isdigit() or (ahead.isupper() and behind.isupper()) or ahead in ('"', "'")


def _with_signs(text: str, position: int, style: Style, own: list[str]) -> list[Proposal]:
    found = []
    if (m := _SIGNED.match(text, position)) and (readings := words.abbreviations(m[0], style, dot=True)):
        found.append(Proposal(m.end() + text.startswith(".", m.end()), [*own, f"w={m[0].lower()}"], readings))
    if m := _INITIALS.match(text, position):
        own = [*own, f"w={m[0].lower()}", f"s=initials{min(len(m[0]), 7)}"]
        closed = "".join(m[0].rstrip(".").split())
        readings = [*words.initials(m, style), *words.abbreviations(closed, style, dot=True)]
        found.append(Proposal(m.end(), own, readings))
    if _STANDS_ALONE.match(text, position):
        return found
    shapes = _AT_CAPITALS if text[position].isupper() else _AT_SMALL
    return found + matched(shapes.at(text, position), text, position, style, style.memory)


def _is_unsaid(text: str, start: int, stop: int, word: str) -> bool:
    """Whether a small word may be no word: without a vowel, beside a digit, a term of an equation, a flag."""
    if not (word.islower() or word[1:].islower()) or len(word) > 5 or "'" in word:  # is't
        return False
    if text[start - 1 : start].isdigit() or text[stop : stop + 1].isdigit() or text.endswith("= ", 0, start):
        return True
    if len(word) == 2 and (text.endswith(("+ ", "→ "), 0, start) or text.startswith((" + ", " → "), stop)):
        return True
    if len(word) < 5 and text.endswith(" -", 0, start):
        return True
    if re.search("[aeiou]", word):
        return False
    return "-" in (text[start - 1 : start], text[stop : stop + 1]) or not words.is_known(word)


def _case(word: str) -> str:
    if len(word) == 1:
        return "letter" if word.islower() else "Letter"
    return "lower" if word.islower() else "UPPER" if word.isupper() else "Capital" if word[1:].islower() else "miXed"

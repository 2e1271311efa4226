"""The readings that words can have: abbreviations, capitals, Roman numerals, names with signs, formulae."""

import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

from common.text.engine.choose import SpokenForm, read_table
from common.text.engine.shapes import Readings, reading
from common.text.english.quantities import CURRENCIES, units
from common.text.english.say import POWERS, TABLES
from common.text.english.style import LETTER_A, Style
from common.text.numbers import cardinal, digits, in_pairs, is_roman, ordinal, roman, year
from common.text.pronunciation import pronounce

# ---------------------------------------------------------------------------------------------------------------------
# Abbreviations


class Abbreviation:
    """What an abbreviation stands for."""

    def __init__(self, row: list[str]) -> None:
        self.written, self.said, self.kind, dot, case = (*row, "", "")[:5]
        self.has_dot, self.case = dot == ".", case

    def is_written(self, word: str) -> bool:
        """Whether its case is that of `word`: c, as it is in the table; C, with a capital; otherwise any."""
        return {"c": word == self.written, "C": word[0].isupper()}.get(self.case, True)


def _entries() -> dict[str, list[Abbreviation]]:
    found: dict[str, list[Abbreviation]] = defaultdict(list)
    for entry in map(Abbreviation, read_table(TABLES / "abbreviations.tsv")):
        found[entry.written.lower()].append(entry)
    return dict(found)


ENTRIES = _entries()
# What follows "St." or "Dr." where it ends an address: these words do not begin a name.
NOT_A_NAME = re.compile(
    "(?:a|an|and|are|as|at|because|but|by|for|from|has|he|her|his|i|in|into|is|it|its|my|near|next|no|of|on|or|our|she|so"
    "|that|the|then|there|these|they|this|to|until|was|we|were|when|where|which|while|who|will|with|you)",
    re.IGNORECASE,
)
GREEK = {row[0]: row[1] for row in read_table(TABLES / "greek.tsv")}
ALNUM = re.compile(r"[A-Za-z]{0,6}\d[A-Za-z]{0,6}(?!\w)")
SIGN_ROWS: dict[str, list[SpokenForm]] = defaultdict(list)
"""What signs say."""
for _sign, _said, _kind in (([*row, "", ""])[:3] for row in read_table(TABLES / "signs.tsv")):
    SIGN_ROWS[_sign].append(reading(f"{_kind} s:{_sign}", _said))
SYMBOLS = {row[0]: row[1] for row in read_table(TABLES / "signs.tsv") if len(row[0]) == 1 and row[2] == "sign"} | {
    sign: names[1] for sign, names in CURRENCIES.items() if len(sign) == 1 and not sign.isalpha()
}
ALONE = frozenset(row[0] for row in read_table(TABLES / "units.tsv") if "alone" in row[-1])


class Place(NamedTuple):
    """Where a word stands, to be asked what is beside it."""

    text: str
    start: int
    stop: int

    def ahead(self, characters: int) -> str:
        """So many characters before the word."""
        return self.text[max(0, self.start - characters) : self.start]


NOWHERE = Place("", 0, 0)
_REFERRED = re.compile(
    r"\.?\s*[#(\[§]*[A-Z]{0,3}-?\d|\.?\s+[IVXLivxl]+\b|\.?\s*[:#]|\.?\s[Nn]os?\.\s|\.?\s[A-Z](?![\w'])|\.\s\([A-Z]{2}\)\s\d|\.\s(?:of|is|was|for)\b|(?<=os)\b"
)
_OWNED = re.compile(
    r"\b(?:the|my|your|his|her|its|our|their|this|that|what|which|order|phone)\s(?:\w{2,9}\s)?\Z", re.IGNORECASE
)
_RAISED = re.compile(r"[⁰¹²³⁴-⁹]\s")
_MEASURED = re.compile(r"\d[\"″'′]\s?\Z")
_AT_HOURS = re.compile(r"\d/\d{1,2}\Z")
_VERSE, _CHAPTER = re.compile(r"\.?\s\d+:\d"), re.compile(r"(?<!Is)\.?\s\d")
_LABELLED = re.compile(r"\.?:|\s?\d")
_APPLIED = re.compile(r"\(|[²³^]|\s?[θαβγφψωπ]|\s[a-z](?![\w'])")
_BESIDE: dict[str, Callable[[Place], object]] = {
    "reference": lambda place: _REFERRED.match(place.text, place.stop),
    "book": lambda place: _VERSE.match(place.text, place.stop) or _CHAPTER.match(place.text, place.stop),
    "label": lambda place: _LABELLED.match(place.text, place.stop),
    "function": lambda place: _APPLIED.match(place.text, place.stop),
    "dimension": lambda place: _MEASURED.search(place.ahead(3)),
    "zone": lambda place: _AT_HOURS.search(place.ahead(5)),
    "amount": lambda place: any(map(str.isdecimal, place.ahead(12))),
}
"""What a class of abbreviations needs beside it: behind it a number, a colon, a variable; against it a mark."""
_BESIDE["references"] = _BESIDE["reference"]
_BESIDE["number"] = lambda place: _REFERRED.match(place.text, place.stop) or _OWNED.search(place.ahead(20))
_BEHIND_DIGITS = frozenset(["title", "zone", "letters", "month", "per", "message", "unit", "medical"])


def abbreviations(written: str, style: Style, *, dot: bool, place: Place = NOWHERE) -> list[SpokenForm]:
    """What a word, with or without its dot, may stand for at its place; one reading for the same words."""
    found: dict[str, SpokenForm] = {}
    for entry in ENTRIES.get(written.lower(), ()):
        if (dot or not entry.has_dot) and entry.is_written(written) and _fits(entry, dot, place):
            form = _form(entry, style.for_voice)
            if form.said not in found or entry.kind in _BESIDE:
                found[str(form.said)] = form
    readings = list(found.values())
    is_per = len(written) > 1 or place.text.startswith("/", place.stop) or bool(_RAISED.match(place.ahead(2)))
    if written in ALONE and is_per and not (dot or place.ahead(1).isdigit()):
        for unit in units(written, style):
            if unit.kind == "unit":
                readings += [reading("unit several", unit.several), reading("unit one", unit.one)]
    return readings


def _fits(entry: Abbreviation, dot: bool, place: Place) -> bool:
    """Whether what stands beside an abbreviation is what its class needs."""
    if place.ahead(1).isdigit() and entry.kind not in _BEHIND_DIGITS:
        return False
    needed = "reference" if entry.written == "x" else "amount" if entry.said == "per month" else entry.kind
    needed = "number" if entry.written == "no" and entry.has_dot else needed
    return needed not in _BESIDE or (needed == "book" and dot) or bool(_BESIDE[needed](place))


@cache
def _form(entry: Abbreviation, for_voice: bool) -> SpokenForm:
    said = entry.said
    if for_voice and entry.kind in ("letters", "medical"):
        said = re.sub(r"\ba\b", LETTER_A, said)
    return reading(f"{entry.kind} a:{entry.said.replace(' ', '_')}", said)


def initials(m: re.Match[str], style: Style) -> Readings:
    """U.S., p.m., e.g."""
    letters = "".join(m[0].replace(".", "").split())
    if letters.lower() in ("am", "pm"):
        yield reading("half", style.half(letters[0]))
    else:
        yield reading("initials", style.letters(letters))


def degree(m: re.Match[str], style: Style) -> Readings:
    """B.Sc., LL.B. → letters; M.Eng. → m eng"""
    level, subject = m[0].split(".")[:2]
    is_spelled = len(subject) < 3 and subject != "Ed"
    yield reading(
        "initials", style.letters(level + subject) if is_spelled else f"{style.letters(level)} {subject.lower()}"
    )


# ---------------------------------------------------------------------------------------------------------------------
# Capitals


def is_known(word: str) -> bool:
    """Whether CMUdict has a word."""
    return bool(pronounce.pronunciations(word))


def is_short(word: str) -> bool:
    """Whether an abbreviation is no word: asst, bldg, Dr."""
    small = word.lower()
    return small in ("dr", "mr", "mrs") or not (is_word_too(small) or is_known(small))


def is_word_too(word: str) -> bool:
    """Whether an abbreviation is a word of its own, too, or a name: no., Al."""
    return word.lower() in _LISTS["too"]


_LISTS = {name: frozenset(found.split()) for name, found in read_table(TABLES / "capitals.tsv")}


@lru_cache(maxsize=8192)
def looks(word: str) -> tuple[str, ...]:
    """Features of a word in capitals: its length, its vowels, what CMUdict and our lists know of it."""
    small = word.lower()
    listed = ",".join(name for name, names in _LISTS.items() if small in names)
    is_known = bool(pronounce.pronunciations(small))
    vowel = bool(re.search("[aeiouy]", small))
    spelled = is_known and pronounce.is_said_by_letter(small)
    known = "spelled" if spelled else "known" if is_known else "unknown"
    return (
        f"len={min(len(word), 6)}",
        f"vowel={vowel}",
        f"dict={known}",
        f"looks={min(len(word), 6)},{vowel},{known}",
        f"listed={listed}",
        f"listed={listed},{known}",
    )


def capitals(word: str, ending: str, style: Style) -> list[SpokenForm]:
    """NASA, GPU, TVs, CC'd: a word or its letters."""
    if not style.for_voice or word.lower() in style.known:
        return [SpokenForm(("word",), None)]
    said = {"": "", "s": "'s", "ing": " ing"}.get(ending.lstrip("'"), f"'{ending[-1:]}")
    return [SpokenForm(("word",), None), reading("letters", style.letters(word) + said)]


def spelled(word: str, style: Style) -> list[SpokenForm]:
    """npm, html, mp3: small letters that may be no word."""
    if not style.for_voice or word in style.known:
        return []
    return [reading("letters", style.letters(word))]


def mixed_case(m: re.Match[str], style: Style) -> Readings:
    """iOS, OpenAI, mRNA: what stands in capitals is spelled."""
    yield SpokenForm(("word",), None)
    if style.for_voice:
        first, upper, ending = m.groups()
        first = style.letters(first) if len(first) == 1 else first
        yield reading("letters", f"{first} {style.letters(upper)}{ending and chr(39) + 's'}")
        yield reading("parts", f"{first} {upper}{ending and chr(39) + 's'}")
        yield reading("letters all", style.letters(m[0].lower()))


def name_and_capital(m: re.Match[str], style: Style) -> Readings:
    """AT&T, R&B"""
    own = m[3] and "'s"
    yield reading(
        "letters", f"{style.letters(m[1])} and {style.letters(m[2])}{own}" if style.for_voice else f"{m[1]} and {m[2]}"
    )


# ---------------------------------------------------------------------------------------------------------------------
# Roman numerals

_NO_NUMERALS = frozenset("LCDMlcdm")  # which are initials, units and letters of lists


def numerals(word: str, own: str) -> list[SpokenForm]:
    """Henry VIII's, Chapter IV, page iv, the XXI century"""
    if not is_roman(word.upper()) or word in _NO_NUMERALS:
        return []
    value = roman(word.upper())
    found = [reading("roman", f"{cardinal(value)}{own}"), reading("king", f"the {ordinal(value)}{own}")]
    found.append(reading("ranked", f"{ordinal(value)}{own}"))
    if len(value) == 4:
        found.append(reading("roman year", year(value)))
    return found


def numeral_and_ending(m: re.Match[str], style: Style) -> Readings:
    """XXth"""
    if is_roman(m[1]):
        yield reading("ranked", ordinal(roman(m[1])))


def chords(m: re.Match[str], style: Style) -> Readings:
    """a ii-V-I in C"""
    found = m[0].upper().split("-")
    if all(re.fullmatch("I{1,3}|IV|VI{0,2}", chord) for chord in found):
        yield reading("roman", " ".join(cardinal(roman(chord)) for chord in found))


# ---------------------------------------------------------------------------------------------------------------------
# Letters with numbers and signs


def labelled(m: re.Match[str], style: Style) -> Readings:
    """A1B2-334, 8F3-22K-901, XJ-900: runs of letters and numbers"""
    runs = re.findall(r"\d+|[A-Za-z]+", m[0])
    if len(runs) > 1:
        yield reading("code", " ".join(_run(run, style, digits) for run in runs))
        yield reading("code pairs", " ".join(_run(run, style, in_pairs) for run in runs))


def _run(run: str, style: Style, long: Callable[[str], str]) -> str:
    if run.isalpha():
        return style.letters(run)
    return cardinal(run) if len(run) < 3 and run[0] != "0" else long(run)


_ELEMENTS = {row[0]: row[1] for row in read_table(TABLES / "elements.tsv")}
_ELEMENT = re.compile(r"([A-Z][a-z]?|\))([\d₀-₉]*)")


def formula(m: re.Match[str], style: Style) -> Readings:
    """H2SO4, NaCl, Ca2+"""
    found = _ELEMENT.findall(m[1])
    if m[0].isalpha() and ((len(m[0]) < 3 and len(found) == 1) or _is_loud_word(m[0])):  # the same as a word
        return
    if not all(element in _ELEMENTS or element == ")" for element, _ in found):
        return
    said = " ".join(
        f"{style.letters(element.strip(')'))} {cardinal(n.translate(POWERS)) if n else ''}".strip()
        for element, n in found
    )
    charge = (m[2] or "").translate(POWERS).lstrip("^ ")
    if charge:
        of = f" {cardinal(charge[:-1])}" if charge[:-1] else ""
        said += f"{of} {'plus' if charge[-1] == '+' else 'minus'}"
    yield reading("formula", said)


def _is_loud_word(written: str) -> bool:
    """NOW, COUSIN: a word in capitals that all are elements."""
    return written.lower() in _LISTS["loud"] if len(written) == 3 else len(written) > 3 and is_known(written.lower())


def isotope(m: re.Match[str], style: Style) -> Readings:
    """¹⁴C → carbon fourteen"""
    if m[2] in _ELEMENTS:
        value = m[1].translate(POWERS)
        said = cardinal(value) if len(value) < 3 else f"{cardinal(value[0])} {cardinal(value[1:])}"
        yield reading("formula", f"{_ELEMENTS[m[2]]} {said}")


_CHESSMEN = {"K": "king", "Q": "queen", "R": "rook", "B": "bishop", "N": "knight"}


def chess(m: re.Match[str], style: Style) -> Readings:
    """Nf3, exd5, Qxf7#, O-O"""
    if m[0].startswith("O-O"):
        yield reading("chess", "castles queenside" if m[0].startswith("O-O-O") else "castles kingside")
        return
    piece, origin, takes, column, row, queen, check = m.groups()
    if not style.for_voice or not (piece or takes or queen):
        return
    said = [_CHESSMEN.get(piece or "", ""), *(style.letters(o) if o.isalpha() else cardinal(o) for o in origin or "")]
    said += ["takes" if takes else "", style.letters(column), cardinal(row), _CHESSMEN[queen[-1]] if queen else ""]
    said.append({"+": "check", "#": "checkmate"}.get(check, ""))
    yield reading("chess", " ".join(filter(None, said)))


_CHORD_KINDS = {"maj": "major", "min": "minor", "m": "minor", "dim": "diminished", "aug": "augmented"}
_SHIFTS = {"#": " sharp", "♯": " sharp", "b": " flat", "♭": " flat"}


def chord(m: re.Match[str], style: Style) -> Readings:
    """F#, B♭, C#m7, Cmaj7"""
    letter, shift, kind, degree_ = m.groups()
    if not (shift or (kind and degree_)):
        return
    said = f"{style.letters(letter)}{_SHIFTS.get(shift or '', '')} {_CHORD_KINDS.get(kind, kind or '')}"
    yield reading("chord", f"{said} {cardinal(degree_) if degree_ else ''}".strip())


def key(m: re.Match[str], style: Style) -> Readings:
    """C# min., E-flat maj."""
    shift = _SHIFTS.get(m[2] or "", f" {m[3]}" if m[3] else "")
    yield reading("chord", f"{style.letters(m[1])}{shift} {_CHORD_KINDS[m[4]]}")


def function(m: re.Match[str], style: Style) -> Readings:
    """f(x), f'(x), O(n)"""
    prime = {0: "", 1: "prime ", 2: "double prime "}[len(m[2])]
    yield reading("function", f"{style.letters(m[1])} {prime}of")


def zone(m: re.Match[str], style: Style) -> Readings:
    """UTC+5:30"""
    said = [style.letters(m[1].lower()) if style.for_voice else m[1].lower(), "plus" if m[2] == "+" else "minus"]
    said += [cardinal(str(int(m[3]))), *([cardinal(m[4])] if m[4] else [])]
    yield reading("time", " ".join(said))


def grade(m: re.Match[str], style: Style) -> Readings:
    """A-, O+"""
    said = style.letters(m[1])
    yield reading("grade", f"{said} {'plus' if m[2] == '+' else 'minus'}")
    yield reading("blood", f"{said} {'positive' if m[2] == '+' else 'negative'}")


# ---------------------------------------------------------------------------------------------------------------------
# Signs


def power(m: re.Match[str], style: Style) -> Readings:
    """x², 10⁻⁶, 2^n"""
    exponent = m[1].translate(POWERS).lstrip("+")
    if exponent in ("2", "3"):
        yield reading("power", "squared" if exponent == "2" else "cubed")
    elif exponent.isalpha():
        yield reading("power", f"to the {style.letters(exponent)}")
    else:
        plain = exponent.lstrip("-")
        minus = "minus " if exponent.startswith("-") else ""
        yield reading("power", f"to the power of {minus}{cardinal(plain) if plain else ''}")
    if plain := exponent.lstrip("-+"):
        yield reading("index", cardinal(plain) if plain.isdecimal() else style.letters(plain))


def absolute(m: re.Match[str], style: Style) -> Readings:
    """|x|, |a - b|"""
    signs = {"+": "plus", "-": "minus"}
    said = [signs.get(t) or (cardinal(t) if t.isdecimal() else style.letters(t)) for t in m[1] if not t.isspace()]
    yield reading("absolute", f"absolute value of {' '.join(said)}")


def dialled(m: re.Match[str], style: Style) -> Readings:
    """*67, #31#"""
    star = "star" if m[1] == "*" else "pound"
    yield reading("key", f"{star} {digits(m[2])}{' pound' if m[3] else ''}")


def silent(m: re.Match[str], style: Style) -> Readings:
    """Emoticons, marks of notes."""
    yield reading("nothing", "")
    yield reading("sign", None)

"""Numbers of European languages in words where they agree with what they count: einem, un', veintiuna, doscientas.

espeak-ng counts rightly otherwise: all other numbers stay in figures, without what divides their groups. The genders of
nouns are a table, tables/genders.tsv; for the others their endings decide.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from common.text.choose import read_table
from common.text.english.style import Token
from common.text.numbers import in_words

_NUMBER = re.compile(
    r"(?<![\w.,:/+'’-])(?<!\d[ \u00a0\u202f])"
    r"(?:[1-9]\d{0,2}(?:[ \u00a0\u202f'’]\d{3}){1,4}|[1-9]\d{0,2}(?:\.\d{3}){1,4}|[1-9]\d{0,8})"
    r"(?![\w:/'’°²³-]|[.,]\d|[ \u00a0\u202f]\d)"
)
_NOUN = re.compile(r"[ \u00a0\u202f]([^\W\d_]+(?:-[^\W\d_]+)*)(?![\w'’])")


@cache
def _nouns(code: str) -> tuple[dict[str, str], frozenset[str]]:
    """Genders, or "stop", by word, and by ending with its hyphen; words that numbers belong to."""
    rows = [row[1:] for row in read_table(Path(__file__).parent / "tables" / "genders.tsv") if row[0] == code]
    kinds = {word.lower(): kind for kind, words in rows if kind != "label" for word in words.split()}
    return kinds, frozenset(word for kind, words in rows if kind == "label" for word in words.split())


@cache
def gender(noun: str, code: str) -> str:
    """m, f or n; "stop" for a word that is no noun."""
    known, small = _nouns(code)[0], noun.lower()
    forms = [small]
    if code in ("es", "pt", "fr") and small[-1:] in "sx":
        forms += [
            small[:-1],
            re.sub(r"es\Z", "", small),
            re.sub(r"ces\Z", "z", small),
            re.sub(r"iones\Z", "ión", small),
        ]
    for form in forms:
        if form in known:
            return known[form]
    for start in range(1, len(small)):
        for form in forms:
            if found := known.get(f"-{form[start:]}"):
                return found
    return "m"


def agreed(tokens: list[Token], code: str) -> Iterator[Token]:
    """The tokens with numbers in words where they have a form of their own before a noun."""
    if code not in _FORMS:
        yield from tokens
        return
    whole = "".join(token.written if token.spoken is None else token.spoken for token in tokens)
    found = list(_replaced(whole, code))
    start = i = 0
    for token in tokens:
        words = token.written if token.spoken is None else token.spoken
        pieces, position = [], 0
        while i < len(found) and found[i][0] < start + len(words):
            first, last, said = found[i][0] - start, found[i][1] - start, found[i][2]
            i += 1
            if first < position or last > len(words):
                continue
            pieces += [(words[position:first], None), (words[first:last], said)]
            position = last
        start += len(words)
        pieces.append((words[position:], None))
        if token.spoken is not None:
            yield token._replace(spoken="".join(written if said is None else said for written, said in pieces))
            continue
        for written, spoken in pieces:
            if written:
                yield Token(written, token.kind if spoken is None else "number", spoken)


def _replaced(whole: str, code: str) -> Iterator[tuple[int, int, str]]:
    for match in _NUMBER.finditer(whole):
        written = match[0]
        digits = re.sub(r"\D", "", written)
        noun, ahead = _NOUN.match(whole, match.end()), whole[max(0, match.start() - 30) : match.start()]
        said = _FORMS[code](int(digits), noun[1], ahead) if noun and not _is_label(ahead, code) else None
        if said and said.endswith("'"):
            yield match.start(), match.end() + 1, said
        elif said or not re.fullmatch(r"[\d.]+", written):
            yield match.start(), match.end(), said or digits
    if code == "de":
        for match in _ONE_OF_A_UNIT.finditer(whole):
            if declined := _german(1, match[2], whole[max(0, match.start() - 30) : match.start()]):
                yield match.start(1), match.end(1), declined


def _is_label(ahead: str, code: str) -> bool:
    """Whether a number belongs to the word ahead of it: chapter 1."""
    word = re.search(r"([^\W\d_]+)\.?\s\Z", ahead)
    return word is not None and word[1].lower() in _nouns(code)[1]


def _spanish(value: int, noun: str, ahead: str) -> str | None:
    kind, counted = gender(noun, "es"), in_words(value, "es", "cardinal")
    if kind == "stop" or not counted:
        return None
    said = re.sub(r"uno(?= mil\b)", "un", counted.replace("veintiuno mil", "veintiún mil"))
    if kind == "f":
        millions, mark, rest = said.rpartition("mill")
        said = millions + mark + re.sub(r"(?<=[ei]nt)os\b", "as", re.sub(r"uno\Z", "una", rest))
    else:
        said = re.sub(r"uno\Z", "un", re.sub(r"veintiuno\Z", "veintiún", said))
    return said if said != counted else None


def _portuguese(value: int, noun: str, ahead: str) -> str | None:
    said = in_words(value, "pt", "cardinal") or ""
    if gender(noun, "pt") != "f":
        return None
    changed = re.sub(r"um\Z", "uma", re.sub(r"dois\Z", "duas", re.sub(r"entos\b", "entas", said)))
    return changed if changed != said and "milh" not in said else None


def _french(value: int, noun: str, ahead: str) -> str | None:
    said = in_words(value, "fr", "cardinal") or ""
    return f"{said}e" if re.search(r"\bun\Z", said) and gender(noun, "fr") == "f" else None


def _italian(value: int, noun: str, ahead: str) -> str | None:
    kind = gender(noun, "it")
    if value != 1 or kind == "stop":
        return None
    if kind == "f":
        return "un'" if noun[0].lower() in "aeiouàèéìòù" else "una"
    return "uno" if re.match(r"s[^aeiou]|z|gn|ps|pn|x|y", noun.lower()) else "un"


_DATIVE = re.compile(
    r"\b(?:mit|vor|seit|nach|bei|von|aus|zu|in|ab|innerhalb von|außer|binnen|unter|neben|zwischen)\s\Z", re.IGNORECASE
)
_ACCUSATIVE = re.compile(
    r"\b(?:für|um|ohne|durch|gegen|pro|je|über|habe|hat|haben|hatte|brauche|braucht|brauchen|nur|noch|kostet|dauert)\s\Z",
    re.IGNORECASE,
)
_ONE_OF_A_UNIT = re.compile(r"(?<!\w)(eine?) (?!(?:Euro|Franken|Dollar) \d)([A-ZÄÖÜ][\wäöüß]+)")
_NAME_AHEAD = re.compile(r"(?!(?:Mit|Vor|Seit|Nach|Bei|Von|Aus|In|Ab|Für|Um|Ohne|Nur|Noch)\s)[A-ZÄÖÜ][\wäöüß]*\.?\s\Z")


def _german(value: int, noun: str, ahead: str) -> str | None:
    """1 Frau → eine Frau; mit 1 Frau → einer; für 1 Tag → einen; um 1 Uhr → ein; but Kapitel 1 Einleitung"""
    if value != 1 or not noun[0].isupper() or _NAME_AHEAD.search(ahead):
        return None
    kind = gender(noun, "de")
    if noun == "Uhr":
        return "ein"
    if _DATIVE.search(ahead):
        return "einer" if kind == "f" else "einem"
    if _ACCUSATIVE.search(ahead) and kind == "m":
        return "einen"
    return "eine" if kind == "f" else "ein"


_FORMS: dict[str, Callable[[int, str, str], str | None]] = {
    "de": _german, "es": _spanish, "pt": _portuguese, "fr": _french, "it": _italian,
}  # fmt: skip

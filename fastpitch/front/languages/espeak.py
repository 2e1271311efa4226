"""Any language of espeak-ng by its sounds, in the international phonetic alphabet: `language = "de"` in a config.

espeak-ng pronounces whole clauses, so that words sound as they do beside others, and reads numbers, abbreviations and
symbols by its own rules; English, Mandarin, and of some languages abbreviations, units, ordinals and dates are first
put in words by `common.text`. Every word has the sounds of its written form, with stress marks; punctuation stays.
"""

import random
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from common.audio.espeak import EspeakError, sentences_in_ipa
from common.text.european.language import language_of
from common.text.european.reader import european_tokens
from common.text.mandarin.phones import HAN
from common.text.mandarin.reader import mandarin_tokens
from common.text.numbers import in_words
from common.text.spoken import said_english
from fastpitch.front.languages import (
    ESPEAK_SYMBOLS,
    Given,
    SpokenReading,
    SymbolPiece,
    TextConfig,
    TextError,
    described,
)

_PUNCTUATION = ".,;:!?-()\"'¿¡ "
_LETTERS = "abcdefghijklmnopqrstuvwxyzæçðøħŋœβθχλ"
_IPA = "".join(map(chr, range(0x250, 0x2B0)))  # IPA Extensions
_CLICKS, _MODIFIERS = "ǀǁǂǃ", "ʰʱʲʳʴʷʸˀˁˠˡˢˣˤⁿᵊᵻᵝᶣᶿ˞"
_MARKS = "ˈˌːˑ̥̩̪̯̰̤̬̝̞̟̠̘̙̹̜͉͈̺̻̼̃̆̈̊̋̌̂́̀̄̍̏̐̑̒̈̽̊̚̕ʼ͡"
_TONES = "˥˦˧˨˩↑↓0123456789"
_LEFT_OVER = "`^#+[§¥©AEFKNSXZεΦᵐᵑ"  # of espeak's own notation, in some twenty languages

# Never changed: a trained model has learned the numbers of its symbols. Another inventory is another set: espeak_2.
SYMBOL_SETS = {
    ESPEAK_SYMBOLS: (
        "_",
        *dict.fromkeys(_PUNCTUATION + _LETTERS + _IPA + _CLICKS + _MODIFIERS + _MARKS + _TONES + _LEFT_OVER),
    )
}

_INLINE = re.compile(r"\{([^{}]*)\}")
_SWITCH = re.compile(r"\([a-z]{2,3}(?:-[\w-]+)?\)")  # espeak's note that a word is of another language
_SAID_SIGNS = "%‰&@#*/\\§†°©®™№℃℉"  # punctuation to Unicode, but words to a reader
_SAME = str.maketrans(
    {
        **dict.fromkeys("。।॥۔︒｡", "."), **dict.fromkeys("，、،", ","), **dict.fromkeys("？؟", "?"), "！": "!",
        **dict.fromkeys("；؛", ";"), "：": ":",
        **dict.fromkeys("–—−‒―", "-"), **dict.fromkeys("“”„«»《》「」『』", '"'),
        **dict.fromkeys("‘’‚‹›", "'"), "…": ".", **dict.fromkeys("（【[", "("), **dict.fromkeys("）】]", ")"),
    }
)  # fmt: skip
_RETROFLEX = (("ts.", "ʈʂ"), ("s.", "ʂ"), ("z.", "ʐ"))  # as espeak writes them for Mandarin
_AS_WRITTEN = ("cardinal", "number", "date", "time", "currency", "unit", "measure", "address", "fraction", "year")


def pieces(text: str, config: TextConfig, draw: random.Random, given: Sequence[Given] = ()) -> Iterator[SymbolPiece]:
    """Words by their sounds, and the punctuation between them. Raises TextError."""
    braces = [Given(m.start(), m.end(), SpokenReading("phonemes", "ipa", m[1])) for m in _INLINE.finditer(text)]
    free = [b for b in braces if not any(g.start < b.stop and b.start < g.stop for g in given if g.reading)]
    position = 0
    for piece in sorted([*given, *free], key=lambda piece: (piece.start, piece.stop)):
        yield from _spoken(text[position : piece.start], position, _language(config.language))
        yield from _given(text[piece.start : piece.stop], piece, config)
        position = max(position, piece.stop)
    yield from _spoken(text[position:], position, _language(config.language))


def _language(name: str) -> str:
    """espeak's name of a language: zh and zh-CN are cmn, de-DE is de, en-GB is en-gb."""
    name = (name or "en-us").lower().replace("_", "-")
    first, _, region = name.partition("-")
    if first in ("zh", "cmn"):
        return "cmn"
    return {"en": "en-us", "en-gb": "en"}.get(name, first if region == first else name)


def _given(text: str, piece: Given, config: TextConfig) -> Iterator[SymbolPiece]:
    """The pieces of a text that is given a reading, or a language."""
    language = _language(piece.language or config.language)
    if piece.reading is None:
        yield from _spoken(text, piece.start, language)
    elif piece.reading.kind == "phonemes":
        yield SymbolPiece(_phonemes(piece.reading), text.strip().lower(), piece.start)
    else:
        said = _said_as(piece.reading, text, language)
        yield from (found._replace(at=piece.start) for found in _spoken(said, 0, language))


def _phonemes(reading: SpokenReading) -> tuple[str, ...]:
    if reading.how != "ipa":
        raise TextError(f'<phoneme alphabet="{reading.how}">: expected ipa, the alphabet of {ESPEAK_SYMBOLS}')
    symbols = tuple(_composed(reading.value.replace(" ", "")))
    if not symbols:
        raise TextError("phonemes: none; expected sounds in IPA, such as həlˈoʊ")
    if strange := [symbol for symbol in symbols if symbol not in _known()]:
        raise TextError(f"phonemes {reading.value!r}: {described(strange[0])} is no sound of {ESPEAK_SYMBOLS}")
    return symbols


def _said_as(reading: SpokenReading, text: str, language: str) -> str:
    if reading.how in ("characters", "spell-out", "verbatim"):
        return ", ".join(text.replace(" ", ""))
    if reading.how in ("digits", "telephone"):
        return " ".join(c if c.isdecimal() or c == "+" else "," for c in text.strip())
    if reading.how in _AS_WRITTEN:
        return text
    if reading.how == "ordinal":
        digits = re.sub(r"\D", "", text)
        said = in_words(int(digits), language.partition("-")[0], "ordinal") if 0 < len(digits) < 20 else None
        if said is None:
            raise TextError(f'<say-as interpret-as="ordinal">: no ordinal of {text[:40]!r} in {language}')
        return said
    known = ", ".join(("characters", "digits", "telephone", "ordinal", *_AS_WRITTEN))
    raise TextError(f'<say-as interpret-as="{reading.how}">: expected one of {known}')


# ---------------------------------------------------------------------------------------------------------------------
# Text to clauses, clauses to words and their sounds


class _Word(NamedTuple):
    """A word and where it begins and ends."""

    text: str
    start: int
    stop: int


def _spoken(text: str, first: int, language: str) -> Iterator[SymbolPiece]:
    """The pieces of a text that begins at `first`, in one language."""
    if not text:
        return
    text, places = _in_words(text, language)
    position = 0
    for clause in _clauses(text):
        sounds = _sounds(tuple(word.text for word in clause), language)
        for word, ipa in zip(clause, sounds, strict=True):
            yield from _between(text, position, word.start, places, first)
            at = first + places[word.start]
            if ipa:
                yield SymbolPiece(tuple(ipa), word.text.lower(), at)
            else:  # espeak has no sound for it: a picture, a letter of another script
                yield from (SymbolPiece((character,), at=at) for character in word.text)
            position = word.stop
    yield from _between(text, position, len(text), places, first)


def _between(text: str, start: int, stop: int, places: list[int], first: int) -> Iterator[SymbolPiece]:
    """Punctuation in one form, and white space as one space."""
    for i in range(start, stop):
        character = text[i].translate(_SAME)
        if character.isspace():
            if i == start or not text[i - 1].isspace():
                yield SymbolPiece((" ",), at=first + places[i])
        else:
            yield SymbolPiece((character,), at=first + places[i])


def _in_words(text: str, language: str) -> tuple[str, list[int]]:
    """Numbers and symbols in words where there are rules for them, and where the characters come from."""
    if language == "cmn" or language_of(language):
        said, position = "", 0
        places: list[int] = []
        for token in mandarin_tokens(text) if language == "cmn" else european_tokens(text, language):
            words = token.written if token.spoken is None else token.spoken
            own = range(position, position + len(token.written))
            said, position = said + words, own.stop
            places += own if token.spoken is None else [own.start] * len(words)
        return said, places
    if language.partition("-")[0] != "en" or re.fullmatch(r"[a-z\s,;:!?'-]*", text):
        return text, list(range(len(text)))
    said_text, origins = said_english(text, keep=_PUNCTUATION.strip())
    before, after = (end if end.isspace() else "" for end in (text[:1], text[-1:]))
    return before + said_text + after, [*([0] * len(before)), *origins, *([len(text) - 1] * len(after))]


def _clauses(text: str) -> list[list[_Word]]:
    """The words of a text, divided where there is more than a space between two."""
    found: list[list[_Word]] = []
    stop = 0
    for written in re.finditer(r"\S+", text):
        start, end = written.span()
        while start < end and not _is_said(text[start]):
            start += 1
        while start < end and not _is_said(text[end - 1]):
            end -= 1
        if start == end:
            continue
        for run in re.finditer(rf"[{HAN}]+|[^{HAN}，。？！；：、“”（）]+", text[start:end]):
            word = _Word(run[0], start + run.start(), start + run.end())
            if not found or text[stop : word.start].strip():
                found.append([])
            found[-1].append(word)
            stop = word.stop
    return found


def _is_said(character: str) -> bool:
    """Letters, digits and signs that are words; pictures are none, although espeak has names for them."""
    kind = unicodedata.category(character)
    return character in _SAID_SIGNS or not (kind.startswith(("P", "Cs", "Co")) or kind == "So")


@lru_cache(maxsize=65536)
def _sounds(words: tuple[str, ...], language: str) -> tuple[str, ...]:
    """The sounds of the words of a clause: as they are said together, where espeak keeps them apart, or each alone."""
    try:
        (clause,) = sentences_in_ipa([" ".join(words)], language)
        together = _cleaned(clause).split()
        if len(together) == len(words):
            return tuple(together)
        return tuple(" ".join(_cleaned(word).split()) for word in sentences_in_ipa(words, language))
    except EspeakError as error:
        raise TextError(f"language {language!r}: {error}") from None


def _cleaned(ipa: str) -> str:
    ipa = _SWITCH.sub("", ipa)
    for written, sign in _RETROFLEX:
        ipa = ipa.replace(written, sign)
    return _composed(re.sub(r"[._|-]", "", ipa))


def _composed(ipa: str) -> str:
    """Each mark a character of its own, except for the cedilla, which makes another sound."""
    return unicodedata.normalize("NFD", ipa).replace("c\u0327", "ç")


@cache
def _known() -> frozenset[str]:
    return frozenset(SYMBOL_SETS[ESPEAK_SYMBOLS][1:])

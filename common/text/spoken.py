"""English as a voice must say it: what `normalize_english` does for a recogniser's labels, and what only a voice needs.

A recogniser writes words; a voice must also know which capitals are spelled, keep the punctuation that it pauses at,
and pause between the groups of a telephone number. No character is dropped that might have been said: those without a
reading in English stay where they are, for the caller to report.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from common.text.engine.token import Token
from common.text.english.characters import prepared, prepared_characters
from common.text.english.reader import spoken, spoken_each, tokens
from common.text.english.style import GIVEN, Style
from common.text.english.style import LETTER_A as LETTER_A
from common.text.english.words import GREEK, SYMBOLS
from common.text.normalize import characters_in_ascii, in_ascii, tidied

_LETTERS = "abcdefghijklmnopqrstuvwxyz' "


class Said(NamedTuple):
    """A text as it is said, and for every character of it the place in the written text where it comes from."""

    text: str
    places: list[int]


class Fixed(NamedTuple):
    """text[start:stop] is read as `spoken`, whatever it is; what stands around it is read as if it were not fixed.

    Words need spaces around them in `spoken`; other things stand beside letters.
    """

    start: int
    stop: int
    spoken: str


PRIVATE = range(0xE000, 0xF900)
"""Characters that `Fixed.spoken` may hold and that no written text has, for the caller to know them again."""


def spoken_english(
    text: str,
    *,
    keep: str = ".,!?",
    known: Container[str] = (),
    readings: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
) -> str:
    """The words of `text` in lower case, with single spaces, and with the punctuation marks of `keep`.

    `known` are words that stay in one piece although they are written in capitals, besides those of CMUdict.
    `readings` come before all others, for words as they are written: {"SQL": "sequel"}, and so do names of `units`, in
    the singular: {"kn": "knot"}.
    """
    found = voice_tokens(text, known=known, readings=readings, units=units)
    return _finished(text, spoken(found), keep)[1]


def said_english(
    text: str,
    *,
    keep: str = ".,!?",
    known: Container[str] = (),
    readings: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    fixed: Sequence[Fixed] = (),
) -> Said:
    """As `spoken_english`, with the places where the words come from, and with pieces whose reading is fixed.

    The pieces, in their order, must not overlap; `text` must be composed (Unicode's form NFC).
    """
    prepared_text, places = _expanded(prepared_characters(text), range(len(text)))
    ascii_text, places = _expanded(characters_in_ascii(prepared_text, without_reading(prepared_text)), places)
    given = {}
    for piece in fixed:
        first, last = bisect_left(places, piece.start), bisect_left(places, piece.stop)
        if first < last:
            given[first] = Token(ascii_text[first:last], GIVEN, piece.spoken)
    style = Style(for_voice=True, known=known, readings=readings or {}, units=units or {}, given=given)
    found = list(tokens(ascii_text, style))
    said, origins, position = [], [], 0
    for token, words in zip(found, spoken_each(found), strict=True):
        said.append(words)
        length = len(token.written)
        own = places[position : position + length]
        # The spaces around a reading belong to it only where the text has none.
        origins += own if token.spoken is None else [_NOWHERE if c == " " else own[0] for c in words]
        position += length
    written, origins = _expanded(list("".join(said)), origins)
    before, after = _finished(text, written, keep)
    if len(before) != len(written):  # characters that are several in Latin or small letters
        kept = _LETTERS + keep + without_reading(written) + _private(written)
        pieces = [c.lower() for c in characters_in_ascii(written, kept, symbols=False)]
        origins = _expanded(pieces, origins)[1]
    return Said(after, _aligned(before, origins, after))


def _finished(text: str, said: str, keep: str) -> tuple[str, str]:
    """The words in small Latin letters, before and after what does not belong to words is taken out."""
    keep_also = _LETTERS + keep + without_reading(said) + _private(said)
    before = in_ascii(said, keep_also, symbols=False).lower()
    after = tidied(before, keep_also)
    after = re.sub(r"(?<=\() | (?=\))", "", after)
    return before, _ended_like(text, after, keep)


_NOWHERE = -1


def _expanded(pieces: list[str], places: Sequence[int]) -> tuple[str, list[int]]:
    """The pieces in one, with the place of its piece for every character."""
    return "".join(pieces), [place for piece, place in zip(pieces, places, strict=True) for _ in piece]


def _aligned(before: str, places: list[int], after: str) -> list[int]:
    """The places of the characters of `after`, which has all letters and digits of `before`, in its order."""
    found: list[int] = []
    position, last = 0, 0
    for character in after:
        stop = position
        while stop < len(before) and not _is_kept(before[stop]):
            stop += 1
        if _is_kept(character):
            last, position = places[stop], stop + 1
        else:
            between = [i for i in range(position, stop) if places[i] != _NOWHERE]
            same = next((i for i in between if before[i] == character), None)
            chosen = same if same is not None else between[0] if between else None
            if chosen is not None:
                last = places[chosen]
            position = same + 1 if same is not None else position
        found.append(last)
    return found


def _private(text: str) -> str:
    return "" if text.isascii() else "".join({c for c in text if ord(c) in PRIVATE})


def _is_kept(character: str) -> bool:
    return character.isalnum() or ord(character) in PRIVATE


def voice_tokens(
    text: str,
    *,
    known: Container[str] = (),
    readings: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
) -> Iterator[Token]:
    """The tokens of `text` as `spoken_english` reads them, without its last step, which is that of characters."""
    text = prepared(text)
    text = in_ascii(text, without_reading(text))
    return tokens(text, Style(for_voice=True, known=known, readings=readings or {}, units=units or {}))


def transliterated(text: str) -> str:
    """`text` in Latin letters, except for characters of alphabets that are not read letter by letter."""
    from anyascii import anyascii

    return "".join(c if c.isascii() or _has_no_reading(c) else anyascii(c) for c in unicodedata.normalize("NFC", text))


# ---------------------------------------------------------------------------------------------------------------------
# Characters

_ALPHABETS = ("LATIN", "GREEK", "CYRILLIC", "COMBINING", "FULLWIDTH", "MODIFIER")
_SYMBOLS_SAID = frozenset([*"−™®©℃℉″", *SYMBOLS, *GREEK])  # or passed over, by normalize_english


def without_reading(text: str) -> str:
    """The characters of `text` that no alphabet or table of English can say."""
    return "" if text.isascii() else "".join({c for c in text if not c.isascii() and _has_no_reading(c)})


def _has_no_reading(character: str) -> bool:
    """A letter of another script than the alphabets of Europe, or a symbol such as an arrow or a picture."""
    kind = unicodedata.category(character)
    is_symbol = kind in ("So", "Sm", "Sk") and character not in _SYMBOLS_SAID
    is_letter = kind.startswith("L")
    return (is_symbol or is_letter) and not unicodedata.name(character, "").startswith(_ALPHABETS)


def _ended_like(text: str, said: str, keep: str) -> str:
    """A full stop that was taken for that of an abbreviation ends the sentence all the same."""
    was_ended = "." in keep and re.search(r"[.][)\"'”’\]\s]*\Z", text)
    return re.sub(r"(?<=\w)(?=[)\"']*\Z)", ".", said) if was_ended else said

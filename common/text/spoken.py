"""English as a voice must say it: what `normalize_english` does for a recogniser's labels, and what only a voice needs.

A recogniser writes words; a voice must also know which capitals are spelled, keep the punctuation that it pauses at,
and pause between the groups of a telephone number. No character is dropped that might have been said: those without a
reading in English stay where they are, for the caller to report.
"""

import re
import unicodedata
from collections.abc import Container, Mapping

from common.text.english.reader import spoken, tokens
from common.text.english.tables import GREEK, SYMBOLS
from common.text.english.tokens import LETTER_A as LETTER_A
from common.text.english.tokens import Style, Token
from common.text.normalize import in_ascii, prepared, tidied

_LETTERS = "abcdefghijklmnopqrstuvwxyz' "


def spoken_english(
    text: str, *, keep: str = ".,!?", known: Container[str] = (), readings: Mapping[str, str] | None = None
) -> str:
    """The words of `text` in lower case, with single spaces, and with the punctuation marks of `keep`.

    `known` are words that stay in one piece although they are written in capitals, besides those of CMUdict.
    `readings` come before all others, for words as they are written: {"SQL": "sequel"}.
    """
    found = voice_tokens(text, known=known, readings=readings)
    said = spoken(found)
    keep_also = _LETTERS + keep + _without_reading(said)
    said = tidied(in_ascii(said, keep_also, symbols=False).lower(), keep_also)
    said = re.sub(r"(?<=\() | (?=\))", "", said)
    return _ended_like(text, said, keep)


def voice_tokens(text: str, *, known: Container[str] = (), readings: Mapping[str, str] | None = None) -> list[Token]:
    """The tokens of `text` as `spoken_english` reads them, without its last step, which is that of characters."""
    text = prepared(text)
    text = in_ascii(text, _without_reading(text))
    return tokens(text, Style(for_voice=True, known=known, readings=readings or {}))


def transliterated(text: str) -> str:
    """`text` in Latin letters, except for characters of alphabets that are not read letter by letter."""
    from anyascii import anyascii

    return "".join(c if c.isascii() or _has_no_reading(c) else anyascii(c) for c in unicodedata.normalize("NFC", text))


# ---------------------------------------------------------------------------------------------------------------------
# Characters

_ALPHABETS = ("LATIN", "GREEK", "CYRILLIC", "COMBINING", "FULLWIDTH", "MODIFIER")
_SYMBOLS_SAID = frozenset([*"−™®©℃℉″", *SYMBOLS, *GREEK])  # or passed over, by normalize_english


def _without_reading(text: str) -> str:
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

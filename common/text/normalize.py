"""English text as it is spoken: numbers, dates, times, money and abbreviations in words.

`common.text.english` divides a text into tokens and reads each by its class; what stands here is what becomes of
characters before and after. Text that is normalised already is left as it is.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache

from common.text.engine.token import Token
from common.text.english.characters import prepared
from common.text.english.reader import spoken, tokens
from common.text.english.style import Style
from common.text.english.words import GREEK, SYMBOLS
from common.text.english.words import NOT_A_NAME as NOT_A_NAME

_LETTERS = "abcdefghijklmnopqrstuvwxyz' "
_PLAIN = re.compile(r"[a-z']+(?: [a-z']+)*")
_TITLE = re.compile(r"\b(?:mr|mrs|dr)\b")


def normalize_english(text: str, *, keep: str | None = None, readings: Mapping[str, str] | None = None) -> str:
    """The words of `text` in lower case, separated by single spaces.

    `keep` names the characters that may stay besides a-z: by default the apostrophe within a word. Add punctuation to
    keep it ("',.?!"), or letters of another alphabet, which are otherwise written in Latin ones (é → e). Punctuation
    that is not kept becomes a space. No letter is ever dropped: a vocabulary names those that it does not have.
    `readings` come before all others, for words as they are written: {"SQL": "sequel"}.
    """
    keep = _LETTERS if keep is None else keep.lower()
    if not readings and _PLAIN.fullmatch(text) and not _TITLE.search(text) and "'" in keep:
        return text
    said = spoken(label_tokens(text, keep=keep, readings=readings))
    return tidied(in_ascii(said, keep, symbols=False).lower(), keep)


def label_tokens(text: str, *, keep: str = "", readings: Mapping[str, str] | None = None) -> Iterator[Token]:
    """The tokens of `text` as `normalize_english` reads them, without its last step, which is that of characters."""
    return tokens(in_ascii(prepared(text), keep), Style(readings=readings or {}))


# ---------------------------------------------------------------------------------------------------------------------
# Characters

_UNDERSTOOD = frozenset([*(symbol for symbol in SYMBOLS if not symbol.isascii()), *"‘℃℉µμΩ″·⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉"])


@lru_cache(maxsize=4096)
def _latin(character: str) -> str:
    from anyascii import anyascii

    is_picture = not character.isalnum() and anyascii(character).startswith(":")
    return " " if is_picture else anyascii(character)


def in_ascii(text: str, keep: str, *, symbols: bool = True) -> str:
    """`text` in Latin letters, except for those of `keep`, and symbols that have a reading and single Greek letters."""
    return text if text.isascii() else "".join(characters_in_ascii(text, keep, symbols=symbols))


def characters_in_ascii(text: str, keep: str, *, symbols: bool = True) -> list[str]:
    """What `in_ascii` makes of every character of `text`."""
    return [c if c.isascii() or _is_said(text, i, keep, symbols=symbols) else _latin(c) for i, c in enumerate(text)]


def foreign_letters(text: str, keep: str) -> set[str]:
    """Letters of `text` that `normalize_english` would write in Latin ones: not a to z, not in `keep`, no symbol."""
    text = prepared(text)
    return {
        c
        for i, c in enumerate(text)
        if not c.isascii() and unicodedata.category(c)[0] in "LM" and not _is_said(text, i, keep, symbols=True)
    }


def _is_said(text: str, i: int, keep: str, *, symbols: bool) -> bool:
    """Whether the character at `i` is one of `keep` or, with `symbols`, has a reading of its own."""
    character = text[i]
    if character.lower() in keep or not symbols:
        return character.lower() in keep
    if character in _UNDERSTOOD:
        return True
    if character.lower() not in GREEK or text[max(0, i - 1) : i].isalpha():
        return False
    behind = text[i + 1 : i + 3]
    is_factor = behind[:1].isascii() and (not behind[1:].isalpha() or behind.isupper())  # πr², ΔT, ΔABC
    return is_factor or not behind[:1].isalpha()


# Words that begin with an apostrophe.
_ELIDED = "(?:tis|twas|twere|twill|em|til|cause|bout|n)"
_QUOTES = tuple(
    (re.compile(pattern, re.IGNORECASE), mark)
    for pattern, mark in (
        (rf"‘(?={_ELIDED}\b)", "'"),
        (r"‘([^‘]*?)'(?!\w)", r'"\1"'),
        (r"‘", '"'),
        (rf"(?<!\w)'(?!{_ELIDED}\b)(\w(?:[^']|(?<=\w)'(?=\w))*)'(?!\w)", r'"\1"'),
        (r"(?<=[.,!?;:])'", '"'),
    )
)


def tidied(text: str, keep: str) -> str:
    """`text` with the characters of `keep` and apostrophes within words, and with single spaces."""
    if "'" in text or "‘" in text:
        for pattern, mark in _QUOTES:
            text = pattern.sub(mark, text)
    text = re.sub(rf"[^\w{re.escape(keep)}]|_", " ", text)
    # An apostrophe belongs to a word.
    text = re.sub(r"(?<![^\W\d_])'+(?![^\W\d_])", " ", text)
    return re.sub(r" (?=[,.?!;:])", "", " ".join(text.split()))

"""What a language must give so that FastPitch speaks it: each module of this package is one. See docs/new_language.md.

A language module has `SYMBOL_SETS`, the symbols of each set it offers in the order of a model's embedding, the first
of them being the padding, and `pieces`, which turns a text into words and what stands between them.
"""

import difflib
import importlib
import pkgutil
import random
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, cast

Cleaners = Literal["english_cleaners_v2", "english_cleaners", "transliteration_cleaners", "basic_cleaners", "none"]

ESPEAK_SYMBOLS = "espeak_1"
"""The symbol set of `espeak.py`, with its version."""


class TextError(ValueError):
    """A text cannot be spoken; the message names the character, word or phoneme and says what to do."""


class SymbolPiece(NamedTuple):
    """Symbols that belong together: those of a word, or those between two words (`word` is "" then).

    `at` is the place in the text where they come from.
    """

    symbols: tuple[str, ...]
    word: str = ""
    at: int = 0


class SpokenReading(NamedTuple):
    """How a piece of text is read: by the phonemes of `value` in the alphabet `how`, or as what `how` says it is.

    The second is SSML's say-as; `value` is its format then.
    """

    kind: Literal["phonemes", "say-as"]
    how: str
    value: str


class Given(NamedTuple):
    """What is given for text[start:stop] besides the text: its reading, or its language."""

    start: int
    stop: int
    reading: SpokenReading | None = None
    language: str = ""


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """From text to the symbols that a model is trained on."""

    language: str = ""
    """Language of the texts in espeak-ng's names, such as de, es, hi or cmn: they are then read in the international
    phonetic alphabet, and `symbol_set` is espeak's. "": as `symbol_set` says."""
    symbol_set: str = "english_basic"
    """Symbols of the model: english_basic, english_basic_lowercase, english_mandarin_basic, or a set of another
    language's file."""
    cleaners: Cleaners = "english_cleaners_v2"
    """Normalisation of text: both english_cleaners spell out numbers, dates, abbreviations, ... in lower case;
    transliteration_cleaners only write in lower-case Latin letters, basic_cleaners only in lower case; none: as it is.
    """
    p_arpabet: float = 1.0
    """Probability that a word is given to the model by its phonemes in place of its letters."""
    ambiguous_words: Literal["letters", "first", "random"] = "letters"
    """Reading of a word with several pronunciations: by its letters (published), by the first one, or by one drawn
    for every use."""
    unknown_words: Literal["letters", "espeak", "error"] = "espeak"
    """Reading of a word that CMUdict lacks: by its letters (published), as espeak-ng says it, or none, which is an
    error."""
    unknown_characters: Literal["error", "skip"] = "error"
    """Treatment of a character that is no symbol of the set: an error, or it is left out."""
    lexicon: Path | None = None
    """File of pronunciations that come before all others, in CMUdict's format: `word  HH AH0 L OW1` a line."""
    readings: Path | None = None
    """File of readings that come before all others, TOML or JSON: words (SQL = "sequel") and units (kn = "knot")."""
    tone_sandhi: bool = True
    """Mandarin: whether pypinyin changes tones beside others; the published models learned that themselves."""
    prepend_space: bool = False
    """Whether a space is put before every text."""
    append_space: bool = False
    """Whether a space is put after every text."""

    def __post_init__(self) -> None:
        if not 0 <= self.p_arpabet <= 1:
            raise ValueError(f"p_arpabet = {self.p_arpabet}: expected a probability, 0 to 1")
        if self.language and self.symbol_set == TextConfig.symbol_set:
            object.__setattr__(self, "symbol_set", ESPEAK_SYMBOLS)  # a language is all that a voice needs to name
        if self.symbol_set not in symbol_sets():
            near = difflib.get_close_matches(self.symbol_set, symbol_sets(), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(symbol_sets()))}"
            raise ValueError(f"symbol_set = {self.symbol_set!r}: no such set; {hint}")


class SpokenLanguage(Protocol):
    """A module of this package."""

    SYMBOL_SETS: dict[str, tuple[str, ...]]

    def pieces(
        self, text: str, config: TextConfig, draw: random.Random, given: Sequence[Given] = ()
    ) -> Iterator[SymbolPiece]:
        """The symbols of `text`; a character that has none is a piece of its own, for `TextProcessor` to judge.

        `given`, in their order, do not overlap. Raises TextError for what of them cannot be followed.
        """


@cache
def symbol_sets() -> dict[str, SpokenLanguage]:
    """The language of every symbol set, found in the modules of this package."""
    languages = [
        cast(SpokenLanguage, importlib.import_module(f"{__name__}.{module.name}"))
        for module in pkgutil.iter_modules(__path__)
    ]
    return {name: language for language in languages for name in language.SYMBOL_SETS}


def shortened(text: str) -> str:
    """How messages quote a text: its beginning where it is long."""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def described(symbol: str) -> str:
    """How messages name a symbol; a character with its name: '你' (CJK UNIFIED IDEOGRAPH-4F60)."""
    if len(symbol) != 1:
        return repr(symbol)
    return f"{symbol!r} ({unicodedata.name(symbol, f'U+{ord(symbol):04X}')})"

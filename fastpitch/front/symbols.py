"""Text to the numbers a model knows: normalised, pronounced, and divided into words whose symbols are known."""

import random
from collections.abc import Collection, Sequence
from typing import NamedTuple

from fastpitch.front.languages import Given, SymbolPiece, TextConfig, TextError, described, shortened, symbol_sets

__all__ = ["EncodedText", "TextConfig", "TextError", "TextProcessor", "WordSymbols"]

_LIKE = {"!": ".", "?": ".", ";": ",.", ":": ",."}  # marks, and those that may stand in their place


class WordSymbols(NamedTuple):
    """A word as it is spoken; its symbols are those from `first` to `last`, both included."""

    text: str
    first: int
    last: int


class EncodedText(NamedTuple):
    """A text as a model reads it: a token per symbol, and its words in order.

    `left_out` names the characters that the symbol set does not have, if the configuration allows for any.
    """

    tokens: list[int]
    symbols: list[str]
    words: list[WordSymbols]
    left_out: list[str]


class TextProcessor:
    """Encodes texts as a `TextConfig` says, for a voice that has `learned` these symbols; (): all of them.

    An embedding that was never trained is a sound by chance. In place of such a symbol stands the nearest that is
    learned: the same vowel with another stress, a mark of the same kind; other marks between words are left out.
    """

    def __init__(self, config: TextConfig, *, learned: Collection[str] = ()):
        self.config, self.learned = config, learned
        self._language = symbol_sets()[config.symbol_set]
        self.symbols: tuple[str, ...] = self._language.SYMBOL_SETS[config.symbol_set]
        self._index = {symbol: i for i, symbol in enumerate(self.symbols)}
        self._nearest = {symbol: _nearest(symbol, learned) for symbol in self.symbols}

    @property
    def pad(self) -> int:
        """The token of padding, which no text has."""
        return 0

    def encode(self, text: str, *, seed: int | None = None) -> EncodedText:
        """The tokens of `text`. Raises TextError for what cannot be spoken, and for a text with nothing to say.

        `seed` decides what the configuration leaves to chance (letters or phonemes, which of several pronunciations);
        the same seed and text give the same tokens, and None is one such seed.
        """
        return self.encode_given(text, (), seed=seed)[0]

    def encode_given(
        self, text: str, given: Sequence[Given], *, seed: int | None = None
    ) -> tuple[EncodedText, list[int]]:
        """As `encode`, with what is given for pieces of `text`; and for every token the place in `text` it comes from.

        Raises TextError as `encode` does, and for a reading or a language that cannot be followed.
        """
        draw = random.Random(seed or 0)
        found = list(self._language.pieces(text, self.config, draw, given))
        if self.config.prepend_space:
            found.insert(0, SymbolPiece((" ",)))
        if self.config.append_space:
            found.append(SymbolPiece((" ",), at=len(text)))
        encoded = EncodedText([], [], [], [])
        places: list[int] = []
        for piece in found:
            self._append(encoded, piece, text)
            places += [piece.at] * (len(encoded.tokens) - len(places))
        if not encoded.words:
            raise TextError(f"{shortened(text)}: nothing to say in it; expected at least one word")
        return encoded, places

    def _append(self, encoded: EncodedText, piece: SymbolPiece, text: str) -> None:
        known = [symbol for symbol in piece.symbols if self._index.get(symbol, self.pad) != self.pad]
        unknown = [symbol for symbol in piece.symbols if symbol not in known]
        if unknown and self.config.unknown_characters == "error":
            raise TextError(self._unknown(unknown[0], text))
        encoded.left_out.extend(unknown)
        known = [self._nearest[symbol] for symbol in known]
        if self.learned and not piece.word:  # where a mark is left out, the spaces around it become one
            known = [s for s in known if s in self.learned and not (s == " " and encoded.symbols[-1:] == [" "])]
        if piece.word and known:
            first = len(encoded.tokens)
            encoded.words.append(WordSymbols(piece.word, first, first + len(known) - 1))
        encoded.symbols.extend(known)
        encoded.tokens.extend(self._index[symbol] for symbol in known)

    def _unknown(self, symbol: str, text: str) -> str:
        return (
            f"{described(symbol)} in {shortened(text)} is no symbol of {self.config.symbol_set}; "
            "write it in words, or leave such characters out with unknown_characters = skip"
        )


def _nearest(symbol: str, learned: Collection[str]) -> str:
    """The learned symbol that is most like this one, or itself."""
    if symbol.startswith("@"):
        like = sorted((other for other in learned if other.rstrip("012") == symbol.rstrip("012")), reverse=True)
    else:
        like = [other for other in _LIKE.get(symbol, "") if other in learned]
    return symbol if symbol in learned or not like else like[0]

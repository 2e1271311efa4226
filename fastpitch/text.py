"""Text to the numbers a model knows: normalised, pronounced, and divided into words whose symbols are known."""

import random
from typing import NamedTuple

from fastpitch.languages import Piece, TextConfig, TextError, described, symbol_sets

__all__ = ["Encoded", "TextConfig", "TextError", "TextProcessor", "Word"]


class Word(NamedTuple):
    """A word as it is spoken; its symbols are those from `first` to `last`, both included."""

    text: str
    first: int
    last: int


class Encoded(NamedTuple):
    """A text as a model reads it: a token per symbol, and its words in order.

    `left_out` names the characters that the symbol set does not have, if the configuration allows for any.
    """

    tokens: list[int]
    symbols: list[str]
    words: list[Word]
    left_out: list[str]


class TextProcessor:
    """Encodes texts as a `TextConfig` says."""

    def __init__(self, config: TextConfig):
        self.config = config
        self._language = symbol_sets()[config.symbol_set]
        self.symbols: tuple[str, ...] = self._language.SYMBOL_SETS[config.symbol_set]
        self._index = {symbol: i for i, symbol in enumerate(self.symbols)}

    @property
    def pad(self) -> int:
        """The token of padding, which no text has."""
        return 0

    def encode(self, text: str, *, seed: int | None = None) -> Encoded:
        """The tokens of `text`. Raises TextError for what cannot be spoken, and for a text with nothing to say.

        `seed` decides what the configuration leaves to chance (letters or phonemes, which of several pronunciations);
        the same seed and text give the same tokens, and None is one such seed.
        """
        draw = random.Random(seed or 0)
        pieces = list(self._language.pieces(text, self.config, draw))
        if not any(piece.word for piece in pieces):
            raise TextError(f"{text!r}: nothing to say in it; expected at least one word")
        spaces = (self.config.prepend_space, self.config.append_space)
        before, after = ([Piece((" ",))] if wanted else [] for wanted in spaces)
        return self._numbered([*before, *pieces, *after], text)

    def decode(self, tokens: list[int]) -> str:
        """The symbols of tokens, as text for people: phonemes in braces, {HH AH0 L OW1}."""
        text = "".join(f"{{{symbol[1:]}}}" if len(symbol) > 1 else symbol for symbol in map(self._symbol, tokens))
        return text.replace("}{", " ")

    def _symbol(self, token: int) -> str:
        if not 0 <= token < len(self.symbols):
            raise TextError(f"token {token}: {self.config.symbol_set} has 0 to {len(self.symbols) - 1}")
        return self.symbols[token]

    def _numbered(self, pieces: list[Piece], text: str) -> Encoded:
        encoded = Encoded([], [], [], [])
        for piece in pieces:
            known = [symbol for symbol in piece.symbols if self._index.get(symbol, self.pad) != self.pad]
            unknown = [symbol for symbol in piece.symbols if symbol not in known]
            if unknown and self.config.unknown_characters == "error":
                raise TextError(self._unknown(unknown[0], text))
            encoded.left_out.extend(unknown)
            if piece.word and known:
                first = len(encoded.tokens)
                encoded.words.append(Word(piece.word, first, first + len(known) - 1))
            encoded.symbols.extend(known)
            encoded.tokens.extend(self._index[symbol] for symbol in known)
        return encoded

    def _unknown(self, symbol: str, text: str) -> str:
        name = described(symbol) if len(symbol) == 1 else repr(symbol)
        return (
            f"{name} in {text!r} is no symbol of {self.config.symbol_set}; "
            "write it in words, or leave such characters out with unknown_characters = skip"
        )

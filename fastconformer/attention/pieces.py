"""Pieces of several languages in one numbering, with the special tokens that prompts are made of. Needs no torch."""

import base64
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.text.pieces import SPACE, Kind, Pieces, train_pieces
from common.text.vocabulary import VocabularyError

SPECIALS = "spl_tokens"  # what NeMo calls the tokenizer of special tokens
PAD, END, NO_SPEECH = "<pad>", "<|endoftext|>", "<|nospeech|>"
_BEFORE = "<unk> <|nospeech|> <pad> <|endoftext|> <|startoftranscript|> <|pnc|> <|nopnc|>"
_OF_CANARY2 = (
    "<|startofcontext|> <|itn|> <|noitn|> <|timestamp|> <|notimestamp|> <|diarize|> <|nodiarize|> <|emo:undefined|>"
)
_OWN = {
    "canary": f"{_BEFORE} <|transcribe|> <|translate|>",
    "canary2": f"{_BEFORE} {_OF_CANARY2}",
    "cohere": f"{_BEFORE} {_OF_CANARY2} {SPACE}",
}
"""Special tokens of our own models by the format of their prompts; those of the languages follow."""
_SPECIAL = re.compile(r"<\|(.+)\|>|<pad>")
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_NO_LANGUAGES = {"pnc", "itn"}
_CODE = re.compile(r"\s*([a-z]{2,3})(?:[-_].*)?\s*", re.IGNORECASE)


def language_code(name: str) -> str:
    """The code of a language without a region: "en" of "en-US". What is no code stays as it is."""
    match = _CODE.fullmatch(name)
    return match[1].lower() if match else name


def is_language(code: str) -> bool:
    """Whether there can be a special token of a language of this code."""
    return bool(_LANGUAGE.fullmatch(code)) and code not in _NO_LANGUAGES


@dataclass(frozen=True)
class PromptedPieces(Pieces):
    """Pieces of a text and special tokens, in one numbering from 0.

    `parts` are the languages with their tokenizers, in the order of their numbers; SPECIALS are the special tokens, and
    one tokenizer for everything has the name "".
    """

    parts: tuple[tuple[str, Pieces], ...] = ()
    writes: tuple[str, ...] | None = None
    """Languages that the model knows, where that is less than it has tokens for."""
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for i, label in enumerate(self.labels):
            if i in self.control:
                self._numbers.setdefault(label, i)
        if missing := [label for label in (PAD, END, "<|startoftranscript|>") if label not in self._numbers]:
            raise VocabularyError(f"has no {', '.join(missing)} among its {len(self.labels)} pieces")

    def special(self, label: str) -> int:
        """The number of a special token. Raises VocabularyError."""
        if label not in self._numbers:
            raise VocabularyError(f"{label} is none of the {len(self._numbers)} special tokens of this model")
        return self._numbers[label]

    def has(self, label: str) -> bool:
        """Whether there is such a special token."""
        return label in self._numbers

    @property
    def end(self) -> int:
        """The number of the token that ends a text."""
        return self._numbers[END]

    @property
    def pad(self) -> int:
        """The number of the token that stands after the end of the shorter texts of a batch."""
        return self._numbers[PAD]

    @functools.cached_property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that have a token, and a tokenizer where every language has its own."""
        found = (_SPECIAL.fullmatch(label) for label in self._numbers)
        codes = [match[1] for match in found if match and match[1] and is_language(match[1])]
        own = {language_code(language) for language, _ in self.parts}
        return tuple(
            code for code in codes if (own == {""} or code in own) and (self.writes is None or code in self.writes)
        )

    def described(self) -> dict[str, Any]:
        """As values of JSON, of which and the labels `of_description` makes them again."""
        parts = [
            {
                "name": name,
                "count": len(pieces.labels),
                "model": base64.b64encode(pieces.model).decode("ascii"),
                "unknown": sorted(pieces.unknown),
                "control": sorted(pieces.control),
            }
            for name, pieces in self.parts
        ]
        return {"parts": parts, "writes": self.writes}

    @functools.cached_property
    def frames(self) -> dict[int, int]:
        """Encoder frames that special tokens stand for, by the numbers of these."""
        found = {number: re.fullmatch(r"<\|(\d+)\|>", label) for label, number in self._numbers.items()}
        return {number: int(match[1]) for number, match in found.items() if match}

    @functools.cached_property
    def _special(self) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, sorted(self._numbers, key=len, reverse=True))))

    def encode(self, text: str, language: str = "") -> list[int]:
        """The numbers of the pieces of `text` in a language. What looks like a special token in it is text.

        Raises VocabularyError for a language without a tokenizer, and for characters that no piece has.
        """
        text = self._special.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)
        first, base = 0, language_code(language)
        for name, pieces in self.parts:
            if name != SPECIALS and language_code(name) in ("", base):
                return [first + index for index in pieces.encode(text)]
            first += len(pieces.labels)
        known = ", ".join(name for name, _ in self.parts if name != SPECIALS)
        raise VocabularyError(f"language {language!r} has no tokenizer; known are {known}")


def learned_pieces(texts: Mapping[str, Sequence[str]], *, size: int, kind: Kind, prompt: str) -> PromptedPieces:
    """`size` pieces: special tokens, and those learned from the texts of each language that has any, in equal shares.

    `prompt` is the format of the prompts. Raises VocabularyError.
    """
    special = (*_OWN[prompt].split(), *(f"<|{language}|>" for language in texts))
    written = [language for language, own in texts.items() if own]
    share, rest = divmod(size - len(special), len(written))
    parts = [(SPECIALS, Pieces(special, unknown=frozenset({0})))]
    for place, language in enumerate(written):
        try:
            parts.append((language, train_pieces(texts[language], size=share + (place < rest), kind=kind)))
        except VocabularyError as error:
            raise VocabularyError(f"language {language!r}: {error}") from None
    return of_parts(parts)


def of_parts(parts: list[tuple[str, Pieces]], writes: tuple[str, ...] | None = None) -> PromptedPieces:
    """Tokenizers one after the other, of which SPECIALS has the special tokens; one called "" alone has everything.

    Raises VocabularyError where there are no such tokens.
    """
    labels: list[str] = []
    unknown: set[int] = set()
    control: set[int] = set()
    for name, pieces in parts:
        first = len(labels)
        unknown |= {first + i for i in pieces.unknown}
        control |= {first + i for i in pieces.control}
        if name in ("", SPECIALS):
            special = [
                bool(_SPECIAL.fullmatch(label)) or (name == SPECIALS and label == SPACE) for label in pieces.labels
            ]
            control |= {first + i for i, is_special in enumerate(special) if is_special}
        labels += pieces.labels
    return PromptedPieces(
        tuple(labels),
        model=parts[0][1].model if len(parts) == 1 else b"",
        unknown=frozenset(unknown),
        control=frozenset(control - unknown),
        parts=tuple(parts),
        writes=writes,
    )


def of_description(labels: Sequence[str], described: Mapping[str, Any]) -> PromptedPieces:
    """What `PromptedPieces.described` said. Raises VocabularyError; KeyError, TypeError or ValueError for others."""
    parts, first = list[tuple[str, Pieces]](), 0
    for part in described["parts"]:
        own = tuple(labels[first : first + part["count"]])
        first += len(own)
        model = base64.b64decode(part["model"], validate=True)
        parts.append((part["name"], Pieces(own, model, frozenset(part["unknown"]), frozenset(part["control"]))))
    writes = described["writes"]
    return of_parts(parts, None if writes is None else tuple(writes))

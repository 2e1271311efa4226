"""Transcripts in the letters of a recogniser's labels, by language, and which of their letters are none of the labels.

What is dropped in silence is never learned, and hidden from error rates too, since references pass through the same
door: so letters that are no labels are counted, and end a training before its first step.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from common.config import ConfigError
from common.text.english.characters import prepared
from common.text.mandarin.reader import spoken_mandarin
from common.text.normalize import foreign_letters, in_ascii, normalize_english
from common.text.vocabulary import Language as Language  # where it costs no time to import

UnknownLetters = Literal["stop", "latin", "drop"]

_ENGLISH = frozenset("abcdefghijklmnopqrstuvwxyz' ")
_SHOWN_LETTERS, _SHOWN_LABELS = 20, 80


class LanguageError(ConfigError):
    """Texts have letters that are none of the labels; the message names them."""


class Spelling:
    """Texts as `labels` write them, single characters with the space; None: any letters of the language.

    "english" spells out numbers, symbols and abbreviations; "mandarin" numbers; "none" keeps every letter and digit,
    folds case to that of the labels, and drops punctuation that is no label. "auto" is English where no other letters
    than a to z are labels, and otherwise none. Letters, digits and marks that are no labels then are counted in
    `unknown`; they stay in the text, or are written in Latin letters or dropped, as `unknown_letters` says. Texts stay
    as they are unless this `normalizes`; None: where there are labels in both cases, whose difference would be lost.
    """

    def __init__(
        self,
        labels: Iterable[str] | None,
        *,
        language: Language = "auto",
        unknown_letters: UnknownLetters = "stop",
        normalizes: bool | None = True,
    ):
        self.labels = None if labels is None else tuple(labels)
        self.language = language_of(self.labels, language)
        self.unknown_letters = unknown_letters
        self.normalizes = not _has_both_cases(self.labels or ()) if normalizes is None else normalizes
        self.unknown: Counter[str] = Counter()
        """How often each letter that is no label was found so far."""
        self.texts = 0
        """Texts in which there was one."""
        self._between = " " if self.labels is None or " " in self.labels else ""
        self._written = None if self.labels is None else frozenset(self.labels)
        self._keep = None if self._written is None else "".join(sorted({label.lower() for label in self._written}))
        self._cases: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """`text` in labels and single spaces, and with what is no label, if that is to stop."""
        text = self._between.join(text.split())
        plain = "".join(map(self._cased, text)) if self.normalizes else text
        if self._written is not None and self._written.issuperset(plain):
            return plain  # most corpora are normalised already
        if not self.normalizes:
            return self._counted(text, set())
        if self.language == "english":
            return self._english(text)
        text = prepared(spoken_mandarin(text) if self.language == "mandarin" else text)
        return self._cleaned(text, set())

    def check(self, sources: str) -> None:
        """Raises LanguageError where letters of the texts so far were no labels, if that is to stop."""
        if self.unknown and self.unknown_letters == "stop":
            raise LanguageError(
                f"{sources}: {self.told()}; take the labels of this language (python -m common.text.alphabet makes "
                "them), or write them in Latin letters (--data.unknown_letters latin: é as e), or leave them out (drop)"
            )

    def told(self) -> str:
        """Which letters of the texts so far were no labels, the most frequent first."""
        found = ", ".join(f"{letter!r} {count:,}" for letter, count in self.unknown.most_common(_SHOWN_LETTERS))
        found += ", …" if len(self.unknown) > _SHOWN_LETTERS else ""
        return f"{len(self.unknown)} letters in {self.texts:,} texts are none of {self.described()}: {found}"

    def described(self) -> str:
        """The labels and the language, for the log."""
        if self.labels is None:
            return f"the letters of language {self.language}"
        shown = "".join(self.labels[:_SHOWN_LABELS]) + ("…" if len(self.labels) > _SHOWN_LABELS else "")
        return f"the {len(self.labels)} labels {shown!r} (language {self.language})"

    def _english(self, text: str) -> str:
        keep = "".join(sorted(_ENGLISH)) if self._keep is None else self._keep
        foreign = set() if self.unknown_letters == "latin" else foreign_letters(text, keep)
        lower = {letter.lower() for letter in foreign}
        said = normalize_english(text, keep=keep + "".join(lower)) if foreign else normalize_english(text, keep=keep)
        return self._cleaned(said, lower)

    def _cleaned(self, text: str, foreign: set[str]) -> str:
        """`text` in the case of the labels, without punctuation that is no label; `foreign` letters are none."""
        folded = "".join(map(self._folded, text))
        if self.unknown_letters == "latin" and self._written is not None and not self._written.issuperset(folded):
            folded = "".join(map(self._folded, in_ascii(text, self._keep or "", symbols=False)))
        return self._counted(self._between.join(folded.split()), foreign)

    def _counted(self, text: str, foreign: set[str]) -> str:
        if self._written is None and not foreign:
            return text
        written = self._written if self._written is not None else set(text) - foreign
        unknown = [character for character in text if character not in written]
        if not unknown:
            return text
        self.unknown.update(unknown)
        self.texts += 1
        if self.unknown_letters == "stop":
            return text
        return self._between.join("".join(character for character in text if character in written).split())

    def _cased(self, character: str) -> str:
        """In the case in which it is a label; as it is, if it is none."""
        if (found := self._cases.get(character)) is None:
            cases = (character, "i" if character == "İ" else character.lower(), character.upper())
            known = (case for case in cases if self._written is not None and case in self._written)
            found = self._cases[character] = next(known, cases[1])
        return found

    def _folded(self, character: str) -> str:
        """As `_cased`; punctuation that is no label as a space."""
        cased = self._cased(character)
        if cased in self._written if self._written is not None else cased == "'":
            return cased
        kind = unicodedata.category(character)
        return cased if kind[0] in "LMN" else "" if kind == "Cf" else " "  # Cf: joiners, soft hyphens, directions


def _has_both_cases(labels: Iterable[str]) -> bool:
    return any(map(str.isupper, labels)) and any(map(str.islower, labels))


def language_of(labels: Iterable[str] | None, language: Language) -> Language:
    """The language that "auto" stands for: English where no letters but a to z are labels, otherwise none."""
    if language != "auto":
        return language
    letters = {label.lower() for label in labels or () if unicodedata.category(label)[0] in "LMN"}
    return "english" if letters <= _ENGLISH else "none"

"""Transcripts and the labels that a CTC head writes: one letter each, "|" at the end of a word, and special ones."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from common.text.dictionary import WORD_END, parse_symbols, read_symbols
from common.text.language import Language, Spelling, UnknownLetters
from common.text.vocabulary import VocabularyError, is_special

SPECIAL_LABELS = ("<s>", "<pad>", "</s>", "<unk>")  # Fairseq puts them before the dictionary's; the first is the blank
LIBRISPEECH_LABELS = (*SPECIAL_LABELS, *"|ETAONIHSRDLUMWCFGYPBVK'XJQZ")


class Letters:
    """Texts to the numbers of `labels` and back. Labels like <s> and <unk> are never written out."""

    def __init__(self, labels: tuple[str, ...]):
        self.labels = labels
        self.indices = {label: i for i, label in enumerate(labels)}
        self.separator = WORD_END if WORD_END in self.indices else " "

    @cached_property
    def written(self) -> set[str]:
        """The characters that a normalised text may consist of."""
        return {label for label in self.labels if len(label) == 1 and label != self.separator} | {" "}

    def spelling(
        self, *, language: Language = "auto", unknown_letters: UnknownLetters = "stop", normalizes: bool | None = True
    ) -> Spelling:
        """What writes texts in these letters."""
        return Spelling(sorted(self.written), language=language, unknown_letters=unknown_letters, normalizes=normalizes)

    def encode(self, text: str) -> list[int]:
        """The number of every letter, and the separator's after every word. Raises VocabularyError."""
        words = text.split()
        spelled = "".join(word + self.separator for word in words) if self.separator == WORD_END else " ".join(words)
        try:
            return [self.indices[character] for character in spelled]
        except KeyError as error:
            known = "".join(sorted(self.written))
            raise VocabularyError(
                f"character {error.args[0]!r} of {text!r} is none of the labels {known!r}; "
                "normalise the text (data.normalize_text), or take another dictionary"
            ) from None

    def decode(self, indices: Iterable[int]) -> str:
        """The text of label numbers, from which blanks and repeats are already gone."""
        labels = [self.labels[index] for index in indices]
        letters = "".join(label for label in labels if not is_special(label))
        return " ".join(letters.replace(self.separator, " ").split())


def read_dictionary(path: Path) -> tuple[str, ...]:
    """The labels of Fairseq's dict.ltr.txt, after the special ones. Raises ConfigError."""
    return (*SPECIAL_LABELS, *read_symbols(path))


def parse_dictionary(text: str, source: str) -> tuple[str, ...]:
    """The labels of the text of a dict.ltr.txt; `source` is named in the messages of ConfigError."""
    return (*SPECIAL_LABELS, *parse_symbols(text, source))

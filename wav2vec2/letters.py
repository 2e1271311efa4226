"""Transcripts and the labels that a CTC head writes: one letter each, "|" at the end of a word, and special ones."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from common.config import ConfigError
from common.text.normalize import normalize_english
from common.text.vocabulary import VocabularyError
from wav2vec2.checkpoint_import import SPECIAL_LABELS

WORD_END = "|"


class Letters:
    """Texts to the numbers of `labels` and back. Labels like <s> and <unk> are never written out."""

    def __init__(self, labels: tuple[str, ...]):
        self.labels = labels
        self.indices = {label: i for i, label in enumerate(labels)}
        self.separator = WORD_END if WORD_END in self.indices else " "
        self.is_upper_case = not any(label.islower() for label in labels if not is_special(label))

    @cached_property
    def written(self) -> set[str]:
        """The characters that a normalised text may consist of."""
        return {label for label in self.labels if len(label) == 1 and label != self.separator} | {" "}

    def normalized(self, text: str) -> str:
        """`text` in the case of the labels, numbers and symbols spelled out, without what is no label."""
        cased = " ".join((text.upper() if self.is_upper_case else text.lower()).split())
        if set(cased) <= self.written:
            return cased  # most corpora are normalised already
        keep = "".join(sorted(character.lower() for character in self.written))
        spoken = normalize_english(text, keep=keep)
        return spoken.upper() if self.is_upper_case else spoken

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


def is_special(label: str) -> bool:
    """Whether it stands for no letter: <s>, <pad>, <unk>; [PAD], [UNK] of many Hugging Face models."""
    return len(label) > 2 and label[0] + label[-1] in ("<>", "[]")


def read_dictionary(path: Path) -> tuple[str, ...]:
    """The labels of Fairseq's dict.ltr.txt, a line `symbol count` each, after the special ones. Raises ConfigError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as a dictionary: {error}") from None
    symbols = []
    for number, line in enumerate(lines, start=1):
        match line.split():
            case [symbol, count] if count.isdecimal():
                symbols.append(symbol)
            case [_, *_]:
                raise ConfigError(f"{path}:{number}: found {line[:60]!r}; expected a symbol and how often it occurs")
    if not symbols or len(set(symbols)) < len(symbols):
        raise ConfigError(f"{path}: {len(symbols)} symbols, {len(set(symbols))} of them different; expected some, once")
    return (*SPECIAL_LABELS, *symbols)

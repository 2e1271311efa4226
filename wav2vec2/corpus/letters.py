"""Transcripts and the labels that a CTC head writes: one letter each, "|" at the end of a word, and special ones."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from common.config import ConfigError
from common.text.normalize import normalize_english
from common.text.vocabulary import VocabularyError, is_special

SPECIAL_LABELS = ("<s>", "<pad>", "</s>", "<unk>")  # Fairseq puts them before the dictionary's; the first is the blank
WORD_END = "|"


class Letters:
    """Texts to the numbers of `labels` and back. Labels like <s> and <unk> are never written out."""

    def __init__(self, labels: tuple[str, ...]):
        self.labels = labels
        self.indices = {label: i for i, label in enumerate(labels)}
        self.separator = WORD_END if WORD_END in self.indices else " "
        letters = [label for label in labels if not is_special(label)]
        self.has_upper_case, self.has_lower_case = any(map(str.isupper, letters)), any(map(str.islower, letters))

    @cached_property
    def written(self) -> set[str]:
        """The characters that a normalised text may consist of."""
        return {label for label in self.labels if len(label) == 1 and label != self.separator} | {" "}

    def normalized(self, text: str) -> str:
        """`text` in the case of the labels, numbers and symbols spelled out, without what is no label."""
        cased = " ".join(self._cased(text).split())
        if set(cased) <= self.written:
            return cased  # most corpora are normalised already
        keep = "".join(sorted(character.lower() for character in self.written))
        return self._cased(normalize_english(text, keep=keep))

    def _cased(self, text: str) -> str:
        """`text` as it is if labels are of both cases, or of neither."""
        if self.has_upper_case == self.has_lower_case:
            return text
        return text.upper() if self.has_upper_case else text.lower()

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
    """The labels of Fairseq's dict.ltr.txt, a line `symbol count` each, after the special ones. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as a dictionary: {error}") from None
    return parse_dictionary(text, str(path))


def parse_dictionary(text: str, source: str) -> tuple[str, ...]:
    """The labels of the text of a dict.ltr.txt; `source` is named in the messages of ConfigError."""
    symbols = []
    for number, line in enumerate(text.splitlines(), start=1):
        match line.split():
            case [symbol, count] if count.isdecimal():
                symbols.append(symbol)
            case [_, *_]:
                raise ConfigError(f"{source}:{number}: found {line[:60]!r}; expected a symbol and how often it occurs")
    if not symbols or len(set(symbols)) < len(symbols):
        raise ConfigError(
            f"{source}: {len(symbols)} symbols, {len(set(symbols))} of them different; expected some, once"
        )
    return (*SPECIAL_LABELS, *symbols)

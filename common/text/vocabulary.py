"""Characters and the numbers that a network knows them by."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Language = Literal["auto", "english", "mandarin", "none"]
"""How transcripts are normalised, see `common.text.language.Spelling`."""


class VocabularyError(ValueError):
    """A text holds a character, or a number stands for a label, that the vocabulary does not have."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Single characters, numbered from 0 in the order given; the CTC blank comes after the last one."""

    labels: tuple[str, ...]
    """The characters, without the blank."""
    _indices: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))
        if not self.labels:
            raise VocabularyError("a vocabulary needs one label at least")
        wrong = [label for label in self.labels if len(label) != 1]
        if wrong:
            raise VocabularyError(f"labels are single characters, but {wrong[0]!r} has {len(wrong[0])}")
        indices = {label: i for i, label in enumerate(self.labels)}
        if len(indices) < len(self.labels):
            twice = next(label for i, label in enumerate(self.labels) if indices[label] != i)
            raise VocabularyError(f"label {twice!r} occurs twice")
        object.__setattr__(self, "_indices", indices)

    def __len__(self) -> int:
        """Number of outputs of a network: the labels and the blank."""
        return len(self.labels) + 1

    @property
    def blank(self) -> int:
        """The number of the CTC blank, the last one."""
        return len(self.labels)

    def encode(self, text: str) -> list[int]:
        """The number of every character. Raises VocabularyError naming the first one that is not a label."""
        try:
            return [self._indices[character] for character in text]
        except KeyError as error:
            character = error.args[0]
            raise VocabularyError(
                f"character {character!r} at position {text.index(character)} of {text!r} is none of the "
                f"{len(self.labels)} labels {''.join(self.labels)!r}; normalise the text, or train with other labels"
            ) from None

    def encode_known(self, text: str) -> list[int]:
        """The numbers of the characters that are labels; the others are left out."""
        return [self._indices[character] for character in text if character in self._indices]

    def decode(self, indices: Iterable[int]) -> str:
        """The text of label numbers, from which blanks and repeats are already gone. Raises VocabularyError."""
        indices = list(indices)
        for index in indices:
            if not 0 <= index < len(self.labels):
                raise VocabularyError(f"{index} is no label: expected 0 to {len(self.labels) - 1}, in {indices}")
        return "".join(self.labels[index] for index in indices)


ENGLISH = Vocabulary(tuple(" abcdefghijklmnopqrstuvwxyz'"))
"""The 28 characters of the LibriSpeech recipes."""


def is_special(label: str) -> bool:
    """Whether it stands for no letter: <s>, <pad>, <unk>; [PAD], [UNK] of many Hugging Face models."""
    return len(label) > 2 and label[0] + label[-1] in ("<>", "[]")

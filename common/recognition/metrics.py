"""Word and character error rates over a whole set, and which words were taken for which."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal, NamedTuple


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Errors of a set of hypotheses; counts of two sets, or of the shares of two ranks, can be added."""

    errors: int
    """Substitutions + deletions + insertions."""
    length: int
    """Words (or characters) of the references."""
    substitutions: int
    deletions: int
    insertions: int

    @property
    def rate(self) -> float:
        """Errors per reference word: 0 for nothing wrong, above 1 where much was inserted, infinite if all was."""
        if self.length == 0:
            return float("inf") if self.errors else 0.0
        return self.errors / self.length

    def __add__(self, other: "ErrorCount") -> "ErrorCount":
        return ErrorCount(
            self.errors + other.errors,
            self.length + other.length,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )


class AlignedWord(NamedTuple):
    """A word of the reference beside what was recognised in its place; empty where there is none."""

    reference: str
    hypothesis: str

    @property
    def kind(self) -> Literal["equal", "substitution", "deletion", "insertion"]:
        """What happened to the word."""
        if self.reference == self.hypothesis:
            return "equal"
        if not self.reference:
            return "insertion"
        return "substitution" if self.hypothesis else "deletion"


def word_errors(references: Sequence[str], hypotheses: Sequence[str]) -> ErrorCount:
    """Errors in words, which white space separates. Texts are compared as they are: case and punctuation count.

    A reference without words counts every word of its hypothesis as inserted. Raises ValueError if there are not as
    many hypotheses as references.
    """
    import jiwer

    return _count(references, hypotheses, length=lambda text: len(text.split()), process=jiwer.process_words)


def character_errors(references: Sequence[str], hypotheses: Sequence[str]) -> ErrorCount:
    """Errors in characters: a space is one, but white space at either end is none. Otherwise as `word_errors`."""
    import jiwer

    return _count(references, hypotheses, length=len, process=jiwer.process_characters)


def align_words(reference: str, hypothesis: str) -> list[AlignedWord]:
    """An alignment with the fewest errors, in the order of speaking."""
    import jiwer

    if not reference.split():
        return [AlignedWord("", word) for word in hypothesis.split()]
    output = jiwer.process_words(_single_spaced(reference), _single_spaced(hypothesis))
    aligned: list[AlignedWord] = []
    for chunk in output.alignments[0]:
        spoken = output.references[0][chunk.ref_start_idx : chunk.ref_end_idx]
        recognised = output.hypotheses[0][chunk.hyp_start_idx : chunk.hyp_end_idx]
        aligned += [AlignedWord(*pair) for pair in zip_longest(spoken, recognised, fillvalue="")]
    return aligned


def _count(
    references: Sequence[str], hypotheses: Sequence[str], *, length: Callable[[str], int], process: Callable[..., Any]
) -> ErrorCount:
    if len(references) != len(hypotheses):
        raise ValueError(f"{len(references)} references but {len(hypotheses)} hypotheses; expected one for each")
    pairs = [(_single_spaced(r), _single_spaced(h)) for r, h in zip(references, hypotheses, strict=True)]
    # jiwer takes no empty reference.
    inserted = sum(length(hypothesis) for reference, hypothesis in pairs if not reference)
    count = ErrorCount(inserted, 0, 0, 0, inserted)
    pairs = [(reference, hypothesis) for reference, hypothesis in pairs if reference]
    if not pairs:
        return count
    output = process([reference for reference, _ in pairs], [hypothesis for _, hypothesis in pairs])
    errors = output.substitutions + output.deletions + output.insertions
    words = output.hits + output.substitutions + output.deletions
    return count + ErrorCount(errors, words, output.substitutions, output.deletions, output.insertions)


def _single_spaced(text: str) -> str:
    return " ".join(text.split())

"""Readings of the stretches of a recording, one after the other, as those of the whole, in little memory."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from common.recognition.output.transcripts import Letter, Reading
from common.text.vocabulary import is_special

Part = TypeVar("Part")


class _Ended(NamedTuple, Generic[Part]):
    """What the words became that ended in one stretch, and those that ended before it."""

    before: "_Ended[Part] | None"
    parts: Sequence[Part]


class _Way(NamedTuple, Generic[Part]):
    """One way to read all stretches so far."""

    ended: "_Ended[Part] | None"
    """Shared by all ways that begin with the same words; without their letters, which a long recording has many of."""
    open: list[Letter]
    """The word that may go on, after the separator before it. Where a language has none, as Chinese, all of the
    recording."""
    score: float
    words: int
    """A hash of all words that ended."""


class Joined(Generic[Part]):
    """The `n_best` ways with different texts to put readings together, best first.

    `finish` makes of the letters of words that have ended, with the `separator` between them, what is kept of them.
    """

    def __init__(self, finish: Callable[[Sequence[Letter]], Sequence[Part]], *, separator: str, n_best: int = 1):
        self._finish, self._separator, self._n_best = finish, separator, n_best
        self._ways: list[_Way[Part]] = [_Way(None, [], 0.0, 0)]

    def add(self, readings: Sequence[Reading], *, space_at: int | None = None) -> None:
        """The readings of the next stretch, best first, and a separator at frame `space_at`, where words end there."""
        space = [] if space_at is None else [Letter(self._separator, space_at, space_at, 1.0)]
        pairs: Iterable[tuple[_Way[Part], Reading]] = ((way, reading) for way in self._ways for reading in readings)
        if self._n_best > 1:
            pairs = heapq.nsmallest(self._n_best**2, pairs, key=lambda pair: -(pair[0].score + pair[1].score))
        ways: dict[int, _Way[Part]] = {}
        for way, reading in pairs:
            new = [*reading.letters, *space]
            separators = [i for i, letter in enumerate(new, len(way.open)) if letter.text == self._separator]
            letters, end = [*way.open, *new], separators[-1] if separators else 0
            words = self._hash(way.words, letters[:end])
            text = self._hash(words, letters[end:])
            if text not in ways:
                ended = _Ended(way.ended, self._finish(letters[:end])) if end else way.ended
                ways[text] = _Way(ended, letters[end:], way.score + reading.score, words)
            if len(ways) == self._n_best:
                break
        self._ways = list(ways.values())

    def result(self) -> list[tuple[list[Part], float]]:
        """What all words became, in order, and the score, of every way."""
        found = []
        for way in self._ways:
            chain = [self._finish(way.open) if way.open else []]
            at = way.ended
            while at is not None:
                chain.append(at.parts)
                at = at.before
            found.append(([part for parts in reversed(chain) for part in parts], way.score))
        return found

    def _hash(self, words: int, letters: Sequence[Letter]) -> int:
        """That of `words` and of what the letters spell, whatever special labels stand between them."""
        if self._n_best == 1:
            return 0
        spelled = "".join(letter.text for letter in letters if not is_special(letter.text))
        for word in spelled.replace(self._separator, " ").split():
            words = hash((words, word))
        return words

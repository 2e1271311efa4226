"""Texts after prompts: greedily, or by a beam search; many recordings in one batch, whose results do not show it.

A recording's search has a limit of its own, its rows leave the batch when it is over, and the next recording takes
their place. Needs no torch. Ended sequences stay in the beam, and the search ends when no other one can become better.

The score of a sequence is the sum of its log-probabilities and of what a scorer adds. With `length_penalty`
they are ranked by score / ((5 + L) / 6) ** length_penalty (Wu et al. 2016, arXiv:1609.08144), where L is one more than
the tokens of prompt and text without the end.

Shapes: S encoder frames, C width, H heads, D width, V classes, K best.
"""

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

REPEATS = 4  # of a period, one after the other, are a loop
SHORTEST_LOOP = 8  # tokens: four times the same digit is said every day
LONGEST_PERIOD = 32  # tokens
NGRAM = 4  # tokens of what a text without an end must not say a third time
ATTEMPTS = 3  # decodings of one recording, at most
LOOP, LIMIT = "loop", "limit"
BAD = frozenset({LOOP, LIMIT})
"""What may be noticed of a text: it repeated itself; it did not end."""
SPARE = 16  # candidates of a row that a language model chooses from, at least


class AttentionMemory(NamedTuple):
    """Keys and values [layers, 2, H, S, D / H] of the frames of a recording; arrays are contiguous float32."""

    keys_values: Any


class CachedToken(NamedTuple):
    """A token to read: what it is, its place in its sequence, the slots of the sequence up to it, and the recording."""

    label: int
    at: int
    slots: list[int]
    heard: AttentionMemory


class Best(NamedTuple):
    """The K classes that most probably follow a token, and their log-probabilities among all classes."""

    labels: list[int]
    log_probs: list[float]


class DecoderStep(Protocol):
    """The network of a decoder over cached keys and values."""

    def take(self, count: int) -> list[int]:
        """So many free slots."""

    def give(self, slots: Sequence[int]) -> None:
        """Slots that are free again."""

    def __call__(
        self, tokens: Sequence[CachedToken], asked: Sequence[int], best: int, allowed_V: Sequence[np.ndarray]
    ) -> list[Best]:
        """Reads tokens, those of one sequence in their order; what follows the `asked` ones of them, by their numbers.

        `allowed_V`: for each of these the classes that may follow, of which the `best` so many are given.
        """


class TextScorer(Protocol):
    """What is known of a text besides the network's word: a `ctc.Scorer`, or CTC itself."""

    def start(self) -> Any:
        """The state before the first label."""

    def extend(self, state: Any, label: int, /) -> tuple[float, Any]:
        """(what one more label adds, the state after it)."""

    def finish(self, state: Any, /) -> float:
        """What the end adds."""


class FoundText(NamedTuple):
    """A text: its tokens without prompt and end, how probable each is, and the score; whether it has an end."""

    labels: list[int]
    log_probs: list[float]
    score: float
    is_ended: bool


class Result(NamedTuple):
    """Texts of a recording, best first, and what was noticed: LOOP, LIMIT."""

    found: list[FoundText]
    flags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How texts are searched."""

    beam: int = 1
    """Sequences that are kept; 1 is greedy."""
    length_penalty: float = 0.0
    """Power of the length that scores are divided by; above 0 longer texts are favoured."""
    n_best: int = 1
    """Texts of a recording, at most the beam."""
    guard: bool = False
    """Whether loops are decoded again without them."""

    def __post_init__(self) -> None:
        if self.beam < 1 or not 1 <= self.n_best <= self.beam:
            raise ValueError(f"beam = {self.beam}, n_best = {self.n_best}: expected at least 1, and no more than beam")
        if not 0 <= self.length_penalty < math.inf:
            raise ValueError(f"length_penalty = {self.length_penalty}: expected a number, at least 0")


@dataclass(kw_only=True)
class Wish:
    """A recording to decode: its prompt, the most tokens after it, and the classes that may follow."""

    prompt: Sequence[int]
    limit: int
    allowed_V: np.ndarray
    end: int
    scorer: TextScorer | None = None
    share: float = 1.0
    """Factor of the network's log-probabilities."""
    silent: frozenset[int] = frozenset()
    """Tokens that a language model and the search for loops pass over."""


@dataclass(slots=True)
class _Sequence:
    labels: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    score: float = 0.0
    slots: list[int] = field(default_factory=list)
    is_ended: bool = False
    state: Any = None


def decode(
    step: DecoderStep, wishes: Sequence[tuple[Wish, AttentionMemory]], options: SearchOptions, *, rows: int = 32
) -> list[Result]:
    """The texts of each recording; `rows` sequences at most are computed at once, and those of one recording."""
    waiting = deque(_Search(step, wish, heard, options) for wish, heard in wishes)
    searches = list(waiting)
    live: list[_Search] = []
    while waiting or live:
        while waiting and (not live or (len(live) + 1) * options.beam <= rows):
            live.append(waiting.popleft())
        tokens: list[CachedToken] = []
        asked: list[int] = []
        allowed: list[np.ndarray] = []
        for search in live:
            for own in search.tokens():
                tokens += own
                asked.append(len(tokens) - 1)
                allowed.append(search.wish.allowed_V)
        found = iter(step(tokens, asked, max(search.width for search in live), allowed))
        for search in live:
            search.follow(found)
        live = [search for search in live if search.result is None]
    return [search.result for search in searches if search.result is not None]


class _Search:
    """The search in one recording."""

    def __init__(self, step: DecoderStep, wish: Wish, heard: AttentionMemory, options: SearchOptions) -> None:
        self.step, self.wish, self.heard, self.options = step, wish, heard, options
        self.blocked: dict[tuple[int, ...], int] = {}
        self.flags: tuple[str, ...] = ()
        self.attempts = 0
        self.result: Result | None = None
        self._start()

    def _start(self) -> None:
        self.beam = [_Sequence(state=self.wish.scorer.start() if self.wish.scorer else None)]
        self.taken: set[int] = set()
        self.attempts += 1

    @property
    def width(self) -> int:
        """Candidates of a row."""
        spare = SPARE if self.wish.scorer is not None else 0
        return max(self.options.beam, spare) + len({ngram[-1] for ngram in self.blocked})

    def tokens(self) -> Iterator[list[CachedToken]]:
        """What is to be read of each live sequence: the prompt, or its last token."""
        prompt = self.wish.prompt
        for sequence in self.beam:
            if sequence.is_ended:
                continue
            unread = [sequence.labels[-1]] if sequence.labels else list(prompt)
            slots = self.step.take(len(unread))
            self.taken.update(slots)
            first = len(sequence.slots)
            sequence.slots = sequence.slots + slots
            yield [CachedToken(label, first + i, sequence.slots, self.heard) for i, label in enumerate(unread)]

    def follow(self, found: Iterator[Best]) -> None:
        """Goes on with what follows each live sequence."""
        candidates: list[tuple[float, _Sequence]] = []
        for sequence in self.beam:
            if sequence.is_ended:
                candidates.append((self._rank(sequence.score, len(sequence.labels)), sequence))
                continue
            own = [self._extended(sequence, label, p) for label, p in self._open(sequence, next(found))]
            own.sort(key=lambda one: -one.score)
            before = len(sequence.labels)
            candidates += [(self._rank(one.score, before), one) for one in own[: self.options.beam]]
        candidates.sort(key=lambda candidate: -candidate[0])
        self.beam = [sequence for _, sequence in candidates[: self.options.beam]]
        self._free(keep=[slot for sequence in self.beam if not sequence.is_ended for slot in sequence.slots])
        self._look_for_the_end()

    def _open(self, sequence: _Sequence, best: Best) -> Iterator[tuple[int, float]]:
        for label, log_prob in zip(best.labels, best.log_probs, strict=True):
            if log_prob > -math.inf and not (self.blocked and self._is_blocked(sequence.labels, label)):
                yield label, log_prob

    def _is_blocked(self, labels: Sequence[int], label: int) -> bool:
        spoken = [one for one in labels if one not in self.wish.silent]
        for ngram, most in self.blocked.items():
            before = len(ngram) - 1
            if ngram[-1] == label and tuple(spoken[len(spoken) - before :]) == ngram[:-1] and len(spoken) >= before:
                said = sum(tuple(spoken[i : i + before + 1]) == ngram for i in range(len(spoken) - before))
                if said >= most:
                    return True
        return False

    def _extended(self, sequence: _Sequence, label: int, log_prob: float) -> _Sequence:
        scorer, state = self.wish.scorer, sequence.state
        score = sequence.score + self.wish.share * log_prob
        is_end = label == self.wish.end
        if scorer is not None and state is not None:
            if is_end:
                score += scorer.finish(state)
            elif label not in self.wish.silent:
                gain, state = scorer.extend(state, label)
                score += gain
        labels = sequence.labels if is_end else [*sequence.labels, label]
        return _Sequence(labels, [*sequence.log_probs, log_prob], score, sequence.slots, is_end, state)

    def _rank(self, score: float, length: int) -> float:
        penalty = self.options.length_penalty
        return score / ((6 + len(self.wish.prompt) + length) / 6) ** penalty if penalty else score

    def _look_for_the_end(self) -> None:
        live = [sequence for sequence in self.beam if not sequence.is_ended]
        at_limit = any(len(sequence.log_probs) >= self.wish.limit for sequence in live)
        if self.options.guard and self.attempts < ATTEMPTS:
            for sequence in live:
                if period := self._period(sequence.labels):
                    rotations = [period[i:] + period[:i] for i in range(len(period))]
                    self._again(LOOP, {rotation + rotation: 0 for rotation in rotations})
                    return
            if at_limit and not any(sequence.is_ended for sequence in self.beam):
                self._again(LIMIT, self._repeated(self.beam[0].labels))
                return
        if at_limit or not live or self._is_settled(live):
            self._end(live)

    def _is_settled(self, live: Sequence[_Sequence]) -> bool:
        """Whether no live sequence can come before the best ones that have ended. A language model may add to them."""
        best = self.beam[: self.options.n_best]
        if self.wish.scorer is not None or not all(sequence.is_ended for sequence in best):
            return False
        if len(best) < self.options.n_best:
            return False
        least = min(self._rank(sequence.score, len(sequence.labels)) for sequence in best)
        return all(self._rank(sequence.score, self.wish.limit) <= least for sequence in live)

    def _period(self, labels: Sequence[int]) -> tuple[int, ...]:
        """What the last tokens repeat, frames apart; nothing, if they do not."""
        spoken = [label for label in labels[-4 * REPEATS * LONGEST_PERIOD :] if label not in self.wish.silent]
        for n in range(1, min(LONGEST_PERIOD, len(spoken) // REPEATS) + 1):
            span = max(REPEATS * n, -(-SHORTEST_LOOP // n) * n)
            last = spoken[-span:]
            if len(last) == span and all(one == other for one, other in zip(last, last[n:], strict=False)):
                return tuple(last[:n])
        return ()

    def _repeated(self, labels: Sequence[int]) -> dict[tuple[int, ...], int]:
        spoken = [label for label in labels if label not in self.wish.silent]
        counts = Counter(tuple(spoken[i : i + NGRAM]) for i in range(len(spoken) - NGRAM + 1))
        return {ngram: 1 for ngram, count in counts.items() if count > 2}

    def _again(self, flag: str, blocked: Mapping[tuple[int, ...], int]) -> None:
        self.flags = tuple(dict.fromkeys((*self.flags, flag)))
        if blocked.keys() <= self.blocked.keys():
            self._end([sequence for sequence in self.beam if not sequence.is_ended])
            return
        self.blocked |= blocked
        self._free(keep=())
        self._start()

    def _end(self, live: Sequence[_Sequence]) -> None:
        if any(sequence is self.beam[0] for sequence in live) and self.options.guard:
            self.flags = tuple(dict.fromkeys((*self.flags, LIMIT)))
        self._free(keep=())
        if self.wish.scorer is not None:  # a text without an end is compared with those that have one
            for sequence in live:
                sequence.score += self.wish.scorer.finish(sequence.state)
        ranked = sorted(self.beam, key=lambda one: -self._rank(one.score, len(one.labels)))
        found = [FoundText(one.labels, one.log_probs, one.score, one.is_ended) for one in ranked]
        self.result = Result(found[: self.options.n_best], self.flags)

    def _free(self, keep: Sequence[int]) -> None:
        kept = set(keep)
        self.step.give(list(self.taken - kept))
        self.taken &= kept

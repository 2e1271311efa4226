"""Which utterances form a batch: pure functions of the durations, the seed and the epoch, the same on every rank.

A global batch is what all ranks together see in one step. It is drawn first and split over the ranks afterwards, so
that N ranks with B utterances each see the same utterances in a step as one rank with N * B.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

MIN_BATCHES_PER_BUCKET = 4  # with fewer, the utterances of a batch would hardly change from epoch to epoch
WINDOW, BATCHES_OF_WINDOW = 1 << 16, 20  # utterances, and batches, at least, that meet where data lie in a store
_CLASSES = 16  # of durations that are sorted one after the other, so that little memory is needed
_SAMPLED = 1 << 14  # durations by which classes are chosen


class BatchingError(ValueError):
    """The utterances cannot be cut into batches of the wanted size."""


class Batches(Sequence[list[int]]):
    """Batches of indices, each made when it is asked for: an epoch of ten million utterances is one array."""

    def __init__(
        self, order: np.ndarray, ends: np.ndarray, numbers: np.ndarray | None = None, share: Any = None,
        among: np.ndarray | None = None,
    ):  # fmt: skip
        """Batch i is order[ends[n] : ends[n + 1]] with n = i, or numbers[i]; `share` picks this rank's of a batch.

        `among`: of which those are the places.
        """
        self._order, self._ends, self._share, self._among = order, ends, share, among
        self._numbers = np.arange(len(ends) - 1) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> "Batches": ...
    def __getitem__(self, index: "int | slice") -> "list[int] | Batches":
        """A batch, or some of them."""
        if isinstance(index, slice):
            return Batches(self._order, self._ends, self._numbers[index], self._share, self._among)
        number = self._numbers[index]
        batch = self._order[self._ends[number] : self._ends[number + 1]]
        batch = batch if self._share is None else self._share(batch)
        return (batch if self._among is None else self._among[batch]).tolist()

    def of(self, among: np.ndarray) -> "Batches":
        """The same batches of others: of those at these places in `among`."""
        return Batches(self._order, self._ends, self._numbers, self._share, among)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


def bucketed_batches(
    seconds: Sequence[float] | np.ndarray,
    *,
    batch_size: int | None = None,
    max_seconds: float | None = None,
    seed: int,
    epoch: int,
    shuffle: bool = True,
    buckets: int = 20,
    ranks: int = 1,
    rank: int = 0,
    blocks: np.ndarray | None = None,
) -> Batches:
    """Training batches of this rank for one epoch: indices into `seconds`, of similar duration within a batch.

    The durations are cut at their quantiles into `buckets`; batches are drawn at random within a bucket and come in
    random order. A batch has either `batch_size` utterances per rank, or as many as fit into `max_seconds` per rank,
    padding included. All ranks get equally many batches.

    Every utterance occurs once, except: with `batch_size`, those of the incomplete global batch, which are drawn at
    random in every epoch, stay out; with `max_seconds`, fewer than `ranks` utterances do. Without `shuffle` the batches
    come by increasing duration.

    `blocks` [N], whole numbers, say which utterances lie together in a store. Whole blocks are shuffled then, and only
    utterances of the same WINDOW meet: each part of a store is read once an epoch, and most of it by one rank, since
    batches are dealt out by blocks. In a window utterances are sorted by duration, not by bucket.

    BatchingError: no batch can be filled, or one utterance alone is longer than `max_seconds`.
    """
    if (batch_size is None) == (max_seconds is None):
        raise BatchingError(f"batch_size is {batch_size} and max_seconds {max_seconds}; expected one of them")
    durations = np.asarray(seconds, dtype=np.float64)
    if max_seconds is not None:
        _check_fits(durations, max_seconds)
    random = np.random.default_rng((seed, epoch)) if shuffle else None
    multiple = ranks * (batch_size or 1)

    def cut(own: np.ndarray, buckets: int | None) -> tuple[np.ndarray, np.ndarray]:
        if max_seconds is not None:
            return _within_budget(own, max_seconds, ranks, buckets, random)
        ordered, ends = _of_size(own, multiple, buckets, random)
        return ordered, ends[:-1] if len(own) % multiple else ends

    salt: np.uint32 | None = None
    if blocks is None or random is None:
        ordered, ends = cut(durations, buckets)
        numbers = None if random is None else random.permutation(len(ends) - 1)
    else:
        salt = random.integers(1 << 32, dtype=np.uint32)
        order = np.argsort(_homes(blocks, salt), kind="stable").astype(np.int32 if len(durations) < 2**31 else np.int64)
        meeting = multiple if max_seconds is None else int(ranks * max_seconds / durations.mean())
        windows = max(1, len(order) // max(WINDOW, BATCHES_OF_WINDOW * meeting))
        edges = np.arange(windows + 1) * (len(order) // multiple) // windows * multiple  # whole batches but in the last
        edges[-1] = len(order)
        ordered, ends, numbers = _in_windows(order, durations, cut, edges, random)
    if len(ends) < 2:
        raise BatchingError(f"{len(durations)} utterances do not fill one batch over {ranks} ranks; lower batch_size")

    def share(batch: np.ndarray) -> np.ndarray:
        """Longest first before dealing out: the ranks get equal work. Of a window, where all are alike, by blocks."""
        if salt is not None and blocks is not None:
            batch = np.array_split(batch[np.argsort(_homes(blocks[batch], salt), kind="stable")], ranks)[rank]
            return batch[np.argsort(-durations[batch], kind="stable")]
        return batch[np.argsort(-durations[batch], kind="stable")][rank::ranks]

    return Batches(ordered, ends, numbers, share)


def _homes(blocks: np.ndarray, salt: np.uint32) -> np.ndarray:
    """Numbers of blocks, by which blocks are in random order: MurmurHash3's last step."""
    found = blocks.astype(np.uint32) ^ salt
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        found ^= found >> np.uint32(shift)
        found *= np.uint32(factor)
    return found


def _in_windows(
    order: np.ndarray, durations: np.ndarray, cut: Callable[..., tuple[np.ndarray, np.ndarray]], edges: np.ndarray,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """An order, the ends of batches in it, and their numbers in the order that they come in: window after window."""
    at, ends, numbers = 0, [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
    ordered = np.empty_like(order)
    count = 0
    for start, end in itertools.pairwise(edges.tolist()):
        members = order[start:end]
        own, own_ends = cut(durations[members], None)
        ordered[at : at + own_ends[-1]] = members[own[: own_ends[-1]]]
        ends.append(own_ends[1:] + at)
        numbers.append(random.permutation(len(own_ends) - 1) + count)
        at, count = at + own_ends[-1], count + len(own_ends) - 1
    return ordered[:at], np.concatenate(ends), np.concatenate(numbers)


def evaluation_batches(
    seconds: Sequence[float] | np.ndarray, *, batch_size: int, ranks: int = 1, rank: int = 0
) -> Batches:
    """Batches of this rank for evaluation, longest first: over all ranks every utterance exactly once.

    Ranks may get unequally many batches, or none, so nothing may wait for all ranks within the loop over them.
    """
    mine = np.argsort(-np.asarray(seconds, dtype=np.float64), kind="stable")[rank::ranks]
    return Batches(mine, _steps(len(mine), batch_size))


def _of_size(
    durations: np.ndarray, size: int, buckets: int | None, random: np.random.Generator | None
) -> tuple[np.ndarray, np.ndarray]:
    """An order, and where in it batches of `size` utterances end; last the incomplete one where there is a rest."""
    order = _shuffled(len(durations), random)
    whole = len(durations) // size * size
    order[:whole] = _by_bucket(order[:whole], durations, buckets, whole // size, random)
    return order, _steps(len(order), size)


def _steps(count: int, size: int) -> np.ndarray:
    """0, size, 2 size, …, count."""
    return np.append(np.arange(0, count, size), count) if count else np.zeros(1, np.int64)


def _within_budget(
    durations: np.ndarray, max_seconds: float, ranks: int, buckets: int | None, random: np.random.Generator | None
) -> tuple[np.ndarray, np.ndarray]:
    """As `_of_size`: batches that grow by one utterance a rank while the longest, times the count, fits the budget."""
    order = _shuffled(len(durations), random)[: len(durations) // ranks * ranks]
    n_batches = int(durations.sum() / (max_seconds * ranks))
    ordered = _by_bucket(order, durations, buckets, n_batches, random)
    starts = [0]
    longest, first = np.zeros(0), 0  # of the rows from `first` on
    rows = len(ordered) // ranks
    guess = 64
    while starts[-1] < rows:
        start = starts[-1]
        if start + guess > first + len(longest):
            first, end = start, min(rows, start + max(guess, _SAMPLED))
            longest = durations[ordered[start * ranks : end * ranks].reshape(-1, ranks)].max(axis=1)
        seen = np.maximum.accumulate(longest[start - first : start - first + guess])
        over = np.flatnonzero(np.arange(1, len(seen) + 1) * seen > max_seconds)
        if len(over):
            starts.append(start + int(over[0]))
            guess = max(16, 2 * int(over[0]))
        elif start + len(seen) == rows:
            starts.append(rows)
        else:
            guess *= 2
    return ordered, np.array(starts) * ranks


def _check_fits(durations: np.ndarray, max_seconds: float) -> None:
    too_long = np.flatnonzero(durations > max_seconds)
    if len(too_long):
        first = too_long[0]
        raise BatchingError(
            f"utterance {first} lasts {durations[first]:.2f} s: more than a batch may hold, max_seconds {max_seconds}; "
            f"so do {len(too_long) - 1} others; filter them out or raise max_seconds"
        )


def _shuffled(count: int, random: np.random.Generator | None) -> np.ndarray:
    order = np.arange(count, dtype=np.int32 if count < 2**31 else np.int64)
    if random is not None:
        random.shuffle(order)
    return order


def _by_bucket(
    order: np.ndarray, durations: np.ndarray, buckets: int | None, batches: int, random: np.random.Generator | None
) -> np.ndarray:
    """The indices of `order` by increasing bucket of duration, shuffled within each bucket; without buckets sorted."""
    by_duration = _sorted(order, durations)
    if random is not None and buckets is not None:
        for piece in np.array_split(by_duration, max(1, min(buckets, batches // MIN_BATCHES_PER_BUCKET))):
            random.shuffle(piece)
    return by_duration


def _sorted(order: np.ndarray, durations: np.ndarray) -> np.ndarray:
    """`order` by duration, equal ones as they are: as a stable sort, class by class of durations."""
    sample = durations[order[:: max(1, len(order) // _SAMPLED)]]
    edges = np.unique(np.quantile(sample, np.arange(1, _CLASSES) / _CLASSES)) if len(order) > _SAMPLED else np.zeros(0)
    classes = np.searchsorted(edges, durations, side="right").astype(np.uint8)[order]
    found, at = np.empty_like(order), 0
    for number in range(len(edges) + 1):
        members = order[classes == number]
        found[at : at + len(members)] = members[np.argsort(durations[members], kind="stable")]
        at += len(members)
    return found

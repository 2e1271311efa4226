"""Which utterances form a batch: pure functions of the durations, the seed and the epoch, the same on every rank.

A global batch is what all ranks together see in one step. It is drawn first and split over the ranks afterwards, so
that N ranks with B utterances each see the same utterances in a step as one rank with N * B.
"""

from collections.abc import Sequence

import numpy as np

Batches = list[list[int]]

MIN_BATCHES_PER_BUCKET = 4  # with fewer, the utterances of a batch would hardly change from epoch to epoch


class BatchingError(ValueError):
    """The utterances cannot be cut into batches of the wanted size."""


def bucketed_batches(
    seconds: Sequence[float],
    *,
    batch_size: int | None = None,
    max_seconds: float | None = None,
    seed: int,
    epoch: int,
    shuffle: bool = True,
    buckets: int = 20,
    drop_last: bool = True,
    ranks: int = 1,
    rank: int = 0,
) -> Batches:
    """Training batches of this rank for one epoch: indices into `seconds`, of similar duration within a batch.

    The durations are cut at their quantiles into `buckets`; batches are drawn at random within a bucket and come in
    random order. A batch has either `batch_size` utterances per rank, or as many as fit into `max_seconds` per rank,
    padding included. All ranks get equally many batches.

    Every utterance occurs once, except: with `batch_size`, those of the incomplete global batch, which are drawn at
    random in every epoch, stay out with `drop_last` (or if they are fewer than the ranks); with `max_seconds`, fewer
    than `ranks` utterances stay out. Without `shuffle` the batches come by increasing duration.
    BatchingError: no batch can be filled, or one utterance alone is longer than `max_seconds`.
    """
    if (batch_size is None) == (max_seconds is None):
        raise BatchingError(f"batch_size is {batch_size} and max_seconds {max_seconds}; expected one of them")
    durations = np.asarray(seconds, dtype=np.float64)
    random = np.random.default_rng((seed, epoch)) if shuffle else None
    if batch_size is not None:
        batches = _of_size(durations, batch_size * ranks, buckets, random)
        rest = len(durations) % (batch_size * ranks)
        if rest and (drop_last or rest < ranks):
            batches.pop()
    else:
        assert max_seconds is not None
        batches = _within_budget(durations, max_seconds, ranks, buckets, random)
    if not batches:
        raise BatchingError(f"{len(durations)} utterances do not fill one batch over {ranks} ranks; lower batch_size")
    if random is not None:
        batches = [batches[i] for i in random.permutation(len(batches))]
    # Longest first before dealing out: the ranks get equal work.
    return [batch[np.argsort(-durations[batch], kind="stable")][rank::ranks].tolist() for batch in batches]


def evaluation_batches(seconds: Sequence[float], *, batch_size: int, ranks: int = 1, rank: int = 0) -> Batches:
    """Batches of this rank for evaluation, longest first: over all ranks every utterance exactly once.

    Ranks may get unequally many batches, or none, so nothing may wait for all ranks within the loop over them.
    """
    mine = np.argsort(-np.asarray(seconds, dtype=np.float64), kind="stable")[rank::ranks].tolist()
    return [mine[start : start + batch_size] for start in range(0, len(mine), batch_size)]


def _of_size(durations: np.ndarray, size: int, buckets: int, random: np.random.Generator | None) -> list[np.ndarray]:
    """Batches of `size` utterances, and last the incomplete one where there is a rest."""
    order = _shuffled(len(durations), random)
    whole = len(durations) // size * size
    ordered = _by_bucket(order[:whole], durations, min(buckets, whole // size // MIN_BATCHES_PER_BUCKET), random)
    batches = list(ordered.reshape(-1, size))
    return [*batches, order[whole:]] if whole < len(order) else batches


def _within_budget(
    durations: np.ndarray, max_seconds: float, ranks: int, buckets: int, random: np.random.Generator | None
) -> list[np.ndarray]:
    """Batches that grow by one utterance per rank while the longest, times the count per rank, fits into the budget."""
    too_long = np.flatnonzero(durations > max_seconds)
    if len(too_long):
        first = too_long[0]
        raise BatchingError(
            f"utterance {first} lasts {durations[first]:.2f} s: more than a batch may hold, max_seconds {max_seconds}; "
            f"so do {len(too_long) - 1} others; filter them out or raise max_seconds"
        )
    order = _shuffled(len(durations), random)[: len(durations) // ranks * ranks]
    n_batches = int(durations.sum() / (max_seconds * ranks))
    ordered = _by_bucket(order, durations, min(buckets, n_batches // MIN_BATCHES_PER_BUCKET), random)
    rows = ordered.reshape(-1, ranks)
    longest = durations[rows].max(axis=1) if len(rows) else np.zeros(0)
    batches, start, batch_longest = [], 0, 0.0
    for i, row_longest in enumerate(longest):
        batch_longest = max(batch_longest, row_longest)
        if (i + 1 - start) * batch_longest > max_seconds:
            batches.append(rows[start:i].ravel())
            start, batch_longest = i, row_longest
    return [*batches, rows[start:].ravel()] if len(rows) else []


def _shuffled(count: int, random: np.random.Generator | None) -> np.ndarray:
    return np.arange(count) if random is None else random.permutation(count)


def _by_bucket(
    order: np.ndarray, durations: np.ndarray, buckets: int, random: np.random.Generator | None
) -> np.ndarray:
    """The indices of `order` by increasing bucket of duration, shuffled within each bucket."""
    by_duration = order[np.argsort(durations[order], kind="stable")]
    if random is None:
        return by_duration
    pieces = np.array_split(by_duration, max(1, buckets))
    return np.concatenate([random.permutation(piece) for piece in pieces])

"""Corpora mixed by exact shares: which utterances an epoch has is a function of seed and epoch, without any state.

Each corpus is an endless sequence, one pass in random order after another, so that everything in it is heard once
before anything is heard again. An epoch takes the next of each sequence, as many as its share says, exact to one.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.config import check_shares
from common.data.batching import BatchingError


@dataclass(frozen=True, kw_only=True)
class MixConfig:
    """Shares of the corpora in training; without weights and with temperature 1 every utterance is heard once."""

    weights: tuple[float, ...] = ()
    """Weight of each of the corpora in data.train, in their order; by default their durations."""
    temperature: float = 1.0
    """Exponent of the weights before they become shares: 1 keeps them, 0 makes all corpora equal."""

    def __post_init__(self) -> None:
        check_shares(self, "temperature")
        if self.weights and not all(0 < weight < math.inf for weight in self.weights):
            raise ValueError(f"weights = {self.weights}: expected numbers above 0")

    @property
    def mixes(self) -> bool:
        """Whether an epoch is anything but every utterance once."""
        return bool(self.weights) or self.temperature != 1.0


def shares(cfg: MixConfig, counts: Sequence[int], seconds: np.ndarray) -> list[float]:
    """The part of the utterances of an epoch that each corpus gives. Raises BatchingError.

    Weights are of time: a corpus of long utterances gives fewer of them.
    """
    ends = np.cumsum([0, *counts])
    of_each = [float(seconds[a:b].sum()) for a, b in itertools.pairwise(ends)]
    weights = cfg.weights or of_each
    if len(weights) != len(counts):
        raise BatchingError(
            f"data.mix.weights has {len(weights)} numbers for {len(counts)} corpora; expected one for each"
        )
    means = [total / max(1, count) for total, count in zip(of_each, counts, strict=True)]
    utterances = [w**cfg.temperature / m if m else 0.0 for w, m in zip(weights, means, strict=True)]
    return [part / sum(utterances) for part in utterances]


def chosen(parts: Sequence[float], counts: Sequence[int], *, seed: int, epoch: int) -> np.ndarray:
    """Which utterances an epoch has, as many as there are in all; corpora stand one after the other, `counts` long."""
    total, first, found = sum(counts), 0, []
    for number, (part, count) in enumerate(zip(parts, counts, strict=True)):
        begin, end = (math.floor(part * at * total + 0.5) for at in (epoch, epoch + 1))
        while count and begin < end:
            turn, place = divmod(begin, count)
            until = min(end - begin, count - place)
            order = np.random.default_rng((seed, 4, number, turn)).permutation(count)
            found.append(first + order[place : place + until])
            begin += until
        first += count
    return np.concatenate(found) if found else np.zeros(0, np.int64)

"""What a training that counts epochs goes through: the batches of each, and the learning rate of every step."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from common.data.batching import Batches, BatchingError, bucketed_batches, evaluation_batches
from common.data.mixing import chosen, shares
from common.devices.distributed import World
from common.training.schedule import build_schedule


class Epochs:
    """This process's batches of utterances that last so many `seconds`, and the learning rate by steps done.

    `cfg` has epochs, batch_size or batch_seconds, seed, optim.lr and schedule; `lr` is the peak in place of its own.
    `corpora`, names and counts, are mixed as cfg.data.mix says. `rows`: the numbers that batches have for the
    utterances, by default 0 and on. `blocks`: where they lie, as `bucketed_batches` takes it. `tokens`: labels of each,
    of which a batch has at most cfg.batch_tokens, where that is not 0. Raises BatchingError.
    """

    def __init__(
        self,
        seconds: Sequence[float] | np.ndarray,
        cfg: Any,
        world: World,
        *,
        lr: float | None = None,
        corpora: Sequence[tuple[str, int]] = (),
        rows: np.ndarray | None = None,
        blocks: np.ndarray | None = None,
        tokens: np.ndarray | None = None,
    ):
        self.rows, self.blocks = rows, blocks
        self.cfg, self.world = cfg, world
        self._counts = [count for _, count in corpora]
        self._shares = shares(cfg.data.mix, self._counts, np.asarray(seconds)) if corpora and cfg.data.mix.mixes else []
        budget = getattr(cfg, "batch_seconds", 0.0)
        if tokens is not None and budget and cfg.batch_tokens:  # one bound that holds for both
            if (most := int(tokens.max(initial=0))) > cfg.batch_tokens:
                raise BatchingError(
                    f"utterance {int(tokens.argmax())} has {most} labels: more than a batch may hold, batch_tokens "
                    f"{cfg.batch_tokens}; leave it out or raise batch_tokens"
                )
            seconds = np.maximum(seconds, tokens * (budget / cfg.batch_tokens))
        self.seconds = seconds
        self._size = {"max_seconds": budget} if budget else {"batch_size": cfg.batch_size}
        self._at_once = int(budget / np.max(seconds)) if budget else cfg.batch_size
        self.batches = functools.lru_cache(2)(self._batches)
        """Batches of an epoch by its number; the last two epochs' are remembered."""
        in_one = len(self.batches(0))
        self.steps = in_one * cfg.epochs
        """Optimiser steps of the whole training."""
        self.about = f"{in_one} steps an epoch"
        self.learning_rate = build_schedule(
            cfg.schedule, lr=cfg.optim.lr if lr is None else lr, steps_per_epoch=in_one, total_steps=self.steps
        )
        """By the number of steps already done."""

    @property
    def longest(self) -> list[int]:
        """The batch of the longest utterances, as many as meet in one: what needs the most memory."""
        longest = evaluation_batches(self.seconds, batch_size=self._at_once)
        return (longest if self.rows is None else longest.of(self.rows))[0]

    def _batches(self, epoch: int) -> Batches:
        if self._shares:
            among = chosen(self._shares, self._counts, seed=self.cfg.seed, epoch=epoch)
            rows = among if self.rows is None else self.rows[among]
            blocks = None if self.blocks is None else self.blocks[among]
            return self._cut(np.asarray(self.seconds)[among], blocks, epoch).of(rows)
        batches = self._cut(self.seconds, self.blocks, epoch)
        return batches if self.rows is None else batches.of(self.rows)

    def _cut(self, seconds: Sequence[float] | np.ndarray, blocks: np.ndarray | None, epoch: int) -> Batches:
        return bucketed_batches(
            seconds, **self._size, seed=self.cfg.seed, epoch=epoch, ranks=self.world.size, rank=self.world.rank,
            blocks=blocks,
        )  # fmt: skip

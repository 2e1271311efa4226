"""What a training that counts epochs goes through: the batches of each, and the learning rate of every step."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from common.data.batching import Batches, bucketed_batches
from common.devices.distributed import World
from common.training.schedule import build_schedule


class Epochs:
    """This process's batches of utterances that last so many `seconds`, and the learning rate by steps done.

    `cfg` has epochs, batch_size, seed, optim.lr and schedule. Instead of those, `lr` is the peak, and a batch has as
    many utterances as fit into `max_seconds`. Raises BatchingError.
    """

    def __init__(
        self,
        seconds: Sequence[float] | np.ndarray,
        cfg: Any,
        world: World,
        *,
        lr: float | None = None,
        max_seconds: float = 0.0,
    ):
        self.cfg, self.world, self.seconds = cfg, world, seconds
        self._size = {"max_seconds": max_seconds} if max_seconds else {"batch_size": cfg.batch_size}
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

    def _batches(self, epoch: int) -> Batches:
        return bucketed_batches(
            self.seconds, **self._size, seed=self.cfg.seed, epoch=epoch, ranks=self.world.size, rank=self.world.rank
        )

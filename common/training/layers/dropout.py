"""Dropout whose random numbers do not take longer than the layers around it."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution import products

SMALL = 2**15  # values, below which torch's takes no time either
STEPS = 2**16  # probabilities are rounded to one of so many


def dropout(x: Tensor, probability: float, training: bool) -> Tensor:
    """As `F.dropout`: values are zero with `probability`, and the others grow by what is lost; in training only.

    On a CPU by 16 random bits a value, of a generator that a number of torch's seeds: a quarter of the time that torch
    takes for twice 32 bits of a Mersenne Twister. The probability is rounded to a multiple of 2^-16.
    """
    drop = noise(x, probability) if training else None
    if drop is None:
        return F.dropout(x, probability, training)
    kept = torch.from_numpy(drop.bits_X >= drop.steps).view(x.shape)
    return x * kept.to(x.dtype).mul_(drop.growth)


class Noise(NamedTuple):
    """Random numbers of dropout: a value is kept, `growth` times as large, if its 16 bits are at least `steps`."""

    bits_X: np.ndarray
    steps: int
    growth: float


def noise(x: Tensor, probability: float) -> Noise | None:
    """What `dropout` of `x` in training draws; None where it leaves that to torch, or draws nothing."""
    steps = round(probability * STEPS)
    if not 0 < steps < STEPS or not _is_faster(x):
        return None
    generator = np.random.SFC64(int(torch.randint(2**62, ())))
    bits_X = generator.random_raw(-(-x.numel() // 4)).view(np.uint16)[: x.numel()]
    return Noise(bits_X, steps, STEPS / (STEPS - steps))


class Dropout(nn.Dropout):
    """`nn.Dropout` by `dropout`."""

    def forward(self, input: Tensor) -> Tensor:
        """Input of any shape -> the same shape."""
        return dropout(input, self.p, self.training)


def _is_faster(x: Tensor) -> bool:
    return products.runs_eagerly(x) and not products.is_left_to_torch() and x.numel() >= SMALL

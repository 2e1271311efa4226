"""Measures what the model of the cost has to know of a processor."""

import statistics
import time
from collections.abc import Callable

import torch

from common.convolution import native
from common.convolution.algorithms import overlap_save
from common.convolution.planning import Machine
from common.threads import torch_threads

CHANNELS, TAPS, BLOCK = 512, 17, 48
REPEATS = 7


def measure() -> Machine:
    """The constants of one thread here. Needs the native library."""
    wide, few = torch.randn(1, 480, CHANNELS), torch.randn(1, 2, CHANNELS)
    flops = 2.0 * 480 * CHANNELS**2 / _seconds(wide, torch.randn(1, CHANNELS, CHANNELS))
    large_KIO = torch.randn(TAPS, CHANNELS, CHANNELS)
    algorithm = overlap_save(BLOCK, TAPS)
    reading = _seconds(few, large_KIO, BLOCK)  # one row of products: nothing but reading
    bandwidth = 4.0 * algorithm.points * CHANNELS**2 / reading
    narrow, frames = 32, 32 * 1024  # hardly any products: nothing but transforms and moving
    rows = -(-frames // algorithm.outputs)
    transforms = 2.0 * rows * narrow * BLOCK * (BLOCK // 2 + algorithm.outputs)
    products = 2.0 * rows * algorithm.points * narrow**2
    rest = _seconds(torch.randn(1, frames, narrow), torch.randn(TAPS, narrow, narrow), BLOCK)
    rest -= (transforms + products) / flops
    moved = 4.0 * (rows * narrow * (4 * algorithm.points + BLOCK) + frames * narrow)
    return Machine(flops, bandwidth, moved / max(rest, 1e-6))


def _seconds(x_BTI: torch.Tensor, weight_KIO: torch.Tensor, block: int | None = None) -> float:
    taps = len(weight_KIO)
    algorithm = None if block is None else overlap_save(block, taps)
    packed = native.pack(weight_KIO.permute(2, 0, 1), algorithm)
    out_BTO = torch.empty(1, x_BTI.shape[1], weight_KIO.shape[2])

    def call() -> None:
        native.run(x_BTI, packed, native.Epilogue(), out_BTO, stride=1, dilation=1, before=taps // 2)

    with torch_threads(1):
        return statistics.median(_timed(call) for _ in range(REPEATS))


def _timed(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start

"""`--precision auto`: the fastest arithmetic on this machine whose output stays close to that of fp32.

A model is built in every precision that its device may be faster in, and computes the same input in each, in turns.
"""

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from common.benchmark import compare, ratio
from common.devices.precision import Precision

Choice = Literal["auto", "fp32", "tf32", "bf16", "fp16"]
Model = TypeVar("Model")

TOLERANCE = 0.02
"""Greatest root mean square difference from the output in fp32, as a part of that output's standard deviation. Word
error rates of trained recognisers do not change at it (docs/log/convolutions.md)."""
WORTH = 1.05
"""How many times as fast as fp32 another precision has to be: less is noise."""
REPEATS = 3


def fastest(
    build: Callable[[Precision], Model],
    run: Callable[[Model], Tensor],
    device: torch.device | str,
) -> Model:
    """`build(precision)` for the precision whose `run` is the fastest within TOLERANCE; says on stderr which it is.

    `run` gives a floating-point tensor of any shape; one of another shape than in fp32 is out of tolerance. It needs
    the memory of two models while it measures.
    """
    device = torch.device(device)
    others: tuple[Precision, ...] = ("bf16",) if device.type == "cpu" else ("tf32", "bf16", "fp16")
    plain = build("fp32")
    expected = run(plain)
    best, speed, precision, found = plain, WORTH, "fp32", []
    for other in others:
        model = build(other)
        difference = deviation(run(model), expected)
        calls = {"plain": partial(run, plain), "other": partial(run, model)}
        times = compare(calls, device=device, warmup=0, repeats=REPEATS)
        gain = ratio(times["plain"], times["other"])
        differs = f"differs by {difference:.2%}" if difference < math.inf else "gives another length or NaN"
        found.append(f"{other} is {gain:.2f} times as fast as fp32 and {differs}")
        if difference <= TOLERANCE and gain >= speed:
            best, speed, precision = model, gain, other
    print(f"precision: {precision} ({'; '.join(found)}; tolerance {TOLERANCE:.0%})", file=sys.stderr)
    return best


def deviation(output: Tensor, expected: Tensor) -> float:
    """Root mean square of `output` - `expected` over the standard deviation of `expected`; infinite if they cannot be
    compared."""
    if output.shape != expected.shape or not output.isfinite().all():
        return math.inf
    difference = (output.double() - expected.double()).square().mean().sqrt()
    return float(difference / expected.double().std().clamp(min=1e-12))


def voice_like(sample_rate: int, seconds: float = 6.0) -> np.ndarray:
    """float32 [N]: harmonics of a gliding pitch under changing formants, in syllables, with some noise; always the
    same. What a recogniser is measured on when it has heard nothing yet."""
    draw = np.random.default_rng(0)
    time_N = np.arange(round(sample_rate * seconds)) / sample_rate
    phase_N = 2 * np.pi * np.cumsum(120 + 30 * np.sin(2 * np.pi * 0.7 * time_N)) / sample_rate
    formants_N = [500 + 200 * np.sin(2 * np.pi * 2.3 * time_N), 1500 + 500 * np.sin(2 * np.pi * 1.7 * time_N + 1)]
    voiced_N = np.zeros_like(time_N)
    for harmonic in range(1, 30):
        hertz_N = harmonic * (120 + 30 * np.sin(2 * np.pi * 0.7 * time_N))
        level_N = sum(1 / (1 + ((hertz_N - formant_N) / 120) ** 2) for formant_N in formants_N)
        voiced_N += level_N * np.sin(harmonic * phase_N) * (hertz_N < sample_rate / 2)
    syllables_N = np.clip(np.sin(2 * np.pi * 2 * time_N) + 0.6, 0, 1)
    return (0.05 * (voiced_N * syllables_N + 0.1 * draw.standard_normal(len(time_N)))).astype(np.float32)

"""Which algorithm a convolution takes on this processor: by a model of its cost, with measured constants."""

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from common.convolution import native
from common.convolution.algorithms import LONGEST_BLOCK, Algorithm, overlap_save, toom_cook
from common.convolution.native import Weights
from common.machine import processor_vendor

BLOCKS = (16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192, LONGEST_BLOCK)
# Points of Toom-Cook, and taps up to which six digits are left.
POINTS: tuple[tuple[tuple[float, ...], int], ...] = (
    ((0, 0.625, -0.625, 1.5, -1.5), 4),
    ((0, 1, -1, 2, -2, 0.5, -0.5), 4),
)
REGISTER_ROWS, PAIR_ROWS = 12, 4
CALLS = (0.25, 1.0)  # lengths of calls, in that which is expected
DECODING = 0.5  # rows whose products take as long as making floats of fixed point
# Bytes beside floats, fitted to 16 layers on an AMD EPYC with VNNI: products in the same time, bytes read in it, rows
# at once, and what a pass over the weights costs in rows.
OF_BYTES, READING_BYTES, BYTE_PAIR_ROWS, BYTE_PASS = 3.66, 0.7, 6, 0.25
# What a call takes besides its sums, measured on an AMD EPYC. Torch's takes 2e-6 less, which counts for the smallest
# layers, but its sums differ from batch to batch.
CALL = 6e-6
ALIKE = 1.03  # times as slow, what needs fewer bytes is taken: the model of the cost knows no better
LEAST_FILTERS = 64  # of a layer in int8: fewer are labels, whose rounding costs more than their time
CACHED_BYTES = 2**20  # of weights that need not be read from memory for every use


Kind = Literal["fp32", "bf16", "int8"]


class Machine(NamedTuple):
    """What the model of the cost knows of a processor; of one thread."""

    flops: float
    """Operations per second of products with packed weights."""
    bandwidth: float
    """Bytes per second of weights that are read once."""
    moving: float
    """Bytes per second of frames and points between the stages."""


# Measured: an Intel Xeon of 2023 (AVX-512), the same with its AVX2 kernels, an AMD EPYC of 2024, which multiplies
# bfloat16 at twice the speed of floats; the last is a guess.
MACHINES: dict[str, Machine] = {
    "avx512": Machine(140e9, 11e9, 15e9),
    "avx512 of AMD": Machine(205e9, 30e9, 25e9),
    "avx512_bf16 of AMD": Machine(430e9, 25e9, 25e9),
    "avx2": Machine(75e9, 11e9, 15e9),
    "generic": Machine(20e9, 11e9, 15e9),
}


class Shape(NamedTuple):
    """What a convolution is, and how many output frames a call has, or a long one, that its algorithm is chosen for."""

    taps: int
    channels: int
    filters: int
    stride: int = 1
    dilation: int = 1
    frames: int = 512


class Choice(NamedTuple):
    """An algorithm (None: direct), the seconds of a call and the bytes of the weights that the model expects, and what
    weights are kept as.
    """

    algorithm: Algorithm | None
    seconds: float
    weight_bytes: int
    weights: Weights = "float32"


def choices(
    shape: Shape,
    *,
    kind: Kind = "fp32",
    machine: Machine | None = None,
    fixed: bool = True,
    instructions: native.Instructions = "automatic",
) -> list[Choice]:
    """The direct sum and every algorithm that is worth its memory: faster than all that need less. Fastest first.

    The native library, which is needed, runs them all (`native.fits`). `fixed`: those whose weights are in fixed point
    are among them, which take fewer bytes than direct ones in float32 where blocks are short. Toom-Cook's are not for
    bfloat16: where their points are rounded too, errors are 2.1 (6 points) to 3.1 times (8) those of a plain
    convolution in bfloat16. Layers that cannot be in int8 are as in float32.
    """
    machine = machine or this_machine()
    formats: list[Weights] = ["bfloat16"] if kind == "bf16" else ["float32", "fixed24"] if fixed else ["float32"]
    if kind == "int8" and shape.filters >= LEAST_FILTERS:
        formats.insert(0, "int8")
    ways = [
        (algorithm, weights)
        for weights in formats
        for algorithm in (None, *_algorithms(shape, kind))
        if native.fits(algorithm, shape.taps, shape.stride, weights, instructions)
    ]
    if ways[0][1] == "int8":
        ways = [way for way in ways if way[1] == "int8"]
    found = [_choice(shape, *way, machine) for way in ways]
    found.sort(key=lambda choice: choice.seconds)
    smallest: list[Choice] = []
    for choice in found:
        if not smallest or choice.weight_bytes < smallest[-1].weight_bytes:
            smallest.append(choice)
    while smallest[0].weight_bytes > CACHED_BYTES and len(smallest) > 1:
        if smallest[1].seconds > ALIKE * smallest[0].seconds:
            break
        del smallest[0]
    return smallest


def more_exact(shape: Shape, choice: Choice, kind: Kind, **options: Any) -> list[Choice]:
    """What takes a choice's place where it is not exact enough: the fastest of more exact formats, the direct sum.

    `options` are those of `choices`.
    """
    found = choices(shape, **options)[:1] if choice.weights == "int8" else []
    plain = choices(shape, kind="bf16" if kind == "bf16" else "fp32", fixed=False, **options)
    return [*found, plain[0], next(choice for choice in reversed(plain) if choice.algorithm is None)]


def within(options: Sequence[Sequence[Choice]], limit_bytes: int | None) -> list[Choice]:
    """One of each layer's `choices`, together at most `limit_bytes` if that can be, so that least time is lost."""
    places = [0] * len(options)
    total = sum(layer[0].weight_bytes for layer in options)
    while limit_bytes is not None and total > limit_bytes:
        steps = [
            ((layer[i + 1].seconds - layer[i].seconds) / (layer[i].weight_bytes - layer[i + 1].weight_bytes), n)
            for n, (layer, i) in enumerate(zip(options, places, strict=True))
            if i + 1 < len(layer)
        ]
        if not steps:
            break
        _, n = min(steps)
        total -= options[n][places[n]].weight_bytes - options[n][places[n] + 1].weight_bytes
        places[n] += 1
    return [layer[i] for layer, i in zip(options, places, strict=True)]


@functools.cache
def this_machine(instructions: native.Instructions = "automatic") -> Machine:
    """The constants of a processor with the same instructions."""
    if instructions == "automatic":  # products of floats, which have no instructions of bfloat16
        best = native.best_instructions() or "generic"
        instructions = "avx512" if best == "avx512_bf16" else best
    if instructions == "avx512_vnni":
        instructions = "avx512"  # but for products of bytes
    if processor_vendor() == "AuthenticAMD" and f"{instructions} of AMD" in MACHINES:
        return MACHINES[f"{instructions} of AMD"]
    return MACHINES["avx512" if instructions == "avx512_bf16" else instructions]


def half_of_memory() -> int | None:
    """Bytes; None where the system does not say how much memory is available."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    available = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if available is None else int(available) * 1024 // 2


def _algorithms(shape: Shape, kind: Kind) -> Iterator[Algorithm]:
    if shape.stride > 1 or shape.taps == 1:
        return
    for points, longest in POINTS:
        if 2 < shape.taps <= longest and kind == "fp32":
            yield toom_cook(points, shape.taps)
    for block in BLOCKS:
        if 4 < shape.taps <= block - 4 and block <= 8 * shape.taps:
            algorithm = overlap_save(block, shape.taps)
            yield algorithm
            yield algorithm._replace(in_pairs=True)


def _choice(shape: Shape, algorithm: Algorithm | None, weights: Weights, machine: Machine) -> Choice:
    """What calls of the expected length and of shorter ones cost in the mean, as many of each."""
    stored = shape.taps if algorithm is None else algorithm.stored
    columns = -(-shape.filters // native.PANEL) * native.PANEL
    seconds = CALL + _in_mean(shape, lambda shape: _seconds(shape, algorithm, weights, machine))
    weight_bytes = stored * shape.channels * columns * native.BYTES[weights]
    return Choice(algorithm, seconds, weight_bytes, weights)


def _in_mean(shape: Shape, seconds: Callable[[Shape], float]) -> float:
    lengths = [max(1, round(shape.frames * part)) for part in CALLS]
    return sum(seconds(shape._replace(frames=frames)) for frames in lengths) / len(lengths)


def _seconds(shape: Shape, algorithm: Algorithm | None, weights: Weights, machine: Machine) -> float:
    """Time of products, reading weights (mostly at the same time), transforms, and moving values between them."""
    taps, channels, filters, _, dilation, frames = shape
    columns = -(-filters // native.PANEL) * native.PANEL
    bytes_of_points = channels * columns * native.BYTES[weights]
    if algorithm is None:
        weight_bytes, rows, transforms = taps * bytes_of_points, frames, 0.0
        multiplications = taps * channels * columns
        moved = 4.0 * frames * (2 * channels * (taps > 1) + columns)
    else:
        weight_bytes = algorithm.stored * bytes_of_points
        rows = -(-frames // (algorithm.outputs * dilation)) * dilation
        multiplications = algorithm.points * channels * columns
        size = algorithm.block if algorithm.halves else algorithm.points
        per_block = algorithm.block * (algorithm.block // 2 if algorithm.halves else algorithm.points)
        transforms = 2.0 * rows * (per_block * channels + size * algorithm.outputs * columns)
        moved = (
            4.0 * rows * (2 * (algorithm.points * channels + algorithm.stored * columns) + algorithm.block * channels)
        )
        moved += 4.0 * frames * columns
    flops, parts = machine.flops, -(-rows // REGISTER_ROWS)
    passes = 1.0 * rows + parts  # a pass over the weights costs about a row's time besides
    bandwidth = machine.bandwidth
    if weights == "int8":
        flops, bandwidth = flops * OF_BYTES, bandwidth * READING_BYTES
        passes = rows + BYTE_PASS * -(-rows // BYTE_PAIR_ROWS)
        if algorithm is not None:
            multiplications = 2 * algorithm.block * channels * columns  # four real products for a complex one
            moved -= 6.0 * rows * algorithm.points * channels
    elif algorithm is not None and algorithm.in_pairs:
        parts = -(-rows // PAIR_ROWS)
        passes = rows + 2 * parts / 3  # what is made of the two parts costs two of three products' row
    if weights == "fixed24":
        passes += DECODING * (parts if parts < 3 else 1)
    products = 2.0 * multiplications * passes / flops
    reading = weight_bytes / bandwidth if weight_bytes > CACHED_BYTES else 0.0
    seconds = max(products, reading) + 0.3 * min(products, reading)
    return seconds + transforms / machine.flops + moved / machine.moving

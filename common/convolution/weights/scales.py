"""A look at what fixed point and bytes make of a convolution's weights, whose `Sizes` decide how they are packed.

Shapes: O filters, K taps, I channels, S output frames, N inputs of the probe, H halves of the taps.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from common.convolution import native
from common.convolution.algorithms import Algorithm
from common.convolution.native import Epilogue, Instructions, PackedConvolution, Weights
from common.convolution.weights.sizes import BOUNDS, Sizes

TOOM_COOK = 4.0  # times the bound, for Toom-Cook's points lose digits whatever the weights are


def sizes_of(weight_OKI: Tensor) -> Sizes:
    """Sizes of the weights of a convolution, summed over its taps, and over the first and the last half of them."""
    half = weight_OKI.shape[1] // 2
    square_OKI = (part.double().square() for part in weight_OKI.split(8))
    parts = [torch.stack([part[:, :half].sum(1), part[:, half:].sum(1)]) for part in square_OKI]
    return Sizes(torch.cat(parts, 1).numpy())


def packed_by(
    weight_OKI: Tensor, ways: Sequence[tuple[Algorithm | None, Weights]], instructions: Instructions = "automatic"
) -> tuple[PackedConvolution, int]:
    """The weights packed in the first way that is exact enough for them, and which that is; the last is taken as it is.

    Needs the library.
    """
    sizes: Sizes | None = None
    for place, (algorithm, weights) in enumerate(ways):
        is_plain = algorithm is None and weights != "int8"
        sizes = None if is_plain else sizes or sizes_of(weight_OKI)
        powers_I = None if sizes is None else sizes.powers()
        scale_I = None if powers_I is None else torch.from_numpy(powers_I)
        packed = native.pack(weight_OKI, algorithm, weights=weights, scale_I=scale_I, instructions=instructions)
        if sizes is None or place == len(ways) - 1 or is_exact_enough(packed, weight_OKI, sizes):
            return packed, place
    raise ValueError("no way to pack weights: expected one at least")


def is_exact_enough(packed: PackedConvolution, weight_OKI: Tensor, sizes: Sizes) -> bool:
    """Whether it gives noise of one block what the direct sum in float32 does, but for what its format rounds away.

    A recording that is shorter than the taps is heard by some of them alone, and must not get the rounding of the
    others where those are the louder ones.
    """
    assert packed.algorithm is not None or packed.weights == "int8", "what may be inexact"
    frames, half = packed.taps if packed.algorithm is None else packed.algorithm.block, packed.taps // 2
    x_NTI = torch.from_numpy(sizes.inputs(frames)).repeat(3, 1, 1)
    x_NTI[2:4, half:] = x_NTI[4:6, : frames - (packed.taps - half)] = 0
    found_NSO = x_NTI.new_empty(len(x_NTI), frames - packed.taps + 1, packed.filters)
    native.run(x_NTI, packed, Epilogue(), found_NSO)
    windows_NSKI = x_NTI.unfold(1, packed.taps, 1).mT
    more = 1.0 if packed.algorithm is None or packed.algorithm.halves is not None else TOOM_COOK
    first_OI, last_OI = sizes.square_HOI
    whole, first, last = slice(None), slice(half), slice(half, None)
    probes = [(slice(2), 0, whole, sizes.square_OI), (slice(2), -1, whole, sizes.square_OI)]
    probes += [(slice(2, 4), 0, first, first_OI), (slice(4, 6), -1, last, last_OI)] if half else []
    for inputs, output, hearing, square_OI in probes:
        window_NKI = windows_NSKI[inputs, output]
        expected_NO = window_NKI.flatten(1) @ weight_OKI.flatten(1).T
        size_NO = (window_NKI[:, hearing].double().square().mean(1) @ torch.from_numpy(square_OI).T).sqrt()
        error_NO = (found_NSO[inputs, output] - expected_NO).abs() / size_NO.masked_fill(size_NO == 0, torch.inf)
        if not error_NO.max() <= more * BOUNDS[packed.weights]:
            return False
    return True

"""A look at what fixed point and bytes make of a convolution's weights, whose `Sizes` decide how they are packed.

Shapes: O filters, K taps, I channels, S output frames, N inputs of the probe.
"""

import torch
from torch import Tensor

from common.convolution import native
from common.convolution.native import Epilogue, PackedConvolution
from common.convolution.sizes import BOUNDS, Sizes

PROBED_FRAMES = 2
TOOM_COOK = 4.0  # times the bound, for Toom-Cook's points lose digits whatever the weights are


def sizes_of(weight_OKI: Tensor) -> Sizes:
    """Sizes of the weights of a convolution, summed over its taps."""
    return Sizes(torch.cat([part.double().square().sum(1) for part in weight_OKI.split(8)]).numpy())


def is_exact_enough(packed: PackedConvolution, weight_OKI: Tensor, sizes: Sizes) -> bool:
    """Whether it gives noise of one block what the direct sum in float32 does, but for what its format rounds away."""
    assert packed.algorithm is not None or packed.weights == "int8", "what may be inexact"
    frames = packed.taps if packed.algorithm is None else packed.algorithm.block
    x_NTI = torch.from_numpy(sizes.inputs(frames))
    found_NSO = x_NTI.new_empty(len(x_NTI), frames - packed.taps + 1, packed.filters)
    native.run(x_NTI, packed, Epilogue(), found_NSO)
    windows_NSIK = x_NTI.unfold(1, packed.taps, 1)
    kept_S = torch.linspace(0, windows_NSIK.shape[1] - 1, PROBED_FRAMES).long()
    windows_NSKI = windows_NSIK[:, kept_S].mT
    expected_NSO = windows_NSKI.flatten(2) @ weight_OKI.flatten(1).T
    square_NSI = windows_NSKI.double().square().mean(2)
    size_NSO = (square_NSI @ torch.from_numpy(sizes.square_OI).T).sqrt()
    error_NSO = (found_NSO[:, kept_S] - expected_NSO).abs() / size_NSO.masked_fill(size_NSO == 0, torch.inf)
    more = 1.0 if packed.algorithm is None or packed.algorithm.halves is not None else TOOM_COOK
    return bool(error_NSO.max() <= more * BOUNDS[packed.weights])

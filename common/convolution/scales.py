"""What fixed point and bytes need of weights: input channels of one size, and a look at what they make of each layer.

Numbers of a filter share a unit. Where the weights of one channel are large and its values small, as folded batch
normalisation leaves them, the others would lose their digits, though the layer's function is the same as ever: powers
of two move from the weights into the input, which is exact. What that cannot mend, the probe finds.

Shapes: O filters, K taps, I channels, S output frames, N inputs of the probe, T frames of each.
"""

import torch
from torch import Tensor

from common.convolution import native
from common.convolution.native import Epilogue, PackedConvolution, Weights

ROUNDS = 4
PROBED_FRAMES = 2
MOST_BITS = 126  # powers of two that a float has, and its inverse
BOUNDS: dict[Weights, float] = {"float32": 6e-6, "fixed24": 6e-6, "bfloat16": 0.02, "int8": 0.07}
"""Greatest difference from the direct sum in float32, as a part of the root of the sum of squares of its products. Even
weights have about half of it. Toom-Cook's points, which lose digits whatever the weights are, may lose
TOOM_COOK times as many."""
TOOM_COOK = 4.0


class Sizes:
    """How large the weights of a layer are: of each filter and channel the root of the sum of their squares."""

    def __init__(self, weight_OKI: Tensor):
        self.square_OI = square_OI = torch.cat([part.double().square().sum(1) for part in weight_OKI.split(8)])
        inverse_I, inverse_O = torch.ones_like(square_OI[0]), torch.ones_like(square_OI[:, 0])
        for _ in range(ROUNDS):  # filters of one size give channels of one size, and the other way round
            inverse_O = _inverse(square_OI @ inverse_I)
            inverse_I = _inverse(inverse_O @ square_OI)
        self.channel_I, self.filter_O = _inverse(inverse_I).sqrt(), _inverse(inverse_O).sqrt()

    def powers(self) -> Tensor | None:
        """[I] powers of two, nearly as large as the weights of each channel; None if they are all about as large."""
        bits_I = (self.channel_I * _middle(self.filter_O)).log2().round()
        used_I = bits_I[bits_I.isfinite()]
        if not len(used_I) or (used_I.max() - used_I.min() <= 1 and used_I.abs().max() <= 64):
            return None
        return torch.where(bits_I.isfinite(), bits_I.clamp(-MOST_BITS, MOST_BITS).exp2(), 0.0).float()

    def inputs(self, frames: int) -> Tensor:
        """[N, T, I] noise: so loud that filters hear all channels alike; and so that none hears one more than most."""
        heard_OI = self.square_OI.sqrt() * _inverse(self.channel_I)
        loudest_I = (heard_OI * _inverse(heard_OI.median(1, keepdim=True).values)).amax(0)
        generator = torch.Generator().manual_seed(0)
        noise_NTI = torch.randn(2, frames, len(self.channel_I), generator=generator, dtype=torch.float64)
        noise_NTI *= _inverse(self.channel_I)
        noise_NTI[1] *= _inverse(loudest_I)
        return noise_NTI.float()


def is_exact_enough(packed: PackedConvolution, weight_OKI: Tensor, sizes: Sizes) -> bool:
    """Whether it gives noise of one block what the direct sum in float32 does, but for what its format rounds away."""
    assert packed.algorithm is not None or packed.weights == "int8", "what may be inexact"
    frames = packed.taps if packed.algorithm is None else packed.algorithm.block
    x_NTI = sizes.inputs(frames)
    found_NSO = x_NTI.new_empty(len(x_NTI), frames - packed.taps + 1, packed.filters)
    native.run(x_NTI, packed, Epilogue(), found_NSO)
    windows_NSIK = x_NTI.unfold(1, packed.taps, 1)
    kept_S = torch.linspace(0, windows_NSIK.shape[1] - 1, PROBED_FRAMES).long()
    windows_NSKI = windows_NSIK[:, kept_S].mT
    expected_NSO = windows_NSKI.flatten(2) @ weight_OKI.flatten(1).T
    square_NSI = windows_NSKI.double().square().mean(2)
    size_NSO = (square_NSI @ sizes.square_OI.T).sqrt()
    error_NSO = (found_NSO[:, kept_S] - expected_NSO).abs() * _inverse(size_NSO)
    more = 1.0 if packed.algorithm is None or packed.algorithm.halves is not None else TOOM_COOK
    return bool(error_NSO.max() <= more * BOUNDS[packed.weights])


def _inverse(values: Tensor) -> Tensor:
    """1 / value, and zero for zero."""
    return torch.where(values == 0, 0.0, 1 / values)


def _middle(values: Tensor) -> Tensor:
    used = values[values > 0]
    return used.median() if len(used) else values.new_ones(())

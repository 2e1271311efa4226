"""What fixed point and bytes need of weights: input channels of one size. Needs no torch.

Numbers of a filter share a unit. Where the weights of one channel are large and its values small, as folded batch
normalisation leaves them, the others would lose their digits, though the layer's function is the same as ever: powers
of two move from the weights into the input, which is exact. What that cannot mend, noise shows, beside the direct sum.

Shapes: H parts of the taps, O filters, I channels, N inputs of noise, T frames of each.
"""

import numpy as np

from common.convolution.library import Weights

ROUNDS = 4
MOST_BITS = 126  # powers of two that a float has, and its inverse
BOUNDS: dict[Weights, float] = {"float32": 6e-6, "fixed24": 6e-6, "bfloat16": 0.02, "int8": 0.07}
"""Greatest difference from the direct sum in float32, as a part of the root of the sum of squares of its products. Even
weights have about half of it."""


class Sizes:
    """How large the weights of a layer are: of each filter and channel the root of the sum of their squares."""

    def __init__(self, square_HOI: np.ndarray) -> None:
        """`square_HOI`: sums of squares of the weights, of some taps each, float64."""
        self.square_HOI = square_HOI
        square_OI = self.square_OI = square_HOI.sum(0)
        inverse_I, inverse_O = np.ones(square_OI.shape[1]), np.ones(square_OI.shape[0])
        for _ in range(ROUNDS):  # filters of one size give channels of one size, and the other way round
            inverse_O = inverse(square_OI @ inverse_I)
            inverse_I = inverse(inverse_O @ square_OI)
        self.channel_I, self.filter_O = np.sqrt(inverse(inverse_I)), np.sqrt(inverse(inverse_O))

    def powers(self) -> np.ndarray | None:
        """[I] powers of two, nearly as large as the weights of each channel; None if they are all about as large."""
        used_O = self.filter_O[self.filter_O > 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            bits_I = np.round(np.log2(self.channel_I * (np.median(used_O) if len(used_O) else 1.0)))
        used_I = bits_I[np.isfinite(bits_I)]
        if not len(used_I) or (np.ptp(used_I) <= 1 and np.abs(used_I).max() <= 64):
            return None
        powers_I = np.exp2(np.clip(np.nan_to_num(bits_I), -MOST_BITS, MOST_BITS))
        return np.where(np.isfinite(bits_I), powers_I, 0.0).astype(np.float32)

    def inputs(self, frames: int) -> np.ndarray:
        """[N, T, I] noise: so loud that filters hear all channels alike; and so that none hears one more than most."""
        heard_OI = np.sqrt(self.square_OI) * inverse(self.channel_I)
        loudest_I = (heard_OI * inverse(np.median(heard_OI, 1, keepdims=True))).max(0)
        noise_NTI = np.random.default_rng(0).standard_normal((2, frames, len(self.channel_I)))
        noise_NTI *= inverse(self.channel_I)
        noise_NTI[1] *= inverse(loudest_I)
        return noise_NTI.astype(np.float32)


def inverse(values: np.ndarray) -> np.ndarray:
    """1 / value, and zero for zero."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(values == 0, 0.0, 1 / values)

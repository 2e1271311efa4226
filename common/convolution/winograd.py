"""Convolution over time of sequences with channels last, fast on a CPU.

92 % of FastPitch's multiplications are convolutions with three taps. On a CPU they are trained by the minimal filtering
algorithm F(4, 3) (Winograd 1980; Lavin and Gray 2015, arXiv:1509.09308): six products of transformed values give four
outputs, instead of twelve. In float32 it is as accurate as the direct sum, because the tiles are one-dimensional. Where
products of matrices are slow (`products.has_fast_products`) that gains nothing, and the direct sum is taken.
Without gradients `FusedConvolution` takes over, packed for the processor.

Legend: B sequences, T positions, I and O channels in and out, N tiles of 4 outputs, P the 6 points of a tile, K taps.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from common.convolution import products
from common.convolution.operator import FusedConvolution, convolve, prepare
from common.convolution.weights.kept import Kept

OUTPUTS, POINTS = 4, 6
# The polynomial points are 0, 1, -1, 2, -2 and infinity.
_INPUT_PP = (
    (4.0, 0.0, -5.0, 0.0, 1.0, 0.0),
    (0.0, -4.0, -4.0, 1.0, 1.0, 0.0),
    (0.0, 4.0, -4.0, -1.0, 1.0, 0.0),
    (0.0, -2.0, -1.0, 2.0, 1.0, 0.0),
    (0.0, 2.0, -1.0, -2.0, 1.0, 0.0),
    (0.0, 4.0, 0.0, -5.0, 0.0, 1.0),
)
_WEIGHT_PK = (
    (1 / 4, 0.0, 0.0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0.0, 0.0, 1.0),
)
_OUTPUT_NP = (
    (1.0, 1.0, 1.0, 1.0, 1.0, 0.0),
    (0.0, 1.0, -1.0, 2.0, -2.0, 0.0),
    (0.0, 1.0, 1.0, 4.0, 4.0, 0.0),
    (0.0, 1.0, -1.0, 8.0, -8.0, 1.0),
)


class WinogradConvolution(nn.Module):
    """`nn.Conv1d` with an odd kernel and as many outputs as inputs, for [B, T, C]. Weights have the same names."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int):
        super().__init__()
        direct = nn.Conv1d(channels_in, channels_out, kernel)  # for its initial weights
        self.weight, self.bias = direct.weight, direct.bias
        self._kept: Kept[FusedConvolution] = Kept()

    def forward(self, x_BTI: Tensor) -> Tensor:
        """[B, T, O]; outside of x_BTI there are zeros."""
        assert self.bias is not None
        taps, is_wide = self.weight.shape[2], self.weight.shape[1] > 1
        if not (products.runs_eagerly(x_BTI) and is_wide and taps > 1):
            return F.conv1d(x_BTI.mT, self.weight, self.bias, padding=taps // 2).mT
        if torch.is_grad_enabled() and (x_BTI.requires_grad or self.weight.requires_grad):
            self._kept.forget()
            if taps == 3 and products.has_fast_products():
                return _Filtered.apply(x_BTI, self.weight, self.bias)
            return convolve(x_BTI, self.weight.transpose(1, 2), self.bias, padding=taps // 2)
        return self._fused()(x_BTI)

    def _fused(self) -> FusedConvolution:
        assert self.bias is not None
        return self._kept.of((self.weight, self.bias), self._prepared)

    def _prepared(self) -> FusedConvolution:
        fused = FusedConvolution(self.weight, self.bias)
        if not self.weight.is_inference():  # those are not kept
            prepare(fused)
        return fused


def transformed(weight_OIK: Tensor) -> Tensor:
    """[P, O, I] the weight at the points of the algorithm."""
    at_points = weight_OIK.new_tensor(_WEIGHT_PK) @ weight_OIK.flatten(0, 1).mT
    return at_points.view(POINTS, *weight_OIK.shape[:2])


def _points(x_BTI: Tensor) -> Tensor:
    """[BN, P, I] of the overlapping tiles of x_BTI, those of a sequence after one another."""
    tiles = -(-x_BTI.shape[1] // OUTPUTS)
    padded_BTI = F.pad(x_BTI, (0, 0, 1, tiles * OUTPUTS + 1 - x_BTI.shape[1]))
    tiles_BNPI = padded_BTI.unfold(1, POINTS, OUTPUTS).mT
    return torch.matmul(x_BTI.new_tensor(_INPUT_PP), tiles_BNPI).flatten(0, 1)


def _outputs(points_NPI: Tensor, weight_POI: Tensor, bias_O: Tensor, sequences: int, positions: int) -> Tensor:
    products_PNO = torch.bmm(points_NPI.transpose(0, 1), weight_POI.mT)
    y_NTO = torch.matmul(points_NPI.new_tensor(_OUTPUT_NP), products_PNO.transpose(0, 1)).add_(bias_O)
    return y_NTO.view(sequences, -1, len(bias_O))[:, :positions]


class _Filtered(torch.autograd.Function):
    """Three taps by F(4, 3), with a gradient that is computed at the points too: half of the multiplications again."""

    @staticmethod
    def forward(ctx: Any, x_BTI: Tensor, weight_OIK: Tensor, bias_O: Tensor) -> Tensor:
        """The convolution; keeps the points of the input, half as much again as the input."""
        points_NPI, weight_POI = _points(x_BTI), transformed(weight_OIK)
        ctx.save_for_backward(points_NPI, weight_POI)
        ctx.shape = x_BTI.shape[:2]
        return _outputs(points_NPI, weight_POI, bias_O, *ctx.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BTO: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """Gradients of the input (if wanted), the weight and the bias."""
        points_NPI, weight_POI = ctx.saved_tensors
        constant, (sequences, positions) = gradient_BTO.new_tensor, ctx.shape
        rest = -positions % OUTPUTS
        outputs_NTO = F.pad(gradient_BTO, (0, 0, 0, rest)).view(len(points_NPI), OUTPUTS, -1)
        products_PNO = torch.matmul(constant(_OUTPUT_NP).mT, outputs_NTO).transpose(0, 1)
        at_points_POI = torch.bmm(products_PNO.mT, points_NPI.transpose(0, 1))
        weight_gradient_KOI = (constant(_WEIGHT_PK).mT @ at_points_POI.flatten(1)).view(-1, *at_points_POI.shape[1:])
        weight_gradient_OIK = weight_gradient_KOI.permute(1, 2, 0)
        bias_gradient_O = gradient_BTO.sum((0, 1))
        if not ctx.needs_input_grad[0]:
            return None, weight_gradient_OIK, bias_gradient_O
        points_gradient_PNI = torch.bmm(products_PNO, weight_POI)
        tiles_NPI = torch.matmul(constant(_INPUT_PP).mT, points_gradient_PNI.transpose(0, 1))
        return _overlapped(tiles_NPI, sequences)[:, 1 : positions + 1], weight_gradient_OIK, bias_gradient_O


def _overlapped(tiles_NPI: Tensor, sequences: int) -> Tensor:
    """[B, 4N + 2, I] the sum of tiles of 6 positions, of which each begins 4 after the one before."""
    tiles_BNPI = tiles_NPI.view(sequences, -1, *tiles_NPI.shape[1:])
    heads_BNTI, tails_BNTI = tiles_BNPI[:, :, :OUTPUTS].contiguous(), tiles_BNPI[:, :, OUTPUTS:]
    heads_BNTI[:, 1:, : POINTS - OUTPUTS] += tails_BNTI[:, :-1]
    return torch.cat([heads_BNTI.flatten(1, 2), tails_BNTI[:, -1]], 1)

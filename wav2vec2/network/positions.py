"""Relative positions: a wide grouped convolution, in the frequency domain.

Shapes: B utterances, S frames, D width of the model, G groups of channels, E channels of a group, K taps, L frames of a
block, U blocks, F frequencies of a block.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution.weights.kept import Kept
from wav2vec2.network.config import ACTIVATIONS, ModelConfig


class PositionalConv(nn.Module):
    """Convolution with K taps, weight-normalised per tap (Salimans and Kingma 2016), and an activation.

    It is done by overlapping blocks ("overlap-save"): 128 taps over 499 frames of Base take 4.7 GFLOP directly, and
    less than a tenth of that so. In float32 if the network is in less.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.groups, self.kernel, self.activation = config.pos_groups, config.pos_kernel, config.conv_activation
        self.block = 2 ** math.ceil(math.log2(2 * config.pos_kernel))
        self.direction = nn.Parameter(torch.empty(config.dim, config.dim // config.pos_groups, config.pos_kernel))
        self.norm = nn.Parameter(torch.empty(1, 1, config.pos_kernel))
        self.bias = nn.Parameter(torch.zeros(config.dim))
        self.kept: Kept[Tensor] = Kept()
        nn.init.normal_(self.direction, std=math.sqrt(4 / (config.pos_kernel * config.dim)))
        if not self.direction.is_meta:
            with torch.no_grad():
                self.norm.copy_(self.direction.norm(dim=(0, 1), keepdim=True))

    def forward(self, x_BSD: Tensor) -> Tensor:
        """x_BSD -> the same shape: a frame sees kernel // 2 frames before it and the rest of the kernel after."""
        with torch.autocast(x_BSD.device.type, enabled=False):
            y_BSD = self._convolve(_at_least_float32(x_BSD)) + self.bias
            return ACTIVATIONS[self.activation](y_BSD).to(x_BSD.dtype)

    def train(self, mode: bool = True) -> "PositionalConv":
        """As ever, and forgets what was kept: where parameters are swapped or gathered, they do not tell of changes."""
        self.kept.forget()
        return super().train(mode)

    def weight(self) -> Tensor:
        """The taps [D, E, K], in float32 at least."""
        # What torch.nn.utils.weight_norm computes: one pass over memory, where the formula and its gradient take ten.
        return torch._weight_norm(_at_least_float32(self.direction), _at_least_float32(self.norm), 2)

    def _convolve(self, x_BSD: Tensor) -> Tensor:
        n_utterances, n_frames, width = x_BSD.shape
        new = self.block - self.kernel + 1  # frames that a block adds to those before it
        n_blocks = -(-n_frames // new)
        before, after = self.kernel // 2, (self.kernel - 1) // 2
        padded_BSD = F.pad(x_BSD, (0, 0, before, n_blocks * new - n_frames + after))
        spectrum_BUDF = rfft(padded_BSD.unfold(1, self.block, new), self.block)
        spectrum_FGUE = spectrum_BUDF.view(n_utterances * n_blocks, self.groups, -1, self.block // 2 + 1).permute(
            3, 1, 0, 2
        )
        spectrum_FGUE = torch.matmul(spectrum_FGUE, self._response())
        spectrum_UDF = spectrum_FGUE.permute(2, 1, 3, 0).reshape(n_utterances * n_blocks, width, -1)
        y_UDL = torch.fft.irfft(spectrum_UDF, n=self.block)[:, :, :new]  # the taps of the rest are around the corner
        return y_UDL.transpose(1, 2).reshape(n_utterances, n_blocks * new, width)[:, :n_frames]

    def _response(self) -> Tensor:
        """The taps' spectrum [F, G, E in, E out], conjugate since they are not reversed.

        It costs more than its use: inference keeps it while it is valid.
        """
        if torch.is_grad_enabled():
            self.kept.forget()  # fused optimisers do not count up the version of what they change
            return self._spectrum()
        return self.kept.of((self.direction, self.norm), self._spectrum)

    def _spectrum(self) -> Tensor:
        weight_GEIK = self.weight().unflatten(0, (self.groups, -1))
        return rfft(weight_GEIK, self.block).permute(3, 0, 2, 1).conj().contiguous()


class StackedPositions(nn.Module):
    """Convolutions one after the other, each with plain layer normalisation and an activation (data2vec)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        kernel, dim, self.activation = config.pos_kernel, config.dim, config.conv_activation
        self.layers = nn.ModuleList(
            nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=config.pos_groups) for _ in range(config.pos_layers)
        )

    def forward(self, x_BSD: Tensor, mask_BS1: Tensor | None) -> Tensor:
        """x_BSD -> the same shape; frames that mask_BS1 leaves out are 0 before every convolution."""
        for layer in self.layers:
            if mask_BS1 is not None:
                x_BSD = torch.where(mask_BS1, x_BSD, 0.0)
            x_BSD = layer(x_BSD.mT).mT[:, : x_BSD.shape[1]]
            x_BSD = ACTIVATIONS[self.activation](F.layer_norm(x_BSD, x_BSD.shape[2:]))
        return x_BSD


def _at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def rfft(x: Tensor, n: int) -> Tensor:
    """The spectrum of the last dimension of real `x`, filled up with zeros to an even `n`."""
    return cast("Tensor", RealFourier.apply(x, n))


class RealFourier(torch.autograd.Function):
    """torch.fft.rfft with a backward pass that is real too: torch's own takes four times as long."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, n: int) -> Tensor:
        """The spectrum."""
        ctx.length, ctx.n = x.shape[-1], n
        return torch.fft.rfft(x, n=n)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """The inverse transform counts all but the first and the last frequency twice, since they stand for two."""
        grad = grads[0].clone(memory_format=torch.contiguous_format)
        grad[..., 0] *= 2
        grad[..., -1] *= 2
        return torch.fft.irfft(grad, n=ctx.n, norm="forward")[..., : ctx.length] / 2, None

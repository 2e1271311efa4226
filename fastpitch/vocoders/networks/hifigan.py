"""The generator of HiFi-GAN: "HiFi-GAN: Generative Adversarial Networks for Efficient and High Fidelity Speech
Synthesis" (Kong, Kim, Bae 2020).

Shapes: B utterances, M mel bins, T frames, C channels, L samples at the rate of a stage, N samples of audio.
"""

import math

from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from common.lengths import inside
from fastpitch.vocoders.networks.config import HifiganConfig

SLOPE = 0.1  # of the leaky ReLUs
LAST_SLOPE = 0.01  # of the one before the last convolution
INIT_DEVIATION = 0.01  # of the weights


class HifiganGenerator(nn.Module):
    """Log-mel frames [B, M, T] to audio [B, T hop] in (-1, 1).

    Stages of a transposed convolution and the mean of residual blocks of several widths. `normalized` is for training:
    convolutions have weight normalisation, which `fastpitch.vocoders.networks.weight_norm` folds into plain weights.
    """

    def __init__(self, cfg: HifiganConfig, mel_bins: int, *, normalized: bool = False):
        super().__init__()
        self.cfg, self.hop_samples = cfg, cfg.hop_samples
        widths = [cfg.channels >> stage for stage in range(len(cfg.upsample_rates) + 1)]
        self.conv_pre = _convolution(mel_bins, widths[0], 7)
        self.ups = nn.ModuleList(
            nn.ConvTranspose1d(wide, narrow, kernel, rate, padding=(kernel - rate) // 2)
            for wide, narrow, kernel, rate in zip(
                widths, widths[1:], cfg.upsample_kernels, cfg.upsample_rates, strict=False
            )
        )
        self.resblocks = nn.ModuleList(
            MeanOfBlocks(
                ResBlock(width, kernel, dilations, is_paired=cfg.resblock == "1")
                for kernel, dilations in zip(cfg.resblock_kernels, cfg.resblock_dilations, strict=True)
            )
            for width in widths[1:]
        )
        self.conv_post = _convolution(widths[-1], 1, 7)
        self._initialize(normalized)

    def forward(self, mel_BMT: Tensor, frames_B: Tensor | None = None) -> Tensor:
        """Audio [B, T hop]. An utterance of `frames_B[b]` frames is the same in every batch, zero beyond its end."""
        inside_B1L = own_places(mel_BMT, frames_B)
        x_BCL = self.conv_pre(masked(mel_BMT, inside_B1L))
        rate = 1
        for up, blocks, factor in zip(self.ups, self.resblocks, self.cfg.upsample_rates, strict=True):
            x_BCL = up(masked(F.leaky_relu(x_BCL, SLOPE), inside_B1L))
            rate *= factor
            inside_B1L = own_places(x_BCL, frames_B, rate)  # once for the dozens of convolutions of a stage
            x_BCL = blocks(x_BCL, inside_B1L)
        audio_B1N = self.conv_post(masked(F.leaky_relu(x_BCL, LAST_SLOPE), inside_B1L)).tanh()
        return masked(audio_B1N, inside_B1L).squeeze(1)

    @property
    def context_frames(self) -> int:
        """Frames on either side of its own that a sample of audio depends on: 13 in V1."""
        cfg, rate = self.cfg, self.hop_samples
        reach = 3.0  # samples of the stage, here of audio: conv_post
        for up, factor in zip(reversed(cfg.upsample_kernels), reversed(cfg.upsample_rates), strict=True):
            reach = (reach + self._block_reach() + (up - factor) / 2) / factor
            rate //= factor
        return math.ceil(reach + 3)

    def _block_reach(self) -> int:
        spans = zip(self.cfg.resblock_kernels, self.cfg.resblock_dilations, strict=True)
        paired = self.cfg.resblock == "1"
        return max(sum((kernel - 1) // 2 * (d + paired) for d in dilations) for kernel, dilations in spans)

    def _initialize(self, normalized: bool) -> None:
        for name, module in self.named_modules():
            if isinstance(module, nn.Conv1d | nn.ConvTranspose1d):
                if name != "conv_pre":
                    nn.init.normal_(module.weight, 0.0, INIT_DEVIATION)
                if normalized:
                    weight_norm(module)


class MeanOfBlocks(nn.ModuleList):
    """The mean of what several blocks make of the same input: "multi-receptive field fusion"."""

    def forward(self, x_BCL: Tensor, inside_B1L: Tensor | None) -> Tensor:
        """The mean, of the shape of `x_BCL`."""
        first, *others = self
        total_BCL = first(x_BCL, inside_B1L)
        for block in others:
            total_BCL += block(x_BCL, inside_B1L)
        return total_BCL / len(self)


class ResBlock(nn.Module):
    """Residual branches of dilated convolutions, one after the other, each over the sum so far."""

    def __init__(self, channels: int, kernel: int, dilations: tuple[int, ...], *, is_paired: bool):
        super().__init__()
        self.convs1 = nn.ModuleList(_convolution(channels, channels, kernel, dilation) for dilation in dilations)
        self.convs2 = nn.ModuleList(
            _convolution(channels, channels, kernel) if is_paired else nn.Identity() for _ in dilations
        )

    def forward(self, x_BCL: Tensor, inside_B1L: Tensor | None) -> Tensor:
        """x + branch(x) for every branch."""
        for dilated, plain in zip(self.convs1, self.convs2, strict=True):
            y_BCL = dilated(masked(F.leaky_relu(x_BCL, SLOPE), inside_B1L))
            if isinstance(plain, nn.Conv1d):
                y_BCL = plain(masked(F.leaky_relu(y_BCL, SLOPE), inside_B1L))
            x_BCL = x_BCL + y_BCL
        return x_BCL


def own_places(x_BCL: Tensor, frames_B: Tensor | None, rate: int = 1) -> Tensor | None:
    """[B, 1, L] in the type of `x_BCL`: 1 for the first frames_B * rate, then 0; None where all of them count."""
    if frames_B is None:
        return None
    return inside(frames_B * rate, x_BCL.shape[-1]).to(x_BCL.dtype).unsqueeze(1)


def masked(x_BCL: Tensor, inside_B1L: Tensor | None) -> Tensor:
    """`x_BCL` with zeros where `inside_B1L` is: what a convolution would see there if the utterance were alone."""
    return x_BCL if inside_B1L is None else x_BCL * inside_B1L


def _convolution(channels_in: int, channels_out: int, kernel: int, dilation: int = 1) -> nn.Conv1d:
    return nn.Conv1d(channels_in, channels_out, kernel, dilation=dilation, padding=(kernel - 1) // 2 * dilation)

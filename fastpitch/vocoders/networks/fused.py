"""HiFi-GAN's generator for inference on a CPU: the same sums, from another layout in memory.

Channels lie next to each other ("channels last"), which the convolutions of oneDNN want: given time next to time they
rearrange every input and output. What is not needed any more is overwritten. Against the plain generator with folded
weights this takes about two thirds of the time (`python -m fastpitch.vocoders.benchmark`).

Shapes: B utterances, M mel bins, T frames, C channels, L samples at the rate of a stage, N samples of audio.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fastpitch.vocoders.networks.hifigan import LAST_SLOPE, SLOPE, HifiganGenerator, MeanOfBlocks, ResBlock


class FusedHifigan(nn.Module):
    """As the `HifiganGenerator` whose weights it copies; without gradients."""

    def __init__(self, generator: HifiganGenerator):
        super().__init__()
        self.cfg, self.hop_samples, self.context_frames = generator.cfg, generator.hop_samples, generator.context_frames
        self.conv_pre, self.conv_post = _two_dimensional(generator.conv_pre), _two_dimensional(generator.conv_post)
        self.ups = nn.ModuleList(_two_dimensional(up) for up in generator.ups)  # type: ignore[arg-type]
        self.resblocks = nn.ModuleList(MeanOfFusedBlocks(blocks) for blocks in generator.resblocks)  # type: ignore[arg-type]

    @torch.inference_mode()
    def forward(self, mel_BMT: Tensor, frames_B: Tensor | None = None) -> Tensor:
        """As `HifiganGenerator`'s."""
        mel_BM1T = mel_BMT[:, :, None].clone(memory_format=torch.channels_last)
        x_BC1L = self.conv_pre(masked_(mel_BM1T, frames_B, 1))
        rate = 1
        for up, blocks, factor in zip(self.ups, self.resblocks, self.cfg.upsample_rates, strict=True):
            x_BC1L = up(masked_(F.leaky_relu_(x_BC1L, SLOPE), frames_B, rate))
            rate *= factor
            x_BC1L = blocks(x_BC1L, frames_B, rate)
        audio_B11N = self.conv_post(masked_(F.leaky_relu_(x_BC1L, LAST_SLOPE), frames_B, rate)).tanh_()
        return masked_(audio_B11N, frames_B, rate)[:, 0, 0]


class MeanOfFusedBlocks(nn.ModuleList):
    """As the `MeanOfBlocks` whose weights it copies."""

    def __init__(self, blocks: MeanOfBlocks):
        super().__init__(FusedBlock(block) for block in blocks)  # type: ignore[arg-type]

    def forward(self, x_BC1L: Tensor, frames_B: Tensor | None, rate: int) -> Tensor:
        """As `MeanOfBlocks`'s; `x_BC1L` is left as it is."""
        first, *others = self
        total_BC1L = first(x_BC1L, frames_B, rate)
        for block in others:
            total_BC1L += block(x_BC1L, frames_B, rate)
        return total_BC1L.div_(len(self))


class FusedBlock(nn.Module):
    """As the `ResBlock` whose weights it copies."""

    def __init__(self, block: ResBlock):
        super().__init__()
        self.convs1 = nn.ModuleList(_two_dimensional(conv) for conv in block.convs1)  # type: ignore[arg-type]
        self.convs2 = nn.ModuleList(
            _two_dimensional(conv) if isinstance(conv, nn.Conv1d) else conv for conv in block.convs2
        )

    def forward(self, x_BC1L: Tensor, frames_B: Tensor | None, rate: int) -> Tensor:
        """As `ResBlock`'s; `x_BC1L` is left as it is."""
        for dilated, plain in zip(self.convs1, self.convs2, strict=True):
            y_BC1L = dilated(masked_(F.leaky_relu(x_BC1L, SLOPE), frames_B, rate))
            if isinstance(plain, nn.Conv2d):
                y_BC1L = plain(masked_(F.leaky_relu_(y_BC1L, SLOPE), frames_B, rate))
            x_BC1L = y_BC1L.add_(x_BC1L)
        return x_BC1L


def masked_(x_BC1L: Tensor, frames_B: Tensor | None, rate: int) -> Tensor:
    """`x_BC1L` itself, with zeros beyond frames_B * rate."""
    if frames_B is not None:
        for row, frames in zip(x_BC1L, frames_B.tolist(), strict=True):
            row[:, :, frames * rate :] = 0
    return x_BC1L


def _two_dimensional(conv: nn.Conv1d | nn.ConvTranspose1d) -> nn.Conv2d | nn.ConvTranspose2d:
    """The convolution over rows of an image one row high: in two dimensions torch knows the layout."""
    kind = nn.Conv2d if isinstance(conv, nn.Conv1d) else nn.ConvTranspose2d
    flat = kind(
        conv.in_channels, conv.out_channels, (1, conv.kernel_size[0]), stride=(1, conv.stride[0]),
        padding=(0, int(conv.padding[0])), dilation=(1, conv.dilation[0]),
    )  # fmt: skip
    assert flat.bias is not None
    assert conv.bias is not None
    flat.weight.data = conv.weight.data[:, :, None].clone(memory_format=torch.channels_last)
    flat.bias.data = conv.bias.data
    return flat

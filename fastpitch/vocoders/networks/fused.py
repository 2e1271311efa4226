"""HiFi-GAN's generator for inference on a CPU: the same sums, by fewer multiplications.

Time before channels, as `common.convolution` wants it, which `cast_for_inference` makes ready for the processor.
Activations, residuals and bias are done where a convolution reads and writes, and intermediate values are written over
each other in a few buffers. A transposed convolution is a plain one to all of its phases. The mean over blocks is a
sum, divided in the weights of the layer after it: leaky ReLUs let a factor through.

Shapes: B utterances, M mel bins, T frames, C channels, L samples at the rate of a stage, N samples of audio.
"""

import torch
from torch import Tensor, nn

from common.convolution import native
from common.convolution.native import workspace
from common.convolution.operator import FusedConvolution, Lengths
from common.lengths import inside
from fastpitch.vocoders.networks.hifigan import LAST_SLOPE, SLOPE, HifiganGenerator, MeanOfBlocks, ResBlock

FRAMES = 160  # of a call that algorithms are chosen for: two seconds


def is_faster_fused(generator: HifiganGenerator) -> bool:
    """Whether `FusedHifigan` is: the kernels work on 32 channels at once, which the narrow layers of V2 do not have."""
    return generator.cfg.channels >> len(generator.cfg.upsample_rates) >= native.PANEL


class FusedHifigan(nn.Module):
    """As the `HifiganGenerator` whose weights it copies; without gradients."""

    def __init__(self, generator: HifiganGenerator):
        super().__init__()
        self.cfg, self.hop_samples, self.context_frames = generator.cfg, generator.hop_samples, generator.context_frames
        self.conv_pre = _convolution(generator.conv_pre, FRAMES)
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        frames, scale = FRAMES, 1.0
        for up, blocks, factor in zip(generator.ups, generator.resblocks, self.cfg.upsample_rates, strict=True):
            assert isinstance(up, nn.ConvTranspose1d)
            assert isinstance(blocks, MeanOfBlocks)
            self.ups.append(Upsampling(up, frames, scale))
            frames, scale = frames * factor, 1 / len(blocks)
            self.resblocks.append(SumOfFusedBlocks(blocks, frames))
        self.conv_post = _convolution(generator.conv_post, frames, scale)

    @torch.inference_mode()
    def forward(self, mel_BMT: Tensor, frames_B: Tensor | None = None) -> Tensor:
        """As `HifiganGenerator`'s."""
        x_BTM = mel_BMT.mT.to(self.conv_pre.weight_OKI.dtype).clone(memory_format=torch.contiguous_format)
        x_BLC = self.conv_pre(masked_(x_BTM, frames_B, 1), _lengths(x_BTM, frames_B, 1))
        rate = 1
        for up, blocks, factor in zip(self.ups, self.resblocks, self.cfg.upsample_rates, strict=True):
            rate *= factor
            x_BLC = masked_(up(x_BLC), frames_B, rate)
            x_BLC = blocks(x_BLC, _lengths(x_BLC, frames_B, rate))
        audio_BN1 = self.conv_post(x_BLC, _lengths(x_BLC, frames_B, rate), input_slope=LAST_SLOPE)
        return audio_BN1.squeeze(2).tanh_()


class Upsampling(nn.Module):
    """As the transposed convolution whose weights it copies, after a leaky ReLU.

    All samples between a frame and the next, `factor` of them, are filters of one convolution over the frames that
    reach there.
    """

    def __init__(self, up: nn.ConvTranspose1d, frames: int, scale: float):
        super().__init__()
        self.factor, self.padding = up.stride[0], int(up.padding[0])
        taps = -(-up.kernel_size[0] // self.factor)
        filled_IOK = nn.functional.pad(up.weight.detach(), (0, taps * self.factor - up.kernel_size[0]))
        by_phase_FOIK = filled_IOK.unflatten(2, (taps, self.factor)).flip(2).permute(3, 1, 0, 2) * scale
        assert up.bias is not None
        self.conv = FusedConvolution(
            by_phase_FOIK.flatten(0, 1), up.bias.detach().repeat(self.factor),
            before=taps - 1, after=taps - 1, frames=frames,
        )  # fmt: skip

    def forward(self, x_BTC: Tensor) -> Tensor:
        """[B, T factor, C], overwritten by the next call of this layer."""
        batch, frames, _ = x_BTC.shape
        outputs, filters = self.conv.outputs(frames), self.conv.shape.filters
        out_BSO = workspace(x_BTC, "upsampled", batch, outputs, filters)
        y_BSO = self.conv(x_BTC, input_slope=SLOPE, out_BSO=out_BSO)
        y_BLC = y_BSO.view(batch, outputs * self.factor, -1)
        return y_BLC[:, self.padding : self.padding + frames * self.factor]


class SumOfFusedBlocks(nn.ModuleList):
    """As the `MeanOfBlocks` whose weights it copies, but for the division."""

    def __init__(self, blocks: MeanOfBlocks, frames: int):
        super().__init__(FusedResBlock(block, frames) for block in blocks)  # type: ignore[arg-type]

    def forward(self, x_BLC: Tensor, lengths: Lengths | None) -> Tensor:
        """The sum, overwritten by the next call of a stage with as many channels; `x_BLC` is left as it is."""
        first, *others = self
        total_BLC = first(x_BLC, lengths, workspace(x_BLC, "total", *x_BLC.shape))
        for block in others:
            total_BLC += block(x_BLC, lengths, workspace(x_BLC, "branch", *x_BLC.shape))
        return total_BLC


class FusedResBlock(nn.Module):
    """As the `ResBlock` whose weights it copies."""

    def __init__(self, block: ResBlock, frames: int):
        super().__init__()
        self.convs1 = nn.ModuleList(_convolution(conv, frames) for conv in block.convs1)
        self.convs2 = nn.ModuleList(_convolution(conv, frames) for conv in block.convs2 if isinstance(conv, nn.Conv1d))

    def forward(self, x_BLC: Tensor, lengths: Lengths | None, out_BLC: Tensor) -> Tensor:
        """As `ResBlock`'s, written to `out_BLC`; `x_BLC` is left as it is."""
        between_BLC = workspace(x_BLC, "between", *x_BLC.shape)
        for i, dilated in enumerate(self.convs1):
            if self.convs2:
                y_BLC = dilated(
                    x_BLC, lengths, input_slope=SLOPE, activation="leaky_relu", slope=SLOPE, out_BSO=between_BLC
                )
                x_BLC = self.convs2[i](y_BLC, lengths, residual_BSO=x_BLC, out_BSO=out_BLC)
            else:  # what is read may not be written over at once
                y_BLC = dilated(x_BLC, lengths, input_slope=SLOPE, residual_BSO=x_BLC, out_BSO=between_BLC)
                x_BLC = out_BLC.copy_(y_BLC)
        return x_BLC


def masked_(x_BLC: Tensor, frames_B: Tensor | None, rate: int) -> Tensor:
    """`x_BLC` itself, with zeros beyond frames_B * rate."""
    if frames_B is not None:
        for row_LC, frames in zip(x_BLC, frames_B.tolist(), strict=True):
            row_LC[frames * rate :] = 0
    return x_BLC


def _lengths(x_BLC: Tensor, frames_B: Tensor | None, rate: int) -> Lengths | None:
    if frames_B is None:
        return None
    return Lengths(frames_B.long() * rate, inside(frames_B * rate, x_BLC.shape[1]).to(x_BLC.dtype).unsqueeze(2))


def _convolution(conv: nn.Module, frames: int, scale: float = 1.0) -> FusedConvolution:
    assert isinstance(conv, nn.Conv1d)
    return FusedConvolution(conv.weight.detach() * scale, conv.bias, dilation=conv.dilation[0], frames=frames)

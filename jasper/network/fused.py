"""The same network for inference only: fewer and larger operations, frames before channels in memory.

Batch normalisation is folded into the convolutions. The 1x1 convolutions of a block's residuals, up to ten, become one
matrix product with one buffer, into which the input of every dense block is written once. Bias, residual, activation
and mask are done as a convolution's sums leave the registers.

With the channels of a frame side by side, a convolution on a CPU is matrix products, a depthwise one is vectorised
over channels, and cuDNN reads half-precision tensors as they are instead of transposing them first. On a CPU
`cast_for_inference` has the convolutions done with a fraction of the multiplications (`common.convolution`).

Shapes: B utterances, F mel bands, T feature frames, S output frames, C channels, D channels of all dense residuals so
far, K taps, I and O input and output channels, V labels and the blank.
"""

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution.native import Activation
from common.convolution.operator import FusedConvolution, Lengths, convolve
from common.lengths import inside
from jasper.network.model import ConvNorm, Frames, Jasper, JasperBlock, JasperOutput, clipped_relu

FRAMES = 836  # feature frames of a call that algorithms are chosen for: 8.4 seconds

ACTIVATIONS: dict[Callable[[Tensor], Tensor], tuple[Activation, float]] = {
    F.relu: ("leaky_relu", 0.0),
    clipped_relu: ("clipped_relu", 20.0),
    F.selu: ("identity", 0.0),  # which is done afterwards
}


def fuse(model: Jasper, *, frames: int = FRAMES) -> "FusedJasper":
    """`model` for inference, on its device and in its precision; cast it afterwards: folding is exact in float32 only.

    Takes the same arguments and gives the same result as `model` in evaluation mode. The weights are copies. `frames`
    is how many feature frames a call has, utterances together, that it shall be fastest for.
    """
    return FusedJasper(model, frames).to(model.decoder.weight.dtype).eval().requires_grad_(False)


class FusedJasper(nn.Module):
    """What `fuse` makes of a Jasper or QuartzNet model."""

    def __init__(self, model: Jasper, frames: int):
        super().__init__()
        self.stride, self.context_frames = model.stride, model.context_frames
        blocks: list[FusedJasperBlock] = []
        for block in model.blocks:
            assert isinstance(block, JasperBlock)
            frames = block.output_frames(frames)
            blocks.append(FusedJasperBlock(block, frames))
        self.blocks = nn.ModuleList(blocks)
        self.dense_channels = max(block.residual_channels for block in blocks)
        self.decoder = FusedConvolution(model.decoder.weight, model.decoder.bias, frames=frames)

    def forward(self, features_BFT: Tensor, frames_B: Tensor) -> JasperOutput:
        """features_BFT with frames_B valid frames each; frames beyond are ignored."""
        features_BFT = features_BFT.to(self.decoder.weight_OKI.dtype)
        lengths = _lengths(frames_B, features_BFT.shape[2], features_BFT.dtype)
        x_BTC = (features_BFT.transpose(1, 2) * lengths.mask_BS1).contiguous()
        dense_BSD: Tensor | None = None
        written = 0  # channels of dense_BSD
        for block in cast("list[FusedJasperBlock]", list(self.blocks)):
            if block.stride > 1:
                frames_B = block.output_frames(lengths.frames_B)
                lengths = _lengths(frames_B, block.output_frames(x_BTC.shape[1]), x_BTC.dtype)
            residual_BTD = x_BTC
            if block.residual_kind == "dense":
                if dense_BSD is None:
                    dense_BSD = x_BTC.new_empty(*x_BTC.shape[:2], self.dense_channels)
                dense_BSD[..., written : block.residual_channels] = x_BTC
                written = block.residual_channels
                residual_BTD = dense_BSD[..., :written]
            x_BTC = block(x_BTC, residual_BTD, lengths)
        return JasperOutput(F.log_softmax(self.decoder(x_BTC).float(), dim=-1), lengths.frames_B)


class FusedJasperBlock(nn.Module):
    """Sub-blocks in a row; all residuals together are one matrix product, added before the last activation."""

    def __init__(self, block: JasperBlock, frames: int):
        super().__init__()
        self.stride, self.residual_kind = block.stride, block.residual
        self.is_selu = block.activation is F.selu
        self.activation, self.slope = ACTIVATIONS[block.activation]
        layers = [layer for layer in block.layers if isinstance(layer, ConvNorm)]
        residuals = [_folded(residual) for residual in block.residuals if isinstance(residual, ConvNorm)]
        folded = [_folded(layer) for layer in layers]
        self.depthwise = nn.ModuleList(Depthwise(layer.depthwise) for layer in layers if layer.depthwise is not None)
        self.layers = nn.ModuleList(
            FusedConvolution(
                f.weight_OIK, f.bias_O.float(),
                stride=layer.conv.stride[0], dilation=layer.conv.dilation[0], frames=frames,
            )
            for layer, f in zip(layers, folded, strict=True)
        )  # fmt: skip
        self.residual: FusedConvolution | None = None
        if residuals:
            weight_OD1 = torch.cat([residual.weight_OIK for residual in residuals], dim=1)
            bias_O = torch.stack([residual.bias_O for residual in residuals]).sum(0).float()
            self.residual = FusedConvolution(weight_OD1, bias_O, frames=frames)

    @property
    def residual_channels(self) -> int:
        """How many channels the residual matrix product reads."""
        return 0 if self.residual is None else self.residual.shape.channels

    def output_frames(self, frames: Frames) -> Frames:
        """How many frames come out of `frames`."""
        return (frames + self.stride - 1) // self.stride

    def forward(self, x_BTC: Tensor, residual_BTD: Tensor, lengths: Lengths) -> Tensor:
        """As Block.forward; residual_BTD holds what the residuals read, side by side."""
        for i, layer in enumerate(self.layers):
            if self.depthwise:
                x_BTC = self.depthwise[i](x_BTC)
            added_BSO = None
            if i == len(self.layers) - 1 and self.residual is not None:
                added_BSO = self.residual(residual_BTD)
            x_BTC = layer(x_BTC, lengths, residual_BSO=added_BSO, activation=self.activation, slope=self.slope)
            if self.is_selu:
                x_BTC = torch.selu_(x_BTC)  # of 0 is 0
        return x_BTC


class Depthwise(nn.Module):
    """A convolution of every channel by itself, "same" padding."""

    def __init__(self, conv: nn.Conv1d):
        super().__init__()
        self.stride, self.dilation = conv.stride[0], conv.dilation[0]
        self.padding = conv.kernel_size[0] // 2 * conv.dilation[0]
        self.weight_OK1 = nn.Parameter(conv.weight.detach().transpose(1, 2).contiguous())

    def forward(self, x_BTC: Tensor) -> Tensor:
        """x_BTC -> contiguous [B, S, C]."""
        return convolve(
            x_BTC, self.weight_OK1, None,
            stride=self.stride, dilation=self.dilation, padding=self.padding, groups=len(self.weight_OK1),
        )  # fmt: skip


class FoldedConvolution(NamedTuple):
    """Convolution and normalisation as one convolution: in float64, the weights rounded once, to float32."""

    weight_OIK: Tensor
    bias_O: Tensor


def _folded(layer: ConvNorm) -> FoldedConvolution:
    """y = gamma (W x - mean) / sqrt(variance + eps) + beta as one product and one sum."""
    norm = layer.norm
    statistics = cast("tuple[Tensor, Tensor]", (norm.running_mean, norm.running_var))
    gamma, beta, mean, variance = (t.detach().double() for t in (norm.weight, norm.bias, *statistics))
    scale_O = gamma * (variance + norm.eps).rsqrt()
    parts = zip(layer.conv.weight.detach().split(16), scale_O.split(16), strict=True)  # which stay in a cache
    weight_OIK = torch.cat([(part_OIK.double() * part_O[:, None, None]).float() for part_OIK, part_O in parts])
    return FoldedConvolution(weight_OIK, beta - mean * scale_O)


def _lengths(frames_B: Tensor, n_frames: int, dtype: torch.dtype) -> Lengths:
    """The first frames_B of n_frames frames of each utterance."""
    return Lengths(frames_B.long(), inside(frames_B, n_frames).to(dtype).unsqueeze(2))

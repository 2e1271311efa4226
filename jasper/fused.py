"""The same network for inference only: fewer and larger operations, frames before channels in memory.

Batch normalisation is folded into the convolutions. The 1x1 convolutions of a block's residuals, up to ten, become one
matrix product with one buffer, into which the input of every dense block is written once. Activations work in place.

With the channels of a frame side by side, a convolution on a CPU is one matrix product, a depthwise one is vectorised
over channels, and cuDNN reads half-precision tensors as they are instead of transposing them first.

Shapes: B utterances, F mel bands, T feature frames, S output frames, C channels, D channels of all dense residuals so
far, K taps, I and O input and output channels, V labels and the blank.
"""

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jasper.model import Block, ConvNorm, Frames, Jasper, Output, clipped_relu

# Values of the matrix of windows that a convolution on a CPU multiplies at once; of 2**20 to 2**24 the fastest, and
# it bounds memory: all windows of a minute in the widest block would be 230 MB.
STRETCH = 2**23

IN_PLACE: dict[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]] = {
    F.relu: torch.relu_,
    F.selu: torch.selu_,
    clipped_relu: lambda x: x.clamp_(0.0, 20.0),
}


def fuse(model: Jasper) -> "FusedJasper":
    """`model` for inference, on its device and in its precision; cast it afterwards: folding is exact in float32 only.

    Takes the same arguments and gives the same result as `model` in evaluation mode. The weights are copies.
    """
    return FusedJasper(model).to(model.decoder.weight.dtype).eval().requires_grad_(False)


class FusedJasper(nn.Module):
    """What `fuse` makes of a Jasper or QuartzNet model."""

    def __init__(self, model: Jasper):
        super().__init__()
        self.stride, self.context_frames = model.stride, model.context_frames
        blocks = [FusedBlock(block) for block in model.blocks if isinstance(block, Block)]
        self.blocks = nn.ModuleList(blocks)
        self.dense_channels = max(block.residual_channels for block in blocks)
        assert model.decoder.bias is not None
        self.decoder = FusedConv(model.decoder, Folded(model.decoder.weight.detach(), model.decoder.bias.detach()))

    def forward(self, features_BFT: Tensor, frames_B: Tensor) -> Output:
        """features_BFT with frames_B valid frames each; frames beyond are ignored."""
        features_BFT = features_BFT.to(self.decoder.weight_OKI.dtype)
        mask_BT1 = _mask(frames_B, features_BFT.shape[2], features_BFT.dtype)
        x_BTC = (features_BFT.transpose(1, 2) * mask_BT1).contiguous()
        dense_BSD: Tensor | None = None
        written = 0  # channels of dense_BSD
        for block in cast("list[FusedBlock]", list(self.blocks)):
            if block.stride > 1:
                frames_B = block.output_frames(frames_B)
                mask_BT1 = _mask(frames_B, block.output_frames(x_BTC.shape[1]), x_BTC.dtype)
            residual_BTD = x_BTC
            if block.residual == "dense":
                if dense_BSD is None:
                    dense_BSD = x_BTC.new_empty(*x_BTC.shape[:2], self.dense_channels)
                dense_BSD[..., written : block.residual_channels] = x_BTC
                written = block.residual_channels
                residual_BTD = dense_BSD[..., :written]
            x_BTC = block(x_BTC, residual_BTD, mask_BT1)
        return Output(F.log_softmax(self.decoder(x_BTC).float(), dim=-1), frames_B)


class FusedBlock(nn.Module):
    """Sub-blocks in a row; all residuals together are one matrix product, added before the last activation."""

    def __init__(self, block: Block):
        super().__init__()
        self.stride, self.residual = block.stride, block.residual
        self.activate_ = IN_PLACE[block.activation]
        layers = [layer for layer in block.layers if isinstance(layer, ConvNorm)]
        residuals = [_folded(residual) for residual in block.residuals if isinstance(residual, ConvNorm)]
        folded = [_folded(layer) for layer in layers]
        for residual in residuals:
            folded[-1].bias_O.add_(residual.bias_O)
        self.depthwise = nn.ModuleList(FusedConv(layer.depthwise) for layer in layers if layer.depthwise is not None)
        self.layers = nn.ModuleList(FusedConv(layer.conv, f) for layer, f in zip(layers, folded, strict=True))
        self.residual_DO: nn.Parameter | None = None
        if residuals:
            weight_OD = torch.cat([residual.weight_OIK for residual in residuals], dim=1).squeeze(2)
            self.residual_DO = nn.Parameter(weight_OD.T.float().contiguous())

    @property
    def residual_channels(self) -> int:
        """How many channels the residual matrix product reads."""
        return 0 if self.residual_DO is None else len(self.residual_DO)

    def output_frames(self, frames: Frames) -> Frames:
        """How many frames come out of `frames`."""
        return (frames + self.stride - 1) // self.stride

    def forward(self, x_BTC: Tensor, residual_BTD: Tensor, mask_BT1: Tensor) -> Tensor:
        """As Block.forward; residual_BTD holds what the residuals read, side by side."""
        for i, layer in enumerate(self.layers):
            if self.depthwise:
                x_BTC = self.depthwise[i](x_BTC)
            x_BTC = layer(x_BTC)
            if i == len(self.layers) - 1 and self.residual_DO is not None:
                x_BTC.flatten(0, 1).addmm_(residual_BTD.flatten(0, 1), self.residual_DO)
            x_BTC = self.activate_(x_BTC).mul_(mask_BT1)
        return x_BTC


class Folded(NamedTuple):
    """Convolution and normalisation as one convolution, in float64."""

    weight_OIK: Tensor
    bias_O: Tensor


class FusedConv(nn.Module):
    """A convolution with frames before channels; `folded` stands for its own weights."""

    def __init__(self, conv: nn.Conv1d, folded: Folded | None = None):
        super().__init__()
        self.stride, self.dilation = conv.stride[0], conv.dilation[0]
        self.padding = conv.kernel_size[0] // 2 * conv.dilation[0]
        self.groups = conv.groups
        weight_OIK = conv.weight.detach() if folded is None else folded.weight_OIK
        self.weight_OKI = nn.Parameter(weight_OIK.transpose(1, 2).float().contiguous())
        self.bias = None if folded is None else nn.Parameter(folded.bias_O.float())

    def forward(self, x_BTC: Tensor) -> Tensor:
        """x_BTC -> contiguous [B, S, O] with "same" padding."""
        if self.weight_OKI.shape[1] == 1 and self.stride == 1:
            return F.linear(x_BTC, self.weight_OKI.squeeze(1), self.bias)
        if not x_BTC.is_cpu or self.groups > 1 or x_BTC.dtype != torch.float32:
            return self._by_library(x_BTC)
        return self._by_matrix_product(x_BTC)

    def _by_library(self, x_BTC: Tensor) -> Tensor:
        weight_OI1K = self.weight_OKI.unsqueeze(1).permute(0, 3, 1, 2)
        y_BO1S = F.conv2d(
            x_BTC.unsqueeze(1).permute(0, 3, 1, 2),  # both are "channels last" without a copy
            weight_OI1K,
            self.bias,
            (1, self.stride),
            (0, self.padding),
            (1, self.dilation),
            self.groups,
        )
        return y_BO1S.permute(0, 2, 3, 1).squeeze(1).contiguous()

    def _by_matrix_product(self, x_BTC: Tensor) -> Tensor:
        """Every output frame from the K input frames under its taps, side by side: a view with overlapping rows."""
        assert self.bias is not None  # only depthwise convolutions have none
        n_outputs, taps, channels = self.weight_OKI.shape
        padded_BTC = F.pad(x_BTC, (0, 0, self.padding, self.padding))
        n_utterances, n_frames = x_BTC.shape[0], (x_BTC.shape[1] - 1) // self.stride + 1
        batch, row, one = padded_BTC.stride()
        windows_BSKI = padded_BTC.as_strided(
            (n_utterances, n_frames, taps, channels), (batch, self.stride * row, self.dilation * row, one)
        )
        y_BSO = x_BTC.new_empty(n_utterances, n_frames, n_outputs)
        weight_PO = self.weight_OKI.flatten(1).T
        stretch = max(1, STRETCH // (taps * channels))
        for windows_SKI, y_SO in zip(windows_BSKI, y_BSO, strict=True):
            for part_SKI, part_SO in zip(windows_SKI.split(stretch), y_SO.split(stretch), strict=True):
                torch.addmm(self.bias, part_SKI.flatten(1), weight_PO, out=part_SO)
        return y_BSO


def _folded(layer: ConvNorm) -> Folded:
    """y = gamma (W x - mean) / sqrt(variance + eps) + beta as one product and one sum."""
    norm = layer.norm
    statistics = cast("tuple[Tensor, Tensor]", (norm.running_mean, norm.running_var))
    gamma, beta, mean, variance = (t.detach().double() for t in (norm.weight, norm.bias, *statistics))
    scale_O = gamma * (variance + norm.eps).rsqrt()
    return Folded(layer.conv.weight.detach().double() * scale_O[:, None, None], beta - mean * scale_O)


def _mask(frames_B: Tensor, n_frames: int, dtype: torch.dtype) -> Tensor:
    """[B, n_frames, 1]: 1 for the first frames_B frames of each utterance, then 0."""
    positions_T = torch.arange(n_frames, device=frames_B.device)
    return (positions_T < frames_B[:, None]).to(dtype).unsqueeze(2)

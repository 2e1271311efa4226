"""Jasper BxR (Li et al. 2019, arXiv:1904.03288) and QuartzNet (Kriman et al. 2019, arXiv:1910.10261).

A stack of 1-D convolutional blocks over log-mel features, trained with CTC. In the dense residual variant every block
adds a 1x1 convolution of each earlier block's input.

Shapes: B utterances, F mel bands, T feature frames, S output frames (T over the product of strides), C channels,
V labels and the blank.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from common.config import ConfigError
from common.convolution import products
from common.convolution.training.blocks import convolved
from common.devices.precision import compute_dtype
from common.lengths import inside
from common.training.layers.batch_norm import is_one_pass, normalized, synchronized
from common.training.layers.dropout import dropout
from jasper.config import BlockConfig, ModelConfig

Frames = TypeVar("Frames", int, Tensor)
NORM_EPSILON = 1e-3  # of the published models; torch's default would change what their checkpoints compute


class JasperOutput(NamedTuple):
    """log_probs_BSV, float32, and frames_B, how many of each utterance's S frames are not padding."""

    log_probs_BSV: Tensor
    frames_B: Tensor


class Jasper(nn.Module):
    """Log-probabilities of labels for log-mel features; what one utterance gets does not depend on the others."""

    def __init__(self, config: ModelConfig, n_mels: int):
        super().__init__()
        if not config.blocks:
            raise ConfigError("model.blocks is empty: name a configuration, such as configs/jasper/jasper10x5dr.toml")
        blocks: list[JasperBlock] = []
        dense_channels: list[int] = []  # of the dense blocks' inputs so far
        channels = n_mels
        for block in config.blocks:
            residual_channels = [channels] if block.residual == "block" else []
            if block.residual == "dense":
                dense_channels.append(channels)
                residual_channels = list(dense_channels)
            blocks.append(JasperBlock(channels, block, residual_channels, config))
            channels = block.filters
        self.checkpoints_activations = False
        """Whether blocks are computed again in the backward pass, in place of keeping what they need there."""
        self.blocks = nn.ModuleList(blocks)
        self.decoder = nn.Conv1d(channels, len(config.labels) + 1, kernel_size=1)
        initialise = getattr(nn.init, f"{config.init}_")
        for module in self.modules():
            if isinstance(module, nn.Conv1d):
                initialise(module.weight)
        if config.sync_batch_norm:
            synchronized(self)

    @property
    def stride(self) -> int:
        """Feature frames from one output frame to the next."""
        return math.prod(block.stride for block in self._blocks())

    @property
    def context_frames(self) -> int:
        """Output frames to each side that an output frame depends on: half of the receptive field."""
        reach, stride = 0, 1  # in feature frames
        for block in self._blocks():
            for layer in cast("list[ConvNorm]", list(block.layers)):
                convolution = layer.depthwise or layer.conv
                reach += stride * convolution.dilation[0] * (convolution.kernel_size[0] // 2)
                stride *= convolution.stride[0]
        return -(-reach // stride)

    def output_frames(self, frames_B: Tensor) -> Tensor:
        """How many output frames come of frames_B feature frames."""
        for block in self._blocks():
            frames_B = block.output_frames(frames_B)
        return frames_B

    def _blocks(self) -> "list[JasperBlock]":
        return cast("list[JasperBlock]", list(self.blocks))

    def forward(self, features_BFT: Tensor, frames_B: Tensor) -> JasperOutput:
        """features_BFT with frames_B valid frames each; frames beyond are ignored."""
        x_BCT = features_BFT.to(self.decoder.weight.dtype)  # the network may be cast; features are always fp32
        # A mask in float32 would make float32 of every activation that autocast has computed in fewer bits.
        dtype = compute_dtype(x_BCT)
        mask_B1T = frame_mask(frames_B, x_BCT.shape[-1], dtype)
        x_BCT = x_BCT * mask_B1T
        dense_inputs: list[Tensor] = []
        for block in self._blocks():
            if block.stride > 1:
                frames_B = block.output_frames(frames_B)
                mask_B1T = frame_mask(frames_B, block.output_frames(x_BCT.shape[-1]), dtype)
            if block.residual == "dense":
                dense_inputs.append(x_BCT)
            if self.checkpoints_activations and torch.is_grad_enabled():
                again = partial(_again, block)
                x_BCT = checkpoint(block, x_BCT, mask_B1T, list(dense_inputs), use_reentrant=False, context_fn=again)
            else:
                x_BCT = block(x_BCT, mask_B1T, dense_inputs)
        logits_BVS = products.pointwise(self.decoder, x_BCT) if self.training else self.decoder(x_BCT)
        return JasperOutput(F.log_softmax(logits_BVS.transpose(1, 2).float(), dim=-1), frames_B)


class JasperBlock(nn.Module):
    """Sub-blocks in a row; the residuals join the last one before its activation."""

    def __init__(self, channels: int, block: BlockConfig, residual_channels: list[int], config: ModelConfig):
        super().__init__()
        self.stride, self.residual, self.dropout = block.stride, block.residual, block.dropout
        activations: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "hardtanh": clipped_relu, "selu": F.selu}
        self.activation = activations[config.activation]
        self.layers = nn.ModuleList(
            ConvNorm(
                channels if i == 0 else block.filters,
                block.filters,
                kernel=block.kernel,
                stride=block.stride if i == 0 else 1,
                dilation=block.dilation,
                separable=block.separable,
            )
            for i in range(block.repeat)
        )
        self.residuals = nn.ModuleList(ConvNorm(c, block.filters) for c in residual_channels)

    def forward(self, x_BCT: Tensor, mask_B1T: Tensor, dense_inputs: list[Tensor]) -> Tensor:
        """`x_BCT` zero beyond each utterance's frames gives an output that is so too, by mask_B1T."""
        residual_inputs = dense_inputs if self.residual == "dense" else [x_BCT]
        layers = cast("list[ConvNorm]", list(self.layers))
        for layer in layers[:-1]:
            x_BCT = self._joined([(layer, x_BCT)], mask_B1T)
        residuals = zip(cast("list[ConvNorm]", list(self.residuals)), residual_inputs, strict=False)
        return self._joined([(layers[-1], x_BCT), *residuals], mask_B1T)

    def _joined(self, layers: "list[tuple[ConvNorm, Tensor]]", mask_B1T: Tensor) -> Tensor:
        """The sum of what the layers make of their inputs, zero where mask_B1T is, after activation and dropout."""
        (first, x_BCT), *others = layers
        x_BCT = first.convolved(x_BCT, mask_B1T)
        norms = [layer.norm for layer, _ in layers]
        if self.activation is F.relu and is_one_pass(norms, x_BCT):
            xs_BCT = [x_BCT, *(layer.convolved(input_BCT, mask_B1T) for layer, input_BCT in others)]
            return normalized(norms, xs_BCT, mask_B1T, self.dropout)
        x_BCT = first.norm(x_BCT)
        for layer, input_BCT in others:
            added_BCT = layer(input_BCT, mask_B1T)
            x_BCT = x_BCT.add_(added_BCT) if self._is_in_place(x_BCT, mask_B1T) else x_BCT + added_BCT
        if self.activation is F.relu and self._is_in_place(x_BCT, mask_B1T):
            return dropout(x_BCT.mul_(mask_B1T).relu_(), self.dropout, self.training)
        return dropout(self.activation(x_BCT), self.dropout, self.training) * mask_B1T

    def _is_in_place(self, x_BCT: Tensor, mask_B1T: Tensor) -> bool:
        """Whether what the normalisation gave, which its backward pass has no use of, may be overwritten.

        In training on a CPU, where fresh memory takes as long as the sums; zeros of the mask commute with the rest.
        """
        is_ours = self.training and not products.is_left_to_torch()
        return is_ours and x_BCT.device.type == "cpu" and x_BCT.dtype == mask_B1T.dtype

    def output_frames(self, frames: Frames) -> Frames:
        """How many frames come out of `frames`: "same" padding leaves ceil(frames / stride)."""
        return (frames + self.stride - 1) // self.stride


class ConvNorm(nn.Module):
    """Convolution, plain or depthwise then pointwise, and batch normalisation; "same" padding, no bias."""

    def __init__(
        self, c_in: int, c_out: int, *, kernel: int = 1, stride: int = 1, dilation: int = 1, separable: bool = False
    ):
        super().__init__()
        padding = kernel // 2 * dilation
        self.depthwise: nn.Conv1d | None = None
        if separable:
            self.depthwise = nn.Conv1d(c_in, c_in, kernel, stride, padding, dilation, groups=c_in, bias=False)
            kernel, stride, padding, dilation = 1, 1, 0, 1
        self.conv = nn.Conv1d(c_in, c_out, kernel, stride, padding, dilation, bias=False)
        self.norm = nn.BatchNorm1d(c_out, eps=NORM_EPSILON)

    def forward(self, x_BCT: Tensor, mask_B1S: Tensor) -> Tensor:
        """x_BCT, zero beyond each utterance's frames -> [B, c_out, S]; mask_B1S says which of the S frames count."""
        return cast("Tensor", self.norm(self.convolved(x_BCT, mask_B1S)))

    def convolved(self, x_BCT: Tensor, mask_B1S: Tensor) -> Tensor:
        """The same before the normalisation.

        As published, both convolutions of a separable one see zeros there: what the first one spreads beyond the end of
        an utterance would count in the statistics of the normalisation.
        """
        if self.depthwise is not None:
            x_BCT = self.depthwise(x_BCT) * mask_B1S
        return convolved(self.conv, x_BCT) if self.training else cast("Tensor", self.conv(x_BCT))


def _again(block: JasperBlock) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """What stands around the first and the second computation of a block."""
    return nullcontext(), _statistics_kept(block)


@contextmanager
def _statistics_kept(block: JasperBlock) -> Iterator[None]:
    """While a block is computed for the second time, its batch statistics are not counted again."""
    norms = [module for module in block.modules() if isinstance(module, nn.BatchNorm1d)]
    before = [(norm.momentum, cast("Tensor", norm.num_batches_tracked).clone()) for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, (momentum, count) in zip(norms, before, strict=True):
            norm.momentum = momentum
            cast("Tensor", norm.num_batches_tracked).copy_(count)


def frame_mask(frames_B: Tensor, n_frames: int, dtype: torch.dtype) -> Tensor:
    """[B, 1, n_frames] of `dtype`: 1 for the first frames_B frames of each utterance, then 0."""
    return inside(frames_B, n_frames).to(dtype).unsqueeze(1)


def clipped_relu(x: Tensor) -> Tensor:
    """Hardtanh from 0 to 20, the activation of Deep Speech."""
    return x.clamp(0.0, 20.0)

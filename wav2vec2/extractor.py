"""Audio to features: a stack of strided convolutions (Baevski et al. 2020, section 2).

The whole batch is one long signal, frames before channels in memory. Every utterance gets a whole number of output
strides of room, so that in each layer it starts at a row of its own, and a convolution is one matrix product per
`stride` taps, without any copy: rows of a matrix with `stride` frames in each are a view. The rows at the end of an
utterance whose taps reach into the next one are no frames of it, and nothing that is a frame depends on them.

Shapes: B utterances, N samples, C channels, K taps, R rows (frames of all utterances and their room), S frames.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wav2vec2.config import ConvLayer, ModelConfig

Length = TypeVar("Length", int, Tensor)
NORM_EPSILON = 1e-5
# Rows that pass through product, normalisation and activation together on a CPU, while they are in its cache.
# Of 128 to 4096 the fastest.
STRETCH = 512


class Extracted(NamedTuple):
    """Features x_BSC of S frames, those of the longest utterance; and how many of them each utterance has."""

    x_BSC: Tensor
    frames_B: Tensor


def n_frames(samples: Length, layers: tuple[ConvLayer, ...]) -> Length:
    """Frames that come of `samples` samples; 0 if they are too few for one."""
    for _, kernel, stride in layers:
        samples = (samples - kernel) // stride + 1
    return samples.clamp(min=0) if isinstance(samples, Tensor) else max(0, samples)


class FeatureExtractor(nn.Module):
    """Strided convolutions; an utterance's features depend on its own samples only."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.conv_layers = config.conv_layers
        channels = (1, *(layer[0] for layer in config.conv_layers))
        self.layers = nn.ModuleList(
            (FirstLayer if config.extractor_norm == "group" and i == 0 else ConvLayerNorm)(
                channels[i], layer, bias=config.conv_bias, norm=config.extractor_norm == "layer"
            )
            for i, layer in enumerate(config.conv_layers)
        )

    def forward(self, audio_BN: Tensor, samples_B: Tensor) -> Extracted:
        """audio_BN with samples_B valid samples each; what lies beyond them has no effect on frames that count.

        The audio is float32 whatever the network is; features have the type that the network computes in.
        """
        n_utterances, n_samples = audio_BN.shape
        total_stride = math.prod(stride for _, _, stride in self.conv_layers)
        room = -(-n_samples // total_stride) * total_stride
        x_RC = F.pad(audio_BN, (0, room - n_samples)).view(-1, 1)
        first, *others = self.layers
        x_RC = first(x_RC, samples_B) if isinstance(first, FirstLayer) else first(x_RC)
        for layer in others:
            x_RC = layer(x_RC)
        x_BSC = x_RC.view(n_utterances, -1, x_RC.shape[1])[:, : n_frames(n_samples, self.conv_layers)]
        return Extracted(x_BSC, n_frames(samples_B, self.conv_layers))


class FirstLayer(nn.Module):
    """Convolution of the samples, normalisation of every channel over an utterance's own frames, GELU.

    Mean and variance of a channel are w·m and w·Cw, where w are its taps and m and C are mean and covariance of the
    windows that the convolution looks at. So the statistics of all channels come from a K x K matrix per utterance,
    and the normalisation becomes part of the weights: neither the forward nor the backward pass goes over the frames
    for it. C is in float64, since taps that cancel most of the signal would leave only its rounding errors.
    """

    def __init__(self, c_in: int, layer: ConvLayer, *, bias: bool, norm: bool):
        super().__init__()
        c_out, self.kernel, self.stride = layer
        self.weight = nn.Parameter(torch.empty(c_out, self.kernel, c_in))
        self.bias = nn.Parameter(torch.empty(c_out)) if bias else None
        self.norm = nn.GroupNorm(c_out, c_out, eps=NORM_EPSILON)
        initialise_conv(self.weight, self.bias)

    def forward(self, x_RC: Tensor, samples_B: Tensor) -> Tensor:
        """x_RC, one channel, with samples_B valid rows per utterance -> [R / stride, C of the output]."""
        dtype = compute_dtype(self.weight)
        padded_R = F.pad(x_RC.view(-1), (0, self.kernel))
        windows_BRK = padded_R.as_strided(
            (len(samples_B), len(x_RC) // len(samples_B) // self.stride, self.kernel),
            (len(x_RC) // len(samples_B), self.stride, 1),
        )
        weight_BKC, bias_BC = self._normalised(windows_BRK, (samples_B - self.kernel) // self.stride + 1)
        windows_BRK, weight_BKC, bias_BC = windows_BRK.to(dtype), weight_BKC.to(dtype), bias_BC.to(dtype)
        if torch.is_grad_enabled():
            return F.gelu(torch.baddbmm(bias_BC.unsqueeze(1), windows_BRK, weight_BKC)).flatten(0, 1)
        y_BRC = windows_BRK.new_empty(*windows_BRK.shape[:2], len(self.weight))
        for windows_RK, weight_KC, bias_C, y_RC in zip(windows_BRK, weight_BKC, bias_BC, y_BRC, strict=True):
            for rows in _stretches(y_RC):
                torch.addmm(bias_C, windows_RK[rows], weight_KC, out=y_RC[rows])
                gelu_(y_RC[rows])
        return y_BRC.flatten(0, 1)

    def _normalised(self, windows_BRK: Tensor, frames_B: Tensor) -> tuple[Tensor, Tensor]:
        """The weights and the bias, for each utterance, of the convolution and the normalisation after it."""
        windows_BRK = windows_BRK.double()
        count_B11 = frames_B.clamp(min=1)[:, None, None]
        mask_BR1 = (torch.arange(windows_BRK.shape[1], device=frames_B.device) < frames_B[:, None]).unsqueeze(2)
        mean_B1K = torch.where(mask_BR1, windows_BRK, 0.0).sum(1, keepdim=True) / count_B11
        centred_BRK = torch.where(mask_BR1, windows_BRK - mean_B1K, 0.0)
        covariance_BKK = centred_BRK.transpose(1, 2) @ centred_BRK / count_B11
        weight_CK = self.weight.squeeze(2).double()
        variance_BC = ((weight_CK @ covariance_BKK) * weight_CK).sum(2)
        scale_BC = self.norm.weight * (variance_BC + self.norm.eps).rsqrt()
        shift_BC = -(mean_B1K @ weight_CK.T).squeeze(1)
        if self.bias is not None:  # the normalisation takes away what it adds
            shift_BC = shift_BC + (self.bias - self.bias)
        return (scale_BC.unsqueeze(2) * weight_CK).transpose(1, 2), self.norm.bias + scale_BC * shift_BC


class ConvLayerNorm(nn.Module):
    """Convolution, layer normalisation of every frame (if `norm`), GELU."""

    def __init__(self, c_in: int, layer: ConvLayer, *, bias: bool, norm: bool):
        super().__init__()
        c_out, kernel, self.stride = layer
        self.weight = nn.Parameter(torch.empty(c_out, kernel, c_in))
        self.bias = nn.Parameter(torch.empty(c_out)) if bias else None
        self.norm = nn.LayerNorm(c_out, eps=NORM_EPSILON) if norm else None
        initialise_conv(self.weight, self.bias)

    def forward(self, x_RC: Tensor) -> Tensor:
        """x_RC -> [R / stride, C of the output]; the last rows lack the taps that lie beyond the batch."""
        dtype = compute_dtype(self.weight)
        x_RC, weight_CKI = x_RC.to(dtype), self.weight.to(dtype)
        bias_C = None if self.bias is None else self.bias.to(dtype)
        if torch.is_grad_enabled():
            y_RC = StridedConv.apply(x_RC, weight_CKI, bias_C, self.stride)
            return F.gelu(y_RC if self.norm is None else self.norm(y_RC))
        y_RC = x_RC.new_empty(len(x_RC) // self.stride, len(weight_CKI))
        for rows in _stretches(y_RC):
            y_SC = y_RC[rows]
            _convolve(x_RC, weight_CKI, bias_C, self.stride, rows, out_SC=y_SC)
            if self.norm is not None:
                y_SC.copy_(self.norm(y_SC))
            gelu_(y_SC)
        return y_RC


class StridedConv(torch.autograd.Function):
    """x_RI, weight_OKI, bias_O or None, stride -> y_[R / stride, O], each row from K rows of x_RI."""

    @staticmethod
    def forward(ctx: Any, x_RI: Tensor, weight_OKI: Tensor, bias_O: Tensor | None, stride: int) -> Tensor:
        """The convolution."""
        ctx.save_for_backward(x_RI, weight_OKI)
        ctx.stride, ctx.has_bias = stride, bias_O is not None
        y_SO = x_RI.new_empty(len(x_RI) // stride, len(weight_OKI))
        _convolve(x_RI, weight_OKI, bias_O, stride, slice(0, len(y_SO)), out_SC=y_SO)
        return y_SO

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        """Gradients by x_RI, weight_OKI and bias_O."""
        x_RI, weight_OKI = ctx.saved_tensors
        stride, grad_SO = ctx.stride, grads[0]
        n_rows, channels = len(grad_SO), weight_OKI.shape[2]
        x_SJ = x_RI.view(n_rows, stride * channels)
        grad_x_RI = torch.zeros_like(x_RI) if ctx.needs_input_grad[0] else None
        grad_weight_OKI = torch.empty_like(weight_OKI) if ctx.needs_input_grad[1] else None
        for shift, taps in _tap_groups(weight_OKI.shape[1], stride):
            width = (taps.stop - taps.start) * channels
            reaching_SO = grad_SO[: n_rows - shift]
            if grad_weight_OKI is not None:
                product = reaching_SO.T @ x_SJ[shift:, :width]
                grad_weight_OKI[:, taps] = product.view(len(weight_OKI), -1, channels)
            if grad_x_RI is not None:
                part_SJ = grad_x_RI.view_as(x_SJ)[shift:, :width]
                part_SJ.addmm_(reaching_SO, weight_OKI[:, taps].flatten(1))
        return grad_x_RI, grad_weight_OKI, grad_SO.sum(0) if ctx.has_bias else None, None


def _convolve(
    x_RI: Tensor, weight_OKI: Tensor, bias_O: Tensor | None, stride: int, rows: slice, *, out_SC: Tensor
) -> None:
    """Writes `rows` of the convolution to out_SC: a matrix product per `stride` taps, on views."""
    n_rows, channels = len(x_RI) // stride, weight_OKI.shape[2]
    x_SJ = x_RI.view(n_rows, stride * channels)
    for shift, taps in _tap_groups(weight_OKI.shape[1], stride):
        matrix_PO = weight_OKI[:, taps].flatten(1).T
        part_SP = x_SJ[rows.start + shift : rows.stop + shift, : len(matrix_PO)]
        if shift:
            out_SC[: len(part_SP)].addmm_(part_SP, matrix_PO)
        elif bias_O is None:
            torch.mm(part_SP, matrix_PO, out=out_SC)
        else:
            torch.addmm(bias_O, part_SP, matrix_PO, out=out_SC)


def _tap_groups(kernel: int, stride: int) -> Iterator[tuple[int, slice]]:
    """(strides that they lie behind the first, taps) of every `stride` taps."""
    for shift, first in enumerate(range(0, kernel, stride)):
        yield shift, slice(first, min(first + stride, kernel))


def _stretches(y_RC: Tensor) -> Iterator[slice]:
    n_rows = len(y_RC)
    step = n_rows if y_RC.is_cuda else STRETCH
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))


def compute_dtype(weight: Tensor) -> torch.dtype:
    """The type that autocast would compute in, or that of the weight."""
    kind = weight.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype


def gelu_(x: Tensor) -> Tensor:
    """The exact GELU in place of `x`."""
    return torch.ops.aten.gelu_(x)


def initialise_conv(weight_OKI: Tensor, bias_O: Tensor | None) -> None:
    """He et al. 2015 for the weight, torch's default for the bias."""
    fan_in = weight_OKI.shape[1] * weight_OKI.shape[2]
    nn.init.normal_(weight_OKI, std=math.sqrt(2 / fan_in))
    if bias_O is not None:
        nn.init.uniform_(bias_O, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

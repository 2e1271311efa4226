"""Audio to features: a stack of strided convolutions (Baevski et al. 2020, section 2).

The whole batch is one long signal, frames before channels in memory. Every utterance gets a whole number of output
strides of room, so that in each layer it starts at a row of its own, and a convolution is one matrix product per
`stride` taps, without any copy: rows of a matrix with `stride` frames in each are a view. The rows at the end of an
utterance whose taps reach into the next one are no frames of it, and nothing that is a frame depends on them.

Shapes: B utterances, N samples, C channels, K taps, R rows (frames of all utterances and their room), S frames, I and O
channels of a convolution's input and output.
"""

import math
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from common.convolution import native, products
from common.convolution.native import Epilogue, PackedConvolution
from common.convolution.training import layers as trained
from common.convolution.training import matmul
from common.convolution.weights.kept import Kept
from common.devices.precision import compute_dtype
from common.lengths import inside
from wav2vec2.network.config import ACTIVATIONS, ConvLayer, ModelConfig, samples_per_frame, samples_seen

Length = TypeVar("Length", int, Tensor)
NORM_EPSILON = 1e-5
# For inference on a CPU an utterance passes through the first layers, whose output is large, in stretches of so many
# rows of the last of them: all that is in between stays in the cache, and none of it grows with the audio. (2 to 4
# layers and 256 to 4096 rows are equally fast.)
FIRST_LAYERS, STRETCH = 3, 512


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
                channels[i], layer, config, norm=config.extractor_norm == "layer"
            )
            for i, layer in enumerate(config.conv_layers)
        )

    def forward(self, audio_BN: Tensor, samples_B: Tensor) -> Extracted:
        """audio_BN with samples_B valid samples each; what lies beyond them has no effect on frames that count.

        The audio is float32 whatever the network is; features have the type that the network computes in.
        """
        n_utterances, n_samples = audio_BN.shape
        rows = -(-n_samples // samples_per_frame(self.conv_layers))  # of features, for each utterance
        if isinstance(self.layers[0], FirstLayer):
            # An offset has no effect, since the first layer's channels are normalised, but 16 bits would round it.
            audio_BN = audio_BN - audio_BN.sum(1, keepdim=True, dtype=torch.float32) / samples_B.clamp(min=1)[:, None]
        audio_BN = F.pad(audio_BN, (0, rows * samples_per_frame(self.conv_layers) - n_samples))
        if torch.is_grad_enabled() or not audio_BN.is_cpu:
            x_RC = audio_BN.reshape(-1, 1)
            for layer in self.layers:
                x_RC = layer(x_RC, samples_B) if isinstance(layer, FirstLayer) else layer(x_RC)
        else:
            x_RC = self._in_stretches(audio_BN, samples_B)
            for layer in cast("list[ConvLayerNorm]", list(self.layers)[FIRST_LAYERS:]):
                x_RC = layer.convolution().infer(x_RC)
        x_RC = F.pad(x_RC, (0, 0, 0, n_utterances * rows - len(x_RC)))
        x_BSC = x_RC.view(n_utterances, rows, -1)[:, : n_frames(n_samples, self.conv_layers)]
        return Extracted(x_BSC, n_frames(samples_B, self.conv_layers))

    def _in_stretches(self, audio_BN: Tensor, samples_B: Tensor) -> Tensor:
        """x_RC after the first layers."""
        first, *others = cast("list[ConvLayerNorm]", list(self.layers)[:FIRST_LAYERS])
        shared = [layer.convolution() for layer in others]
        layers = self.conv_layers[:FIRST_LAYERS]
        stride = samples_per_frame(layers)
        room_BN = F.pad(audio_BN, (0, samples_seen(layers) - stride))
        n_rows = audio_BN.shape[1] // stride
        x_BRC = audio_BN.new_empty(len(audio_BN), n_rows, layers[-1][0], dtype=compute_dtype(first.weight))
        folded = first.folded(audio_BN, samples_B) if isinstance(first, FirstLayer) else None
        for b, (room_N, x_RC) in enumerate(zip(room_BN, x_BRC, strict=True)):
            stack = [first.convolution() if folded is None else folded.of(b), *shared]
            for row in range(0, n_rows, STRETCH):
                end = min(row + STRETCH, n_rows)
                y_SC = room_N[row * stride : (end - 1) * stride + samples_seen(layers)].unsqueeze(1)
                for convolution in stack[:-1]:
                    y_SC = convolution.infer(y_SC)
                stack[-1].infer(y_SC, out_SO=x_RC[row:end])
        return x_BRC.flatten(0, 1)


class ExtractorConvolution(NamedTuple):
    """What one layer does, in the type that is computed in."""

    weight_OKI: Tensor
    bias_O: Tensor | None
    stride: int
    norm: nn.LayerNorm | None
    activation: str
    packed: PackedConvolution | None = None
    """The weights for the native library, where that is faster than torch."""

    def infer(self, x_RI: Tensor, *, out_SO: Tensor | None = None) -> Tensor:
        """Convolution, normalisation and activation of x_RI -> out_SO, a row for all that there are K rows for."""
        x_RI = x_RI.to(self.weight_OKI.dtype)
        if out_SO is None:
            out_SO = x_RI.new_empty(_n_rows(x_RI, self.weight_OKI, self.stride), len(self.weight_OKI))
        is_gelu = self.activation == "gelu"
        if self.packed is not None:
            epilogue = Epilogue(self.bias_O, activation="gelu" if is_gelu and self.norm is None else "identity")
            native.run(x_RI[None], self.packed, epilogue, out_SO[None], stride=self.stride)
            if epilogue.activation == "gelu":
                return out_SO
        else:
            convolve(x_RI, self.weight_OKI, self.bias_O, self.stride, out_SO=out_SO)
        if self.norm is not None:
            out_SO.copy_(self.norm(out_SO))
        return torch.ops.aten.gelu_(out_SO) if is_gelu else out_SO.copy_(ACTIVATIONS[self.activation](out_SO))


class FoldedLayer(NamedTuple):
    """The first layer with its normalisation: for each utterance a weight, in the order of its product, and a bias."""

    weight_BKO: Tensor
    bias_BO: Tensor
    stride: int
    activation: str

    def of(self, utterance: int) -> ExtractorConvolution:
        """The layer as it is for one utterance."""
        weight_KO, bias_O = self.weight_BKO[utterance], self.bias_BO[utterance]
        packed = native.pack(weight_KO.T[:, :, None], None) if _is_packed(weight_KO) else None
        return ExtractorConvolution(weight_KO.T.unsqueeze(2), bias_O, self.stride, None, self.activation, packed)


class FirstLayer(nn.Module):
    """Convolution of the samples, normalisation of every channel over an utterance's own frames, activation.

    Mean and variance of a channel are w·m and w·Cw, where w are its taps and m and C are mean and covariance of the
    windows that the convolution looks at. So the statistics of all channels come from a K x K matrix per utterance,
    and the normalisation becomes part of the weights: neither the forward nor the backward pass goes over the frames
    for it. C is in float64, since taps that cancel most of the signal would leave only its rounding errors.
    """

    def __init__(self, c_in: int, layer: ConvLayer, config: ModelConfig, *, norm: bool):
        super().__init__()
        c_out, self.kernel, self.stride = layer
        self.activation = config.conv_activation
        self.weight = nn.Parameter(torch.empty(c_out, self.kernel, c_in))
        self.bias = nn.Parameter(torch.empty(c_out)) if config.conv_bias else None
        self.norm = nn.GroupNorm(c_out, c_out, eps=NORM_EPSILON)
        initialise_conv(self.weight, self.bias)

    def forward(self, x_RC: Tensor, samples_B: Tensor) -> Tensor:
        """x_RC, one channel, with samples_B valid rows per utterance -> [R / stride, C of the output]."""
        audio_BN = x_RC.view(len(samples_B), -1)
        folded = self.folded(audio_BN, samples_B)
        windows_BRK = self._windows(audio_BN).to(folded.weight_BKO.dtype)
        y_BRO = torch.baddbmm(folded.bias_BO.unsqueeze(1), windows_BRK, folded.weight_BKO)
        return ACTIVATIONS[self.activation](y_BRO).flatten(0, 1)

    def folded(self, audio_BN: Tensor, samples_B: Tensor) -> FoldedLayer:
        """The weights and the bias, for each utterance, of the convolution and the normalisation after it."""
        windows_BRK = self._windows(audio_BN).double()
        frames_B = (samples_B - self.kernel) // self.stride + 1
        count_B11 = frames_B.clamp(min=1)[:, None, None]
        mask_BR1 = inside(frames_B, windows_BRK.shape[1]).unsqueeze(2)
        mean_B1K = torch.where(mask_BR1, windows_BRK, 0.0).sum(1, keepdim=True) / count_B11
        centred_BRK = torch.where(mask_BR1, windows_BRK - mean_B1K, 0.0)
        covariance_BKK = centred_BRK.transpose(1, 2) @ centred_BRK / count_B11
        weight_OK = self.weight.squeeze(2).double()
        variance_BO = ((weight_OK @ covariance_BKK) * weight_OK).sum(2)
        scale_BO = self.norm.weight * (variance_BO + self.norm.eps).rsqrt()
        shift_BO = -(mean_B1K @ weight_OK.T).squeeze(1)
        if self.bias is not None:
            # The normalisation takes away what it adds. Data-parallel training waits for its gradient all the same: 0.
            shift_BO = shift_BO + (self.bias - self.bias)
        weight_BKO, bias_BO = (scale_BO.unsqueeze(2) * weight_OK).transpose(1, 2), self.norm.bias + scale_BO * shift_BO
        dtype = compute_dtype(self.weight)
        return FoldedLayer(weight_BKO.to(dtype), bias_BO.to(dtype), self.stride, self.activation)

    def _windows(self, audio_BN: Tensor) -> Tensor:
        """[B, N / stride, K]: what the convolution looks at; zeros stand beyond N."""
        return F.pad(audio_BN, (0, self.kernel - self.stride)).unfold(1, self.kernel, self.stride)


class ConvLayerNorm(nn.Module):
    """Convolution, layer normalisation of every frame (if `norm`), activation."""

    def __init__(self, c_in: int, layer: ConvLayer, config: ModelConfig, *, norm: bool):
        super().__init__()
        c_out, kernel, self.stride = layer
        self.activation = config.conv_activation
        self.weight = nn.Parameter(torch.empty(c_out, kernel, c_in))
        self.bias = nn.Parameter(torch.empty(c_out)) if config.conv_bias else None
        self.norm = nn.LayerNorm(c_out, eps=NORM_EPSILON) if norm else None
        self._kept: Kept[PackedConvolution] = Kept()
        initialise_conv(self.weight, self.bias)

    def forward(self, x_RC: Tensor) -> Tensor:
        """x_RC -> [R / stride or, at the end of the batch, less, C of the output]."""
        if torch.is_grad_enabled():
            self._kept.forget()
        weight_OKI, bias_O, stride, norm, *_ = self.convolution()
        x_RC = x_RC.to(weight_OKI.dtype)
        has_gelu = norm is None and self.activation == "gelu" and matmul.is_fastest(x_RC, weight_OKI)
        y_RC: Tensor = StridedConv.apply(x_RC, weight_OKI, bias_O, stride, has_gelu)
        return y_RC if has_gelu else ACTIVATIONS[self.activation](y_RC if norm is None else norm(y_RC))

    def train(self, mode: bool = True) -> "ConvLayerNorm":
        """As ever, and forgets what was kept: where parameters are swapped or gathered, they do not tell of changes."""
        self._kept.forget()
        return super().train(mode)

    def convolution(self) -> ExtractorConvolution:
        """Its weights in the type that is computed in."""
        dtype = compute_dtype(self.weight)
        weight_OKI, bias_O = self.weight.to(dtype), None if self.bias is None else self.bias.to(dtype)
        packed = None
        if not torch.is_grad_enabled() and _is_packed(weight_OKI):
            packed = self._kept.of((self.weight,), lambda: native.pack(self.weight, None))
        return ExtractorConvolution(weight_OKI, bias_O, self.stride, self.norm, self.activation, packed)


class StridedConv(torch.autograd.Function):
    """x_RI, weight_OKI, bias_O or None, stride -> y_SO, a row for all that there are K rows of x_RI for.

    Where the native library's products are fastest, GELU of the sums too, if asked for.
    """

    @staticmethod
    def forward(
        ctx: Any, x_RI: Tensor, weight_OKI: Tensor, bias_O: Tensor | None, stride: int, has_gelu: bool = False
    ) -> Tensor:
        """The convolution."""
        x_RI, weight_OKI = x_RI.contiguous(), weight_OKI.contiguous()
        sums_SO = x_RI.new_empty(_n_rows(x_RI, weight_OKI, stride), len(weight_OKI))
        y_SO = torch.empty_like(sums_SO) if has_gelu else sums_SO
        ctx.save_for_backward(x_RI, weight_OKI, sums_SO if has_gelu else None)
        ctx.stride, ctx.has_bias, ctx.is_native = stride, bias_O is not None, matmul.is_fastest(x_RI, weight_OKI)
        if ctx.is_native:
            windows_SP = _under_taps(x_RI, slice(0, weight_OKI.shape[1]), stride, len(sums_SO))
            weight_OP, gelu_SO = weight_OKI.flatten(1), y_SO if has_gelu else None
            matmul.multiply(windows_SP, weight_OP, sums_SO, bias_O=bias_O, gelu_MO=gelu_SO)
        else:
            convolve(x_RI, weight_OKI, bias_O, stride, out_SO=sums_SO)
        return y_SO

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_SO: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients by x_RI, weight_OKI and bias_O."""
        x_RI, weight_OKI, sums_SO = ctx.saved_tensors
        grad_SO, stride, (kernel, channels) = trained.through_gelu(sums_SO, grad_SO), ctx.stride, weight_OKI.shape[1:]
        grad_x_RI = grad_weight_OKI = None
        groups = _tap_groups(kernel, stride)
        if ctx.needs_input_grad[0]:
            grad_x_RI = torch.empty_like(x_RI)
            grad_x_RI[len(grad_SO) * stride :] = 0  # the first taps reach all rows before these
            for taps in groups:
                part_SP, weight_OP = _under_taps(grad_x_RI, taps, stride, len(grad_SO)), weight_OKI[:, taps].flatten(1)
                _product(grad_SO, weight_OP.T, part_SP, adds=taps.start > 0, is_native=ctx.is_native)
        if ctx.needs_input_grad[1]:
            grad_weight_OKI = torch.empty_like(weight_OKI)
            for taps in [slice(0, kernel)] if ctx.is_native else groups:
                part_OP = grad_weight_OKI.flatten(1)[:, taps.start * channels : taps.stop * channels]
                windows_SP = _under_taps(x_RI, taps, stride, len(grad_SO))
                _product(grad_SO.T, windows_SP.T, part_OP, adds=False, is_native=ctx.is_native)
        return grad_x_RI, grad_weight_OKI, grad_SO.sum(0) if ctx.has_bias else None, None, None


def _product(a_MD: Tensor, b_OD: Tensor, out_MO: Tensor, *, adds: bool, is_native: bool) -> None:
    """a times b to out_MO, or to what is there."""
    if is_native:
        matmul.multiply(a_MD, b_OD, out_MO, adds=adds)
    else:
        torch.addmm(out_MO, a_MD, b_OD.T, beta=float(adds), out=out_MO)


def convolve(x_RI: Tensor, weight_OKI: Tensor, bias_O: Tensor | None, stride: int, *, out_SO: Tensor) -> None:
    """Writes the convolution to out_SO: a matrix product per `stride` taps, on views."""
    _, kernel, channels = weight_OKI.shape
    first, *others = _tap_groups(kernel, kernel if channels == 1 else stride)  # windows of one channel are copied
    windows_SP, matrix_PO = _under_taps(x_RI, first, stride, len(out_SO)), weight_OKI[:, first].flatten(1).T
    if bias_O is None:
        torch.mm(windows_SP, matrix_PO, out=out_SO)
    else:
        torch.addmm(bias_O, windows_SP, matrix_PO, out=out_SO)
    for taps in others:
        out_SO.addmm_(_under_taps(x_RI, taps, stride, len(out_SO)), weight_OKI[:, taps].flatten(1).T)


def _under_taps(x_RI: Tensor, taps: slice, stride: int, n_rows: int) -> Tensor:
    """A view of x_RI: for each of n_rows windows the frames under `taps`, side by side."""
    row, width = x_RI.shape[1], (taps.stop - taps.start) * x_RI.shape[1]
    return x_RI.as_strided((n_rows, width), (stride * row, 1), x_RI.storage_offset() + taps.start * row)


def _tap_groups(kernel: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, kernel)) for first in range(0, kernel, size)]


def _is_packed(weight: Tensor) -> bool:
    """Whether inference is faster by the native library than by torch's products."""
    return products.runs_eagerly(weight) and not products.has_fast_products() and native.load() is not None


def _n_rows(x_RI: Tensor, weight_OKI: Tensor, stride: int) -> int:
    return (len(x_RI) - weight_OKI.shape[1]) // stride + 1


def initialise_conv(weight_OKI: Tensor, bias_O: Tensor | None) -> None:
    """He et al. 2015 for the weight, torch's default for the bias."""
    fan_in = weight_OKI.shape[1] * weight_OKI.shape[2]
    nn.init.normal_(weight_OKI, std=math.sqrt(2 / fan_in))
    if bias_O is not None:
        nn.init.uniform_(bias_O, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

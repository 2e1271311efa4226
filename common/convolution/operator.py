"""A convolution over time of [B, T, C], for inference: bias, residual, activation and mask on the way out.

As it is made it is direct, through torch, on any device and under tracing. Where the native library is built, `prepare`
packs its weights for this processor, by the algorithm that `planning` expects to be fastest, and drops the direct ones.

Shapes: B utterances, T input frames, S output frames, I and O channels in and out, K taps.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution import native, planning, products
from common.convolution.library import LIBRARY
from common.convolution.native import Activation, Epilogue, Instructions, PackedConvolution
from common.convolution.planning import Choice, Kind, Shape
from common.convolution.weights.scales import packed_by
from ctc import SlowPathWarning


class Lengths(NamedTuple):
    """How many output frames of each utterance count, as int64 and as a mask: 1 inside, 0 beyond."""

    frames_B: Tensor
    mask_BS1: Tensor


class FusedConvolution(nn.Module):
    """`nn.Conv1d` for [B, T, I] -> contiguous [B, S, O], with `before` and `after` zero frames around the input.

    By default those are half of the taps, so that S = ceil(T / stride). `frames` is how many output frames a call has
    that the algorithm is chosen for. The weights are copies.
    """

    bias: nn.Parameter | None

    def __init__(
        self,
        weight_OIK: Tensor,
        bias_O: Tensor | None = None,
        *,
        stride: int = 1,
        dilation: int = 1,
        before: int | None = None,
        after: int | None = None,
        frames: int = 512,
    ):
        super().__init__()
        filters, channels, self.taps = weight_OIK.shape
        same = self.taps // 2 * dilation
        self.before, self.after = same if before is None else before, same if after is None else after
        self.stride, self.dilation = stride, dilation
        self.shape = Shape(self.taps, channels, filters, stride, dilation, frames)
        self.weight_OKI = nn.Parameter(
            weight_OIK.detach().transpose(1, 2).clone(memory_format=torch.contiguous_format), requires_grad=False
        )
        copied_O = None if bias_O is None else nn.Parameter(bias_O.detach().clone(), requires_grad=False)
        self.register_parameter("bias", copied_O)
        self.packed: PackedConvolution | None = None
        self.prepared_as: Kind | None = None
        """What `prepare` was asked for last."""

    def outputs(self, frames: int) -> int:
        """Output frames of so many input frames."""
        return (frames + self.before + self.after - (self.taps - 1) * self.dilation - 1) // self.stride + 1

    def forward(
        self,
        x_BTI: Tensor,
        lengths: Lengths | None = None,
        *,
        residual_BSO: Tensor | None = None,
        activation: Activation = "identity",
        slope: float = 0.0,
        input_slope: float = 1.0,
        out_BSO: Tensor | None = None,
    ) -> Tensor:
        """activation(convolution(x_BTI) + bias + residual_BSO), zero beyond the lengths (x_BTI has to be so too).

        `leaky_relu` has `slope` below zero, `clipped_relu` lies between 0 and `slope`. `input_slope` other than 1 is
        that of a leaky ReLU of the input. `out_BSO`, with channels adjacent, receives the result and may be
        residual_BSO itself; without it the result is a new tensor.
        """
        own = self._parameters  # `self.bias` takes a microsecond, as long as the smallest layers
        bias_O = own["bias"] if "bias" in own else self.bias  # noqa: SIM401 - `get` asks for both
        epilogue = Epilogue(bias_O, residual_BSO, activation, slope, input_slope)
        batch, frames, _ = x_BTI.shape
        if self.packed is None or not runs_natively(x_BTI) or batch == 0:
            return self._direct(x_BTI, lengths, epilogue, out_BSO)
        if x_BTI.stride(2) != 1:
            x_BTI = x_BTI.contiguous()
        if residual_BSO is not None and residual_BSO.stride(2) != 1:
            epilogue = epilogue._replace(residual_BSO=residual_BSO.contiguous())
        if out_BSO is None:
            out_BSO = x_BTI.new_empty(batch, self.outputs(frames), self.shape.filters)
        else:
            assert out_BSO.stride(2) == 1, "channels of the output have to be adjacent"
        native.run(
            x_BTI,
            self.packed,
            epilogue,
            out_BSO,
            stride=self.stride,
            dilation=self.dilation,
            before=self.before,
            output_lengths_B=None if lengths is None else lengths.frames_B,
        )
        return out_BSO

    def pack(self, options: Sequence[Choice], instructions: Instructions = "automatic") -> Choice:
        """Packs the weights by the first option that is exact enough for them, and drops the direct ones.

        Returns the option; the last one is taken as it is. Packed weights are packed anew, where nothing has rounded
        them. Raises ValueError for others, and for those that are not on the CPU in float32. Needs the native library.
        """
        native.check_packable(self.weight_OKI, self.packed, options[0].weights)
        with torch.inference_mode(False), torch.no_grad():
            ways = [(choice.algorithm, choice.weights) for choice in options]
            self.packed, place = packed_by(self.direct_weight().detach(), ways, instructions)
        self.weight_OKI = nn.Parameter(self.weight_OKI.new_empty(0), requires_grad=False)
        return options[place]

    def direct_weight(self) -> Tensor:
        """[O, K, I]: of packed weights those that come closest, which are the same but for rounding."""
        if self.packed is None:
            return self.weight_OKI
        with products.untraced():
            return native.unpack(self.packed).permute(2, 0, 1).contiguous()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "FusedConvolution":
        """Packed weights are of use on this processor in float32 only: with any change the direct ones come back."""
        if self.packed is not None:
            probe = fn(torch.empty(0))
            if probe.device.type != "cpu" or probe.dtype != torch.float32:
                self.weight_OKI = nn.Parameter(self.direct_weight(), requires_grad=False)
                self.packed = None
        return super()._apply(fn, recurse)

    def _direct(self, x_BTI: Tensor, lengths: Lengths | None, epilogue: Epilogue, out_BSO: Tensor | None) -> Tensor:
        if epilogue.input_slope != 1.0:
            x_BTI = F.leaky_relu(x_BTI, epilogue.input_slope)
        weight_OKI = self.direct_weight()
        if self.taps == 1 and self.stride == 1 and self.before == self.after == 0:
            y_BSO = F.linear(x_BTI, weight_OKI.squeeze(1), self.bias)
        else:
            y_BSO = convolve(
                F.pad(x_BTI, (0, 0, 0, self.after - self.before)) if self.after > self.before else x_BTI,
                weight_OKI, self.bias, stride=self.stride, dilation=self.dilation, padding=self.before,
            )  # fmt: skip
            y_BSO = y_BSO[:, : self.outputs(x_BTI.shape[1])]
        return _finish(y_BSO, lengths, epilogue, out_BSO)


class PreparationReport(NamedTuple):
    """What `prepare` did: bytes of weights now and before, how many layers a limit made slower, and the names of those
    whose weights are kept in a higher precision than was asked for.
    """

    weight_bytes: int
    direct_bytes: int
    limited: int
    higher: tuple[str, ...] = ()

    def __str__(self) -> str:
        now, before = (n_bytes / 2**20 for n_bytes in self[:2])
        slower = f"; {self.limited} layers would be faster with more" if self.limited else ""
        higher = f"; in higher precision: {', '.join(self.higher)}" if self.higher else ""
        return f"{now:.0f} MiB of weights for convolutions in place of {before:.0f}{slower}{higher}"


def can_be_prepared(network: nn.Module) -> bool:
    """Whether there is something for `prepare` to do: a `FusedConvolution`, all on the CPU in float32, the library."""
    has_layers = any(isinstance(module, FusedConvolution) for module in network.modules())
    is_plain = all(p.device.type == "cpu" and p.dtype == torch.float32 for p in network.parameters())
    return has_layers and is_plain and native.load() is not None


def prepare(
    network: nn.Module,
    kind: Kind = "fp32",
    *,
    limit_bytes: int | None = None,
    instructions: Instructions = "automatic",
) -> PreparationReport:
    """Packs the weights of every `FusedConvolution` in a network that is on the CPU in float32, for inference there.

    Without the native library they stay torch's; RuntimeError for int8 then.

    Layers above `limit_bytes` of weights together, by default half of the memory that is available, take algorithms
    that need less, and a warning tells of it. The weights of one layer at a time are held twice. "int8" rounds what
    layers read too, in steps that each block of frames has of its own.
    A layer whose weights a format would harm (`scales`) is kept in the next more exact one, up to the direct sum.
    What was prepared as another kind is prepared anew. Raises ValueError for weights that this rounded (`pack`).
    """
    named = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, FusedConvolution) and (module.packed is None or module.prepared_as != kind)
    }
    if kind == "int8" and native.load() is None:
        raise RuntimeError(f"int8 convolutions need the native library; `{LIBRARY.command}` makes it")
    if not named or native.load() is None:
        return PreparationReport(0, 0, 0)
    layers = list(named.values())
    limit_bytes = planning.half_of_memory() if limit_bytes is None else limit_bytes
    if kind == "bf16" and instructions == "automatic":
        instructions = native.fastest_for_bfloat16()
    machine = planning.this_machine(instructions)
    options = [planning.choices(layer.shape, kind=kind, machine=machine, instructions=instructions) for layer in layers]
    chosen = planning.within(options, limit_bytes)
    direct_bytes = sum(4 * own.taps * own.channels * own.filters for own in (layer.shape for layer in layers))
    for layer, choice in zip(layers, chosen, strict=True):  # before the first is packed: all of a network, or none
        native.check_packable(layer.weight_OKI, layer.packed, choice.weights)
    kept: dict[str, Choice] = {}
    for (name, layer), choice in zip(named.items(), chosen, strict=True):
        others = planning.more_exact(layer.shape, choice, kind, machine=machine, instructions=instructions)
        kept[name or "the layer"] = layer.pack([choice, *others], instructions)
        layer.prepared_as = kind
    limited = sum(choice is not layer[0] for choice, layer in zip(chosen, options, strict=True))
    higher = tuple(name for name, choice in kept.items() if kind == "int8" and choice.weights != "int8")
    prepared = PreparationReport(sum(choice.weight_bytes for choice in kept.values()), direct_bytes, limited, higher)
    if limited and limit_bytes is not None:
        warnings.warn(f"{prepared}: {limit_bytes / 2**20:.0f} MiB are the limit", SlowPathWarning, stacklevel=2)
    return prepared


def convolve(
    x_BTI: Tensor, weight_OKI: Tensor, bias_O: Tensor | None, *, stride: int = 1, dilation: int = 1, padding: int = 0,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The direct sum through torch, [B, S, O]: channels stay adjacent, which its libraries want ("channels last").

    On a CPU dilated frames are taken apart first, because oneDNN has no fast code for dilation: the same sums.
    """
    if dilation > 1 and stride == 1 and x_BTI.device.type == "cpu" and not products.is_traced():
        return _by_phases(x_BTI, weight_OKI, bias_O, dilation=dilation, padding=padding, groups=groups)
    y_BO1S = F.conv2d(
        x_BTI.unsqueeze(1).permute(0, 3, 1, 2),  # both are "channels last" without a copy
        weight_OKI.unsqueeze(1).permute(0, 3, 1, 2),
        bias_O,
        (1, stride),
        (0, padding),
        (1, dilation),
        groups,
    )
    return y_BO1S.permute(0, 2, 3, 1).squeeze(1).contiguous()


def along_time(convolution: nn.Conv1d, x_BTC: Tensor) -> Tensor:
    """`convolution`, of stride 1, of [B, T, C], in the same layout.

    On a CPU torch convolves channels that are adjacent in memory, each by itself, 25 times as fast as others.
    """
    if not products.runs_eagerly(x_BTC):
        return convolution(x_BTC.mT).mT
    padding, dilation, groups = convolution.padding, convolution.dilation[0], convolution.groups
    assert not isinstance(padding, str)
    weight_OKI = convolution.weight.transpose(1, 2)
    return convolve(x_BTC, weight_OKI, convolution.bias, dilation=dilation, padding=padding[0], groups=groups)


def _by_phases(
    x_BTI: Tensor, weight_OKI: Tensor, bias_O: Tensor | None, *, dilation: int, padding: int, groups: int
) -> Tensor:
    """Every `dilation`-th frame is an utterance of its own."""
    batch, frames, channels = x_BTI.shape
    outputs = frames + 2 * padding - (weight_OKI.shape[1] - 1) * dilation
    rest = -(frames + 2 * padding) % dilation
    padded_BTI = F.pad(x_BTI, (0, 0, padding, padding + rest))
    phases_BTI = padded_BTI.view(batch, -1, dilation, channels).transpose(1, 2).flatten(0, 1)
    y_BSO = convolve(phases_BTI, weight_OKI, bias_O, groups=groups)
    y_BSO = y_BSO.view(batch, dilation, y_BSO.shape[1], -1).transpose(1, 2).flatten(1, 2)
    return y_BSO[:, :outputs].contiguous()


def _finish(y_BSO: Tensor, lengths: Lengths | None, epilogue: Epilogue, out_BSO: Tensor | None) -> Tensor:
    """What the library does on the way out; in place where no gradient asks for the values between."""
    in_place = not torch.is_grad_enabled()
    if epilogue.residual_BSO is not None:
        y_BSO = y_BSO.add_(epilogue.residual_BSO) if in_place else y_BSO + epilogue.residual_BSO
    if epilogue.activation == "leaky_relu" and epilogue.slope == 0:
        y_BSO = F.relu(y_BSO, inplace=in_place)
    elif epilogue.activation == "leaky_relu":
        y_BSO = F.leaky_relu(y_BSO, epilogue.slope, inplace=in_place)
    elif epilogue.activation == "clipped_relu":
        y_BSO = F.hardtanh(y_BSO, 0.0, epilogue.slope, inplace=in_place)
    elif epilogue.activation == "gelu":
        y_BSO = F.gelu(y_BSO)
    if lengths is not None:
        y_BSO = y_BSO.mul_(lengths.mask_BS1) if in_place else y_BSO * lengths.mask_BS1
    return y_BSO.contiguous() if out_BSO is None else out_BSO.copy_(y_BSO)


def runs_natively(x: Tensor) -> bool:
    """Not on a GPU or under autocast, which have matrix units, nor in a graph, which has to know what it computes."""
    return products.runs_eagerly(x) and not (torch.is_grad_enabled() and x.requires_grad)

"""Layers in training by the native library's products: forward, and both gradients.

Each gives what torch's operators give, in float32 on a CPU, once differentiable. Callers ask `matmul.is_fastest`.

Shapes: R rows; I features in, O out; N utterances; K taps; S frames out, T in; G groups, E channels of a group in each.
"""

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from common.convolution import native
from common.convolution.native import Activation
from common.convolution.training.matmul import gelu_backward, multiply


def linear(x_XI: Tensor, weight_OI: Tensor, bias_O: Tensor | None, activation: Activation = "identity") -> Tensor:
    """`F.linear` and, if asked for, GELU: [..., O]."""
    rows_RI = x_XI.reshape(-1, x_XI.shape[-1])
    y_RO = cast("Tensor", _Linear.apply(rows_RI, weight_OI, bias_O, activation == "gelu"))
    return y_RO.view(*x_XI.shape[:-1], weight_OI.shape[0])


def strided(
    x_RI: Tensor, weight_OKI: Tensor, bias_O: Tensor | None, stride: int, activation: Activation = "identity"
) -> Tensor:
    """A convolution over the rows, [S, O], a row for all that there are K rows for; then GELU, if asked for.

    It has no fewer taps than its stride.
    """
    return cast("Tensor", _Strided.apply(x_RI, weight_OKI, bias_O, stride, activation == "gelu"))


def windows_gelu(windows_NSK: Tensor, weight_NKO: Tensor, bias_NO: Tensor) -> Tensor:
    """GELU of windows of each utterance times its own weights, [N, S, O]; the windows get no gradient."""
    return cast("Tensor", _WindowsGelu.apply(windows_NSK, weight_NKO, bias_NO))


def grouped(x_NSD: Tensor, weight_DEK: Tensor, before: int) -> Tensor:
    """A convolution of groups of E channels, as many frames out as in; it sees `before` frames before each."""
    return cast("Tensor", _Grouped.apply(x_NSD, weight_DEK, before))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_RI: Tensor, weight_OI: Tensor, bias_O: Tensor | None, has_gelu: bool) -> Tensor:
        sums_RO = x_RI.new_empty(len(x_RI), len(weight_OI))
        y_RO = torch.empty_like(sums_RO) if has_gelu else sums_RO
        multiply(x_RI, weight_OI, sums_RO, bias_O=bias_O, gelu_NMO=y_RO if has_gelu else None)
        ctx.save_for_backward(x_RI, weight_OI, sums_RO if has_gelu else None)
        ctx.has_bias = bias_O is not None
        return y_RO

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_RO: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x_RI, weight_OI, sums_RO = ctx.saved_tensors
        grad_RO = _through_gelu(sums_RO, grad_RO)
        grad_x_RI = multiply(grad_RO, weight_OI.T) if ctx.needs_input_grad[0] else None
        grad_weight_OI = multiply(grad_RO.T, x_RI.T) if ctx.needs_input_grad[1] else None
        return grad_x_RI, grad_weight_OI, grad_RO.sum(0) if ctx.has_bias else None, None


class _Strided(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_RI: Tensor, weight_OKI: Tensor, bias_O: Tensor | None, stride: int, has_gelu: bool
    ) -> Tensor:
        x_RI, weight_OKI = x_RI.contiguous(), weight_OKI.contiguous()
        n_rows = (len(x_RI) - weight_OKI.shape[1]) // stride + 1
        sums_SO = x_RI.new_empty(n_rows, len(weight_OKI))
        y_SO = torch.empty_like(sums_SO) if has_gelu else sums_SO
        windows_SP = _windows(x_RI, weight_OKI.shape[1], stride, n_rows)
        multiply(windows_SP, weight_OKI.flatten(1), sums_SO, bias_O=bias_O, gelu_NMO=y_SO if has_gelu else None)
        ctx.save_for_backward(x_RI, weight_OKI, sums_SO if has_gelu else None)
        ctx.stride, ctx.has_bias = stride, bias_O is not None
        return y_SO

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_SO: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        x_RI, weight_OKI, sums_SO = ctx.saved_tensors
        grad_SO, stride, (taps, channels) = _through_gelu(sums_SO, grad_SO), ctx.stride, weight_OKI.shape[1:]
        grad_x_RI = grad_weight_OKI = None
        if ctx.needs_input_grad[0]:
            grad_x_RI = torch.empty_like(x_RI)
            grad_x_RI[len(grad_SO) * stride :] = 0  # the first taps reach all rows before these
            for first in range(0, taps, stride):  # windows of as many taps as the stride do not overlap
                count = min(stride, taps - first)
                part_SP = _windows(grad_x_RI[first:], count, stride, len(grad_SO))
                weight_PO = weight_OKI[:, first : first + count].flatten(1).T
                multiply(grad_SO, weight_PO, part_SP, adds=first > 0)
        if ctx.needs_input_grad[1]:
            windows_SP = _windows(x_RI, taps, stride, len(grad_SO))
            grad_weight_OKI = multiply(grad_SO.T, windows_SP.T).view(-1, taps, channels)
        return grad_x_RI, grad_weight_OKI, grad_SO.sum(0) if ctx.has_bias else None, None, None


class _WindowsGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, windows_NSK: Tensor, weight_NKO: Tensor, bias_NO: Tensor) -> Tensor:
        sums_NSO = windows_NSK.new_empty(*windows_NSK.shape[:2], weight_NKO.shape[2])
        y_NSO = torch.empty_like(sums_NSO)
        for n, bias_O in enumerate(bias_NO):
            multiply(windows_NSK[n], weight_NKO[n].T, sums_NSO[n], bias_O=bias_O.contiguous(), gelu_NMO=y_NSO[n])
        ctx.save_for_backward(windows_NSK, sums_NSO)
        return y_NSO

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NSO: Tensor) -> tuple[None, Tensor, Tensor]:
        windows_NSK, sums_NSO = ctx.saved_tensors
        grad_NSO = _through_gelu(sums_NSO, grad_NSO)
        return None, multiply(windows_NSK.mT, grad_NSO.mT), grad_NSO.sum(1)


class _Grouped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_NSD: Tensor, weight_DEK: Tensor, before: int) -> Tensor:
        weight_GOEK = weight_DEK.contiguous().unflatten(0, (-1, weight_DEK.shape[1]))
        padded_NGET = _padded(x_NSD, weight_GOEK, before)
        ctx.save_for_backward(padded_NGET, weight_GOEK)
        ctx.before = before
        return _convolved(padded_NGET, weight_GOEK)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NSD: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        padded_NGET, weight_GOEK = ctx.saved_tensors
        groups, width = weight_GOEK.shape[:2]
        grad_x_NSD = grad_weight = None
        if ctx.needs_input_grad[0]:  # of time that runs backwards the same convolution
            reversed_NGOT = _padded(grad_NSD.flip(1), weight_GOEK, ctx.before)
            grad_x_NSD = _convolved(reversed_NGOT, weight_GOEK.transpose(1, 2)).flip(1)
        if ctx.needs_input_grad[1]:
            grad_weight = torch.empty_like(weight_GOEK)
            frames = grad_NSD.shape[1]
            grad_NGOS = grad_NSD.unflatten(2, (groups, width)).permute(0, 2, 3, 1).contiguous()
            for n, (grad_GOS, padded_GET) in enumerate(zip(grad_NGOS, padded_NGET, strict=True)):
                for grad_OS, padded_ET, out_OEK in zip(grad_GOS, padded_GET, grad_weight, strict=True):
                    frames_EKS = padded_ET.unfold(1, frames, 1)
                    grad_EOS = grad_OS.expand(width, -1, -1)
                    multiply(grad_EOS, frames_EKS, out_OEK.transpose(0, 1), adds=n > 0)
            grad_weight = grad_weight.flatten(0, 1)
        return grad_x_NSD, grad_weight, None


def _padded(x_NSD: Tensor, weight_GOEK: Tensor, before: int) -> Tensor:
    """[N, G, E, T], frames adjacent in memory, with zeros for the taps that reach beyond."""
    groups, width, _, taps = weight_GOEK.shape
    n_utterances, frames, _ = x_NSD.shape
    padded_NGET = x_NSD.new_zeros(n_utterances, groups, width, frames + taps - 1)
    padded_NGET[..., before : before + frames] = x_NSD.unflatten(2, (groups, width)).permute(0, 2, 3, 1)
    return padded_NGET


def _convolved(padded_NGET: Tensor, weight_GOEK: Tensor) -> Tensor:
    n_utterances, groups, width, length = padded_NGET.shape
    filters, taps = weight_GOEK.shape[1], weight_GOEK.shape[3]
    frames = length - taps + 1
    y_NSGO = padded_NGET.new_empty(n_utterances, frames, groups, filters)
    for padded_GET, y_SGO in zip(padded_NGET, y_NSGO, strict=True):
        windows_GSEK = padded_GET.as_strided(
            (groups, frames, width, taps), (width * length, 1, length, 1), padded_GET.storage_offset()
        )
        multiply(windows_GSEK, weight_GOEK, y_SGO.transpose(0, 1))
    return y_NSGO.flatten(2)


def _windows(x_RI: Tensor, taps: int, stride: int, n_rows: int) -> Tensor:
    """[S, K I]: a view of the rows under the taps, side by side."""
    channels = x_RI.shape[1]
    return x_RI.as_strided((n_rows, taps * channels), (stride * channels, 1), x_RI.storage_offset())


def _through_gelu(sums: Tensor | None, grad: Tensor) -> Tensor:
    """The gradient at the sums, in this thread's workspace; grad itself, contiguous, where there is no GELU."""
    if sums is None:
        return grad.contiguous()
    return gelu_backward(sums, grad, out=native.workspace(sums, "gradient of sums", *sums.shape))

"""What follows convolutions in training, as one pass of the native library: normalisation over the batch, the sum with
residuals, zeros beyond the ends of utterances, ReLU and dropout.

A channel of a batch stays in a cache meanwhile; apart, each of these reads and writes all of memory. Where the output
is zero nothing goes back, so that neither mask nor random numbers are kept. Also normalisation over the batches of all
processes.

Shapes: B utterances, C channels, T frames, R processes.
"""

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_float, c_int32, c_int64, c_uint32, c_void_p
from typing import Any, cast

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dist_functional
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from common.convolution import native, products
from common.training.layers.dropout import Noise, noise


class _Branch(Structure):
    """`normalized_branch`, field by field."""

    _fields_ = (
        *((name, c_void_p) for name in ("x", "weight", "bias", "mean", "scale", "running_mean", "running_variance")),
        *((name, c_void_p) for name in ("grad_x", "grad_weight", "grad_bias")),
    )


class _Problem(Structure):
    """`normalization_problem`, field by field."""

    _fields_ = (
        *((name, c_int64) for name in ("utterances", "channels", "frames", "branches")),
        ("branch", POINTER(_Branch)),
        *((name, c_float) for name in ("momentum", "epsilon")),
        *((name, c_void_p) for name in ("mask", "noise")),
        ("dropped", c_uint32),
        ("growth", c_float),
        *((name, c_void_p) for name in ("y", "grad_y")),
        *((name, c_int32) for name in ("threads", "instructions")),
    )


def is_one_pass(norms: Sequence[nn.Module], x_BCT: Tensor) -> bool:
    """Whether `normalized` does what these normalisations do: plain ones, in training, on a CPU in float32."""
    is_ours = products.runs_eagerly(x_BCT) and not products.is_left_to_torch()
    is_ours = is_ours and x_BCT.shape[1] > 0 and x_BCT.shape[0] * x_BCT.shape[2] > 1
    return is_ours and all(_is_plain(norm, norms[0]) for norm in norms) and native.load() is not None


def _is_plain(norm: nn.Module, first: nn.Module) -> bool:
    if type(norm) is not nn.BatchNorm1d or not norm.training or not norm.affine or norm.momentum is None:
        return False
    if norm.weight.dtype != torch.float32:
        return False
    return (norm.momentum, norm.eps) == (getattr(first, "momentum", None), getattr(first, "eps", None))


def normalized(
    norms: Sequence[nn.BatchNorm1d], xs_BCT: Sequence[Tensor], mask_B1T: Tensor, probability: float = 0.0
) -> Tensor:
    """Dropout of ReLU of the sum of norm(x), times mask_B1T of ones and zeros; where `is_one_pass`.

    Running statistics follow, as those of the modules do. Random numbers are those of `dropout` beside this. Raises
    ValueError for shapes and types that do not belong together: the library would read beyond them.
    """
    shape = xs_BCT[0].shape
    own = [tensor for norm in norms for tensor in (*norm.parameters(), norm.running_mean, norm.running_var)]
    of_channels = [tensor for tensor in own if tensor is not None]
    are_equal = len(norms) == len(xs_BCT) and all(x_BCT.shape == shape for x_BCT in xs_BCT)
    if not are_equal or mask_B1T.shape != (shape[0], 1, shape[2]) or any(t.shape != shape[1:2] for t in of_channels):
        found = [tuple(tensor.shape) for tensor in (*xs_BCT, mask_B1T)]
        raise ValueError(
            f"shapes {found}: expected equal ones [B, C, T], and of the mask [B, 1, T], and a norm of C channels for "
            f"each; found norms of {[norm.num_features for norm in norms]}"
        )
    if any(tensor.dtype != torch.float32 or tensor.device.type != "cpu" for tensor in (*xs_BCT, *of_channels)):
        types = ", ".join(f"{x_BCT.dtype} on {x_BCT.device}" for x_BCT in xs_BCT)
        raise ValueError(f"inputs of {types}: expected each, and its norm, to be float32 on the CPU")
    mask_B1T = mask_B1T.to(torch.float32)
    for norm in norms:
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
    drop = noise(xs_BCT[0], probability)
    parameters = [parameter for norm in norms for parameter in (norm.weight, norm.bias)]
    y_BCT = cast("Tensor", _Normalized.apply(norms, mask_B1T, drop, *xs_BCT, *parameters))
    if drop is None and probability:
        return nn.functional.dropout(y_BCT, probability)
    return y_BCT


class SyncBatchNorm1d(nn.BatchNorm1d):
    """Batch normalisation with the statistics of all processes, on any device (torch's own needs a GPU).

    Counts, means and variances are combined as by Chan et al. 1979: a mean far from zero costs no digits.
    """

    def forward(self, x_BCT: Tensor) -> Tensor:
        """x_BCT normalised over B, T and the processes in training; by the running statistics otherwise."""
        if not (self.training and dist.is_initialized()):
            return super().forward(x_BCT)
        dtype, x_BCT, rank, size = x_BCT.dtype, x_BCT.float(), dist.get_rank(), dist.get_world_size()
        count_1 = torch.full((1,), float(x_BCT.shape[0] * x_BCT.shape[2]), device=x_BCT.device)  # no copy to wait for
        own = torch.cat([count_1, *torch.var_mean(x_BCT, (0, 2), correction=0)])
        # A row per process: a sum of them has its gradient on any device, unlike gathering.
        rows = dist_functional.all_reduce(F.pad(own[None], (0, 0, rank, size - rank - 1)))
        counts_R1, variances_RC, means_RC = rows.split([1, self.num_features, self.num_features], 1)
        shares_R1 = counts_R1 / counts_R1.sum()
        mean = (shares_R1 * means_RC).sum(0)
        variance = (shares_R1 * (variances_RC + (means_RC - mean).square())).sum(0)
        with torch.no_grad():
            count = counts_R1.sum()
            for running, now in (
                (self.running_mean, mean),
                (self.running_var, variance * count / (count - 1).clamp(min=1)),
            ):
                cast("Tensor", running).lerp_(now, cast("float", self.momentum))
            cast("Tensor", self.num_batches_tracked).add_(1)
        scale = self.weight * (variance + self.eps).rsqrt()
        return torch.addcmul(self.bias[:, None], x_BCT - mean[:, None], scale[:, None]).to(dtype)


def synchronized(model: nn.Module) -> None:
    """Lets every `BatchNorm1d` of `model` have the statistics of all processes from now on; names and state stay."""
    for module in model.modules():
        if type(module) is nn.BatchNorm1d:
            module.__class__ = SyncBatchNorm1d


class _Normalized(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, norms: Sequence[nn.BatchNorm1d], mask_B1T: Tensor, drop: Noise | None, *tensors: Tensor
    ) -> Tensor:
        xs_BCT, parameters = [x.contiguous() for x in tensors[: len(norms)]], tensors[len(norms) :]
        mask_B1T, statistics = mask_B1T.contiguous(), xs_BCT[0].new_empty(len(norms), 2, xs_BCT[0].shape[1])
        y_BCT = torch.empty_like(xs_BCT[0])
        branches = _branches(xs_BCT, parameters, statistics)
        for branch, norm in zip(branches, norms, strict=True):
            if norm.running_mean is not None and norm.running_var is not None:
                branch.running_mean, branch.running_variance = norm.running_mean.data_ptr(), norm.running_var.data_ptr()
        problem = _problem(y_BCT, branches, mask_B1T)
        problem.momentum, problem.epsilon = cast("float", norms[0].momentum), norms[0].eps
        ctx.growth = 1.0
        if drop is not None:
            problem.noise, problem.dropped, problem.growth = drop.bits_X.ctypes.data, drop.steps, drop.growth
            ctx.growth = drop.growth
        _run("normalization_forward", problem)
        ctx.save_for_backward(y_BCT, mask_B1T, statistics, *xs_BCT, *parameters)
        return y_BCT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BCT: Tensor) -> tuple[Any, ...]:
        y_BCT, mask_B1T, statistics, *tensors = ctx.saved_tensors
        xs_BCT, parameters = tensors[: len(statistics)], tensors[len(statistics) :]
        grad_BCT = grad_BCT.contiguous()
        branches = _branches(xs_BCT, parameters, statistics)
        grads_BCT, grads = [torch.empty_like(x) for x in xs_BCT], [torch.empty_like(p) for p in parameters]
        for i, branch in enumerate(branches):
            branch.grad_x = grads_BCT[i].data_ptr()
            branch.grad_weight, branch.grad_bias = grads[2 * i].data_ptr(), grads[2 * i + 1].data_ptr()
        problem = _problem(y_BCT, branches, mask_B1T)
        problem.grad_y, problem.growth = grad_BCT.data_ptr(), ctx.growth
        _run("normalization_backward", problem)
        return None, None, None, *grads_BCT, *grads


def _branches(xs_BCT: Sequence[Tensor], parameters: Sequence[Tensor], statistics: Tensor) -> Any:
    branches = (_Branch * len(xs_BCT))()
    at, size = statistics.data_ptr(), 4 * statistics.shape[2]
    for i, (branch, x_BCT) in enumerate(zip(branches, xs_BCT, strict=True)):
        branch.x, branch.weight, branch.bias = (
            tensor.data_ptr() for tensor in (x_BCT, parameters[2 * i], parameters[2 * i + 1])
        )
        branch.mean, branch.scale = at + 2 * i * size, at + (2 * i + 1) * size
    return branches


def _problem(y_BCT: Tensor, branches: Any, mask_B1T: Tensor) -> _Problem:
    problem = _Problem(*y_BCT.shape, len(branches), branches)
    problem.mask, problem.y, problem.growth = mask_B1T.data_ptr(), y_BCT.data_ptr(), 1.0
    problem.threads, problem.instructions = torch.get_num_threads(), native.INSTRUCTIONS["automatic"]
    return problem


def _run(name: str, problem: _Problem) -> None:
    library = native.load()
    assert library is not None, "callers ask `is_one_pass` first"
    native.check(getattr(library, name)(ctypes.byref(problem)))

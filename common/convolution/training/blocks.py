"""Convolutions that train with fewer multiplications: overlap-save as products of matrices, forward and backward.

    y = A [(G w) * (B x)]; then with Y' = A' dy: dx = B' [(G w) * Y'] and dw = G' [Y' * (B x)], sums over blocks.

Each way is one call of the native library. What the input is at the points is kept for the backward pass where it is
small; otherwise it is made anew there, in this thread's workspace, so that a training of wide layers holds no more than
before.

Shapes: N utterances, I channels in, O out, K taps, T frames in, S out; blocks of L frames that give M each; P points.
"""

import ctypes
import functools
import math
from ctypes import Structure, c_int32, c_int64, c_size_t, c_void_p
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from common.convolution import native, products
from common.convolution.algorithms import LONGEST_BLOCK, overlap_save
from common.convolution.training import matmul

BLOCKS = (16, 20, 24, 28, 32, 40, 48, 56, 64)
FEWEST_TAPS, FEWEST_CHANNELS = 5, 64
GAP = 32  # values between planes: BLOCKS_GAP
CACHED_BYTES = 12 * 2**20  # of rows at all points, which stay in the third cache
KEPT_BYTES = 2**22  # of an input at the points
CHUNK_BYTES = 2**26  # of weights at the points that are worked on at once where rows are many
CALLS = 0.7e-3  # seconds that calls from Python take, forward and backward
WORTH = 0.8  # part of the direct sums' time that may be expected at most


class Matrices(NamedTuple):
    """The matrices of overlap-save, float32, in the orders that they are read in."""

    input_PL: Tensor
    weight_PK: Tensor
    output_PM: Tensor


def convolved(convolution: nn.Conv1d, x_NIT: Tensor) -> Tensor:
    """`convolution(x_NIT)` in training, by whichever algorithm is expected to be fastest; in one thread of a CPU."""
    block = _block_of(convolution, x_NIT)
    if block is None:
        return products.pointwise(convolution, x_NIT)
    dilation = convolution.dilation[0]
    padding, frames = cast("int", convolution.padding[0]) // dilation, x_NIT.shape[2]
    if dilation == 1:
        return cast("Tensor", _Blocks.apply(x_NIT, convolution.weight, padding, block))
    # Every `dilation`-th frame is of an utterance of its own, which the taps stand side by side in.
    phases_NIUD = F.pad(x_NIT, (0, -frames % dilation)).unflatten(2, (-1, dilation))
    phases_NIU = phases_NIUD.permute(0, 3, 1, 2).flatten(0, 1)
    y_NOU = cast("Tensor", _Blocks.apply(phases_NIU, convolution.weight, padding, block))
    return y_NOU.unflatten(0, (-1, dilation)).permute(0, 2, 3, 1).flatten(2)[..., :frames]


def _block_of(convolution: nn.Conv1d, x_NIT: Tensor) -> int | None:
    if not matmul.is_fastest(x_NIT, convolution.weight) or torch.get_num_threads() > 1:
        return None
    filters, channels, taps = convolution.weight.shape
    dilation, padding = convolution.dilation[0], convolution.padding[0]
    is_plain = convolution.stride == (1,) and convolution.groups == 1 and convolution.bias is None
    is_plain = is_plain and convolution.padding_mode == "zeros"
    is_plain = is_plain and (padding == taps // 2 * dilation if dilation > 1 else isinstance(padding, int))
    if not is_plain or taps % 2 == 0 or taps < FEWEST_TAPS or min(filters, channels) < FEWEST_CHANNELS:
        return None
    outputs = -(-x_NIT.shape[2] // dilation) + 2 * cast("int", padding) // dilation - taps + 1
    return fastest(x_NIT.shape[0] * dilation, outputs, channels, filters, taps) if outputs > 0 else None


@functools.lru_cache(maxsize=4096)  # lengths of batches differ all through a training
def fastest(utterances: int, outputs: int, channels: int, filters: int, taps: int) -> int | None:
    """Frames of the blocks that are expected to be fastest, forward and backward; None: the direct sum is."""
    size = channels * filters
    direct = 6.0 * utterances * outputs * taps * size / 165e9
    found = [(_seconds(block, utterances, outputs, channels, filters, taps), block) for block in _blocks(taps)]
    seconds, block = min(found, default=(math.inf, 0))
    return block if seconds < WORTH * direct else None


def _blocks(taps: int) -> list[int]:
    found = [block for block in BLOCKS if block >= taps + 4] or [2 * taps]
    return [block for block in found if block <= LONGEST_BLOCK]


def _seconds(block: int, utterances: int, outputs: int, channels: int, filters: int, taps: int) -> float:
    """Estimated processor time of a training step's layer, by measurements on one AMD EPYC of 2024."""
    points, made, size = overlap_save(block, taps).points, block - taps + 1, channels * filters
    rows = utterances * math.ceil(outputs / made)
    transforms = 2.0 * rows * points * (3 * block * channels + 2 * made * filters) / 55e9
    if 4 * points * rows * (channels + filters) <= CACHED_BYTES:
        return 6.0 * points * size * (rows + 1.8 * taps) / 200e9 + transforms + CALLS
    multiplied = 6.0 * points * size * (rows + 30) / 200e9
    weights = 6.0 * points * taps * size / 75e9
    moved = 4.0 * points * (rows * (6 * channels + 5 * filters) + 6 * size) / 20e9
    return multiplied + transforms + weights + moved + CALLS


@functools.cache
def _matrices(block: int, taps: int) -> Matrices:
    algorithm = overlap_save(block, taps)
    matrices = algorithm.input_PN, algorithm.weight_PK, algorithm.output_MP.T
    with torch.inference_mode(False):
        return Matrices(*(matrix.float().contiguous() for matrix in matrices))


class _Problem(Structure):
    """`blocks_problem`, field by field."""

    _fields_ = (
        *((name, c_int64) for name in ("utterances", "channels", "frames", "filters", "taps", "padding")),
        *((name, c_int64) for name in ("block", "points", "cached_bytes", "chunk_bytes")),
        *((name, c_void_p) for name in ("input", "transform", "output", "x", "weight", "y", "kept")),
        *((name, c_void_p) for name in ("grad_y", "grad_x", "grad_weight")),
        ("instructions", c_int32),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
    )


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_NIT: Tensor, weight_OIK: Tensor, padding: int, block: int) -> Tensor:
        x_NIT, weight_OIK = x_NIT.contiguous(), weight_OIK.contiguous()
        ctx.padding, ctx.block = padding, block
        filters, channels, taps = weight_OIK.shape
        outputs, made = x_NIT.shape[2] + 2 * padding - taps + 1, block - taps + 1
        y_NOS = x_NIT.new_empty(len(x_NIT), filters, outputs)
        problem, matrices = _problem(x_NIT, weight_OIK, padding, block)
        kept = None
        rows = len(x_NIT) * math.ceil(outputs / made)
        if ctx.needs_input_grad[1] and 4 * problem.points * rows * channels <= KEPT_BYTES:
            kept = x_NIT.new_empty(problem.points * (rows * channels + GAP))
            problem.kept = kept.data_ptr()
        problem.y = y_NOS.data_ptr()
        _run("blocks_forward", problem, matrices)
        ctx.save_for_backward(x_NIT, weight_OIK, kept)
        return y_NOS

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NOS: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x_NIT, weight_OIK, kept = ctx.saved_tensors
        grad_NOS = grad_NOS.contiguous()
        problem, matrices = _problem(x_NIT, weight_OIK, ctx.padding, ctx.block)
        needs_x, needs_weight = ctx.needs_input_grad[:2]
        grad_x_NIT = torch.empty_like(x_NIT) if needs_x else None
        grad_weight_OIK = torch.empty_like(weight_OIK) if needs_weight else None
        problem.kept, problem.grad_y = None if kept is None else kept.data_ptr(), grad_NOS.data_ptr()
        problem.grad_x = None if grad_x_NIT is None else grad_x_NIT.data_ptr()
        problem.grad_weight = None if grad_weight_OIK is None else grad_weight_OIK.data_ptr()
        _run("blocks_backward", problem, matrices)
        return grad_x_NIT, grad_weight_OIK, None, None


def _problem(x_NIT: Tensor, weight_OIK: Tensor, padding: int, block: int) -> tuple[_Problem, Matrices]:
    filters, channels, taps = weight_OIK.shape
    matrices = _matrices(block, taps)
    sizes = len(x_NIT), channels, x_NIT.shape[2], filters, taps, padding, block, len(matrices.input_PL)
    pointers = (tensor.data_ptr() for tensor in (*matrices, x_NIT, weight_OIK))
    return _Problem(*sizes, CACHED_BYTES, CHUNK_BYTES, *pointers), matrices


def _run(name: str, problem: _Problem, matrices: Matrices) -> None:
    """Calls the library; `matrices` are those that the problem points to."""
    library = native.loaded()
    problem.workspace_bytes = library.blocks_workspace(ctypes.byref(problem))
    problem.workspace = native.workspace(native.BYTE, "blocks", problem.workspace_bytes).data_ptr()
    native.check(getattr(library, name)(ctypes.byref(problem)))

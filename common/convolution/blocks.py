"""Convolutions that train with fewer multiplications: overlap-save as products of matrices, forward and backward.

    y = A [(G w) * (B x)]; then with Y' = A' dy: dx = B' [(G w) * Y'] and dw = G' [Y' * (B x)], sums over blocks.

All of it is products of the native library, which read their matrices where they lie. What the input is at the points
is kept for the backward pass where it is small; otherwise it is made anew there, in this thread's workspace, so that a
training of wide layers holds no more than before.

Shapes: N utterances, I channels in, O out, K taps, T frames in, S out; blocks of L frames that give M each, U blocks of
an utterance; P points; R rows, a block of an utterance each.
"""

import functools
import math
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from common.convolution import matmul, native, products
from common.convolution.algorithms import overlap_save
from common.convolution.matmul import gradient_at_points, multiply, multiply_all, multiply_at_points

BLOCKS = (16, 20, 24, 28, 32, 40, 48, 56, 64)
FEWEST_TAPS, FEWEST_CHANNELS = 5, 64
GAP = 32  # values
ROWS = 12  # of a register block of the kernels
CACHED_BYTES = 12 * 2**20
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
    found = min((_seconds(block, utterances, outputs, channels, filters, taps), block) for block in _blocks(taps))
    return found[1] if found[0] < WORTH * direct else None


def _blocks(taps: int) -> list[int]:
    return [block for block in BLOCKS if block >= taps + 4] or [2 * taps]


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


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_NIT: Tensor, weight_OIK: Tensor, padding: int, block: int) -> Tensor:
        weight_OIK = weight_OIK.contiguous()
        ctx.padding, ctx.block = padding, block
        filters, _, taps = weight_OIK.shape
        matrices, n_utterances, made = _matrices(block, taps), len(x_NIT), block - taps + 1
        outputs = x_NIT.shape[2] + 2 * padding - taps + 1
        is_kept = ctx.needs_input_grad[1] and _is_small(x_NIT, outputs, taps, matrices)
        input_PNUI = _at_points(x_NIT, padding, outputs, taps, matrices, is_kept=is_kept)
        n_points, _, n_blocks, _ = input_PNUI.shape
        ctx.save_for_backward(x_NIT, weight_OIK, input_PNUI if is_kept else None)
        sums_PNUO = _planes(x_NIT, "sums at points", n_points, n_utterances, n_blocks, filters)
        taps_IOK = weight_OIK.transpose(0, 1)
        _multiply(input_PNUI.flatten(1, 2), matrices.weight_PK, taps_IOK, sums_PNUO.flatten(1, 2))
        y_NOS = x_NIT.new_empty(n_utterances, filters, outputs)
        sums_NUOP = sums_PNUO.permute(1, 2, 3, 0)
        for blocks, y_NUOM in _in_blocks(y_NOS, made):
            matrix_NUMP = matrices.output_PM.T[: y_NUOM.shape[3]].expand(*y_NUOM.shape[:2], -1, -1)
            multiply_all(sums_NUOP[:, blocks], matrix_NUMP, y_NUOM)
        return y_NOS

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NOS: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x_NIT, weight_OIK, input_PNUI = ctx.saved_tensors
        filters, channels, taps = weight_OIK.shape
        grad_NOS, matrices, made = grad_NOS.contiguous(), _matrices(ctx.block, taps), ctx.block - taps + 1
        n_utterances, _, outputs = grad_NOS.shape
        n_points, n_blocks = len(matrices.input_PL), math.ceil(outputs / made)
        shape = n_points, n_utterances, n_blocks
        grad_PNUO = _planes(x_NIT, "sums at points", *shape, filters)
        for blocks, grad_NUOM in _in_blocks(grad_NOS, made):
            matrix_NUPM = matrices.output_PM[:, : grad_NUOM.shape[3]].expand(*grad_NUOM.shape[:2], -1, -1)
            multiply_all(matrix_NUPM, grad_NUOM, grad_PNUO.permute(1, 2, 0, 3)[:, blocks])
        needs_x, needs_weight = ctx.needs_input_grad[:2]
        grad_PRO, grad_weight_OIK, back_PNUI = grad_PNUO.flatten(1, 2), None, None
        if needs_weight:
            if input_PNUI is None:
                input_PNUI = _at_points(x_NIT, ctx.padding, outputs, taps, matrices)
            grad_weight_OIK = torch.empty_like(weight_OIK)
            _gradient(grad_PRO, matrices.weight_PK, input_PNUI.flatten(1, 2), grad_weight_OIK)
        if needs_x:
            back_PNUI = _planes(x_NIT, "points", *shape, channels)
            _multiply(grad_PRO, matrices.weight_PK, weight_OIK, back_PNUI.flatten(1, 2))
        return _from_points(back_PNUI, x_NIT, ctx.padding, made, matrices), grad_weight_OIK, None, None


def _planes(like: Tensor, name: str, *shape: int, is_kept: bool = False) -> Tensor:
    """Planes in this thread's workspace, or a new tensor, if `is_kept`.

    There are gaps between them, so that not all of them start in the same set of a cache.
    """
    size = math.prod(shape[1:])
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    n_values = shape[0] * (size + GAP)
    flat = like.new_empty(n_values) if is_kept else native.workspace(like, name, n_values)
    return flat.as_strided(shape, (size + GAP, *strides[1:]))


def _multiply(a_PRD: Tensor, matrix_PK: Tensor, weight_DOK: Tensor, out_PRO: Tensor) -> None:
    """At each point the rows times the taps there."""
    if _fit(a_PRD, out_PRO):
        multiply_at_points(a_PRD, matrix_PK, weight_DOK, out_PRO)
        return
    flat_K = weight_DOK if weight_DOK.is_contiguous() else weight_DOK.transpose(0, 1)
    for part in _parts(weight_DOK, len(matrix_PK)):
        matrix_CK = matrix_PK[part]
        weight_CXX = _planes(weight_DOK, "weights", len(matrix_CK), *flat_K.shape[:2])
        multiply(matrix_CK, flat_K.reshape(-1, flat_K.shape[2]), weight_CXX.flatten(1))
        weight_COD = weight_CXX.mT if weight_DOK.is_contiguous() else weight_CXX
        multiply(a_PRD[part], weight_COD, out_PRO[part])


def _gradient(a_PRD: Tensor, matrix_PK: Tensor, grad_PRO: Tensor, out_DOK: Tensor) -> None:
    """The gradient of the taps of `_multiply`."""
    if _fit(a_PRD, grad_PRO):
        gradient_at_points(a_PRD, matrix_PK, grad_PRO, out_DOK)
        return
    for part in _parts(out_DOK, len(matrix_PK)):
        sums_CDO = _planes(out_DOK, "weights", part.stop - part.start, *out_DOK.shape[:2])
        multiply(a_PRD[part].mT, grad_PRO[part].mT, sums_CDO)
        flat_WK = out_DOK.view(-1, out_DOK.shape[2])
        multiply(sums_CDO.flatten(1).T, matrix_PK[part].T, flat_WK, adds=part.start > 0)


def _fit(a_PRD: Tensor, b_PRO: Tensor) -> bool:
    """Whether the rows at all points stay in the third cache, from which they are read for every few columns."""
    return 4 * (a_PRD.numel() + b_PRO.numel()) <= CACHED_BYTES


def _parts(weight_DOK: Tensor, n_points: int) -> list[slice]:
    """Points whose weights are worked on at once."""
    size = 4 * weight_DOK.shape[0] * weight_DOK.shape[1] * ROWS
    count = max(1, CHUNK_BYTES // size) * ROWS
    return [slice(first, min(first + count, n_points)) for first in range(0, n_points, count)]


def _is_small(x_NIT: Tensor, outputs: int, taps: int, matrices: Matrices) -> bool:
    """Whether the input at the points is so small that it is kept."""
    n_points, block = matrices.input_PL.shape
    n_rows = len(x_NIT) * math.ceil(outputs / (block - taps + 1))
    return 4 * n_points * n_rows * x_NIT.shape[1] <= KEPT_BYTES


def _at_points(
    x_NIT: Tensor, padding: int, outputs: int, taps: int, matrices: Matrices, *, is_kept: bool = False
) -> Tensor:
    """[P, N, U, I] in this thread's workspace, or in a new tensor, if `is_kept`."""
    n_utterances, channels, frames = x_NIT.shape
    n_points, block = matrices.input_PL.shape
    made = block - taps + 1
    n_blocks = math.ceil(outputs / made)
    length = (n_blocks - 1) * made + block
    padded_NIT = native.workspace(x_NIT, "padded", n_utterances, channels, length)
    padded_NIT[..., :padding] = 0
    padded_NIT[..., padding : padding + frames] = x_NIT
    padded_NIT[..., padding + frames :] = 0
    points_PNUI = _planes(x_NIT, "points", n_points, n_utterances, n_blocks, channels, is_kept=is_kept)
    blocks_NUIL = padded_NIT.unfold(2, block, made).transpose(1, 2)
    matrix_NUPL = matrices.input_PL.expand(n_utterances, n_blocks, -1, -1)
    multiply_all(matrix_NUPL, blocks_NUIL, points_PNUI.permute(1, 2, 0, 3))
    return points_PNUI


def _from_points(
    points_PNUI: Tensor | None, x_NIT: Tensor, padding: int, made: int, matrices: Matrices
) -> Tensor | None:
    """The gradient of the input of `_at_points`; blocks overlap, and their sum is it."""
    if points_PNUI is None:
        return None
    _, n_utterances, n_blocks, channels = points_PNUI.shape
    block, frames = matrices.input_PL.shape[1], x_NIT.shape[2]
    sums_NIT = x_NIT.new_zeros(n_utterances, channels, (n_blocks - 1) * made + block)
    blocks_NUIL = sums_NIT.unfold(2, block, made).transpose(1, 2)
    matrix_NULP = matrices.input_PL.T.expand(n_utterances, n_blocks, -1, -1)
    multiply_all(points_PNUI.permute(1, 2, 3, 0), matrix_NULP, blocks_NUIL, adds=True)
    return sums_NIT[..., padding : padding + frames]


def _in_blocks(x_NOS: Tensor, made: int) -> list[tuple[slice, Tensor]]:
    """Views [N, U, O, M] of the whole blocks, and of the last one where it is shorter, with their numbers."""
    frames = x_NOS.shape[2]
    whole = frames // made
    found = []
    if whole:
        found.append((slice(0, whole), x_NOS[..., : whole * made].unflatten(2, (whole, made)).transpose(1, 2)))
    if frames % made:
        found.append((slice(whole, whole + 1), x_NOS[..., whole * made :].unsqueeze(1)))
    return found

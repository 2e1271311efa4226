"""Products of matrices by the native library, of which either changes at every call: what training needs.

Shapes: N products (L times N of several), M rows, O columns, S segments of D values each, which are summed over. At the
points of convolutions: P points, R rows of D values, O columns, K taps.
"""

import ctypes
from ctypes import Structure, c_int32, c_int64, c_size_t, c_void_p

import torch
from torch import Tensor

from common.convolution import native, products
from common.convolution.native import INSTRUCTIONS, Instructions


class ProductProblem(Structure):
    """`product_problem`, field by field."""

    _fields_ = (
        *((name, c_int64) for name in ("outer", "batch", "rows", "columns", "segments", "depth")),
        ("a", c_void_p),
        *((name, c_int64) for name in ("a_outer", "a_batch", "a_row", "a_segment", "a_depth")),
        ("b", c_void_p),
        *((name, c_int64) for name in ("b_outer", "b_batch", "b_column", "b_segment", "b_depth")),
        ("c", c_void_p),
        *((name, c_int64) for name in ("c_outer", "c_batch", "c_row")),
        *((name, c_void_p) for name in ("bias", "gelu")),
        *((name, c_int32) for name in ("adds", "threads", "instructions")),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
    )


def is_fastest(*tensors: Tensor) -> bool:
    """Whether these are on the CPU in float32, MKL is slow there, and the native library is built."""
    return (
        all(products.runs_eagerly(tensor) for tensor in tensors)
        and not products.has_fast_products()
        and not products.is_left_to_torch()
        and native.load() is not None
    )


def multiply(
    a_NMSD: Tensor,
    b_NOSD: Tensor,
    out_NMO: Tensor | None = None,
    *,
    bias_O: Tensor | None = None,
    gelu_NMO: Tensor | None = None,
    adds: bool = False,
    instructions: Instructions = "automatic",
) -> Tensor:
    """The sums over S and D of a times b, plus bias_O, to out_NMO; if `adds`, to what is there.

    Both may lack leading dimensions, N first, then S, and have any strides: of b's columns or its D those are 1.
    `gelu_NMO`, with the strides of out_NMO, receives GELU of the sums besides. float32 on the CPU. Needs the library.
    """
    a, b = _with_segments(a_NMSD), _with_segments(b_NOSD)
    if 1 not in (b.stride(1), b.stride(3)):
        b = b.contiguous()
    batch, rows, segments, depth = a.shape
    if b.shape != (batch, b.shape[1], segments, depth):
        raise ValueError(f"a {tuple(a_NMSD.shape)} and b {tuple(b_NOSD.shape)}: expected the same but for the rows")
    if out_NMO is None:
        out_NMO = a.new_empty(*a_NMSD.shape[: a_NMSD.dim() - (1 if a_NMSD.dim() < 4 else 2)], b.shape[1])
    out = out_NMO if out_NMO.dim() == 3 else out_NMO[None]
    if out.shape != (batch, rows, b.shape[1]) or (out.stride(2) != 1 and out.shape[2] > 1):
        raise ValueError(f"out {tuple(out.shape)}: expected {(batch, rows, b.shape[1])}, columns adjacent in memory")
    if out.numel() == 0 or segments * depth == 0:
        return out_NMO if adds else out_NMO.zero_() if bias_O is None else out_NMO.copy_(bias_O)
    if gelu_NMO is not None and gelu_NMO.stride() != out_NMO.stride():
        raise ValueError(f"gelu {gelu_NMO.stride()}: expected the strides of out, {out_NMO.stride()}")
    problem = ProductProblem(
        1, batch, rows, out.shape[2], segments, depth, a.data_ptr(), 0, *a.stride(), b.data_ptr(), 0
    )
    problem.b_batch, problem.b_column, problem.b_segment, problem.b_depth = b.stride()
    problem.c, problem.c_batch, problem.c_row = out.data_ptr(), *out.stride()[:2]
    problem.bias = None if bias_O is None else bias_O.data_ptr()
    problem.gelu = None if gelu_NMO is None else gelu_NMO.data_ptr()
    _run(problem, adds, instructions)
    return out_NMO


def gelu_backward(
    x: Tensor, grad_y: Tensor, *, out: Tensor | None = None, instructions: Instructions = "automatic"
) -> Tensor:
    """The gradient of GELU at x, to `out`, contiguous, or a new tensor. float32 on the CPU. Needs the library."""
    x, grad_y = x.contiguous(), grad_y.contiguous()
    out = torch.empty_like(x) if out is None else out
    pointers = (tensor.data_ptr() for tensor in (x, grad_y, out))
    threads = torch.get_num_threads()
    native.check(_library().product_gelu_backward(x.numel(), *pointers, threads, INSTRUCTIONS[instructions]))
    return out


def _with_segments(x: Tensor) -> Tensor:
    """[N, M, S, D] of a tensor that lacks N, S or both."""
    if x.dim() == 2:
        return x[None, :, None]
    return x.unsqueeze(2) if x.dim() == 3 else x


def _run(problem: ProductProblem, adds: bool, instructions: Instructions) -> None:
    problem.adds, problem.threads, problem.instructions = adds, torch.get_num_threads(), INSTRUCTIONS[instructions]
    library = _library()
    problem.workspace_bytes = library.product_workspace(ctypes.byref(problem))
    problem.workspace = native.workspace(native.BYTE, "panels", problem.workspace_bytes).data_ptr()
    native.check(library.product_run(ctypes.byref(problem)))


def _library() -> ctypes.CDLL:
    library = native.load()
    assert library is not None, "callers ask `is_fastest` first"
    return library

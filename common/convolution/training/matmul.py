"""Products of matrices by the native library, of which either changes at every call: what training needs.

Shapes: M rows, O columns, D values, which are summed over.
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
    a_MD: Tensor,
    b_OD: Tensor,
    out_MO: Tensor | None = None,
    *,
    bias_O: Tensor | None = None,
    gelu_MO: Tensor | None = None,
    adds: bool = False,
    instructions: Instructions = "automatic",
) -> Tensor:
    """The sums over D of a times b, plus bias_O, to out_MO; if `adds`, to what is there.

    Both may have any strides: of b's columns or its D those are 1. `gelu_MO`, with the strides of out_MO, receives GELU
    of the sums besides. float32 on the CPU. Needs the library.
    """
    if 1 not in b_OD.stride():
        b_OD = b_OD.contiguous()
    (rows, depth), columns = a_MD.shape, len(b_OD)
    if b_OD.shape[1] != depth:
        raise ValueError(f"a {tuple(a_MD.shape)} and b {tuple(b_OD.shape)}: expected the same but for the rows")
    out = a_MD.new_empty(rows, columns) if out_MO is None else out_MO
    if out.shape != (rows, columns) or (out.stride(1) != 1 and columns > 1):
        raise ValueError(f"out {tuple(out.shape)}: expected {(rows, columns)}, columns adjacent in memory")
    if out.numel() == 0 or depth == 0:
        return out if adds else out.zero_() if bias_O is None else out.copy_(bias_O)
    if gelu_MO is not None and gelu_MO.stride() != out.stride():
        raise ValueError(f"gelu {gelu_MO.stride()}: expected the strides of out, {out.stride()}")
    problem = ProductProblem(outer=1, batch=1, rows=rows, columns=columns, segments=1, depth=depth)
    problem.a, (problem.a_row, problem.a_depth) = a_MD.data_ptr(), a_MD.stride()
    problem.b, (problem.b_column, problem.b_depth) = b_OD.data_ptr(), b_OD.stride()
    problem.c, problem.c_row = out.data_ptr(), out.stride(0)
    problem.bias = None if bias_O is None else bias_O.data_ptr()
    problem.gelu = None if gelu_MO is None else gelu_MO.data_ptr()
    problem.adds, problem.threads, problem.instructions = adds, torch.get_num_threads(), INSTRUCTIONS[instructions]
    library = native.loaded()
    problem.workspace_bytes = library.product_workspace(ctypes.byref(problem))
    problem.workspace = native.workspace(native.BYTE, "panels", problem.workspace_bytes).data_ptr()
    native.check(library.product_run(ctypes.byref(problem)))
    return out


def gelu_backward(
    x: Tensor, grad_y: Tensor, *, out: Tensor | None = None, instructions: Instructions = "automatic"
) -> Tensor:
    """The gradient of GELU at x, to `out`, contiguous, or a new tensor. float32 on the CPU. Needs the library."""
    x, grad_y = x.contiguous(), grad_y.contiguous()
    out = torch.empty_like(x) if out is None else out
    pointers = (tensor.data_ptr() for tensor in (x, grad_y, out))
    threads = torch.get_num_threads()
    native.check(native.loaded().product_gelu_backward(x.numel(), *pointers, threads, INSTRUCTIONS[instructions]))
    return out

"""Which library multiplies matrices, where torch's choice is a slow one.

MKL, by which torch multiplies matrices on a CPU, has kernels for AVX-512 that it uses on Intel's processors alone; on
those of AMD it takes the ones for AVX2, at half the speed. oneDNN's convolutions take AVX-512 on both.
"""

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.machine import processor_flags, processor_vendor


@functools.cache
def has_fast_products() -> bool:
    """Whether MKL has kernels for this processor that are as fast as oneDNN's convolutions."""
    return "avx512f" not in (processor_flags() or "") or processor_vendor() == "GenuineIntel"


def pointwise(conv: nn.Conv1d, x_BCT: Tensor) -> Tensor:
    """`conv(x_BCT)`; where it has one tap and torch's product is slow, by oneDNN."""
    has_one = conv.kernel_size == (1,) and conv.stride == (1,) and conv.groups == 1 and conv.padding == (0,)
    if not has_one or not is_worth_it(x_BCT):
        return conv(x_BCT)
    # One tap has no use of a dilation; but without one torch takes its own slow loop in place of oneDNN.
    return F.conv1d(x_BCT, conv.weight, conv.bias, dilation=2)


@contextmanager
def left_to_torch() -> Iterator[None]:
    """Inside, products are torch's own: what ours are compared with."""
    left.append(True)
    try:
        yield
    finally:
        left.pop()


def is_left_to_torch() -> bool:
    """Whether this is inside of `left_to_torch`."""
    return bool(left)


left: list[bool] = []
_SMALL = 2**15  # values, below which the call takes longer than the sums


def is_worth_it(x: Tensor) -> bool:
    """Whether a product of `x` is faster by another library than torch's choice."""
    return runs_eagerly(x) and not has_fast_products() and not left and x.numel() >= _SMALL


def runs_eagerly(x: Tensor) -> bool:
    """On a CPU in float32: not under autocast, which has other products, nor in a graph, which has to know of them."""
    is_plain = x.is_cpu and x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return is_plain and not is_traced()


def untraced() -> AbstractContextManager[None]:
    """Inside, torch.jit.trace records nothing: it has no operator for bits that are taken for another type."""
    return nullcontext() if torch.compiler.is_compiling() else _untraced()


@contextmanager
def _untraced() -> Iterator[None]:
    state, change = torch._C._get_tracing_state(), torch._C._set_tracing_state  # type: ignore[attr-defined]
    change(None)
    try:
        yield
    finally:
        change(state)


def is_traced() -> bool:
    """Whether this call becomes part of a graph, by torch.compile or torch.jit.trace."""
    return torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None

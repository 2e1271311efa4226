"""Memory of large gradients, lent and taken back.

A fresh gradient of 100 MB costs five times as long in page faults as its computation: the kernel hands out every page
anew. A pool keeps the pages.
"""

import math
import mmap
import weakref

import numpy as np
import torch
from torch import Tensor

PRIVATE: dict[str, int] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
"""Python's default is memory shared with forked processes, which gets no pages of 2 MB."""
SMALLEST_POOLED_BYTES = 32 << 20
"""Smaller tensors come from torch: up to this size malloc of glibc learns to keep memory instead of mapping it anew."""


class GradientPool:
    """Lends CPU memory to one large tensor after the other.

    Memory comes back by itself when the last tensor that uses it is gone, and is lent again only then: nothing that is
    alive is ever overwritten. It costs to hold the largest tensor's memory for as long as the pool lives. Copies and
    pickles of a pool are empty ones.
    """

    def __init__(self) -> None:
        self._free: list[mmap.mmap] = []

    def empty_like(self, like: Tensor) -> Tensor:
        """An uninitialised tensor of the shape, type and, where they leave no gaps, strides of `like`."""
        lent = self.lend(like)
        return torch.empty_like(like) if lent is None else lent

    def lend(self, like: Tensor) -> Tensor | None:
        """`empty_like`, or None for what torch's own memory serves as well: small tensors and other devices."""
        size = like.numel() * like.element_size()
        if size < SMALLEST_POOLED_BYTES or like.device.type != "cpu":
            return None
        block = self._take(size)
        lent = np.frombuffer(block, dtype=np.uint8, count=size)
        # torch keeps the array that it was made from for as long as any tensor on that memory lives.
        tensor = torch.from_numpy(lent).view(like.dtype)
        weakref.finalize(lent, self._free.append, block)
        del lent
        return tensor.as_strided(like.shape, _dense_strides(like))

    def _take(self, size: int) -> mmap.mmap:
        while self._free:
            block = self._free.pop()
            if len(block) >= size:
                return block
        block = mmap.mmap(-1, size, **PRIVATE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            block.madvise(mmap.MADV_HUGEPAGE)
        return block

    def __reduce__(self) -> tuple[type["GradientPool"], tuple[()]]:
        return GradientPool, ()


def _dense_strides(like: Tensor) -> tuple[int, ...]:
    """The strides that `torch.empty_like` would give."""
    is_dense = like.untyped_storage().nbytes() and sorted(like.stride()) == sorted(_permuted_strides(like))
    return tuple(_permuted_strides(like)) if is_dense else torch.empty(like.shape, device="meta").stride()


def _permuted_strides(like: Tensor) -> list[int]:
    order = sorted(range(like.dim()), key=lambda d: (like.stride(d), like.shape[d]))
    strides = [0] * like.dim()
    for position, dimension in enumerate(order):
        strides[dimension] = math.prod(like.shape[d] for d in order[:position])
    return strides

"""Memory of large gradients, lent and taken back.

A fresh gradient of 100 MB costs five times as long in page faults as its computation: the kernel hands out every page
anew. A pool keeps the pages.
"""

import itertools
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


def gradient_like(logits: Tensor) -> Tensor:
    """An uninitialised tensor for the gradient of `logits`: every element in memory of its own, classes adjacent.

    `torch.empty_like` puts other axes last where the logits' elements overlap, as those of `expand` do.
    """
    fresh = torch.empty_like(logits)
    return fresh if fresh.stride(-1) == 1 or fresh.shape[-1] == 1 else fresh.new_empty(fresh.shape)


def readable(logits: Tensor) -> Tensor:
    """The logits as kernels read them: classes adjacent, no numbers that are to be negated when they are read."""
    logits = logits.resolve_neg()
    return logits if logits.stride(-1) == 1 or logits.shape[-1] == 1 else logits.contiguous()


def check_no_overlap(logits: Tensor) -> None:
    """ValueError where elements of the logits share memory, so that a gradient cannot take its place."""
    places = sorted((step, size) for step, size in zip(logits.stride(), logits.shape, strict=True) if size > 1)
    needed = itertools.accumulate((step * (size - 1) for step, size in places), initial=0)
    if logits.numel() and any(step <= below for (step, _), below in zip(places, needed, strict=False)):
        raise ValueError(
            "in_place: expected logits whose elements have memory of their own, found strides "
            f"{list(logits.stride())} of shape {list(logits.shape)}; pass a copy, or leave in_place off"
        )


class GradientPool:
    """Lends CPU memory to one large tensor after the other.

    Memory comes back by itself when the last tensor that uses it is gone, and is lent again only then: nothing that is
    alive is ever overwritten. It costs to hold the largest tensor's memory for as long as the pool lives. Copies and
    pickles of a pool are empty ones.
    """

    def __init__(self) -> None:
        self._free: list[mmap.mmap] = []

    def empty_like(self, like: Tensor) -> Tensor:
        """As `gradient_like`, on memory that is lent."""
        lent = self.lend(like)
        return gradient_like(like) if lent is None else lent

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
    """The strides of `like` where classes are adjacent, without gaps and overlaps; else those of a fresh tensor."""
    strides = _permuted_strides(like)
    is_kept = like.stride(-1) == 1 and sorted(like.stride()) == sorted(strides)
    return tuple(strides) if is_kept else torch.empty(like.shape, device="meta").stride()


def _permuted_strides(like: Tensor) -> list[int]:
    order = sorted(range(like.dim()), key=lambda d: (like.stride(d), like.shape[d]))
    strides = [0] * like.dim()
    for position, dimension in enumerate(order):
        strides[dimension] = math.prod(like.shape[d] for d in order[:position])
    return strides

"""Attention of tokens to keys of their own, by the CUDA library: `include/attention_cuda.h`, on the current stream.

Shapes: N tokens, H heads, W width of a head, R slots, of the longest sequence or more.
"""

from ctypes import Structure

import torch
from torch import Tensor

from ctc import native
from ctc.native.kernels import DeviceFunctions
from fastconformer.attention._library import LIBRARY, load

MOST_WIDTH = 256
"""`ATTENTION_MOST_WIDTH` of attention_cuda.h."""
TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 3}
DEVICE = DeviceFunctions(LIBRARY, load, {"attention_attend_cuda": "pp"})
serves, why_missing = DEVICE.serve, DEVICE.why_missing


class AttentionProblem(Structure):
    """`attention_problem`."""

    _fields_ = native.fields(
        "n tokens heads width; i type; p queries; n query_stride; p found counts; n count_stride; p store slots; "
        "n slot_stride; p places; n place_stride layer"
    )


def to_slots(query_NHW: Tensor, counts_N: Tensor, store: Tensor, slots_NR: Tensor) -> Tensor:
    """[N, H x W]: attention to the first counts_N of slots_NR of `store` [slots, 2, H, W], one layer of it."""
    return _attended(query_NHW, counts_N, store.data_ptr(), slots_NR.data_ptr(), slots_NR.stride(0), None, 0, 0)


def to_frames(query_NHW: Tensor, counts_N: Tensor, places_N: Tensor, layer: int) -> Tensor:
    """[N, H x W]: attention to counts_N frames, whose keys and values (`AttentionMemory`) lie at places_N."""
    return _attended(query_NHW, counts_N, None, None, 0, places_N.data_ptr(), places_N.stride(0), layer)


def _attended(query_NHW: Tensor, counts_N: Tensor, *keys: int | None) -> Tensor:
    found_NX = query_NHW.new_empty(len(query_NHW), query_NHW[0].numel())
    problem = AttentionProblem(
        *query_NHW.shape, TYPES[query_NHW.dtype], query_NHW.data_ptr(), query_NHW.stride(0),
        found_NX.data_ptr(), counts_N.data_ptr(), counts_N.stride(0), *keys,
    )  # fmt: skip
    with native.current_stream(query_NHW.device) as stream:
        DEVICE.loaded().attention_attend_cuda(problem, stream)
    return found_NX

"""Beam search by the CUDA library: `transducerDeviceBeam` of `include/transducer_beam.h`, on the current stream.

The network, its precision and the scorers on the device are those of the greedy decoder. Shapes: as in `beam`.
"""

from collections.abc import Sequence
from ctypes import Structure, byref
from typing import Any

import numpy as np
import torch

import ctc
from ctc import native
from fastconformer.transducer._beam_library import (
    NODES,
    NODES_EACH,
    BeamOptionsStruct,
    BeamResult,
    TransducerBeamOptions,
)
from fastconformer.transducer._cuda_decoder import STEPS_AT_ONCE, CudaDecoder, room_for
from fastconformer.transducer._decoder_library import PANEL
from fastconformer.transducer._library import size_of
from fastconformer.transducer.loss import _cuda_library
from fastconformer.transducer.loss._loss_library import TYPES

MOST_BLOCKS = 2**31 - 1
HAS_NAN = -2
"""`TRANSDUCER_BEAM_HAS_NAN`."""


class DeviceBeam(Structure):
    """`transducerDeviceBeam`."""

    _fields_ = native.fields(
        "n batch frames capacity; p encoded frame_counts tokens found_frames durations confidences entropies lengths "
        "acoustic external counts is_active scorers workspace; i weight_type"
    )


def fits(decoder: CudaDecoder, options: TransducerBeamOptions, batch: int, frames: int) -> bool:
    """Whether the kernels have blocks enough for it: `is_valid` of `csrc/cuda_decode.cpp`."""
    return batch * max(PANEL * frames, decoder.logit_width * options.beam, 4096) <= MOST_BLOCKS


@torch.inference_mode()
def search(
    decoder: CudaDecoder,
    options: TransducerBeamOptions,
    encoded_BSC: Any,
    counts_B: np.ndarray,
    scorers: Sequence[ctc.Scorer | None],
) -> BeamResult:
    """Searches a batch that `fits`, lengths checked. Counts are `MORE_NODES` where an utterance needs more room than is
    usual.

    Raises ValueError for an utterance whose frames hold NaN, and torch.OutOfMemoryError, as
    `CudaDecoder.within_memory`.
    """
    what = (options, *room_for(*encoded_BSC.shape[:2]))
    given = (decoder, options, encoded_BSC, counts_B, decoder.placed(scorers))
    return decoder.within_memory(lambda: _searched(*given), what, scorers)


def _searched(
    decoder: CudaDecoder,
    options: TransducerBeamOptions,
    encoded_BSC: Any,
    counts_B: np.ndarray,
    scorers: Sequence[int],
) -> BeamResult:
    """`scorers`: their addresses."""
    batch, frames, width = encoded_BSC.shape
    device, capacity = decoder.device, frames * options.max_symbols

    def numbers(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.zeros(*shape, dtype=dtype, device=device)

    with native.current_stream(device) as stream:
        encoded = numbers(batch, frames, decoder.encoder, dtype=torch.float32)
        encoded[..., :width].copy_(torch.as_tensor(encoded_BSC))
        frames_B, scorers_B = (torch.from_numpy(np.array(own, np.int64)).to(device) for own in (counts_B, scorers))
        sequences = (batch, options.n_best)
        labels, shares = (
            numbers(3, *sequences, capacity, dtype=torch.int32),
            numbers(2, *sequences, capacity, dtype=torch.float32),
        )
        lengths_BN, (acoustic_BN, external_BN) = numbers(*sequences), numbers(2, *sequences, dtype=torch.float64)
        found_B, active_B = numbers(batch), numbers(batch, dtype=torch.int32)
        results = (*labels, *shares, lengths_BN, acoustic_BN, external_BN, found_B)
        given = [part.data_ptr() for part in (encoded, frames_B, *results, active_B, scorers_B)]
        nodes = NODES + NODES_EACH * options.beam
        choice = BeamOptionsStruct(
            *(options.beam, options.n_best, options.drop, options.max_symbols, 1, nodes, 1, 0, options.internal_weight)
        )
        known = DeviceBeam(batch, frames, capacity, *given, None, TYPES[decoder.dtype])
        own, library = (byref(decoder.network.network), byref(choice), byref(known)), _cuda_library.DEVICE.loaded()
        size = size_of(library.transducer_beam_workspace_cuda, *own)
        workspace = torch.empty(size, dtype=torch.uint8, device=device)
        known.workspace = workspace.data_ptr()
        library.transducer_beam_begin_cuda(*own, stream)
        while bool(active_B.any()):
            library.transducer_beam_steps_cuda(*own, STEPS_AT_ONCE, stream)
        longest = int(lengths_BN.max()) if batch else 0
        parts = [(part[..., :longest] if part.dim() == 3 else part).cpu().numpy() for part in results]
    counts = parts[-1]
    for n in np.flatnonzero(counts == HAS_NAN):
        raise ValueError(f"encoded: utterance {n}: its frames hold NaN")
    return BeamResult._make([*parts[:6], np.zeros(batch, np.int64), *parts[6:]])

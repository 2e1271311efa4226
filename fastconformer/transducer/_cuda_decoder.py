"""Greedy decoding by the CUDA library: `transducerDeviceBatch` of `include/transducer_decode.h`, on the current stream.

Shapes: B utterances, S encoder frames, C encoder width, J joint, H prediction network, L layers, N the longest possible
result.
"""

from ctypes import Structure, byref, c_int64, c_void_p
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ctc import native
from fastconformer.transducer._decoder_library import DecoderResult, NativeNetwork, Placed, padded
from fastconformer.transducer.loss import _cuda_library
from fastconformer.transducer.loss._loss_library import call
from fastconformer.transducer.weights import DecoderWeights

MOST_LAYERS, MOST_JOINT = 8, 1024
"""`TRANSDUCER_MOST_...` of transducer_decode.h."""
STEPS_AT_ONCE = 16
"""After so many steps the host looks whether all are done."""
ROWS, WINDOWS = 8, (8, 4, 2, 1)
"""Frames that a block of the output layer takes at once, and how many of them may be one utterance's."""
NAN = -1


class DeviceBatch(Structure):
    """`transducerDeviceBatch`."""

    _fields_ = (
        *((name, c_int64) for name in ("batch", "frames", "capacity", "max_symbols", "window")),
        *((name, c_void_p) for name in ("encoded", "projected", "frame_counts", "tokens", "found_frames", "durations")),
        *((name, c_void_p) for name in ("confidences", "entropies", "counts", "states", "positions")),
        *((name, c_void_p) for name in ("is_active", "emitted", "pending", "logits")),
    )


def serves(weights: DecoderWeights) -> bool:
    """Whether the CUDA library decodes with weights of this device and of these sizes."""
    return (
        _cuda_library.serves(weights.embedding)
        and len(weights.lstm) <= MOST_LAYERS
        and len(weights.encoder_weight) <= MOST_JOINT
        and len(weights.durations) <= _cuda_library.MOST_DURATIONS
    )


class CudaDecoder:
    """A network on a device, float32 whatever its weights are. Weights that change afterwards have no effect."""

    def __init__(self, weights: DecoderWeights) -> None:
        self._device = weights.embedding.device
        encoder = weights.encoder_weight.shape[1]
        self._missing = padded(encoder) - encoder
        own = weights._replace(encoder_weight=F.pad(weights.encoder_weight, (0, self._missing)))
        self._network = NativeNetwork(own, self._placed)
        self._layers, self._hidden = len(weights.lstm), padded(weights.embedding.shape[1])
        self._joint = padded(len(weights.encoder_weight))
        self._logit_width = padded(weights.blank + 1) + padded(len(weights.durations))

    def _placed(self, array: np.ndarray) -> Placed:
        tensor = self.moved(array)
        return Placed(tensor, tensor.data_ptr())

    def moved(self, array: np.ndarray) -> Tensor:
        """The same on the device."""
        return torch.from_numpy(array).to(self._device)

    @torch.no_grad()
    def decode(
        self, encoded_BSC: Any, counts_B: np.ndarray, network_BX: Tensor, position_B3: Tensor, *, max_symbols: int
    ) -> DecoderResult:
        """Decodes a batch, lengths checked; updates the state, `network_BX` and `position_B3` of `DecoderState`.

        Raises ValueError for an utterance whose frames hold NaN.
        """
        batch, frames, _ = encoded_BSC.shape
        frames_B = self.moved(counts_B)
        capacity, device = frames * max_symbols, self._device
        window = next(frames for frames in WINDOWS if frames * batch <= ROWS or frames == 1)
        results = torch.empty(3, batch, capacity, dtype=torch.int32, device=device)
        shares = torch.empty(2, batch, capacity, device=device)
        found_B = torch.empty(batch, dtype=torch.int64, device=device)
        active_B, emitted_B = torch.empty(2, batch, dtype=torch.int32, device=device)
        pending_BLH = torch.empty(batch, self._layers, self._hidden, device=device)
        logits = torch.empty(batch, window, self._logit_width, device=device)
        encoded_BSC = torch.as_tensor(encoded_BSC).to(device, torch.float32)
        encoded_BSC = F.pad(encoded_BSC, (0, self._missing)).contiguous()
        projected_BSJ = torch.empty(batch, frames, self._joint, device=device)
        given = (encoded_BSC, projected_BSJ, frames_B, *results, *shares, found_B, network_BX, position_B3)
        rooms = (active_B, emitted_B, pending_BLH, logits)
        addresses = [part.data_ptr() for part in (*given, *rooms)]
        known = DeviceBatch(batch, frames, capacity, max_symbols, window, *addresses)
        library, own = _cuda_library.DEVICE.loaded(), (byref(self._network.network), byref(known))
        with native.current_stream(device) as stream:
            call(library.transducer_decode_begin_cuda, *own, stream)
            while bool(active_B.any()):
                call(library.transducer_decode_steps_cuda, *own, STEPS_AT_ONCE, stream)
        position_B3[:, 0] -= frames_B
        counts = found_B.cpu()
        for n, count in enumerate(counts.tolist()):
            if count == NAN:
                raise ValueError(f"encoded: utterance {n}: its frames hold NaN")
        longest = int(counts.max()) if batch else 0
        parts = (*(part_BN[:, :longest] for part_BN in (*results, *shares)), counts)
        return DecoderResult(*(part.cpu().numpy() for part in parts))

"""Greedy decoding, exact, for RNN-T and TDT: every utterance has a pointer of its own into its frames.

On a CPU it is one native call for a batch (`csrc/decode_kernel.inl`): the joint for rows that are not finished, the
prediction network for rows that emitted a label, finished rows replaced by utterances that wait, and of few rows a
window of frames at once. On CUDA the same steps are kernels (`csrc/cuda_decode.cu`). Elsewhere it is plain torch
(`plain_decoder.py`).

Shapes: B utterances, S encoder frames, C encoder width, N labels of the longest result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ctc import Scorer
from ctc.inputs import integer_tensor
from fastconformer.hypotheses import DecodedLabels
from fastconformer.transducer import _cuda_decoder, _cuda_library, reference
from fastconformer.transducer._cuda_decoder import CudaDecoder
from fastconformer.transducer._decoder_library import DecoderResult, NativeNetwork, decoded_of, functions, padded
from fastconformer.transducer._library import warn_slow
from fastconformer.transducer.host_decoder import (
    SLOTS,
    WINDOW,
    check_internal_weight,
    check_shape,
    frame_counts,
    scorers_of_all,
    window_rows,
)
from fastconformer.transducer.plain_decoder import PlainDecoderState, Results, decode_in_torch, start_state
from fastconformer.transducer.weights import DecoderWeights, on_host


@dataclass(kw_only=True, slots=True)
class DecoderState:
    """Where utterances go on whose frames come in pieces. `Decoder.start` makes one; every call updates it."""

    network_BX: Tensor
    """The prediction network after the labels so far."""
    position_B3: Tensor
    """int64: the first frame to come that is not jumped over; labels on it already; whether it has begun."""
    language_B3: Tensor | None = None
    """int32: where the scorer of each utterance is, once there are any."""

    def language(self) -> Tensor:
        """`language_B3`, of utterances that have none that of their start."""
        if self.language_B3 is None:
            self.language_B3 = torch.zeros(len(self.position_B3), 3, dtype=torch.int32)
        return self.language_B3


@dataclass(frozen=True, kw_only=True)
class DecoderOptions:
    """How the native decoder works. Nothing of it changes what is found."""

    slots: int = SLOTS
    """Utterances that a thread decodes at once."""
    window: int = WINDOW
    """Frames of an utterance that go through the joint at once, at most, where utterances are few."""
    window_rows: int | None = None
    """Frames of all utterances of a thread that do; None for what was fastest."""
    instruction_set: Literal["automatic", "generic", "avx2", "avx512"] = "automatic"
    """Which build of the kernel, for tests."""


class Decoder:
    """Prediction network and joint, made ready to decode greedily. Weights that change afterwards have no effect."""

    def __init__(self, weights: DecoderWeights, options: DecoderOptions | None = None) -> None:
        self.options = options or DecoderOptions()
        self.weights = weights
        self._on_device = CudaDecoder(weights) if _cuda_decoder.serves(weights) else None
        is_native = self._on_device is None and weights.embedding.is_cpu and functions() is not None
        self._native = NativeNetwork(weights) if is_native else None
        if self._on_device is None and self._native is None:
            device = weights.embedding.device.type
            is_too_large = _cuda_library.serves(weights.embedding)
            missing = device if device in ("cpu", "cuda") and not is_too_large else None
            warn_slow("fastconformer.Decoder", missing)

    @property
    def is_native(self) -> bool:
        """Whether the native library decodes, which scorers of frames that come in pieces need."""
        return self._native is not None

    def start(self, batch: int) -> DecoderState:
        """The state of `batch` utterances before their first frames."""
        hidden, joint = padded(self.weights.embedding.shape[1]), padded(len(self.weights.encoder_weight))
        device = self.weights.embedding.device
        network_BX = torch.zeros(batch, 2 * len(self.weights.lstm) * hidden + joint, device=device)
        return DecoderState(network_BX=network_BX, position_B3=torch.zeros(batch, 3, dtype=torch.int64, device=device))

    @torch.no_grad()
    def __call__(
        self,
        encoded_BSC: Tensor,
        frames_B: Tensor | Sequence[int],
        *,
        max_symbols: int = 10,
        state: DecoderState | None = None,
        scorers: Scorer | Sequence[Scorer | None] | None = None,
        internal_weight: float = 0.0,
    ) -> list[DecodedLabels]:
        """Labels, their frames and durations, and the confidence in them, of every utterance.

        `frames_B`: how many of the S frames belong to each utterance; the others have no effect. After `max_symbols`
        labels on a frame the next one is looked at. With `state`, the utterances go on where they were; frames are
        numbered from the first of this call. Of labels that are equally probable the first is emitted.

        `scorers`: one for all, or one for each utterance, over the labels and the blank, on a CPU: once a label is more
        probable than blank, the one is emitted that is the best with what they add. `internal_weight`, where there are
        any: factor of the log-probabilities of the internal language model (prediction network and joint, given a frame
        of zeros), which are taken off.

        Raises ValueError for shapes and lengths that do not fit, and for an utterance whose frames hold NaN.
        """
        weights = self.weights
        check_shape(weights, encoded_BSC.shape, max_symbols)
        check_internal_weight(internal_weight)
        batch, frames, _ = encoded_BSC.shape
        frames_B = integer_tensor(frames_B, name="frames")
        if frames_B.shape != (batch,):
            raise ValueError(f"frames: expected one for each of {batch} utterances, found {list(frames_B.shape)}")
        if state is not None and len(state.position_B3) != batch:
            raise ValueError(f"state: expected that of {batch} utterances, found {len(state.position_B3)}")
        frames_B = frames_B.to(encoded_BSC.device, torch.int64).contiguous()
        each = scorers_of_all(scorers, batch, weights.blank) if scorers is not None else []
        if any(each) and self._native is None:
            return self._decode_by_reference(encoded_BSC, frames_B, max_symbols, state, each, internal_weight)
        device = weights.embedding.device  # frames that were searched may lie on the host
        encoded_BSC, frames_B = encoded_BSC.to(device), frames_B.to(device)
        if self._on_device is not None:
            kept_state = state or self.start(batch)
            tensors = (kept_state.network_BX, kept_state.position_B3)
            found = self._on_device.decode(encoded_BSC, frames_B, *tensors, max_symbols=max_symbols)
            return decoded_of(found, has_durations=bool(weights.durations))
        if self._native is None:
            return self._decode_in_torch(encoded_BSC, frames_B, max_symbols, state)
        counts_B = frame_counts(frames_B, batch, frames)
        encoded_BSC = encoded_BSC.detach().float()
        if encoded_BSC.stride(2) != 1:
            encoded_BSC = encoded_BSC.contiguous()
        kept = None
        if state is not None:
            kept = (state.network_BX.numpy(), state.position_B3.numpy(), state.language().numpy())
        found = self._native.decode(
            encoded_BSC.numpy(),
            counts_B,
            kept,
            each,
            max_symbols=max_symbols,
            slots=self.options.slots,
            window=self.options.window,
            window_rows=self.options.window_rows or window_rows(weights),
            threads=torch.get_num_threads(),
            instruction_set=self.options.instruction_set,
            internal_weight=internal_weight,
        )
        return decoded_of(found, has_durations=bool(weights.durations))

    def _decode_by_reference(
        self,
        encoded_BSC: Tensor,
        frames_B: Tensor,
        max_symbols: int,
        state: DecoderState | None,
        scorers: list[Scorer | None],
        internal_weight: float,
    ) -> list[DecodedLabels]:
        if state is not None:
            raise ValueError("scorers: frames that come in pieces need the native library, on a CPU")
        host = on_host(self.weights)
        return reference.greedy(
            encoded_BSC.float().cpu(),
            frames_B,
            host,
            max_symbols=max_symbols,
            scorers=scorers,
            internal_weight=internal_weight,
        )

    def _decode_in_torch(
        self, encoded_BSC: Tensor, frames_B: Tensor, max_symbols: int, state: DecoderState | None
    ) -> list[DecodedLabels]:
        batch, layers = len(encoded_BSC), len(self.weights.lstm)
        fresh = start_state(self.weights, batch)
        if state is None:
            results, _ = decode_in_torch(self.weights, encoded_BSC, frames_B, fresh, max_symbols=max_symbols)
            return self._of_tensors(results)
        is_new_B1 = state.position_B3[:, 2:] == 0
        wide, joint = padded(self.weights.embedding.shape[1]), len(self.weights.encoder_weight)
        hidden_LBH, cell_LBH = (
            part_BX.view(batch, layers, wide).transpose(0, 1)
            for part_BX in state.network_BX[:, : 2 * layers * wide].chunk(2, dim=1)
        )
        prediction_BJ = state.network_BX[:, 2 * layers * wide :]
        width = self.weights.embedding.shape[1]
        before = PlainDecoderState(
            torch.where(is_new_B1, fresh.hidden_LBH, hidden_LBH[..., :width].to(fresh.hidden_LBH.dtype)),
            torch.where(is_new_B1, fresh.cell_LBH, cell_LBH[..., :width].to(fresh.cell_LBH.dtype)),
            torch.where(is_new_B1, fresh.prediction_BJ, prediction_BJ[:, :joint].to(fresh.prediction_BJ.dtype)),
            state.position_B3[:, 0],
            state.position_B3[:, 1],
        )
        results, after = decode_in_torch(self.weights, encoded_BSC, frames_B, before, max_symbols=max_symbols)
        hidden_LBH[..., :width], cell_LBH[..., :width] = after.hidden_LBH, after.cell_LBH
        prediction_BJ[:, :joint] = after.prediction_BJ
        begun_B = torch.ones_like(after.frame_B)
        state.position_B3.copy_(torch.stack([after.frame_B - frames_B, after.symbols_B, begun_B], dim=1))
        return self._of_tensors(results)

    def _of_tensors(self, results: Results) -> list[DecodedLabels]:
        found = DecoderResult(*(part.cpu().numpy() for part in results))
        return decoded_of(found, has_durations=bool(self.weights.durations))

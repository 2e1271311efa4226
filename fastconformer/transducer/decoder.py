"""Greedy decoding, exact, for RNN-T and TDT: every utterance has a pointer of its own into its frames.

It is one native call for a batch (`csrc/decode_kernel.inl`): the joint for rows that are not finished, the prediction
network for rows that emitted a label, finished rows replaced by utterances that wait, and of few rows a window of
frames at once. On CUDA the same steps are kernels (`csrc/cuda_decode.cuh`). Where the native library is missing
`reference.py` decodes. Needs no torch: frames and weights are tensors or arrays.

Shapes: B utterances, S encoder frames, C encoder width, X numbers of a state.
"""

import copy
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ctc import Scorer, native
from ctc.inputs import integer_array
from fastconformer.hypotheses import DecodedLabels
from fastconformer.transducer import reference
from fastconformer.transducer._decoder_library import DecoderOptions as DecoderOptions
from fastconformer.transducer._decoder_library import NativeNetwork, decoded_of, functions, padded
from fastconformer.transducer._decoder_library import check_labels as check_labels
from fastconformer.transducer._library import warn_slow
from fastconformer.transducer.weights import DecoderWeights, array_of, arrays_of

if TYPE_CHECKING:  # these modules need torch
    from common.devices.precision import InferencePrecision
    from fastconformer.transducer._cuda_decoder import CudaDecoder


@dataclass(kw_only=True, slots=True)
class DecoderState:
    """Where utterances go on whose frames come in pieces. `Decoder.start` makes one; every call updates it."""

    network_BX: Any
    """The prediction network after the labels so far; a tensor of a GPU that decodes, else an array, as below."""
    position_B3: Any
    """int64: the first frame to come that is not jumped over; labels on it already; whether it has begun."""
    language_B3: Any
    """int32: where the scorer of each utterance is."""
    reached: list[reference.Reached] = field(default_factory=list)
    """The same where there is no native library."""

    @property
    def parts(self) -> tuple[Any, Any, Any]:
        """Its tensors or arrays, in the order in which decoders take them."""
        return self.network_BX, self.position_B3, self.language_B3

    def row(self, row: int) -> "DecoderState":
        """That of one of the utterances, a copy."""
        own = (part[[row]] for part in self.parts)
        return _state(own, self.reached[row : row + 1])

    @staticmethod
    def of(states: Sequence["DecoderState"]) -> "DecoderState":
        """That of the utterances of several, a copy."""
        parts = [state.parts for state in states]
        join: Any = np.concatenate
        if not isinstance(states[0].network_BX, np.ndarray):
            import torch

            join = torch.cat
        return _state(map(join, zip(*parts, strict=True)), [one for state in states for one in state.reached])

    @property
    def nbytes(self) -> int:
        """Memory of the state."""
        return int(self.network_BX.nbytes + self.position_B3.nbytes)


def _state(parts: Any, reached: list[reference.Reached]) -> DecoderState:
    network_BX, position_B3, language_B3 = parts
    return DecoderState(network_BX=network_BX, position_B3=position_B3, language_B3=language_B3, reached=reached)


class Decoder:
    """Prediction network and joint, made ready to decode greedily. Weights that change afterwards have no effect."""

    def __init__(self, weights: DecoderWeights, options: DecoderOptions | None = None, *, threads: int = 0) -> None:
        """`threads`: on a CPU; 0 for as many as torch takes, without torch one for each core."""
        self.options, self.threads = options or DecoderOptions(), threads
        self.on_device = on_device(weights, self.options.precision)
        self.weights = arrays_of(weights) if self.on_device is None else weights
        is_native = self.on_device is None and functions() is not None
        known = self.options
        self._host = functools.cache(lambda: Decoder(arrays_of(weights), known, threads=threads))
        self.native = NativeNetwork(self.weights) if is_native else None
        """The weights as the native library reads them, where it decodes."""
        if self.on_device is None and self.native is None:
            warn_slow("fastconformer.Decoder", where="in plain numpy")

    def with_options(self, options: DecoderOptions) -> "Decoder":
        """The same network with other options, but for the precision: weights, and all on a GPU, are there once."""
        other = copy.copy(self)
        other.options = replace(options, precision=self.options.precision)
        return other

    def start(self, batch: int) -> DecoderState:
        """The state of `batch` utterances before their first frames."""
        hidden, joint = padded(self.weights.embedding.shape[1]), padded(len(self.weights.encoder_weight))
        network_BX = np.zeros((batch, 2 * len(self.weights.lstm) * hidden + joint), np.float32)
        parts: Any = (network_BX, np.zeros((batch, 3), np.int64), np.zeros((batch, 3), np.int32))
        if self.on_device is not None:
            parts = map(self.on_device.moved, parts)
        is_plain = self.on_device is None and self.native is None
        return _state(parts, [reference.start(self.weights)] * batch if is_plain else [])

    def __call__(
        self,
        encoded_BSC: Any,
        frames_B: Any,
        *,
        state: DecoderState | None = None,
        scorers: Scorer | Sequence[Scorer | None] | None = None,
    ) -> list[DecodedLabels]:
        """Labels, their frames and durations, and the confidence in them, of every utterance.

        `frames_B`: how many of the S frames belong to each utterance; the others have no effect. With `state`, the
        utterances go on where they were; frames are numbered from the first of this call. Of labels that are equally
        probable the first is emitted.

        `scorers`: one for all, or one for each utterance, over the labels and the blank: once a label is more probable
        than blank, the one is emitted that is the best with what they add.

        Raises ValueError for shapes and lengths that do not fit, and for an utterance whose frames hold NaN.
        """
        weights, batch, own = self.weights, len(encoded_BSC), self.options
        check_shape(weights, encoded_BSC.shape)
        counts_B = frame_counts(frames_B, *encoded_BSC.shape[:2])
        if state is not None and len(state.position_B3) != batch:
            raise ValueError(f"state: expected that of {batch} utterances, found {len(state.position_B3)}")
        each = scorers_of_all(scorers, batch, weights.blank)
        if self.on_device is not None:
            return self._by_device(self.on_device, encoded_BSC, counts_B, state, each)
        encoded_BSC = np.asarray(array_of(encoded_BSC), np.float32)
        if self.native is None:
            reached = None if state is None else state.reached
            return reference.greedy(
                encoded_BSC, counts_B, weights, reached=reached, scorers=each, max_symbols=own.max_symbols,
                internal_weight=own.internal_weight,
            )  # fmt: skip
        if encoded_BSC.strides[2] != encoded_BSC.itemsize:
            encoded_BSC = np.ascontiguousarray(encoded_BSC)
        parts, threads = None if state is None else state.parts, self.threads or native.threads()
        found = self.native.decode(encoded_BSC, counts_B, parts, each if any(each) else (), own, threads)
        return decoded_of(found, has_durations=bool(weights.durations))

    def _by_device(
        self, device: "CudaDecoder", encoded_BSC: Any, counts_B: Any, state: DecoderState | None, scorers: Any
    ) -> list[DecodedLabels]:
        """By a GPU; on the host where its memory does not suffice, as for a large language model."""
        import torch

        own, parts = self.options, None if state is None else state.parts
        try:
            found = device.decode(
                encoded_BSC, counts_B, parts, scorers, max_symbols=own.max_symbols, internal_weight=own.internal_weight
            )
            return decoded_of(found, has_durations=bool(self.weights.durations))
        except torch.OutOfMemoryError as error:
            if functions() is None:
                raise
            warn_slow("fastconformer.Decoder", str(error).partition(".")[0], "on the host")
        host, copy_of = self._host().with_options(own), None
        if parts is not None:
            copy_of = _state((part.cpu().numpy() for part in parts), [])
        labels = host(encoded_BSC, counts_B, state=copy_of, scorers=scorers)
        if parts is not None and copy_of is not None:
            with torch.inference_mode():
                for part, given in zip(parts, copy_of.parts, strict=True):
                    part.copy_(torch.from_numpy(given))
        return labels


def on_device(weights: DecoderWeights, precision: "InferencePrecision") -> "CudaDecoder | None":
    """What decodes on the GPU that the weights are on; None where they are not, or it cannot, which is said once."""
    if isinstance(weights.embedding, np.ndarray):
        return None
    from fastconformer.transducer import _cuda_decoder

    if _cuda_decoder.serves(weights):
        return _cuda_decoder.CudaDecoder(weights, precision)
    if not weights.embedding.is_cpu:
        warn_slow("fastconformer.Decoder", _cuda_decoder.why_missing(weights), "on the host")
    return None


def check_shape(weights: DecoderWeights, shape: Sequence[int]) -> None:
    """Raises ValueError for frames of this shape that do not fit."""
    width = weights.encoder_weight.shape[1]
    if len(shape) != 3 or shape[2] != width:
        raise ValueError(f"encoded: expected [utterance, frame, {width}], found shape {list(shape)}")


def frame_counts(frames_B: Any, batch: int, frames: int) -> np.ndarray:
    """How many of `frames` belong to each utterance, int64. Raises ValueError for what does not fit, and TypeError."""
    counts_B = integer_array(frames_B, name="frames")
    if counts_B.shape != (batch,):
        raise ValueError(f"frames: expected one for each of {batch} utterances, found {list(counts_B.shape)}")
    for n, count in enumerate(counts_B.tolist()):
        if not 0 <= count <= frames:
            raise ValueError(f"frames: utterance {n}: expected at least 0 and at most {frames}, found {count}")
    return np.ascontiguousarray(counts_B, np.int64)


def scorers_of_all(scorers: Scorer | Sequence[Scorer | None] | None, batch: int, labels: int) -> list[Scorer | None]:
    """One for each utterance. Raises ValueError for another number of them, or of labels."""
    each = [scorers] * batch if scorers is None or isinstance(scorers, Scorer) else list(scorers)
    if len(each) != batch:
        raise ValueError(f"scorers: expected one for each of {batch} utterances, found {len(each)}")
    for scorer in each:
        if scorer is not None and len(scorer.labels) not in (labels, labels + 1):
            raise ValueError(f"scorers: expected {labels} labels, found {len(scorer.labels)}")
    return each

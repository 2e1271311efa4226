"""Beam search for RNN-T and TDT: the most probable label sequences, with what is known of the language.

Every sequence is summed over its alignments, and equal ones are one; the sum is exact for those that cannot reach
`max_symbols` on a frame. It is one native call for a batch, on the CPU (`csrc/decode_beam.cpp`); where the native
library is missing `reference.beam_search` searches. On a GPU with our kernels batches are searched by `_cuda_beam`, but
for frames that come in pieces. Needs no torch: frames and weights are tensors or arrays.

Shapes: B utterances, S encoder frames, C encoder width.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from common.text.pieces import Pieces
from ctc import Scorer, native
from fastconformer.hypotheses import NOTHING, DecodedLabels, PieceHypothesis, hypothesis_of
from fastconformer.transducer import reference
from fastconformer.transducer._beam_library import (
    MORE_NODES,
    BeamResult,
    NativeSearch,
    TransducerBeamOptions,
    beam_functions,
)
from fastconformer.transducer._decoder_library import NativeNetwork, aligned, labels_of
from fastconformer.transducer._library import warn_slow
from fastconformer.transducer.decoder import check_shape, frame_counts, scorers_of_all
from fastconformer.transducer.weights import DecoderWeights, array_of, arrays_of

if TYPE_CHECKING:
    from fastconformer.transducer._cuda_decoder import CudaDecoder

__all__ = ["BeamCandidate", "BeamSearch", "BeamState", "TransducerBeamOptions", "ranked"]

LONGEST_JUMP = 4096
"""Frames that a label of TDT may take, at most, for the native search."""


class BeamCandidate(NamedTuple):
    """One way to read an utterance: its labels, on their most probable alignment."""

    decoded: DecodedLabels
    score: float
    """What candidates are ranked by: log_prob + external."""
    log_prob: float
    """Log-probability of the labels, summed over the alignments that the beam kept."""
    external: float
    """What the scorer adds: language model, word bonus, penalties, hot words."""
    settled: int = 0
    """How many of the first labels all candidates share, and all later ones will, where frames come in pieces."""


@dataclass(kw_only=True, slots=True)
class BeamState:
    """Where utterances go on whose frames come in pieces. `BeamSearch.start` makes one; every call updates it.

    Its size does not depend on how many frames there were.
    """

    utterances: list[np.ndarray]
    """What the native search keeps of each utterance, as bytes."""

    def copy(self) -> "BeamState":
        """Another one, for frames that may yet change."""
        return BeamState(utterances=[aligned(utterance) for utterance in self.utterances])

    @property
    def nbytes(self) -> int:
        """Memory of the state."""
        return sum(utterance.nbytes for utterance in self.utterances)


class BeamSearch:
    """Prediction network and joint, made ready to search. Weights that change afterwards have no effect."""

    def __init__(
        self,
        weights: DecoderWeights,
        options: TransducerBeamOptions | None = None,
        *,
        threads: int = 0,
        network: NativeNetwork | None = None,
        device: "CudaDecoder | None" = None,
    ) -> None:
        """`threads`: 0 for as many as torch takes, without torch one for each core. `network`: the weights, if packed.

        `device`: what has the weights on a GPU, and searches there. Raises ValueError for durations that are too long.
        """
        self.options, self.weights, self.threads = options or TransducerBeamOptions(), arrays_of(weights), threads
        longest = max(weights.durations or (1,))
        if longest > LONGEST_JUMP:
            raise ValueError(f"durations: expected at most {LONGEST_JUMP} frames, found {longest}")
        self.on_device, self._native = device, None
        if beam_functions() is None:
            warn_slow("fastconformer.BeamSearch", where="in plain numpy")
        else:
            self._native = NativeSearch(network or NativeNetwork(self.weights), self.options)

    @property
    def is_native(self) -> bool:
        """Whether the native library searches, which frames that come in pieces need."""
        return self._native is not None

    def start(self, batch: int) -> BeamState:
        """The state of `batch` utterances before their first frames. Raises ValueError without the native library."""
        if self._native is None:
            raise ValueError("state: frames that come in pieces need the native library")
        return BeamState(utterances=[self._native.start() for _ in range(batch)])

    def __call__(
        self,
        encoded_BSC: Any,
        frames_B: Any,
        *,
        scorers: Scorer | Sequence[Scorer | None] | None = None,
        state: BeamState | None = None,
        is_over: bool = True,
    ) -> list[list[BeamCandidate]]:
        """For every utterance its best label sequences, best first; fewer than `n_best` where there are not as many.

        `frames_B`: how many of the S frames belong to each utterance. An alignment moves through them as greedy
        decoding does. `scorers`: one for all, or one for each utterance,
        over the labels and the blank. What an utterance gives does not depend on the others.

        With `state`, the utterances go on where they were, to their end if `is_over` says so; frames are numbered from
        the very first, and labels that were settled before this call are not given again. However the frames are cut,
        the labels, joined, are those of the whole.

        Raises ValueError for shapes and lengths that do not fit, for an utterance whose frames hold NaN, and for one
        that takes more than `options.memory`.
        """
        batch = len(encoded_BSC)
        check_shape(self.weights, encoded_BSC.shape)
        if state is not None and len(state.utterances) != batch:
            raise ValueError(f"state: expected that of {batch} utterances, found {len(state.utterances)}")
        if state is None and not is_over:
            raise ValueError("is_over: expected True without a state to go on from")
        counts_B = frame_counts(frames_B, *encoded_BSC.shape[:2])
        each = scorers_of_all(scorers, batch, self.weights.blank)
        if self.on_device is not None and self._native is not None and state is None and batch:
            self._native.check_memory(encoded_BSC.shape[1])
            candidates = self._by_device(self.on_device, encoded_BSC, counts_B, each)
            if candidates is not None:
                return candidates
        encoded_BSC = np.asarray(array_of(encoded_BSC), np.float32)
        if self._native is None:
            rows = zip(encoded_BSC, counts_B.tolist(), each, strict=True)
            return [self._by_reference(encoded_SC[:count], scorer) for encoded_SC, count, scorer in rows]
        if encoded_BSC.size and encoded_BSC.strides[2] != encoded_BSC.itemsize:
            encoded_BSC = np.ascontiguousarray(encoded_BSC)
        found = self._native(
            encoded_BSC,
            counts_B,
            each,
            threads=self.threads or native.threads(),
            states=None if state is None else state.utterances,
            is_over=is_over,
        )
        if state is None:
            found.settled_B[:] = 0
        return _candidates(found, has_durations=bool(self.weights.durations))

    def _by_device(
        self, device: "CudaDecoder", encoded_BSC: Any, counts_B: np.ndarray, scorers: Sequence[Scorer | None]
    ) -> list[list[BeamCandidate]] | None:
        """None where a GPU has too little memory. Utterances that need more room are searched on the host."""
        import torch

        from fastconformer.transducer import _cuda_beam

        try:
            if not _cuda_beam.fits(device, self.options, *encoded_BSC.shape[:2]):
                raise torch.OutOfMemoryError("so many sequences are more than its kernels take")
            found = _cuda_beam.search(device, self.options, encoded_BSC, counts_B, scorers)
        except torch.OutOfMemoryError as error:
            warn_slow("fastconformer.BeamSearch", str(error).partition(".")[0], "on the host")
            return None
        candidates = _candidates(found, has_durations=bool(self.weights.durations))
        needs_more_B = found.counts_B == MORE_NODES
        if needs_more_B.any():  # of the others no frames, so that messages have the numbers of the batch
            host = copy.copy(self)
            host.on_device = None
            again = host(encoded_BSC, np.where(needs_more_B, counts_B, 0), scorers=scorers)
            for n in np.flatnonzero(needs_more_B).tolist():
                candidates[n] = again[n]
        return candidates

    def _by_reference(self, encoded_SC: np.ndarray, scorer: Scorer | None) -> list[BeamCandidate]:
        own = self.options
        found = reference.beam_search(
            encoded_SC, self.weights, beam=own.beam, drop=own.drop, max_symbols=own.max_symbols, scorer=scorer,
            internal_weight=own.internal_weight,
        )  # fmt: skip
        return [BeamCandidate(one.decoded, one.log_prob + one.external, *one[1:]) for one in found[: own.n_best]]


def _candidates(found: BeamResult, *, has_durations: bool) -> list[list[BeamCandidate]]:
    results: list[list[BeamCandidate]] = []
    for b, count in enumerate(found.counts_B.tolist()):
        results.append([])
        for n in range(count):
            decoded = labels_of(found[:5], (b, n), int(found.lengths_BN[b, n]), has_durations)
            log_prob, external = float(found.log_probs_BN[b, n]), float(found.external_BN[b, n])
            settled = int(found.settled_B[b])
            results[-1].append(BeamCandidate(decoded, log_prob + external, log_prob, external, settled))
    return results


def ranked(found: Sequence[BeamCandidate], pieces: Pieces) -> PieceHypothesis:
    """The best of what a search found, the others as its alternatives."""
    best, *others = [hypothesis_of(one.decoded, pieces)._replace(score=one.score) for one in found] or [NOTHING]
    return best._replace(alternatives=tuple(others))

"""Beam search of arrays without torch, for runtimes: the native search alone.

Shapes: B utterances, S encoder frames, C encoder width.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from common.text.pieces import Pieces
from ctc import Scorer
from ctc.beam import MOST_BEAM
from fastconformer.hypotheses import NOTHING, DecodedLabels, Hypothesis, hypothesis_of, joined
from fastconformer.transducer._beam_library import BeamResult, NativeSearch, beam_functions
from fastconformer.transducer._decoder_library import NativeNetwork, aligned
from fastconformer.transducer._library import LIBRARY
from fastconformer.transducer.host_decoder import check_internal_weight, check_shape, frame_counts, scorers_of_all
from fastconformer.transducer.weights import DecoderWeights, arrays_of

if TYPE_CHECKING:  # runtimes without torch search too
    from torch import Tensor

ROWS = 256
"""Sequences of all utterances of a thread that are looked at at once, about."""
LONGEST_JUMP = 4096
"""Frames that a label of TDT may take, at most, for the native search."""


@dataclass(frozen=True, kw_only=True)
class TransducerBeamOptions:
    """How much of the search space is looked at."""

    beam: int = 4
    """Label sequences kept."""
    n_best: int = 1
    """Label sequences returned, at most `beam`."""
    drop: float = -10.0
    """Sequences, and alignments, whose score is this far below the best are dropped; -inf keeps all that fit."""
    internal_weight: float = 0.0
    """Factor of the log-probabilities of the internal language model (prediction network and joint, given a frame of
    zeros), which are taken off where there is a scorer."""
    memory: int = 4 << 30
    """Bytes that an utterance may take whose sequences have so little in common that the usual room is used up."""
    room: int = 0
    """Labels, of frames that come in pieces, that are remembered while sequences differ in them; where there are more,
    the most probable alignment settles the first. 0 for more than speech needs."""
    instruction_set: Literal["automatic", "generic", "avx2", "avx512"] = "automatic"
    """Which build of the kernels, for tests."""

    def __post_init__(self) -> None:
        if self.beam > MOST_BEAM:
            raise ValueError(f"beam: expected {MOST_BEAM} at most, found {self.beam}")
        if not 1 <= self.n_best <= self.beam:
            raise ValueError(f"n_best: expected between 1 and the beam of {self.beam}, found {self.n_best}")
        if not self.drop <= 0:
            raise ValueError(f"drop: expected at most 0, found {self.drop}")
        check_internal_weight(self.internal_weight)
        if self.memory < 1:
            raise ValueError(f"memory: expected at least 1 byte, found {self.memory}")
        if self.room and self.room <= 2 * self.beam:
            raise ValueError(f"room: expected more than twice the beam of {self.beam}, or 0, found {self.room}")


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


class HostBeamSearch:
    """Prediction network and joint, made ready to search arrays. Weights that change afterwards have no effect."""

    def __init__(
        self, weights: DecoderWeights, options: TransducerBeamOptions | None = None, *, threads: int = 1
    ) -> None:
        """`weights`: arrays or tensors.

        Raises ValueError for durations that are too long, and where the native library is missing.
        """
        self.options, self.weights, self.threads = options or TransducerBeamOptions(), arrays_of(weights), threads
        refuse_long_jumps(self.weights)
        chosen = self.options
        if beam_functions() is None:
            making = f"`{LIBRARY.command}` makes it where there is a C++ compiler"
            raise ValueError(f"a beam of a transducer needs {LIBRARY.cpu}, which is missing; {making}")
        self._native = NativeSearch(
            NativeNetwork(self.weights),
            beam=chosen.beam,
            n_best=chosen.n_best,
            drop=chosen.drop,
            room=chosen.room,
            memory=chosen.memory,
            internal_weight=chosen.internal_weight,
            slots=max(1, ROWS // chosen.beam),
            instruction_set=chosen.instruction_set,
        )

    def start(self, batch: int) -> BeamState:
        """The state of `batch` utterances before their first frames."""
        return BeamState(utterances=[self._native.start() for _ in range(batch)])

    def __call__(
        self,
        encoded_BSC: np.ndarray,
        frames_B: "Tensor | np.ndarray | Sequence[int]",
        *,
        max_symbols: int = 10,
        scorers: Scorer | Sequence[Scorer | None] | None = None,
        state: BeamState | None = None,
        is_over: bool = True,
    ) -> list[list[BeamCandidate]]:
        """As `fastconformer.transducer.beam.BeamSearch`, which this is."""
        counts_B = check(self.weights, encoded_BSC.shape, frames_B, max_symbols, state, is_over=is_over)
        each = scorers_of_all(scorers, len(encoded_BSC), self.weights.blank)
        encoded_BSC = np.asarray(encoded_BSC, np.float32)
        if encoded_BSC.size and encoded_BSC.strides[2] != encoded_BSC.itemsize:
            encoded_BSC = np.ascontiguousarray(encoded_BSC)
        found = self._native(
            encoded_BSC,
            counts_B,
            each,
            max_symbols=max_symbols,
            threads=self.threads,
            states=None if state is None else state.utterances,
            is_over=is_over,
        )
        if state is None:
            found.settled_B[:] = 0
        return _candidates(found, has_durations=bool(self.weights.durations))


def refuse_long_jumps(weights: DecoderWeights) -> None:
    """Raises ValueError for durations that are too long."""
    longest = max(weights.durations or (1,))
    if longest > LONGEST_JUMP:
        raise ValueError(f"durations: expected at most {LONGEST_JUMP} frames, found {longest}")


def check(
    weights: DecoderWeights,
    shape: Sequence[int],
    frames_B: "Tensor | np.ndarray | Sequence[int]",
    max_symbols: int,
    state: BeamState | None,
    *,
    is_over: bool,
) -> np.ndarray:
    """The lengths, int64. Raises ValueError for frames of this shape, lengths and a state that do not fit."""
    check_shape(weights, shape, max_symbols)
    if state is not None and len(state.utterances) != shape[0]:
        raise ValueError(f"state: expected that of {shape[0]} utterances, found {len(state.utterances)}")
    if state is None and not is_over:
        raise ValueError("is_over: expected True without a state to go on from")
    return frame_counts(frames_B, *shape[:2])


def _candidates(found: BeamResult, *, has_durations: bool) -> list[list[BeamCandidate]]:
    results: list[list[BeamCandidate]] = []
    for b, count in enumerate(found.counts_B.tolist()):
        own = []
        for n in range(count):
            take = functools.partial(_row, b=b, n=n, length=int(found.lengths_BN[b, n]))
            log_prob, external = float(found.log_probs_BN[b, n]), float(found.external_BN[b, n])
            decoded = DecodedLabels(
                take(found.tokens_BNL),
                take(found.frames_BNL),
                take(found.durations_BNL) if has_durations else None,
                take(found.confidences_BNL),
                take(found.entropies_BNL),
            )
            own.append(BeamCandidate(decoded, log_prob + external, log_prob, external, int(found.settled_B[b])))
        results.append(own)
    return results


def _row(part_BNL: np.ndarray, *, b: int, n: int, length: int) -> list:
    return part_BNL[b, n, :length].tolist()


def ranked(found: Sequence[BeamCandidate], pieces: Pieces) -> Hypothesis:
    """The best of what a search found, the others as its alternatives."""
    best, *others = [hypothesis_of(one.decoded, pieces)._replace(score=one.score) for one in found] or [NOTHING]
    return best._replace(alternatives=tuple(others))


def decode_parts(
    search: HostBeamSearch,
    pieces: Pieces,
    parts: Iterable[np.ndarray],
    *,
    max_symbols: int,
    scorer: Scorer | None,
) -> Hypothesis:
    """What is in one utterance, whose frames [S, C] come in parts, in little memory however many there are."""
    state, found = search.start(1), list[Hypothesis]()
    how: dict[str, Any] = {"max_symbols": max_symbols, "scorers": scorer, "state": state}
    for frames_SC in parts:
        ((best, *_),) = search(frames_SC[None], [len(frames_SC)], is_over=False, **how)
        found.append(hypothesis_of(best.decoded, pieces).part(0, best.settled))
    nothing_BSC = np.zeros((1, 0, search.weights.encoder_weight.shape[1]), np.float32)
    (own,) = search(nothing_BSC, [0], **how)
    return joined([*found, ranked(own, pieces)], pieces)

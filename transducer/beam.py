"""Beam search for RNN-T and TDT: the most probable label sequences, with what is known of the language.

Every sequence is summed over its alignments, and equal ones are one. On a CPU it is one native call for a batch
(`csrc/decode_beam.cpp`), which other devices copy their frames to; without a compiler, `reference.beam_search`.

Shapes: B utterances, S encoder frames, C encoder width.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ctc import Scorer
from transducer import reference
from transducer._beam_library import Found, NativeSearch, beam_functions
from transducer._decoder_library import NativeNetwork
from transducer._library import warn_slow
from transducer.host_decoder import scorers_of_all
from transducer.weights import Decoded, DecoderWeights, on_host

ROWS = 256
"""Sequences of all utterances of a thread that are looked at at once, about."""
LONGEST_JUMP = 4096
"""Frames that a label of TDT may take, at most, for the native search."""


@dataclass(frozen=True, kw_only=True)
class BeamOptions:
    """How much of the search space is looked at."""

    beam: int = 4
    """Label sequences kept."""
    n_best: int = 1
    """Label sequences returned, at most `beam`."""
    drop: float = -10.0
    """Sequences, and alignments, whose score is this far below the best are dropped; -inf keeps all that fit."""
    memory: int = 4 << 30
    """Bytes that an utterance may take whose sequences have so little in common that the usual room is used up."""
    room: int = 0
    """Labels, of frames that come in pieces, that are remembered while sequences differ in them; where there are more,
    the most probable alignment settles the first. 0 for more than speech needs."""
    instruction_set: Literal["automatic", "generic", "avx2", "avx512"] = "automatic"
    """Which build of the kernels, for tests."""

    def __post_init__(self) -> None:
        if not 1 <= self.n_best <= self.beam:
            raise ValueError(f"n_best: expected between 1 and the beam of {self.beam}, found {self.n_best}")
        if not self.drop <= 0:
            raise ValueError(f"drop: expected at most 0, found {self.drop}")
        if self.memory < 1:
            raise ValueError(f"memory: expected at least 1 byte, found {self.memory}")
        if self.room and self.room <= 2 * self.beam:
            raise ValueError(f"room: expected more than twice the beam of {self.beam}, or 0, found {self.room}")


class Candidate(NamedTuple):
    """One way to read an utterance: its labels, on their most probable alignment."""

    decoded: Decoded
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

    utterances: list[Tensor]
    """What the native search keeps of each utterance, as bytes."""

    def copy(self) -> "BeamState":
        """Another one, for frames that may yet change."""
        return BeamState(utterances=[utterance.clone() for utterance in self.utterances])


class BeamSearch:
    """Prediction network and joint, made ready to search. Weights that change afterwards have no effect."""

    def __init__(self, weights: DecoderWeights, options: BeamOptions | None = None) -> None:
        self.options = options or BeamOptions()
        self.weights = on_host(weights)
        longest, chosen = max(self.weights.durations or (1,)), self.options
        if longest > LONGEST_JUMP:
            raise ValueError(f"durations: expected at most {LONGEST_JUMP} frames, found {longest}")
        self._native = None
        if beam_functions() is None:
            warn_slow("transducer.BeamSearch", True)
        else:
            self._native = NativeSearch(
                NativeNetwork(self.weights),
                beam=chosen.beam,
                n_best=chosen.n_best,
                drop=chosen.drop,
                room=chosen.room,
                memory=chosen.memory,
                slots=max(1, ROWS // chosen.beam),
                instruction_set=chosen.instruction_set,
            )

    @property
    def is_native(self) -> bool:
        """Whether the native library searches, which frames that come in pieces need."""
        return self._native is not None

    def start(self, batch: int) -> BeamState:
        """The state of `batch` utterances before their first frames. Raises ValueError without the native library."""
        if self._native is None:
            raise ValueError("state: frames that come in pieces need the native library")
        return BeamState(utterances=[self._native.start() for _ in range(batch)])

    @torch.no_grad()
    def __call__(
        self,
        encoded_BSC: Tensor,
        frames_B: Tensor | Sequence[int],
        *,
        max_symbols: int = 10,
        scorers: Scorer | Sequence[Scorer | None] | None = None,
        state: BeamState | None = None,
        is_over: bool = True,
    ) -> list[list[Candidate]]:
        """For every utterance its best label sequences, best first; fewer than `n_best` where there are not as many.

        `frames_B`: how many of the S frames belong to each utterance. An alignment moves through them as greedy
        decoding does, also after `max_symbols` labels on a frame. `scorers`: one for all, or one for each utterance,
        over the labels and the blank. What an utterance gives does not depend on the others.

        With `state`, the utterances go on where they were, to their end if `is_over` says so; frames are numbered from
        the very first, and labels that were settled before this call are not given again. However the frames are cut,
        the labels, joined, are those of the whole.

        Raises ValueError for shapes and lengths that do not fit, for an utterance whose frames hold NaN, and for one
        that takes more than `options.memory`.
        """
        width = self.weights.encoder_weight.shape[1]
        if encoded_BSC.dim() != 3 or encoded_BSC.shape[2] != width:
            raise ValueError(f"encoded: expected [utterance, frame, {width}], found shape {list(encoded_BSC.shape)}")
        if max_symbols < 1:
            raise ValueError(f"max_symbols: expected 1 or more, found {max_symbols}")
        batch, frames, _ = encoded_BSC.shape
        if state is not None and len(state.utterances) != batch:
            raise ValueError(f"state: expected that of {batch} utterances, found {len(state.utterances)}")
        if state is None and not is_over:
            raise ValueError("is_over: expected True without a state to go on from")
        frames_B = torch.as_tensor(frames_B).to("cpu", torch.int64).contiguous()
        if frames_B.shape != (batch,):
            raise ValueError(f"frames: expected one for each of {batch} utterances, found {list(frames_B.shape)}")
        for n, count in enumerate(frames_B.tolist()):
            if not 0 <= count <= frames:
                raise ValueError(f"frames: utterance {n}: expected at least 0 and at most {frames}, found {count}")
        each = scorers_of_all(scorers, batch, self.weights.blank)
        encoded_BSC = encoded_BSC.detach().float().cpu()
        if encoded_BSC.stride(2) != 1:
            encoded_BSC = encoded_BSC.contiguous()
        if self._native is None:
            return [
                [
                    Candidate(Decoded(*found[:5]), found.log_prob + found.external, found.log_prob, found.external)
                    for found in reference.beam_search(
                        encoded_SC[:count],
                        self.weights,
                        beam=self.options.beam,
                        drop=self.options.drop,
                        max_symbols=max_symbols,
                        scorer=scorer,
                    )[: self.options.n_best]
                ]
                for encoded_SC, count, scorer in zip(encoded_BSC, frames_B.tolist(), each, strict=True)
            ]
        found = self._native(
            encoded_BSC,
            frames_B,
            each,
            max_symbols=max_symbols,
            states=None if state is None else state.utterances,
            is_over=is_over,
        )
        if state is None:
            found.settled_B.zero_()
        return _candidates(found, has_durations=bool(self.weights.durations))


def _candidates(found: Found, *, has_durations: bool) -> list[list[Candidate]]:
    results: list[list[Candidate]] = []
    for b, count in enumerate(found.counts_B.tolist()):
        own = []
        for n in range(count):
            take = functools.partial(_row, b=b, n=n, length=int(found.lengths_BN[b, n]))
            log_prob, external = float(found.log_probs_BN[b, n]), float(found.external_BN[b, n])
            decoded = Decoded(
                take(found.tokens_BNL),
                take(found.frames_BNL),
                take(found.durations_BNL) if has_durations else None,
                take(found.confidences_BNL),
                take(found.entropies_BNL),
            )
            own.append(Candidate(decoded, log_prob + external, log_prob, external, int(found.settled_B[b])))
        results.append(own)
    return results


def _row(part_BNL: Tensor, *, b: int, n: int, length: int) -> list:
    return part_BNL[b, n, :length].tolist()

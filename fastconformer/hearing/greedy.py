"""Greedy decoding by a transducer or CTC of whole utterances, and of those whose frames come in parts.

Needs no torch: frames are tensors or arrays.

Shapes: B utterances, S encoder frames, C what a head decodes of a frame, V labels and blank.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

import ctc
from common.text.pieces import Pieces
from ctc.inputs import integer_list
from fastconformer.hypotheses import NOTHING, DecodedLabels, PieceHypothesis, hypothesis_of
from fastconformer.transducer.beam import BeamState
from fastconformer.transducer.decoder import Decoder, DecoderState

Frames = Any
"""[B, S, C], encoder frames or what a head makes of them: a tensor or an array."""


class CTCRun(NamedTuple):
    """A piece of CTC, the frames from `start` to `end`, and sums over them."""

    label: int
    start: int
    end: int
    log_prob: float
    entropy: float

    def joined(self, later: "CTCRun") -> "CTCRun":
        """The run that this one and the frames right after it are."""
        return CTCRun(self.label, self.start, later.end, self.log_prob + later.log_prob, self.entropy + later.entropy)


@dataclass(kw_only=True, slots=True)
class DecodingState:
    """How far an utterance is decoded whose frames come in parts."""

    state: DecoderState | BeamState | ctc.BeamStream | CTCRun | None
    """What a transducer's decoder, its search or CTC's search goes on from, or the piece of CTC that may go on."""
    scorer: ctc.Scorer | None = None
    """What is known of it besides the network."""
    frames: int = 0

    def copy(self) -> "DecodingState":
        """Another one, for frames that may yet change."""
        own = self.state
        return replace(self, state=own.copy() if isinstance(own, BeamState | ctc.BeamStream) else own)

    @property
    def nbytes(self) -> int:
        """Memory of the state."""
        if isinstance(self.state, ctc.BeamStream):
            return self.state.memory
        return self.state.nbytes if isinstance(self.state, DecoderState | BeamState) else 0

    @staticmethod
    def advance(progress: "Sequence[DecodingState]", frames_B: Any) -> list[int]:
        """So many frames more of each utterance; the number of the first of them."""
        counts, before = integer_list(frames_B, name="frames"), [own.frames for own in progress]
        for own, count in zip(progress, counts, strict=True):
            own.frames += count
        return before


class TransducerDecoding:
    """Greedy decoding by a transducer."""

    is_gradual = True

    def __init__(self, decoder: Decoder, pieces: Pieces) -> None:
        self.decoder, self.pieces = decoder, pieces

    def start(self, scorer: ctc.Scorer | None = None) -> DecodingState:
        """An utterance before its first frames, and what is known of it besides the network."""
        return DecodingState(state=self.decoder.start(1), scorer=scorer)

    def whole(
        self, encoded_BSC: Frames, counts: Any, scorers: list[ctc.Scorer | None] | None = None
    ) -> list[list[PieceHypothesis]]:
        """The best hypothesis of every utterance."""
        return [[hypothesis_of(one, self.pieces)] for one in self.decoder(encoded_BSC, counts, scorers=scorers)]

    def end(self, progress: Sequence[DecodingState]) -> list[PieceHypothesis]:
        """What has not been given yet of utterances that end here: nothing."""
        return [NOTHING for _ in progress]

    def __call__(
        self, encoded_BSC: Frames, frames_B: Any, *, progress: Sequence[DecodingState] | None = None
    ) -> list[PieceHypothesis]:
        """What is in these frames; with `progress`, frames after those before, and numbered from the very first."""
        if progress is None:
            return [best for (best,) in self.whole(encoded_BSC, frames_B)]
        state: Any = DecoderState.of([own.state for own in progress])  # type: ignore[misc]
        found = self.decoder(encoded_BSC, frames_B, state=state, scorers=[own.scorer for own in progress])
        for row, own in enumerate(progress):
            own.state = state.row(row)
        return [
            hypothesis_of(d._replace(frames=[first + frame for frame in d.frames]), self.pieces)
            for first, d in zip(DecodingState.advance(progress, frames_B), found, strict=True)
        ]


class CTCDecoding:
    """Greedy decoding by CTC: a piece that lasts from one part of an utterance into the next is one."""

    def __init__(self, log_probs: Callable[[Frames], Any], pieces: Pieces) -> None:
        """`log_probs` makes log_probs_BSV of frames."""
        self.log_probs, self.pieces = log_probs, pieces

    def start(self, scorer: ctc.Scorer | None = None) -> DecodingState:
        """An utterance before its first frames. Nothing but the network is known of it."""
        assert scorer is None
        return DecodingState(state=None)

    def end(self, progress: Sequence[DecodingState]) -> list[PieceHypothesis]:
        """What has not been given yet of utterances that end here: the piece that their last frame has."""
        return [self._hypothesis([own.state] if isinstance(own.state, CTCRun) else []) for own in progress]

    def __call__(
        self, encoded_BSC: Frames, frames_B: Any, *, progress: Sequence[DecodingState] | None = None
    ) -> list[PieceHypothesis]:
        """What is in these frames; with `progress`, frames after those before, and numbered from the very first.

        With `progress`, a piece that the last frame has is given later, with all of it.
        """
        is_whole = progress is None
        progress = [self.start() for _ in encoded_BSC] if progress is None else progress
        log_probs_BSV = self.log_probs(encoded_BSC)
        entropy_BS = entropies(log_probs_BSV)
        decoded = ctc.greedy(log_probs_BSV, frames_B, blank=self.pieces.blank)
        hypotheses = []
        for own, before, d, entropy_S in zip(
            progress, DecodingState.advance(progress, frames_B), decoded, entropy_BS, strict=True
        ):
            runs = [
                CTCRun(
                    label,
                    before + first,
                    before + stop,
                    (stop - first) * math.log(max(confidence, 1e-38)),
                    float(entropy_S[first:stop].sum()),
                )
                for label, first, stop, confidence in zip(
                    d.labels, d.start_frames, d.end_frames, d.confidence, strict=True
                )
            ]
            if isinstance(open_run := own.state, CTCRun):
                goes_on = bool(runs) and (runs[0].label, runs[0].start) == (open_run.label, open_run.end)
                runs[: int(goes_on)] = [open_run.joined(runs[0]) if goes_on else open_run]
            is_open = runs and runs[-1].end == own.frames and not is_whole
            own.state = runs.pop() if is_open else None
            hypotheses.append(self._hypothesis(runs))
        return hypotheses

    def _hypothesis(self, runs: Sequence[CTCRun]) -> PieceHypothesis:
        return of_ctc_labels(ctc.Labels(*([run[i] for run in runs] for i in range(5))), self.pieces)  # type: ignore[arg-type]


def of_ctc_labels(found: ctc.Labels, pieces: Pieces) -> PieceHypothesis:
    """What CTC has found, spelled: means over the frames of each piece."""
    lengths = [end - start for start, end in zip(found.start_frames, found.end_frames, strict=True)]
    decoded = DecodedLabels(
        found.labels,
        found.start_frames,
        lengths,
        [math.exp(log_prob / n) for log_prob, n in zip(found.log_probs, lengths, strict=True)],
        [entropy / n for entropy, n in zip(found.entropies, lengths, strict=True)],
    )
    return hypothesis_of(decoded, pieces)


def entropies(log_probs_XV: Any) -> np.ndarray:
    """[...] those of probabilities whose logarithms are a tensor, on whose device they are computed, or an array."""
    if not isinstance(log_probs_XV, np.ndarray):
        found: np.ndarray = -(log_probs_XV.exp() * log_probs_XV).nan_to_num(0.0).sum(-1).cpu().numpy()
        return found
    finite_XV = np.maximum(log_probs_XV, np.finfo(np.float32).min)  # 0 times the logarithm of 0 is to be 0
    return -(np.exp(finite_XV) * finite_XV).sum(-1)

"""Decoding by any head of utterances whose frames come in pieces: greedily, or by a beam search of a transducer.

Needs no torch: frames are tensors or arrays, but those of `CTCDecoding`, which are tensors.

Shapes: B utterances, S encoder frames, C encoder width, V labels and blank.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import ctc
from common.text.pieces import Pieces
from ctc.inputs import integer_list
from fastconformer.hypotheses import NOTHING, PieceHypothesis, certainty, hypothesis_of
from fastconformer.transducer.beam import BeamSearch, ranked
from fastconformer.transducer.decoder import Decoder
from fastconformer.transducer.decoder_state import CTCRun, DecodingState

if TYPE_CHECKING:
    from torch import Tensor

Frames = Any
"""encoded_BSC: a tensor or an array."""


class TransducerDecoding:
    """Greedy decoding by a transducer."""

    def __init__(self, decoder: Decoder, pieces: Pieces) -> None:
        self.decoder, self.pieces = decoder, pieces

    def start(self, batch: int, scorer: ctc.Scorer | None = None) -> DecodingState:
        """`batch` utterances before their first frames, and what is known of all of them besides the network."""
        return DecodingState(frames=[0] * batch, transducer=self.decoder.start(batch), scorers=[scorer] * batch)

    def whole(
        self, encoded_BSC: Frames, counts: list[int], scorers: list[ctc.Scorer | None]
    ) -> list[list[PieceHypothesis]]:
        """The best hypothesis of every utterance."""
        return [[hypothesis_of(one, self.pieces)] for one in self.decoder(encoded_BSC, counts, scorers=scorers)]

    def end(self, progress: DecodingState) -> list[PieceHypothesis]:
        """What has not been given yet of utterances that end here: nothing."""
        return [NOTHING for _ in progress.frames]

    def __call__(
        self, encoded_BSC: Frames, frames_B: Any, *, progress: DecodingState | None = None
    ) -> list[PieceHypothesis]:
        """What is in these frames; with `progress`, frames after those before, and numbered from the very first."""
        state = None if progress is None else progress.transducer
        scorers = progress.scorers if progress is not None and any(progress.scorers) else None
        found = self.decoder(encoded_BSC, frames_B, state=state, scorers=scorers)
        before = [0] * len(found)
        if progress is not None:
            before, counts = progress.frames, integer_list(frames_B, name="frames")
            progress.frames = [n + count for n, count in zip(before, counts, strict=True)]
        return [
            hypothesis_of(d._replace(frames=[n + frame for frame in d.frames]), self.pieces)
            for n, d in zip(before, found, strict=True)
        ]


class BeamDecoding:
    """A beam search by a transducer: pieces are given once all sequences that are kept have them."""

    def __init__(self, search: BeamSearch, pieces: Pieces) -> None:
        self.search, self.pieces = search, pieces

    def start(self, batch: int, scorer: ctc.Scorer | None = None) -> DecodingState:
        """`batch` utterances before their first frames, and what is known of all of them besides the network."""
        return DecodingState(frames=[0] * batch, search=self.search.start(batch), scorers=[scorer] * batch)

    def whole(
        self, encoded_BSC: Frames, counts: list[int], scorers: list[ctc.Scorer | None]
    ) -> list[list[PieceHypothesis]]:
        """The best hypotheses of every utterance, best first."""
        found = self.search(encoded_BSC, counts, scorers=scorers)
        return [[hypothesis_of(c.decoded, self.pieces)._replace(score=c.score) for c in own] for own in found]

    def end(self, progress: DecodingState) -> list[PieceHypothesis]:
        """What has not been given yet of utterances that end here, with its score and alternatives."""
        nothing_BSC = np.zeros((len(progress.frames), 0, self.search.weights.encoder_weight.shape[1]), np.float32)
        found = self.search(
            nothing_BSC, [0] * len(nothing_BSC), scorers=progress.scorers, state=progress.search, is_over=True
        )
        return [ranked(own, self.pieces) for own in found]

    def __call__(self, encoded_BSC: Frames, frames_B: Any, *, progress: DecodingState) -> list[PieceHypothesis]:
        """What these frames, after those before, have settled; they are numbered from the very first."""
        known: dict[str, Any] = {"scorers": progress.scorers, "state": progress.search}
        found = self.search(encoded_BSC, frames_B, is_over=False, **known)
        counts = integer_list(frames_B, name="frames")
        progress.frames = [n + count for n, count in zip(progress.frames, counts, strict=True)]
        return [hypothesis_of(own[0].decoded, self.pieces).part(0, own[0].settled) for own in found]


class CTCDecoding:
    """Greedy decoding by CTC: a piece that lasts from one part of an utterance into the next is one."""

    def __init__(self, log_probs: "Callable[[Tensor], Tensor]", pieces: Pieces) -> None:
        """`log_probs` makes log_probs_BSV of encoded_BSC."""
        self.log_probs, self.pieces = log_probs, pieces

    def start(self, batch: int, scorer: ctc.Scorer | None = None) -> DecodingState:
        """`batch` utterances before their first frames. Nothing but the network is known of them."""
        assert scorer is None
        return DecodingState(frames=[0] * batch, runs=[None] * batch)

    def end(self, progress: DecodingState) -> list[PieceHypothesis]:
        """What has not been given yet of utterances that end here: the piece that their last frame has."""
        return [self._hypothesis([run] if run is not None else []) for run in progress.runs]

    def __call__(
        self, encoded_BSC: Frames, frames_B: Any, *, progress: DecodingState | None = None
    ) -> list[PieceHypothesis]:
        """What is in these frames; with `progress`, frames after those before, and numbered from the very first.

        With `progress`, a piece that the last frame has is given later, with all of it.
        """
        is_whole, progress = progress is None, self.start(len(encoded_BSC)) if progress is None else progress
        log_probs_BSV = self.log_probs(encoded_BSC)
        entropy_BS = -(log_probs_BSV.exp() * log_probs_BSV).nan_to_num(0.0).sum(2).cpu()
        counts = integer_list(frames_B, name="frames")
        hypotheses = []
        for b, d in enumerate(ctc.greedy(log_probs_BSV, frames_B, blank=self.pieces.blank)):
            before, open_run = progress.frames[b], progress.runs[b]
            end = before + counts[b]
            runs = [
                CTCRun(
                    label,
                    before + first,
                    before + stop,
                    (stop - first) * math.log(max(confidence, 1e-38)),
                    float(entropy_BS[b, first:stop].sum()),
                )
                for label, first, stop, confidence in zip(
                    d.labels, d.start_frames, d.end_frames, d.confidence, strict=True
                )
            ]
            if open_run is not None and runs and (runs[0].label, runs[0].start) == (open_run.label, open_run.end):
                runs[0] = open_run.joined(runs[0])
            elif open_run is not None:
                runs.insert(0, open_run)
            goes_on = runs and runs[-1].end == end and not is_whole
            progress.runs[b], progress.frames[b] = runs.pop() if goes_on else None, end
            hypotheses.append(self._hypothesis(runs))
        return hypotheses

    def _hypothesis(self, runs: Sequence[CTCRun]) -> PieceHypothesis:
        tokens, most = [run.label for run in runs], math.log(len(self.pieces))
        lengths = [run.end - run.start for run in runs]
        return PieceHypothesis(
            tokens,
            [run.start for run in runs],
            lengths,
            self.pieces.decode(tokens),
            [math.exp(run.log_prob / n) for run, n in zip(runs, lengths, strict=True)],
            [certainty(run.entropy / n, most) for run, n in zip(runs, lengths, strict=True)],
        )

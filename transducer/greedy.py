"""Decoding by any head of utterances whose frames come in pieces: greedily, or by a beam search of a transducer.

Shapes: B utterances, S encoder frames, C encoder width, V labels and blank.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

import ctc
from common.text.pieces import Pieces
from transducer.beam import BeamSearch
from transducer.decoder import Decoder, DecoderState
from transducer.host_beam import BeamState, ranked
from transducer.hypotheses import NOTHING, Hypothesis, certainty, hypothesis_of


class Run(NamedTuple):
    """A piece of CTC, the frames from `start` to `end`, and sums over them."""

    label: int
    start: int
    end: int
    log_prob: float
    entropy: float

    def joined(self, later: "Run") -> "Run":
        """The run that this one and the frames right after it are."""
        return Run(self.label, self.start, later.end, self.log_prob + later.log_prob, self.entropy + later.entropy)


@dataclass(kw_only=True, slots=True)
class Progress:
    """How far utterances are decoded: of a transducer the state of its decoder or of its search, of CTC the pieces that
    may go on."""

    frames: list[int]
    transducer: DecoderState | None = None
    search: BeamState | None = None
    runs: list[Run | None] = field(default_factory=list)
    scorers: list[ctc.Scorer | None] = field(default_factory=list)

    def row(self, row: int) -> "Progress":
        """That of one of the utterances, a copy."""
        state, rows = self.transducer, slice(row, row + 1)
        if state is not None:
            language_B3 = None if state.language_B3 is None else state.language_B3[rows].clone()
            state = DecoderState(
                network_BX=state.network_BX[rows].clone(),
                position_B3=state.position_B3[rows].clone(),
                language_B3=language_B3,
            )
        search = None if self.search is None else BeamState(utterances=self.search.utterances[rows]).copy()
        return Progress(
            frames=self.frames[rows], transducer=state, search=search, runs=self.runs[rows], scorers=self.scorers[rows]
        )

    @property
    def nbytes(self) -> int:
        """Memory of the states."""
        state, search = self.transducer, self.search
        of_search = 0 if search is None else sum(utterance.nbytes for utterance in search.utterances)
        return of_search + (0 if state is None else state.network_BX.nbytes + state.position_B3.nbytes)

    @staticmethod
    def of(utterances: Sequence["Progress"]) -> "Progress":
        """That of several utterances, a copy; but states of searches are theirs, and change with it."""
        searches = [state for each in utterances if each.search is not None for state in each.search.utterances]
        states = [each.transducer for each in utterances if each.transducer is not None]
        joint = None
        if states:
            has_language = any(state.language_B3 is not None for state in states)
            joint = DecoderState(
                network_BX=torch.cat([state.network_BX for state in states]),
                position_B3=torch.cat([state.position_B3 for state in states]),
                language_B3=torch.cat([state.language() for state in states]) if has_language else None,
            )
        return Progress(
            frames=[n for each in utterances for n in each.frames],
            transducer=joint,
            search=BeamState(utterances=searches) if searches else None,
            runs=[run for each in utterances for run in each.runs],
            scorers=[scorer for each in utterances for scorer in each.scorers],
        )


class TransducerDecoding:
    """Greedy decoding by a transducer."""

    def __init__(self, decoder: Decoder, pieces: Pieces) -> None:
        self.decoder, self.pieces = decoder, pieces

    def start(self, batch: int, scorer: ctc.Scorer | None = None) -> Progress:
        """`batch` utterances before their first frames, and what is known of all of them besides the network."""
        return Progress(frames=[0] * batch, transducer=self.decoder.start(batch), scorers=[scorer] * batch)

    def end(self, progress: Progress) -> list[Hypothesis]:
        """What has not been given yet of utterances that end here: nothing."""
        return [NOTHING for _ in progress.frames]

    def __call__(
        self,
        encoded_BSC: Tensor,
        frames_B: Tensor | Sequence[int],
        *,
        progress: Progress | None = None,
        max_symbols: int = 10,
    ) -> list[Hypothesis]:
        """What is in these frames; with `progress`, frames after those before, and numbered from the very first."""
        state = None if progress is None else progress.transducer
        scorers = progress.scorers if progress is not None and any(progress.scorers) else None
        encoded_BSC = encoded_BSC.to(self.decoder.weights.embedding.device)
        found = self.decoder(encoded_BSC, frames_B, max_symbols=max_symbols, state=state, scorers=scorers)
        before = [0] * len(found)
        if progress is not None:
            before, counts = progress.frames, torch.as_tensor(frames_B).tolist()
            progress.frames = [n + count for n, count in zip(before, counts, strict=True)]
        return [
            hypothesis_of(d._replace(frames=[n + frame for frame in d.frames]), self.pieces)
            for n, d in zip(before, found, strict=True)
        ]


class BeamDecoding:
    """A beam search by a transducer: pieces are given once all sequences that are kept have them."""

    def __init__(self, search: BeamSearch, pieces: Pieces) -> None:
        self.search, self.pieces = search, pieces

    def start(self, batch: int, scorer: ctc.Scorer | None = None) -> Progress:
        """`batch` utterances before their first frames, and what is known of all of them besides the network."""
        return Progress(frames=[0] * batch, search=self.search.start(batch), scorers=[scorer] * batch)

    def end(self, progress: Progress) -> list[Hypothesis]:
        """What has not been given yet of utterances that end here, with its score and alternatives."""
        nothing_BSC = torch.zeros(len(progress.frames), 0, self.search.weights.encoder_weight.shape[1])
        found = self.search(
            nothing_BSC, [0] * len(nothing_BSC), scorers=progress.scorers, state=progress.search, is_over=True
        )
        return [ranked(own, self.pieces) for own in found]

    def __call__(
        self, encoded_BSC: Tensor, frames_B: Tensor | Sequence[int], *, progress: Progress, max_symbols: int = 10
    ) -> list[Hypothesis]:
        """What these frames, after those before, have settled; they are numbered from the very first."""
        found = self.search(
            encoded_BSC,
            frames_B,
            max_symbols=max_symbols,
            scorers=progress.scorers,
            state=progress.search,
            is_over=False,
        )
        counts = torch.as_tensor(frames_B).tolist()
        progress.frames = [n + count for n, count in zip(progress.frames, counts, strict=True)]
        return [hypothesis_of(own[0].decoded, self.pieces).part(0, own[0].settled) for own in found]


class CTCDecoding:
    """Greedy decoding by CTC: a piece that lasts from one part of an utterance into the next is one."""

    def __init__(self, log_probs: Callable[[Tensor], Tensor], pieces: Pieces) -> None:
        """`log_probs` makes log_probs_BSV of encoded_BSC."""
        self.log_probs, self.pieces = log_probs, pieces

    def start(self, batch: int, scorer: ctc.Scorer | None = None) -> Progress:
        """`batch` utterances before their first frames. Nothing but the network is known of them."""
        assert scorer is None
        return Progress(frames=[0] * batch, runs=[None] * batch)

    def end(self, progress: Progress) -> list[Hypothesis]:
        """What has not been given yet of utterances that end here: the piece that their last frame has."""
        return [self._hypothesis([run] if run is not None else []) for run in progress.runs]

    def __call__(
        self,
        encoded_BSC: Tensor,
        frames_B: Tensor | Sequence[int],
        *,
        progress: Progress | None = None,
        max_symbols: int = 10,
    ) -> list[Hypothesis]:
        """What is in these frames; with `progress`, frames after those before, and numbered from the very first.

        With `progress`, a piece that the last frame has is given later, with all of it. `max_symbols` has no part.
        """
        is_whole, progress = progress is None, self.start(len(encoded_BSC)) if progress is None else progress
        log_probs_BSV = self.log_probs(encoded_BSC)
        entropy_BS = -(log_probs_BSV.exp() * log_probs_BSV).nan_to_num(0.0).sum(2).cpu()
        counts = torch.as_tensor(frames_B).tolist()
        hypotheses = []
        for b, d in enumerate(ctc.greedy(log_probs_BSV, frames_B, blank=self.pieces.blank)):
            before, open_run = progress.frames[b], progress.runs[b]
            end = before + counts[b]
            runs = [
                Run(
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

    def _hypothesis(self, runs: Sequence[Run]) -> Hypothesis:
        tokens, most = [run.label for run in runs], math.log(len(self.pieces))
        lengths = [run.end - run.start for run in runs]
        return Hypothesis(
            tokens,
            [run.start for run in runs],
            lengths,
            self.pieces.decode(tokens),
            [math.exp(run.log_prob / n) for run, n in zip(runs, lengths, strict=True)],
            [certainty(run.entropy / n, most) for run, n in zip(runs, lengths, strict=True)],
        )

"""How far utterances are decoded whose frames come in pieces, by any head."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import ctc
from fastconformer.transducer.beam import BeamState
from fastconformer.transducer.decoder import DecoderState


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
    """How far utterances are decoded: of a transducer the state of its decoder or of its search, of CTC the pieces that
    may go on, or its searches."""

    frames: list[int]
    transducer: DecoderState | None = None
    search: BeamState | None = None
    runs: list[CTCRun | None] = field(default_factory=list)
    streams: list[ctc.BeamStream] = field(default_factory=list)
    scorers: list[ctc.Scorer | None] = field(default_factory=list)

    def row(self, row: int) -> "DecodingState":
        """That of one of the utterances, a copy."""
        rows = slice(row, row + 1)
        return DecodingState(
            frames=self.frames[rows],
            transducer=None if self.transducer is None else self.transducer.row(row),
            search=None if self.search is None else BeamState(utterances=self.search.utterances[rows]).copy(),
            runs=self.runs[rows],
            streams=[stream.copy() for stream in self.streams[rows]],
            scorers=self.scorers[rows],
        )

    @property
    def nbytes(self) -> int:
        """Memory of the states."""
        of_search = 0 if self.search is None else sum(utterance.nbytes for utterance in self.search.utterances)
        of_search += sum(stream.memory for stream in self.streams)
        return of_search + (0 if self.transducer is None else self.transducer.nbytes)

    @staticmethod
    def of(utterances: Sequence["DecodingState"]) -> "DecodingState":
        """That of several utterances, a copy; but states of searches are theirs, and change with it."""
        searches = [each.search for each in utterances if each.search is not None]
        states = [each.transducer for each in utterances if each.transducer is not None]
        return DecodingState(
            frames=[n for each in utterances for n in each.frames],
            transducer=DecoderState.of(states) if states else None,
            search=BeamState(utterances=[u for s in searches for u in s.utterances]) if searches else None,
            runs=[run for each in utterances for run in each.runs],
            streams=[stream for each in utterances for stream in each.streams],
            scorers=[scorer for each in utterances for scorer in each.scorers],
        )

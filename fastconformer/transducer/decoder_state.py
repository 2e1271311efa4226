"""How far utterances are decoded whose frames come in pieces. Needs no torch, but where a transducer has made states.

Shapes: B utterances, X numbers of a state.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import ctc
from fastconformer.transducer.host_beam import BeamState

if TYPE_CHECKING:  # its module needs torch
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
    transducer: "DecoderState | None" = None
    search: BeamState | None = None
    runs: list[CTCRun | None] = field(default_factory=list)
    streams: list[ctc.BeamStream] = field(default_factory=list)
    scorers: list[ctc.Scorer | None] = field(default_factory=list)

    def row(self, row: int) -> "DecodingState":
        """That of one of the utterances, a copy."""
        state, rows = self.transducer, slice(row, row + 1)
        if state is not None:
            language_B3 = None if state.language_B3 is None else state.language_B3[rows].clone()
            state = replace(
                state,
                network_BX=state.network_BX[rows].clone(),
                position_B3=state.position_B3[rows].clone(),
                language_B3=language_B3,
            )
        search = self.search
        if search is not None:
            search = replace(search, utterances=search.utterances[rows]).copy()
        return DecodingState(
            frames=self.frames[rows],
            transducer=state,
            search=search,
            runs=self.runs[rows],
            streams=[stream.copy() for stream in self.streams[rows]],
            scorers=self.scorers[rows],
        )

    @property
    def nbytes(self) -> int:
        """Memory of the states."""
        state, search = self.transducer, self.search
        of_search = 0 if search is None else sum(utterance.nbytes for utterance in search.utterances)
        of_search += sum(stream.memory for stream in self.streams)
        return of_search + (0 if state is None else state.network_BX.nbytes + state.position_B3.nbytes)

    @staticmethod
    def of(utterances: Sequence["DecodingState"]) -> "DecodingState":
        """That of several utterances, a copy; but states of searches are theirs, and change with it."""
        searches = [each.search for each in utterances if each.search is not None]
        states = [each.transducer for each in utterances if each.transducer is not None]
        joint = None
        if states:
            import torch  # it has made the states

            has_language = any(state.language_B3 is not None for state in states)
            joint = replace(
                states[0],
                network_BX=torch.cat([state.network_BX for state in states]),
                position_B3=torch.cat([state.position_B3 for state in states]),
                language_B3=torch.cat([state.language() for state in states]) if has_language else None,
            )
        return DecodingState(
            frames=[n for each in utterances for n in each.frames],
            transducer=joint,
            search=replace(searches[0], utterances=[u for s in searches for u in s.utterances]) if searches else None,
            runs=[run for each in utterances for run in each.runs],
            streams=[stream for each in utterances for stream in each.streams],
            scorers=[scorer for each in utterances for scorer in each.scorers],
        )

"""What decoding finds in an utterance, by any head, and its words. Needs no torch."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from common.recognition.output.transcripts import Alternative, Letter, Transcript, Word, best_of, words_of_pieces
from common.recognition.sources.recordings import Recording
from common.text.pieces import Pieces


class DecodedLabels(NamedTuple):
    """Labels of one utterance, the encoder frame each was emitted at, and how sure the model is of each.

    `durations` are the frames that the model gave each label (TDT), None for RNN-T. `confidence` is the
    probability of the label among all labels and blank, `entropies` those of their probabilities, in nats.
    """

    tokens: list[int]
    frames: list[int]
    durations: list[int] | None
    confidence: list[float]
    entropies: Sequence[float] = ()


class PieceHypothesis(NamedTuple):
    """What was recognised in one utterance: pieces, and the encoder frame that each was emitted at.

    `durations` are frames: those that TDT gives, those that a piece of CTC lasts, None for RNN-T. `confidence` is the
    probability of each piece, `entropy_confidence` 1 less the entropy of its frame in parts of the greatest there can
    be; of CTC, the means over the frames of the piece (geometric and arithmetic).
    """

    tokens: list[int]
    frames: list[int]
    durations: list[int] | None
    text: str
    confidence: list[float]
    entropy_confidence: list[float]
    score: float = 0.0
    """Log-probability, and what the language model and hot words add; 0 without a search."""
    alternatives: tuple["PieceHypothesis", ...] = ()
    """Less probable hypotheses, best first, as many as a search was asked for."""

    def part(self, start: int, stop: int | None) -> "PieceHypothesis":
        """The pieces from `start` to `stop`, without their text."""
        tokens, frames, confidence, entropy = (
            each[start:stop] for each in (self.tokens, self.frames, self.confidence, self.entropy_confidence)
        )
        durations = None if self.durations is None else self.durations[start:stop]
        return PieceHypothesis(tokens, frames, durations, "", confidence, entropy)  # type: ignore[arg-type]


NOTHING = PieceHypothesis([], [], None, "", [], [])


def hypothesis_of(decoded: DecodedLabels, pieces: Pieces) -> PieceHypothesis:
    """What a decoder found, spelled."""
    most = math.log(len(pieces))
    return PieceHypothesis(
        decoded.tokens,
        decoded.frames,
        decoded.durations,
        pieces.decode(decoded.tokens),
        decoded.confidence,
        [min(1.0, max(0.0, 1.0 - entropy / most)) for entropy in decoded.entropies],
    )


def joined(parts: Sequence[PieceHypothesis], pieces: Pieces) -> PieceHypothesis:
    """The hypothesis that those of an utterance's parts are, one after the other; the last one's score is of all."""
    tokens = [token for part in parts for token in part.tokens]
    durations = None
    if any(part.durations is not None for part in parts):
        durations = [duration for part in parts for duration in part.durations or ()]
    last = parts[-1] if parts else NOTHING
    return PieceHypothesis(
        tokens,
        [frame for part in parts for frame in part.frames],
        durations,
        pieces.decode(tokens),
        [confidence for part in parts for confidence in part.confidence],
        [confidence for part in parts for confidence in part.entropy_confidence],
        last.score,
        tuple(joined([*parts[:-1], other], pieces) for other in last.alternatives),
    )


def words_in(
    hypothesis: PieceHypothesis,
    confidence: Sequence[float],
    pieces: Pieces,
    recording: Recording,
    *,
    seconds_per_frame: float,
) -> list[Word]:
    """The words of a hypothesis with their times in the recording. A piece of no duration lasts a frame."""
    durations = hypothesis.durations or [1] * len(hypothesis.tokens)
    spans = [
        Letter("", frame, frame + max(1, duration), sure)
        for frame, duration, sure in zip(hypothesis.frames, durations, confidence, strict=True)
    ]
    return words_of_pieces(pieces, hypothesis.tokens, spans, recording, seconds_per_frame=seconds_per_frame)


def transcript_of(
    recording: Recording,
    hypothesis: PieceHypothesis,
    words: Callable[[PieceHypothesis, Recording], list[Word]],
    *,
    seconds_per_frame: float,
    error: str,
) -> Transcript:
    """What a hypothesis and its alternatives, whose `words` are those of a recording, say in it."""
    alternatives = [
        Alternative(" ".join(one.text.split()), own, round(one.score, 4))
        for one in (hypothesis, *hypothesis.alternatives)
        for own in [words(one, recording)]
    ]
    return best_of(recording, alternatives, seconds_per_frame=seconds_per_frame, error=error)

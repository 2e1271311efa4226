"""What a recogniser says: words with their times and how sure it is of them.

Shapes: S frames, V labels.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from torch import Tensor


class Letter(NamedTuple):
    """A recognised label, the frames that it was heard in, and how sure the model is (0 to 1)."""

    text: str
    start_frame: int
    end_frame: int
    confidence: float


class Word(NamedTuple):
    """A recognised word: seconds from the start of the recording, and how sure the model is (0 to 1)."""

    text: str
    start: float
    end: float
    confidence: float


class Alternative(NamedTuple):
    """Another transcript of the same recording, its words, and its score: larger is better."""

    text: str
    words: list[Word]
    score: float

    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"text": self.text, "score": self.score, "words": [word._asdict() for word in self.words]}


class Transcript(NamedTuple):
    """What was recognised in one recording; `error` says why nothing could be, "" where all went well.

    `log_probs_SV` (if they were asked for) belong to frames of `seconds_per_frame`, the first at `first_frame_seconds`:
    silence before it was cut off.
    """

    audio: str
    text: str
    words: list[Word]
    seconds: float
    error: str = ""
    log_probs_SV: Tensor | None = None
    first_frame_seconds: float = 0.0
    seconds_per_frame: float = 0.0
    alternatives: Sequence[Alternative] = ()
    """Less probable transcripts, best first, where they were asked for."""

    def record(self) -> dict[str, Any]:
        """As a JSON object: what was said, and all words with their times."""
        record: dict[str, Any] = {
            "audio": self.audio,
            "duration": round(self.seconds, 3),
            "text": self.text,
            "confidence": round(sum(w.confidence for w in self.words) / len(self.words), 4) if self.words else 0.0,
            "words": [word._asdict() for word in self.words],
        }
        if self.alternatives:
            record["alternatives"] = [alternative.record() for alternative in self.alternatives]
        return record


def words_of(
    letters: Iterable[Letter], *, separator: str, first_seconds: float, seconds_per_frame: float, seconds: float
) -> list[Word]:
    """The words between `separator` letters, in a recording of `seconds` whose first frame is at `first_seconds`.

    The confidence of a word is the geometric mean of those of its letters.
    """
    words: list[Word] = []
    spelled: list[Letter] = []
    for letter in [*letters, Letter(separator, 0, 0, 1.0)]:
        if letter.text != separator:
            spelled.append(letter)
        elif spelled:
            start, end = (spelled[0].start_frame * seconds_per_frame, spelled[-1].end_frame * seconds_per_frame)
            words.append(
                Word(
                    text="".join(letter.text for letter in spelled),
                    start=round(first_seconds + start, 3),
                    end=round(min(first_seconds + end, seconds), 3),
                    confidence=round(math.prod(c.confidence for c in spelled) ** (1 / len(spelled)), 4),
                )
            )
            spelled = []
    return words

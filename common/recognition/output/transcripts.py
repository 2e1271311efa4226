"""What a recogniser says: words with their times and how sure it is of them.

Shapes: S frames, V labels.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from common.audio.silence import Cut, in_recording
from common.recognition.sources.recordings import Recording
from common.text.pieces import Pieces, is_spaceless, is_spoken, word_groups

SPACE_SECONDS = 0.08
"""How long before a word's first letter the space before it may begin the word: a space may be anywhere in a pause."""


class Letter(NamedTuple):
    """A recognised label, the frames that it was heard in, and how sure the model is (0 to 1)."""

    text: str
    start_frame: int
    end_frame: int
    confidence: float


class Reading(NamedTuple):
    """One way to read a recording: its letters, with separators between words, and the score it is ranked by."""

    letters: list[Letter]
    score: float
    """Log-probability, and what the language model and hot words add; of the best path without a search."""


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

    `log_probs_SV` (if they were asked for) belong to frames of `seconds_per_frame`, whose times `time_of` says.
    """

    audio: str
    text: str
    words: list[Word]
    seconds: float
    error: str = ""
    log_probs_SV: np.ndarray | None = None
    cuts: tuple[Cut, ...] = ()
    """Where silence of the recording was cut out."""
    seconds_per_frame: float = 0.0
    alternatives: Sequence[Alternative] = ()
    """Less probable transcripts, best first, where they were asked for."""
    score: float = 0.0
    """As that of an alternative."""
    flags: tuple[str, ...] = ()
    """What was noticed: "loop" where the text repeated itself, "limit" where it did not end; it was decoded again;
    "gap" where text was missing, or neither helped: it was heard again in parts."""

    language: str = ""
    """Code of the language that was written, where a model says."""

    def time_of(self, frame: float, *, is_end: bool = False) -> float:
        """The time in the recording of a frame of `log_probs_SV`, or of one as the end of something."""
        return in_recording(self.cuts, frame * self.seconds_per_frame, is_end=is_end)

    def record(self) -> dict[str, Any]:
        """As a JSON object: what was said, and all words with their times."""
        record: dict[str, Any] = {
            "audio": self.audio,
            "duration": round(self.seconds, 3),
            "text": self.text,
            "confidence": round(sum(w.confidence for w in self.words) / len(self.words), 4) if self.words else 0.0,
            "words": [word._asdict() for word in self.words],
        }
        if self.language:
            record["language"] = self.language
        if self.flags:
            record["flags"] = list(self.flags)
        if self.alternatives:
            record["score"] = self.score
            record["alternatives"] = [alternative.record() for alternative in self.alternatives]
        return record


def text_of(words: Iterable[Word]) -> str:
    """The words as they are written: with spaces between them, in scripts that have any."""
    parts: list[str] = []
    for word in words:
        if parts and not (is_spaceless(parts[-1][-1]) and is_spaceless(word.text[0])):
            parts.append(" ")
        parts.append(word.text)
    return "".join(parts)


def transcript_of(
    recording: Recording,
    readings: Sequence[tuple[list[Word], float]],
    *,
    seconds_per_frame: float,
    error: str = "",
    log_probs_SV: np.ndarray | None = None,
) -> Transcript:
    """What `readings`, the words and the score of each, best first, say in the recording."""
    alternatives = [
        Alternative(" ".join(word.text for word in words), words, round(score, 4)) for words, score in readings
    ]
    return best_of(recording, alternatives, seconds_per_frame=seconds_per_frame, error=error, log_probs_SV=log_probs_SV)


def best_of(
    recording: Recording,
    alternatives: Sequence[Alternative],
    *,
    seconds_per_frame: float,
    error: str = "",
    log_probs_SV: np.ndarray | None = None,
) -> Transcript:
    """The first of what a recording may say, if there is any, with the others beside it."""
    best = alternatives[0] if alternatives else Alternative("", [], 0.0)
    return Transcript(
        audio=recording.name,
        text=best.text,
        words=best.words,
        seconds=recording.seconds,
        error=error,
        log_probs_SV=log_probs_SV,
        cuts=recording.cuts,
        seconds_per_frame=seconds_per_frame,
        alternatives=list(alternatives[1:]),
        score=best.score,
    )


def words_of(
    letters: Iterable[Letter], recording: Recording, *, separator: str, seconds_per_frame: float
) -> list[Word]:
    """The words between `separator` letters, with their times in the recording.

    Where labels are letters, a word begins with the separator before it, which a network hears where the word begins,
    and the first letter only within it; `SPACE_SECONDS` before this letter at most. Boundaries of pieces take no time.
    The confidence of a word is the geometric mean of those of its letters.
    """
    groups: list[tuple[str, list[Letter]]] = []
    starts: list[int] = []
    spelled: list[Letter] = []
    before: Letter | None = None
    for letter in [*letters, Letter(separator, 0, 0, 1.0)]:
        if letter.text != separator:
            spelled.append(letter)
            continue
        if spelled:
            groups.append(("".join(letter.text for letter in spelled), spelled))
            first = before if before is not None and len(spelled[0].text) == 1 else spelled[0]
            starts.append(first.start_frame)
            spelled = []
        before = letter if letter.end_frame > letter.start_frame else None
    words = _words(groups, recording, seconds_per_frame)
    for i, (word, frame) in enumerate(zip(words, starts, strict=True)):
        earliest = max(in_recording(recording.cuts, frame * seconds_per_frame), word.start - SPACE_SECONDS)
        words[i] = word._replace(start=round(min(earliest, word.start), 3))
    return words


def words_of_pieces(
    pieces: Pieces,
    tokens: Sequence[int],
    spans: Sequence[Letter],
    recording: Recording,
    *,
    seconds_per_frame: float,
) -> list[Word]:
    """The words that recognised `tokens` spell, as `words_of`. `spans` has a letter for each of them.

    Punctuation is part of the word before it, but has no part in its times and confidence. A word ends when the next
    one starts, at the latest, unless both start in the same frame.
    """
    groups = []
    for group in word_groups(pieces, tokens):
        spoken = [spans[p] for p in group if is_spoken(pieces, tokens[p])]
        text = pieces.decode([tokens[p] for p in group]).strip()
        groups.append((text, spoken or [spans[p] for p in group]))
    words = _words([group for group in groups if group[0]], recording, seconds_per_frame)
    for i, (word, following) in enumerate(itertools.pairwise(words)):
        if following.start > word.start:
            words[i] = word._replace(end=min(word.end, following.start))
    return words


def _words(groups: Iterable[tuple[str, list[Letter]]], recording: Recording, seconds_per_frame: float) -> list[Word]:
    cuts, seconds = recording.cuts, recording.seconds
    return [
        Word(
            text=text,
            start=round(min(in_recording(cuts, letters[0].start_frame * seconds_per_frame), seconds), 3),
            end=round(min(in_recording(cuts, letters[-1].end_frame * seconds_per_frame, is_end=True), seconds), 3),
            confidence=round(math.prod(c.confidence for c in letters) ** (1 / len(letters)), 4),
        )
        for text, letters in groups
    ]

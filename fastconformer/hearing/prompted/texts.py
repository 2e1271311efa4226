"""Texts of an attention decoder: from tokens to words with their times, and from parts of a recording to the whole.

Needs no torch.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import ctc
from common.audio.silence import in_recording
from common.recognition.cutting.pauses import WINDOW_SECONDS, between
from common.recognition.output.transcripts import (
    SPACE_SECONDS,
    Alternative,
    Letter,
    Transcript,
    Word,
    best_of,
    words_of_pieces,
)
from common.recognition.sources.recordings import Recording
from common.text.pieces import SPACE, Pieces, is_spoken
from common.text.vocabulary import VocabularyError
from fastconformer.attention.pieces import PromptedPieces
from fastconformer.attention.search import FoundText, Result

NO_SPACES = ("ja", "zh", "th")
TAIL_SECONDS = 0.3
"""How long after its last label a word may end."""
UNTIMED = Recording("", np.zeros(0, np.float32), 1.0)
"""Stands for the recording of words whose times are known otherwise."""
NAN, GAP = "nan", "gap"
"""Flags of a text for which the network gave no numbers, and of one that had left out some of what is said."""


class TextHypothesis(NamedTuple):
    """A text of an attention decoder: the tokens without prompt and end, what they spell, and how probable each is."""

    labels: list[int]
    text: str
    confidence: list[float]
    score: float
    """Log-probability with that of the end, and what a language model and hot words add."""
    flags: tuple[str, ...] = ()
    """What was noticed: LOOP, LIMIT, NAN, GAP."""
    alternatives: tuple["TextHypothesis", ...] = ()
    """Less probable texts, best first, as many as were asked for."""
    end: float = 1.0
    """How probable it is that nothing follows."""


def hypothesis_of(result: Result, pieces: PromptedPieces) -> TextHypothesis:
    """What a search found, spelled; no text and the flag "nan" where the network gives no number."""
    if not result.found:
        return TextHypothesis([], "", [], 0.0, (*result.flags, NAN))

    def spelled(found: FoundText) -> TextHypothesis:
        sure = [math.exp(log_prob) for log_prob in found.log_probs]
        labels, ends = found.labels, sure[len(found.labels) :]
        return TextHypothesis(
            labels, pieces.decode(labels).strip(), sure[: len(labels)], found.score, end=math.prod(ends)
        )

    best, *others = map(spelled, result.found)
    return best._replace(flags=result.flags, alternatives=tuple(others))


class HeardPart(NamedTuple):
    """A stretch of a recording: where it starts and how long it is, in seconds, and what is said in it."""

    start: float
    seconds: float
    hypothesis: TextHypothesis
    lead: float = 0.0
    """Seconds of silence that it was heard with before its start."""
    times: Sequence[tuple[float, float]] = ()
    """Start and end of every word, from the first frame on, where something found them."""
    seam: float = math.inf
    """Up to when what is said counts, in seconds of the recording, where the next part hears some of it, too."""

    def at(self, seconds: float) -> float:
        """Where in the recording something is that is so many seconds after the first frame."""
        return round(self.start + min(max(0.0, seconds - self.lead), self.seconds), 3)


def words_of(part: HeardPart, pieces: PromptedPieces, seconds_per_frame: float) -> list[Word]:
    """The words with their times: those that were found, or those that the text has tokens for; else of the stretch.

    A time of tokens that is not in the stretch, or before the one before it, is none.
    """
    words: list[Word] = []
    labels, sure = part.hypothesis.labels, part.hypothesis.confidence
    pending: list[int] = []
    start: float | None = None
    last = 0.0

    def close(end: float | None) -> None:
        if pending:
            spans = [Letter("", 0, 1, sure[i]) for i in pending]
            own = words_of_pieces(pieces, [labels[i] for i in pending], spans, UNTIMED, seconds_per_frame=1.0)
            first, stop = (start, end) if start is not None and end is not None else (0.0, part.seconds)
            words.extend(
                word._replace(start=round(part.start + first, 3), end=round(part.start + stop, 3)) for word in own
            )
            pending.clear()

    for i, label in enumerate(labels):
        if label not in pieces.frames:
            pending.append(i)
            continue
        at: float | None = pieces.frames[label] * seconds_per_frame - part.lead
        if at is not None and not last <= at <= part.seconds + seconds_per_frame:
            at = None
        if at is not None:
            last = at = min(at, part.seconds)
        if pending:
            close(at)
            start = None
        else:
            start = at
    close(None)
    if len(part.times) != len(words):
        return words
    return [
        word._replace(start=part.at(start), end=part.at(end))
        for word, (start, end) in zip(words, part.times, strict=True)
    ]


def without_doubles(parts: Sequence[HeardPart], words: Sequence[list[Word]]) -> list[list[Word]]:
    """The words that each part gives (`common.recognition.cutting.pauses.between`): all of one without times."""
    timed = [
        any((word.start, word.end) != (part.at(0.0), part.at(math.inf)) for word in own)
        for part, own in zip(parts, words, strict=True)
    ]
    found: list[list[Word]] = []
    for i, (part, own) in enumerate(zip(parts, words, strict=True)):
        if timed[i]:
            after, before = -math.inf, math.inf
            if i and part.start < parts[i - 1].at(math.inf):
                last = max((word.end for word in found[-1]), default=part.start)
                after = last if timed[i - 1] else parts[i - 1].at(math.inf)
            if i + 1 < len(parts) and part.at(math.inf) > parts[i + 1].start:
                before = part.seam if timed[i + 1] else parts[i + 1].start
            own = between(own, after, before)
        found.append(own)
    return found


def spelled(words: Sequence[str], pieces: Pieces) -> list[list[int]]:
    """The labels of each word by pieces that may have no capitals and no punctuation; none where one has no labels."""
    found = []
    for word in words:
        for form in (word, word.lower(), "".join(filter(str.isalnum, word.lower()))):
            try:
                labels = pieces.encode(form)
            except VocabularyError:
                continue
            if labels:
                found.append(labels)
                break
    return found if len(found) == len(words) else []


def word_times(
    words: Sequence[Sequence[int]], log_probs_SV: np.ndarray, pieces: Pieces, seconds_per_frame: float
) -> list[tuple[float, float]]:
    """Start and end of every word, given by its labels, on the best path of CTC; none where there is no path.

    Frames are those of features whose windows are centred, so one lasts from half a frame before its number to half a
    frame after. Punctuation has no part in a word. Where the vocabulary is one of letters, a space is heard where the
    word begins, but anywhere in a pause, so it counts for `SPACE_SECONDS` at most; among longer pieces, most of which
    have the space before them, a bare one is heard too early.
    """
    labels = [label for word in words for label in word]
    try:
        (found,) = ctc.align(log_probs_SV[None], [labels], [len(log_probs_SV)], blank=pieces.blank)
    except ValueError:
        return []
    spans = list(zip(labels, found.start_frames, found.end_frames, strict=True))
    times, first = [], 0
    most = max(1, round(SPACE_SECONDS / seconds_per_frame)) if _are_letters(pieces) else 0
    for word in words:
        own = spans[first : first + len(word)]
        first += len(word)
        spoken = [span for span in own if is_spoken(pieces, span[0])] or own
        start, end = spoken[0][1], spoken[-1][2]
        if pieces.labels[own[0][0]] == SPACE:
            start = max(own[0][1], start - most)
        times.append((max(0.0, start - 0.5) * seconds_per_frame, (end - 0.5) * seconds_per_frame))
    return times


def _are_letters(pieces: Pieces) -> bool:
    """Whether at least half of the pieces are single letters."""
    lengths = [len(label.strip(SPACE)) for i, label in enumerate(pieces.labels) if i not in pieces.control]
    return 2 * lengths.count(1) >= sum(map(bool, lengths))


def in_sound(times: Sequence[tuple[float, float]], is_loud_W: np.ndarray) -> list[tuple[float, float]]:
    """Times of words, in order, moved to where there is sound (`common.recognition.cutting.pauses.loud_windows`).

    CTC writes the first label of a word anywhere in the pause before it, and the last one long before its end. A word
    begins with the first sound after its first label, and ends where the next one begins, or where the sound ends
    before that, at most `TAIL_SECONDS` after its last label.
    """
    found: list[tuple[float, float]] = []
    length = len(is_loud_W) * WINDOW_SECONDS
    for i, (start, end) in enumerate(times):
        following = times[i + 1][0] if i + 1 < len(times) else length
        first, last = (round(at / WINDOW_SECONDS) for at in (start, min(max(end, following), end + TAIL_SECONDS)))
        own_W = np.flatnonzero(is_loud_W[first:last])
        if len(own_W):
            begins = start if own_W[0] == 0 else (first + own_W[0]) * WINDOW_SECONDS
            found.append((begins, max(begins, min(following, (first + own_W[-1] + 1) * WINDOW_SECONDS))))
        else:
            found.append((start, end))
    return found


def transcript_of(
    recording: Recording, parts: Sequence[HeardPart], pieces: PromptedPieces, *, language: str, seconds_per_frame: float
) -> Transcript:
    """What the parts of a recording say together; other readings only where it is one part."""
    separator, cuts = "" if language in NO_SPACES else " ", recording.cuts

    def alternative(own: Sequence[HeardPart]) -> Alternative:
        words = without_doubles(own, [words_of(part, pieces, seconds_per_frame) for part in own])
        texts = [" ".join(word.text for word in some) for some in words]
        placed = [
            word._replace(
                start=round(in_recording(cuts, word.start), 3), end=round(in_recording(cuts, word.end, is_end=True), 3)
            )
            for some in words
            for word in some
        ]
        score = sum(part.hypothesis.score for part in own)
        return Alternative(separator.join(text for text in texts if text), placed, round(score, 4))

    readings = [parts]
    if len(parts) == 1:
        readings += [[parts[0]._replace(hypothesis=one)] for one in parts[0].hypothesis.alternatives]
    flags = tuple(dict.fromkeys(flag for part in parts for flag in part.hypothesis.flags))
    found = [alternative(own) for own in readings]
    error = recording.failure
    if NAN in flags:
        error = (
            f"{recording.name}: the network gives NaN; its weights are damaged, or its precision is too low: take fp32"
        )
    best = best_of(recording, found, seconds_per_frame=seconds_per_frame, error=error)
    return best._replace(flags=flags, language=language)

"""Texts of any length in sentences that a model can say at once, with the pauses between them.

FastPitch has learned single sentences of some seconds; what is longer is said sentence by sentence. A sentence that is
too long itself is divided at a clause, or else between two words.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from common.text.mandarin import HAN
from common.text.normalize import NOT_A_NAME
from fastpitch.front.control import Control
from fastpitch.front.ssml import PARAGRAPH_SECONDS, SENTENCE_SECONDS, Span

MAX_CHARACTERS = 300
CLAUSE_SECONDS = 0.12  # of silence after a part of a sentence that is too long


class Sentence(NamedTuple):
    """Pieces of text that are said together, and the silence after them. Without pieces: only silence."""

    spans: list[tuple[str, Control]]
    pause_seconds: float

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(text for text, _ in self.spans)


def sentences(spans: Sequence[Span], *, max_characters: int = MAX_CHARACTERS) -> list[Sentence]:
    """The sentences of a text in pieces.

    A pause that is asked for ends one, and takes the place of the pause that would be there; there is none after the
    last but that.
    """
    found: list[Sentence] = []
    waiting: list[tuple[str, Control]] = []
    is_asked_for = False  # the pause after the last of `found`

    def close(pause_seconds: float, *, asks: bool = False) -> None:
        nonlocal waiting, is_asked_for
        if any(_is_said(text) for text, _ in waiting):
            found.append(Sentence(_stripped(waiting), pause_seconds))
            is_asked_for = asks
        elif asks and (found or pause_seconds):
            said, before = found.pop() if found else ([], 0.0)
            found.append(Sentence(said, pause_seconds + (before if is_asked_for else 0.0)))
            is_asked_for = True
        elif found and not is_asked_for:
            found[-1] = found[-1]._replace(pause_seconds=max(found[-1].pause_seconds, pause_seconds))
        waiting = []

    for span in spans:
        begun = "".join(text for text, _ in waiting)
        for text, pause_seconds in _fragments(span.text, max_characters, begun):
            if sum(len(said) for said, _ in waiting) + len(text) > max_characters:
                close(CLAUSE_SECONDS)
            waiting.append((text, span.control))
            if pause_seconds:
                close(pause_seconds)
        goes_on = span.pause_seconds == 0 and any(_is_said(text) for text, _ in waiting)
        if span.pause_seconds is not None and not goes_on:
            close(span.pause_seconds, asks=not span.ends_sentence)
    close(0.0)
    if found and not is_asked_for:
        found[-1] = found[-1]._replace(pause_seconds=0.0)
    return found


def split(text: str, *, max_characters: int = MAX_CHARACTERS) -> list[str]:
    """The sentences of plain text, none longer than `max_characters`."""
    return [sentence.text for sentence in sentences([Span(text, Control())], max_characters=max_characters)]


# ---------------------------------------------------------------------------------------------------------------------
# Where a sentence ends

_CLOSERS = r"[\"'”’»)\]」』）】》]*"
_END = re.compile(rf"[.!?…]+{_CLOSERS}(?:\s+|\Z)|[。！？]+{_CLOSERS}\s*|\s*\n\s*")
_CLAUSE = re.compile(r"[,;:](?=\s)\s+|[，；：、]\s*|\s[-–—]+\s|\)\s+")
_TITLES = (
    "Mr|Mrs|Ms|Messrs|Dr|Drs|Prof|Rev|Hon|Gov|Sen|Rep|Pres|Gen|Maj|Col|Lt|Capt|Cmdr|Sgt|Cpl|Mt|Ft|vs|No|Nos|Fig|Vol"
    "|Ch|pp|p|e\\.g|i\\.e|cf|approx|[A-Z]"
)
_NEVER_LAST = re.compile(rf"(?:^|[\s(\"“'])(?:{_TITLES})\.\Z")
_SELDOM_LAST = re.compile(
    r"(?:^|[\s(\"“'])(?:St|Jr|Sr|Inc|Co|Corp|Ltd|Ave|Blvd|Jan|Feb|Aug|Sept?|Oct|Nov|Dec|(?:[A-Za-z]\.)+[A-Za-z])\.\Z"
)


def _fragments(text: str, max_characters: int, begun: str) -> Iterator[tuple[str, float]]:
    """Pieces of a text and the pause after each: 0 where the sentence may go on after the text.

    `begun` is what the sentence began with before the text.
    """
    start = 0
    for end in _END.finditer(text):
        if _ends_sentence(begun + text[start : end.start()] + end[0].rstrip(), text[end.end() :]):
            pause = PARAGRAPH_SECONDS if "\n" in end[0] else SENTENCE_SECONDS
            yield from _shortened(text[start : end.end()], pause, max_characters)
            start, begun = end.end(), ""
    if start < len(text):
        yield from _shortened(text[start:], 0.0, max_characters)


def _ends_sentence(before: str, after: str) -> bool:
    if not _is_said(before):
        return False
    if not before.endswith("."):
        return True
    follows = re.match(r"[\"'“‘(\[«]*([^\s\"'“‘(\[«]+)", after)
    if follows is None:
        return True
    word = follows[1]
    if _NEVER_LAST.search(before) or word[0].islower():
        return False
    return not _SELDOM_LAST.search(before) or bool(NOT_A_NAME.fullmatch(word))


def _stripped(spans: list[tuple[str, Control]]) -> list[tuple[str, Control]]:
    """Without the white space at both ends."""
    (first, of_first), (last, of_last) = spans[0], spans[-1]
    if len(spans) == 1:
        return [(first.strip(), of_first)]
    return [(first.lstrip(), of_first), *spans[1:-1], (last.rstrip(), of_last)]


def _is_said(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _shortened(text: str, pause_seconds: float, max_characters: int) -> Iterator[tuple[str, float]]:
    """A sentence in pieces of at most `max_characters`."""
    while len(text) > max_characters:
        cut = _cut(text, max_characters)
        yield text[:cut], CLAUSE_SECONDS
        text = text[cut:]
    yield text, pause_seconds


def _cut(text: str, max_characters: int) -> int:
    """The end of the last clause that fits and is no mere beginning, or of the last word, or anywhere."""
    window = text[: max_characters + 1]
    clauses = [match.end() for match in _CLAUSE.finditer(window) if max_characters / 3 < match.end() <= max_characters]
    words = [match.end() for match in re.finditer(rf"\s+|(?<=[{HAN}])(?=[{HAN}])", window)]
    ends = clauses or [end for end in words if 0 < end <= max_characters]
    outside = [end for end in ends if window.count("{", 0, end) == window.count("}", 0, end)]
    return max(outside, default=max_characters)

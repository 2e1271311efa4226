"""Texts of any length in sentences that a model can say at once, with the pauses between them.

FastPitch has learned single sentences of some seconds; what is longer is said sentence by sentence. A sentence that is
too long itself is divided at a clause, or else between two words.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from common.text.english.reader import answers_no
from common.text.european.language import is_abbreviation, is_ordinal, language_of
from common.text.mandarin.phones import HAN
from common.text.normalize import NOT_A_NAME
from fastpitch.front.ssml import PARAGRAPH_SECONDS, SENTENCE_SECONDS, MarkedSpan

MAX_CHARACTERS = 300
CLAUSE_SECONDS = 0.12  # of silence after a part of a sentence that is too long


class Sentence(NamedTuple):
    """Pieces of text that are said together, and the silence after them. Without pieces: only silence."""

    spans: list[MarkedSpan]
    pause_seconds: float

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(span.text for span in self.spans)

    @property
    def speaker(self) -> str:
        """Who says it: a name, or "" where no tag names one."""
        return self.spans[0].speaker if self.spans else ""

    @property
    def is_said(self) -> bool:
        """Whether there is a word in it."""
        return any(map(_says, self.spans))


def sentences(
    spans: Sequence[MarkedSpan], *, max_characters: int = MAX_CHARACTERS, language: str = ""
) -> list[Sentence]:
    """The sentences of a text in pieces.

    A pause that is asked for ends one, and takes the place of the pause that would be there; there is none after the
    last but that. Another speaker begins another. Marks behind the last word are a sentence without words.
    `language`, in espeak-ng's names, tells its abbreviations and ordinals.
    """
    found: list[Sentence] = []
    waiting: list[MarkedSpan] = []
    is_asked_for = False  # the pause after the last of `found`

    def close(pause_seconds: float, *, asks: bool = False) -> None:
        nonlocal waiting, is_asked_for
        marks = [span for span in waiting if span.mark]
        if any(map(_says, waiting)):
            found.append(Sentence(_stripped(waiting), pause_seconds))
            is_asked_for, marks = asks, []
        elif asks and marks:  # before a pause, and not behind it
            found.append(Sentence(marks, pause_seconds))
            is_asked_for, marks = True, []
        elif asks and (found or pause_seconds):
            said, before = found.pop() if found else ([], 0.0)
            found.append(Sentence(said, pause_seconds + (before if is_asked_for else 0.0)))
            is_asked_for = True
        elif found and not is_asked_for:
            found[-1] = found[-1]._replace(pause_seconds=max(found[-1].pause_seconds, pause_seconds))
        waiting = marks

    for run, pause in _runs(spans):
        if waiting and run and run[0].speaker != waiting[0].speaker:
            close(SENTENCE_SECONDS)
        for part, pause_seconds in _parts(run, max_characters, "".join(span.text for span in waiting), language):
            if sum(len(span.text) for span in (*waiting, *part)) > max_characters:
                close(CLAUSE_SECONDS)
            waiting += part
            if pause_seconds:
                close(pause_seconds)
        if pause and pause.pause_seconds is not None:
            goes_on = pause.pause_seconds == 0 and any(map(_says, waiting))
            if not goes_on:
                close(pause.pause_seconds, asks=not pause.ends_sentence)
    close(0.0)
    if found and not is_asked_for:
        found[-1] = found[-1]._replace(pause_seconds=0.0)
    return [*found, Sentence(waiting, 0.0)] if waiting else found


def _runs(spans: Sequence[MarkedSpan]) -> Iterator[tuple[list[MarkedSpan], MarkedSpan | None]]:
    """Pieces of text of one speaker without a pause between them, and the pause after them."""
    run: list[MarkedSpan] = []
    for span in spans:
        if span.pause_seconds is not None:
            yield run, span
            run = []
            continue
        if run and run[0].speaker != span.speaker:
            yield run, None
            run = []
        run.append(span)
    if run:
        yield run, None


def _parts(
    run: Sequence[MarkedSpan], max_characters: int, begun: str, language: str
) -> Iterator[tuple[list[MarkedSpan], float]]:
    """A run divided where sentences end, and the pause after each part: 0 where the sentence may go on.

    `begun` is what the sentence began with before the run.
    """
    text = "".join(span.text for span in run)
    starts = list(accumulate((len(span.text) for span in run), initial=0))
    first = start = 0
    cuts = list(_fragments(text, max_characters, begun, language))
    for i, (stop, pause_seconds) in enumerate(cuts):
        is_last = i + 1 == len(cuts)
        part = []
        while first < len(run) and (is_last or starts[first] < stop):
            span, end = run[first], min(starts[first + 1], stop)
            whole = span.reading is not None  # is not divided: it would be said twice
            if whole and starts[first] < start:
                first += 1
                continue
            part.append(span if whole else span._replace(text=text[max(start, starts[first]) : end]))
            if starts[first + 1] > stop:
                break
            first += 1
        yield part, pause_seconds
        start = stop
    if not cuts and run:
        yield list(run), 0.0


# ---------------------------------------------------------------------------------------------------------------------
# Where a sentence ends

_CLOSERS = r"[\"'”’»)\]」』）】》]*"
_END = re.compile(rf"[.!?…।॥۔؟]+{_CLOSERS}(?:\s+|\Z)|[。！？]+{_CLOSERS}\s*|\s*\n\s*")
_CLAUSE = re.compile(r"[,;:](?=\s)\s+|[，；：、]\s*|\s[-–—]+\s|\)\s+")
_TITLES = (
    "Mr|Mrs|Ms|Messrs|Dr|Drs|Prof|Rev|Hon|Gov|Sen|Rep|Pres|Gen|Maj|Col|Lt|Capt|Cmdr|Sgt|Cpl|Mt|Ft|vs|No|Nos|Fig|Vol"
    "|Ch|pp|p|e\\.g|i\\.e|cf|approx|Apt|Ste|Rm|Rte|pop|[A-Za-z]"
)
_LONGEST_TITLE = 40  # characters, with what stands before it
_NEVER_LAST = re.compile(rf"(?:^|[\s(\"“'])(?:{_TITLES})\.\Z")
_SELDOM_LAST = re.compile(
    r"(?:^|[\s(\"“'])(?:St|Jr|Sr|Inc|Co|Corp|Ltd|Ave|Blvd|Jan|Feb|Aug|Sept?|Oct|Nov|Dec|(?:[A-Za-z]\.)+[A-Za-z])\.\Z"
)
# These say which number it is, or go on with a smaller unit: see fig. 3, 5 ft. 10 in.
_BEFORE_A_NUMBER = re.compile(
    r"(?<!\d)(?<!\d\s)(?<!\w)(?:[Ff]igs?|[Vv]ols?|[Cc]h(?:s|aps?)?|[Pp]t|[Pp]gs?|[Ee]ps?|[Ee]qs?|[Ee]xh?|[Pp]aras?"
    r"|[Ss]ecs?|Arts?|[Aa]pprox|[Ee]st|(?<!his )(?<!her )(?<!the )(?<!my )[Mm](?:ax|in)|[Aa]vg|[Tt]emp|[Tt]el|[Ee]xt"
    r"|[Qq]ty|[Aa]pt|[Ss]te|[Rr]m|[Nn]os|[Rr]te|[Hh]wy|[Bb]ldg|vv?|ca|op)\.\Z"
)
_UNIT_LAST = re.compile(r"\d\s?(?:ft|lbs?|hrs?|yrs?|mos?|st|min)\.\Z")
_SMALLER_UNIT = re.compile(r"\d[\d/.]*\s?(?:in|oz|lbs?|mins?|mos?|secs?|wks?|days?)\b")


def _fragments(text: str, max_characters: int, begun: str, language: str) -> Iterator[tuple[int, float]]:
    """Where pieces of a text end, and the pause after each: 0 where the sentence may go on after the text.

    `begun` is what the sentence began with before the text.
    """
    start = 0
    for end in _END.finditer(text):
        if _ends_sentence(begun + text[start : end.start()] + end[0].rstrip(), text[end.end() :], language):
            pause = PARAGRAPH_SECONDS if "\n" in end[0] else SENTENCE_SECONDS
            yield from _shortened(text, start, end.end(), pause, max_characters)
            start, begun = end.end(), ""
    if start < len(text):
        yield from _shortened(text, start, len(text), 0.0, max_characters)


def _ends_sentence(before: str, after: str, language: str) -> bool:
    if not _is_said(before):
        return False
    if not before.endswith("."):
        return True
    follows = re.match(r"[\"'“‘(\[«]*([^\s\"'“‘(\[«]+)", after)
    if follows is None:
        return True
    word = follows[1]
    if word[0].islower():
        return False
    if language_of(language):
        return not (is_ordinal(before, word, language, after) or is_abbreviation(before, language, after))
    before = before[-_LONGEST_TITLE:]
    if word[0].isdigit() and (
        _BEFORE_A_NUMBER.search(before) or (_UNIT_LAST.search(before) and _SMALLER_UNIT.match(after))
    ):
        return False
    if _NEVER_LAST.search(before):
        return before[-3:].lower() == "no." and answers_no(before[:-3], after)
    return not _SELDOM_LAST.search(before) or bool(NOT_A_NAME.fullmatch(word))


def _stripped(spans: list[MarkedSpan]) -> list[MarkedSpan]:
    """Without the white space at both ends."""
    spans = list(spans)
    for order, strip in ((range(len(spans)), str.lstrip), (reversed(range(len(spans))), str.rstrip)):
        for i in order:
            spans[i] = spans[i]._replace(text=strip(spans[i].text))
            if spans[i].text or spans[i].reading:
                break
    return spans


def _says(span: MarkedSpan) -> bool:
    return span.reading is not None or _is_said(span.text)


def _is_said(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _shortened(
    text: str, start: int, stop: int, pause_seconds: float, max_characters: int
) -> Iterator[tuple[int, float]]:
    """The ends of a sentence in pieces of at most `max_characters`."""
    while stop - start > max_characters:
        start += _cut(text[start : min(stop, start + max_characters + 1)], max_characters)
        yield start, CLAUSE_SECONDS
    yield stop, pause_seconds


def _cut(text: str, max_characters: int) -> int:
    """The end of the last clause that fits and is no mere beginning, or of the last word, or anywhere."""
    window = text[: max_characters + 1]
    clauses = [match.end() for match in _CLAUSE.finditer(window) if max_characters / 3 < match.end() <= max_characters]
    words = [match.end() for match in re.finditer(rf"\s+|(?<=[{HAN}])(?=[{HAN}])", window)]
    ends = clauses or [end for end in words if 0 < end <= max_characters]
    outside = [end for end in ends if window.count("{", 0, end) == window.count("}", 0, end)]
    return max(outside, default=max_characters)

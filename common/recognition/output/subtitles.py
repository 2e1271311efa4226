"""Recognised words as subtitles: SubRip (.srt) and WebVTT (.vtt)."""

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from common.recognition.output.transcripts import Word, text_of

# What broadcasters ask for, e.g. the BBC's subtitle guidelines and Netflix' timed text style guide.
LINE_CHARACTERS = 42
LINES = 2
LONGEST_SECONDS = 7.0
SHORTEST_SECONDS = 1.0
PAUSE_SECONDS = 1.0  # a silence of this length ends a subtitle


class Cue(NamedTuple):
    """One subtitle: when it is shown, in seconds, and its lines."""

    start: float
    end: float
    lines: list[str]


def cues(words: Sequence[Word]) -> list[Cue]:
    """The words in subtitles of at most two lines, broken at pauses and where they would be too long to read.

    Words that have the times of a whole stretch of audio, as those of translations, share it by their lengths.
    """
    found: list[Cue] = []
    for group, start in reversed(list(_shown(list(groups(words))))):
        next_start = found[-1].start if found else float("inf")
        found.append(Cue(start, min(next_start, max(group[-1].end, start + SHORTEST_SECONDS)), _lines(group)))
    return found[::-1]


def render(words: Sequence[Word], style: Literal["srt", "vtt"]) -> str:
    """The text of a subtitle file."""
    header, mark = ([], ",") if style == "srt" else (["WEBVTT", ""], ".")
    blocks = [
        "\n".join([str(i), f"{_clock(cue.start, mark)} --> {_clock(cue.end, mark)}", *cue.lines, ""])
        for i, cue in enumerate(cues(words), start=1)
    ]
    return "\n".join(header + blocks)


def groups(words: Sequence[Word]) -> Iterator[list[Word]]:
    """The words of each subtitle."""
    group: list[Word] = []
    for word in words:
        if group and not _joins(group, word):
            yield group
            group = []
        group.append(word)
    if group:
        yield group


def _shown(groups: list[list[Word]]) -> Iterator[tuple[list[Word], float]]:
    """Each group, and when it is first shown."""
    for (start, end), alike in itertools.groupby(groups, lambda group: (group[0].start, group[-1].end)):
        own = list(alike)
        lengths = [len(text_of(group)) for group in own]
        for i, group in enumerate(own):
            yield group, start + (end - start) * sum(lengths[:i]) / sum(lengths)


def _joins(group: list[Word], word: Word) -> bool:
    is_of_stretch = (word.start, word.end) == (group[0].start, group[-1].end)
    is_near = word.start - group[-1].end < PAUSE_SECONDS and word.end - group[0].start <= LONGEST_SECONDS
    return (is_of_stretch or is_near) and len(_wrapped([*group, word], LINE_CHARACTERS)) <= LINES


def _lines(group: list[Word]) -> list[str]:
    """The narrowest lines that are no more in number than full ones, so that two lines are about equally long."""
    fewest = len(_wrapped(group, LINE_CHARACTERS))
    widths = range(max(len(word.text) for word in group), LINE_CHARACTERS)
    narrow = (lines for width in widths if len(lines := _wrapped(group, width)) == fewest)
    return next(narrow, _wrapped(group, LINE_CHARACTERS))


def _wrapped(group: list[Word], width: int) -> list[str]:
    text = text_of(group)  # which may have no spaces to break at
    has_spaces = text.count(" ") == len(group) - 1
    return textwrap.wrap(text, width, break_long_words=not has_spaces, break_on_hyphens=False)


def _clock(seconds: float, mark: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{milliseconds // 1000:02}{mark}{milliseconds % 1000:03}"

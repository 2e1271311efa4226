"""From a text with its controls to what the network is asked for: tokens and edits, sentence by sentence."""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import numpy as np

from fastpitch.front import ssml
from fastpitch.front.control import (
    Control,
    ControlError,
    Edits,
    SpeakerStatistics,
    edits,
    limited,
    parts_from_text,
    setting_names,
    whole_number,
)
from fastpitch.front.languages import Given, described, shortened
from fastpitch.front.sentences import MAX_CHARACTERS, Sentence, sentences
from fastpitch.front.symbols import EncodedText, TextError, TextProcessor, WordSymbols

_log = logging.getLogger(__name__)


class Mark(NamedTuple):
    """A place that SSML names: before the symbol of this index, or behind the last."""

    name: str
    symbol: int


class PlannedSentence(NamedTuple):
    """A sentence to say, by a speaker, and the milliseconds of silence after it. Without tokens: only silence."""

    encoded: EncodedText
    edits: Edits
    speaker: int = 0
    pause_ms: float = 0.0
    marks: tuple[Mark, ...] = ()


def plan(
    text: str,
    processor: TextProcessor,
    voices: Sequence[SpeakerStatistics],
    *,
    name: str = "the model",
    names: Sequence[str] = (),
    speaker: int | str = 0,
    control: Control | None = None,
    words: str = "",
    symbols: str = "",
    max_characters: int = MAX_CHARACTERS,
    **settings: Any,
) -> list[PlannedSentence]:
    """The sentences of `text`, which may hold SSML and {phonemes}, in order, for a model that messages call `name`.

    `voices` say what Hz mean to its speakers, and `names` are those of the speakers, if they have any. `control`, whose
    fields `settings` replace, is for all of it, a pitch curve for its whole length; the controls of SSML are within it,
    and within those the ones of `words` and `symbols` (see `control.parts_from_text`; places are counted through the
    whole text). What has no symbol and may be left out is logged. Raises TextError, SsmlError and ControlError.
    """

    def voice(who: str) -> tuple[int, SpeakerStatistics]:
        who = who or str(speaker)  # where no tag names one
        number = list(names).index(who) if who in names else whole_number(who)
        if not 0 <= number < len(voices):
            known = f"{', '.join(names[:20])}, or " if names else ""
            raise ControlError(f"speaker {who[:40]}: {name} has {known}0 to {len(voices) - 1}")
        return number, voices[number]

    voice("")  # a speaker that there is not is told first
    if unknown := [setting for setting in settings if setting not in {field.name for field in fields(Control)}]:
        raise ControlError(f"{unknown[0]!r}: no control; known: {', '.join(setting_names())}")
    control = replace(control or Control(), **settings)
    spans = ssml.parse(text, lambda who: voice(who)[1].pitch_mean)
    found = sentences(spans, max_characters=max_characters, language=processor.config.language)
    if not any(sentence.is_said for sentence in found):
        raise TextError(f"{shortened(text)}: nothing to say in it; expected at least one word")
    whole, firsts, parts = EncodedText([], [], [], []), [], []
    left_out: list[list[str]] = []
    marks: list[tuple[Mark, ...]] = []
    contours: dict[ssml.Contour, range] = {}
    for sentence in found:
        first = len(whole.tokens)
        firsts.append(first)
        encoded, places = _encoded(sentence, processor)
        _append(whole, encoded)
        left_out.append(encoded.left_out)
        marks.append(tuple(_marks(sentence, places)))
        for span, own in _of_spans(sentence, places, first):
            parts.append((own, span.control))
            if span.contour:
                begun = contours.get(span.contour, own).start
                contours[span.contour] = range(begun, own.stop)
    for contour, own in sorted(contours.items()):
        parts.append((own, Control(pitch_curve_hz=contour.curve_hz)))
    parts += parts_from_text(words, whole, of="words") + parts_from_text(symbols, whole, of="symbols")
    speakers = [voice(sentence.speaker) for sentence in found]
    of_all = {who: edits(len(whole.tokens), control, who[1], parts) for who in set(speakers)}
    if missing := [described(symbol) for of_sentence in left_out for symbol in of_sentence]:
        _log.warning("%s: skipped %s", shortened(text), ", ".join(dict.fromkeys(missing)))
    ends = [*firsts[1:], len(whole.tokens)]
    return [
        PlannedSentence(
            encoded=_part(whole, first, end, absent),
            edits=Edits(*(column[first:end] for column in of_all[who])),
            speaker=who[0],
            pause_ms=1000 * sentence.pause_seconds,
            marks=named_places,
        )
        for sentence, who, first, end, absent, named_places in zip(
            found, speakers, firsts, ends, left_out, marks, strict=True
        )
    ]


def within_range(
    pieces: Sequence[PlannedSentence], hertz: Sequence[np.ndarray], voices: Sequence[SpeakerStatistics], *, name: str
) -> dict[int, PlannedSentence]:
    """Those of `pieces` whose pitch was led beyond what their speakers have learned, as `hertz` of each symbol shows.

    They ask for as much of it as is within, to be said in their place. A warning tells of it.
    """
    found: dict[int, PlannedSentence] = {}
    for place, (piece, hertz_L) in enumerate(zip(pieces, hertz, strict=True)):
        if (less := limited(piece.edits, hertz_L, voices[piece.speaker])) is not None:
            found[place] = piece._replace(edits=less)
    if found:
        beyond = np.concatenate([hertz[place] for place in found])
        speaker = voices[next(iter(found.values())).speaker]
        _log.warning(
            "%s: asked for a pitch of %.0f to %.0f Hz; limited to %.0f to %.0f Hz, which it has learned",
            name, beyond.min(), beyond.max(), speaker.lowest_hz, speaker.highest_hz,
        )  # fmt: skip
    return found


def _encoded(sentence: Sentence, processor: TextProcessor) -> tuple[EncodedText, list[int]]:
    """The tokens of a sentence, which is read as a whole, and for each the place in its text where it comes from."""
    if not sentence.is_said:
        return EncodedText([], [], [], []), []
    given = [
        Given(start, start + len(span.text), span.reading, span.language)
        for span, start in zip(sentence.spans, _starts(sentence), strict=True)
        if span.reading or span.language
    ]
    return processor.encode_given(sentence.text, given)


def _starts(sentence: Sentence) -> list[int]:
    lengths = [len(span.text) for span in sentence.spans]
    return list(accumulate(lengths, initial=0))[: len(lengths)]


def _marks(sentence: Sentence, places: Sequence[int]) -> Iterator[Mark]:
    for span, start in zip(sentence.spans, _starts(sentence), strict=True):
        if span.mark:
            yield Mark(span.mark, bisect_left(places, start))


def _of_spans(sentence: Sentence, places: Sequence[int], first: int) -> Iterator[tuple[ssml.MarkedSpan, range]]:
    """The pieces of a sentence and the indices of their symbols, the first of which is `first`."""
    starts = _starts(sentence)
    position = first
    for index, own in groupby(bisect_right(starts, place) - 1 for place in places):
        count = len(list(own))
        yield sentence.spans[index], range(position, position + count)
        position += count


def _append(whole: EncodedText, encoded: EncodedText) -> None:
    offset = len(whole.tokens)
    whole.words.extend(WordSymbols(text, first + offset, last + offset) for text, first, last in encoded.words)
    whole.tokens.extend(encoded.tokens)
    whole.symbols.extend(encoded.symbols)


def _part(whole: EncodedText, first: int, end: int, left_out: list[str]) -> EncodedText:
    words = [WordSymbols(text, a - first, b - first) for text, a, b in whole.words if first <= a < end]
    return EncodedText(whole.tokens[first:end], whole.symbols[first:end], words, left_out)

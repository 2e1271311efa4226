"""From a text with its controls to what the network is asked for: tokens and edits, sentence by sentence."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

from fastpitch.front import ssml
from fastpitch.front.control import Control, ControlError, Edits, Speaker, edits, parts_from_text, setting_names
from fastpitch.front.languages import shortened
from fastpitch.front.sentences import MAX_CHARACTERS, sentences
from fastpitch.front.symbols import Encoded, TextError, TextProcessor, Word


class PlannedSentence(NamedTuple):
    """A sentence to say, by a speaker, and the milliseconds of silence after it. Without tokens: only silence."""

    encoded: Encoded
    edits: Edits
    speaker: int = 0
    pause_ms: float = 0.0


def plan(
    text: str,
    processor: TextProcessor,
    voice: Speaker,
    *,
    speaker: int = 0,
    control: Control | None = None,
    words: str = "",
    symbols: str = "",
    max_characters: int = MAX_CHARACTERS,
) -> list[PlannedSentence]:
    """The sentences of `text`, which may hold SSML and {phonemes}, in order.

    `control` is for all of it, a pitch curve for its whole length; the controls of SSML are within it, and within those
    the ones of `words` and `symbols` (see `control.parts_from_text`; places are counted through the whole text).
    `voice` says what Hz mean to `speaker`. Raises TextError, SsmlError and ControlError.
    """
    found = sentences(ssml.parse(text), max_characters=max_characters)
    if not any(sentence.spans for sentence in found):
        raise TextError(f"{shortened(text)}: nothing to say in it; expected at least one word")
    whole, firsts, parts = Encoded([], [], [], []), [], []
    left_out: list[list[str]] = []
    for sentence in found:
        first = len(whole.tokens)
        firsts.append(first)
        left_out.append([])
        if not sentence.spans:
            continue
        encoded, places = processor.encode_parts([said for said, _ in sentence.spans])
        _append(whole, encoded)
        left_out[-1] = encoded.left_out
        for place, (_, of_span) in zip(places, sentence.spans, strict=True):
            parts.append((range(first + place.start, first + place.stop), of_span))
    parts += parts_from_text(words, whole, of="words") + parts_from_text(symbols, whole, of="symbols")
    of_all = edits(len(whole.tokens), control or Control(), voice, parts)
    ends = [*firsts[1:], len(whole.tokens)]
    return [
        PlannedSentence(
            encoded=_part(whole, first, end, missing),
            edits=Edits(*(column[first:end] for column in of_all)),
            speaker=speaker,
            pause_ms=1000 * sentence.pause_seconds,
        )
        for sentence, first, end, missing in zip(found, firsts, ends, left_out, strict=True)
    ]


def planned(
    text: str,
    processor: TextProcessor,
    voices: Sequence[Speaker],
    *,
    name: str,
    speaker: int = 0,
    control: Control | None = None,
    words: str = "",
    symbols: str = "",
    **settings: Any,
) -> list[PlannedSentence]:
    """As `plan`, for one of the voices of the model `name`; `settings` are fields of `control`, which they replace."""
    if not 0 <= speaker < len(voices):
        raise ControlError(f"speaker {speaker}: {name} has 0 to {len(voices) - 1}")
    if unknown := [setting for setting in settings if setting not in {field.name for field in fields(Control)}]:
        raise ControlError(f"{unknown[0]!r}: no control; known: {', '.join(setting_names())}")
    control = replace(control or Control(), **settings)
    return plan(text, processor, voices[speaker], speaker=speaker, control=control, words=words, symbols=symbols)


def _append(whole: Encoded, encoded: Encoded) -> None:
    offset = len(whole.tokens)
    whole.words.extend(Word(text, first + offset, last + offset) for text, first, last in encoded.words)
    whole.tokens.extend(encoded.tokens)
    whole.symbols.extend(encoded.symbols)


def _part(whole: Encoded, first: int, end: int, left_out: list[str]) -> Encoded:
    words = [Word(text, a - first, b - first) for text, a, b in whole.words if first <= a < end]
    return Encoded(whole.tokens[first:end], whole.symbols[first:end], words, left_out)

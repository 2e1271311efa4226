"""Mandarin by initials, finals and tones, with English inside: the published bilingual symbol set."""

import random
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from common.text.mandarin import phones as mandarin
from common.text.mandarin.reader import mandarin_tokens
from fastpitch.front.languages import Given, SymbolPiece, TextConfig, TextError, english

_MARKED = tuple("#" + symbol for symbol in (*mandarin.PHONES, *mandarin.TONES, *mandarin.PUNCTUATION))

SYMBOL_SETS = {"english_mandarin_basic": (*english.SYMBOL_SETS["english_basic"], *_MARKED)}

_CHINESE = re.compile(rf"([{mandarin.HAN}]+|[{mandarin.PUNCTUATION}])")


def pieces(text: str, config: TextConfig, draw: random.Random, given: Sequence[Given] = ()) -> Iterator[SymbolPiece]:
    """Every Chinese character is a word; what stands between Chinese characters is read as English."""
    english_text = ""  # what waits to be read as English, and where its characters stand
    places: list[int] = []
    for part, own in _parts(text, given):
        if isinstance(part, Given) or not _CHINESE.fullmatch(part):
            english_text += text[part.start : part.stop] if isinstance(part, Given) else part
            places += own
            continue
        yield from _english(english_text, places, config, draw, given)
        english_text, places = "", []
        if part in mandarin.PUNCTUATION:
            yield SymbolPiece(("#" + part,), at=own[0])
            continue
        readings = mandarin.phones(part, tone_sandhi=config.tone_sandhi)
        for character, phones, at in zip(part, readings, own, strict=True):
            yield SymbolPiece(tuple("#" + phone for phone in phones) or (character,), character, at)
    yield from _english(english_text, places, config, draw, given)


def _parts(text: str, given: Sequence[Given]) -> Iterator[tuple[str | Given, list[int]]]:
    """Runs of Chinese characters and of others as they are said, and what is given a reading, with their places."""
    position = 0
    for piece in [*(piece for piece in given if _is_english(piece, text)), None]:
        stop = piece.start if piece else len(text)
        said: list[str] = []
        places: list[int] = []
        for token in mandarin_tokens(text[position:stop]):
            words, end = token.written if token.spoken is None else token.spoken, position + len(token.written)
            said.append(words)
            places += range(position, end) if token.spoken is None else [position] * len(words)
            position = end
        first = 0
        for part in _CHINESE.split("".join(said)):
            if part:
                yield part, places[first : first + len(part)]
            first += len(part)
        if piece:
            yield piece, list(range(piece.start, piece.stop))
            position = piece.stop


def _is_english(piece: Given, text: str) -> bool:
    """Whether a reading is for English; others are for characters, whose readings are their own."""
    if piece.language and piece.language.partition("-")[0].lower() not in ("en", "eng", "zh", "cmn"):
        raise TextError(f"language {piece.language!r}: english_mandarin_basic speaks English and Mandarin")
    if piece.reading and piece.reading.kind == "phonemes" and _CHINESE.search(text[piece.start : piece.stop]):
        raise TextError(f"phonemes of {text[piece.start : piece.stop]!r}: only English words take them")
    return piece.reading is not None


def _english(
    text: str, places: list[int], config: TextConfig, draw: random.Random, given: Sequence[Given]
) -> Iterator[SymbolPiece]:
    if not text:
        return
    own = []
    for piece in given:
        start, stop = bisect_left(places, piece.start), bisect_left(places, piece.stop)
        if piece.reading and start < stop:
            own.append(Given(start, stop, piece.reading))
    for said in english.pieces(text, config, draw, own):
        yield said._replace(at=places[min(said.at, len(places) - 1)])

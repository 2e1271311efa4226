"""Mandarin by initials, finals and tones, with English inside: the published bilingual symbol set."""

import random
import re
from collections.abc import Iterator

from common.text import mandarin
from fastpitch.front.languages import Piece, TextConfig, english

_MARKED = tuple("#" + symbol for symbol in (*mandarin.PHONES, *mandarin.TONES, *mandarin.PUNCTUATION))

SYMBOL_SETS = {"english_mandarin_basic": (*english.SYMBOL_SETS["english_basic"], *_MARKED)}

_CHINESE = re.compile(rf"([{mandarin.HAN}]+|[{mandarin.PUNCTUATION}])")


def pieces(text: str, config: TextConfig, draw: random.Random) -> Iterator[Piece]:
    """Every Chinese character is a word; what stands between Chinese characters is read as English."""
    for part in _CHINESE.split(mandarin.spoken_mandarin(text)):
        if part in mandarin.PUNCTUATION:
            yield from (Piece(("#" + mark,)) for mark in part)
        elif _CHINESE.fullmatch(part):
            readings = mandarin.phones(part, tone_sandhi=config.tone_sandhi)
            for character, phones in zip(part, readings, strict=True):
                symbols = tuple("#" + phone for phone in phones)
                yield Piece(symbols or (character,), character)
        elif part:
            yield from english.pieces(part, config, draw)

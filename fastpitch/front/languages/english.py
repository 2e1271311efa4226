"""English by letters and ARPAbet: the published symbol sets of FastPitch, Tacotron 2 and their relatives."""

import random
import re
from collections.abc import Iterator

from common.espeak import EspeakError
from common.text import arpabet, pronounce
from common.text.spoken import LETTER_A, spoken_english, transliterated
from fastpitch.front.languages import Piece, TextConfig, TextError, shortened

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ARPABET = arpabet.symbols(arpabet.PHONEMES)

SYMBOL_SETS = {
    "english_basic": (*"_-!'(),.:;? ", *_LETTERS.upper(), *_LETTERS, *_ARPABET),
    "english_basic_lowercase": (*"_-!'\"(),.:;? ", *_LETTERS, *_ARPABET),
}
PUNCTUATION = "-!'(),.:;?"

_INLINE = re.compile(r"\{([^{}]*)\}")
_WORD = re.compile(r"[A-Za-zÀ-ɏ]+(?:'[A-Za-zÀ-ɏ]+)*")


def pieces(text: str, config: TextConfig, draw: random.Random) -> Iterator[Piece]:
    """Words by letters or phonemes, phonemes in braces as they stand, and every other character for itself."""
    lexicon = pronounce.read_lexicon(config.lexicon) if config.lexicon else {}
    for i, part in enumerate(_INLINE.split(text)):
        if i % 2:
            yield _inline(part)
        else:
            yield from _plain(part, config, lexicon, draw)


def _inline(phonemes: str) -> Piece:
    try:
        parsed = arpabet.parse(phonemes)
    except arpabet.ArpabetError as error:
        raise TextError(f"in braces: {error}") from None
    return Piece(arpabet.symbols(parsed), "{" + " ".join(parsed) + "}")


def _plain(text: str, config: TextConfig, lexicon: pronounce.Lexicon, draw: random.Random) -> Iterator[Piece]:
    text = cleaned(text, config, lexicon)
    position = 0
    for match in _WORD.finditer(text):
        yield from (Piece((character,)) for character in text[position : match.start()])
        yield Piece(_symbols(match[0], config, lexicon, draw), match[0])
        position = match.end()
    yield from (Piece((character,)) for character in text[position:])


def cleaned(text: str, config: TextConfig, lexicon: pronounce.Lexicon) -> str:
    """`text` as it is said, by the configuration's cleaners; a space at its ends stays one. Raises TextError."""
    if "{" in text or "}" in text:
        raise TextError(f"{shortened(text)}: a brace without its partner; phonemes stand between two: {{HH AH0 L OW1}}")
    if config.cleaners == "none":
        return text
    if config.cleaners == "basic_cleaners":
        said = text.lower()
    elif config.cleaners == "transliteration_cleaners":
        said = transliterated(text).lower()
    else:
        quotes = '"' if '"' in SYMBOL_SETS.get(config.symbol_set, ()) else ""
        said = spoken_english(text, keep=PUNCTUATION + quotes, known=lexicon)
    before, after = (" " if end.isspace() else "" for end in (text[:1], text[-1:]))
    said = " ".join(said.split())
    return f"{before}{said}{after}" if said else before


def _symbols(written: str, config: TextConfig, lexicon: pronounce.Lexicon, draw: random.Random) -> tuple[str, ...]:
    word = written.lower()
    if word in lexicon:
        return arpabet.symbols(lexicon[word][0])
    if config.p_arpabet == 0 or (config.p_arpabet < 1 and draw.random() >= config.p_arpabet):
        return tuple(written)
    if word == LETTER_A:
        return arpabet.symbols(["EY1"])
    pronunciations = pronounce.pronunciations(word)
    if not pronunciations:
        return _unknown(written, config)
    is_ambiguous = len(pronunciations) > 1 or word in pronounce.HETERONYMS
    if is_ambiguous and config.ambiguous_words == "letters":
        return tuple(written)
    chosen = draw.choice(pronunciations) if config.ambiguous_words == "random" else pronunciations[0]
    return arpabet.symbols(chosen)


def _unknown(word: str, config: TextConfig) -> tuple[str, ...]:
    if config.unknown_words == "letters":
        return tuple(word)
    if config.unknown_words == "error":
        raise TextError(f"{word!r}: not in CMUdict; add it to a lexicon, or take unknown_words = espeak or letters")
    try:
        return arpabet.symbols(pronounce.guessed(word.lower()))
    except (EspeakError, arpabet.ArpabetError) as error:
        raise TextError(f"{word!r}: {error}; add it to a lexicon, or take unknown_words = letters") from None

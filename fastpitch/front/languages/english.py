"""English by letters and ARPAbet: the published symbol sets of FastPitch, Tacotron 2 and their relatives."""

import random
import re
from collections.abc import Iterator, Sequence

from common.audio.espeak import EspeakError
from common.text.english.say_as import SayAsError, say_as
from common.text.pronunciation import arpabet, pronounce
from common.text.readings import NONE, read_readings
from common.text.spoken import LETTER_A, PRIVATE, Fixed, Said, said_english, transliterated
from fastpitch.front.languages import Given, SpokenReading, SymbolPiece, TextConfig, TextError, shortened

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ARPABET = arpabet.symbols(arpabet.PHONEMES)

SYMBOL_SETS = {
    "english_basic": (*"_-!'(),.:;? ", *_LETTERS.upper(), *_LETTERS, *_ARPABET),
    "english_basic_lowercase": (*"_-!'\"(),.:;? ", *_LETTERS, *_ARPABET),
}
PUNCTUATION = "-!'(),.:;?"

_BRACES = "braces"
_INLINE = re.compile(r"\{([^{}]*)\}")
_WORD = re.compile(r"[A-Za-zÀ-ɏ]+(?:'[A-Za-zÀ-ɏ]+)*|[\ue000-\uf8ff]")


def pieces(text: str, config: TextConfig, draw: random.Random, given: Sequence[Given] = ()) -> Iterator[SymbolPiece]:
    """Words by letters or phonemes, phonemes in braces as they stand, and every other character for itself."""
    lexicon = pronounce.read_lexicon(config.lexicon) if config.lexicon else {}
    fixed: list[Fixed] = []
    sounds: list[SymbolPiece] = []
    for start, stop, reading, language in _with_braces(text, given):
        if language and language.partition("-")[0].lower() not in ("en", "eng"):
            raise TextError(f"language {language!r}: {config.symbol_set} speaks English only")
        if reading is None:
            continue
        if reading.kind == "phonemes":
            phonemes = _phonemes(reading)
            name = text[start:stop].strip().lower() if text[start] != "{" else "{" + " ".join(phonemes) + "}"
            fixed.append(Fixed(start, stop, chr(PRIVATE[len(sounds)])))
            sounds.append(SymbolPiece(arpabet.symbols(phonemes), name, start))
        elif (said := _said_as(reading, text[start:stop])) is not None:
            fixed.append(Fixed(start, stop, f" {said} "))
    said, places = cleaned(_INLINE.sub(_as_a_name, text), config, lexicon, fixed)
    position = 0
    for match in _WORD.finditer(said):
        yield from (SymbolPiece((said[i],), at=places[i]) for i in range(position, match.start()))
        word = match[0]
        if ord(word[0]) in PRIVATE:
            yield sounds[ord(word) - PRIVATE[0]]
        else:
            yield SymbolPiece(_symbols(word, config, lexicon, draw), word, places[match.start()])
        position = match.end()
    yield from (SymbolPiece((said[i],), at=places[i]) for i in range(position, len(said)))


def _with_braces(text: str, given: Sequence[Given]) -> list[Given]:
    """What is given, and the phonemes in braces."""
    braces = [Given(m.start(), m.end(), SpokenReading("phonemes", _BRACES, m[1])) for m in _INLINE.finditer(text)]
    if not braces:
        return list(given)
    inside = [piece for piece in given if piece.reading]
    free = [b for b in braces if not any(piece.start < b.stop and b.start < piece.stop for piece in inside)]
    return sorted([*given, *free])


def _as_a_name(braces: re.Match[str]) -> str:
    """Phonemes are a name to what stands beside them: Dr. {S M IH1 TH} is a doctor."""
    return "X" + "x" * (len(braces[0]) - 1)


def _phonemes(reading: SpokenReading) -> list[str]:
    where = "in braces" if reading.how == _BRACES else f'<phoneme alphabet="{reading.how}">'
    if reading.how not in (_BRACES, "arpabet", "x-arpabet", "ipa"):
        raise TextError(f"{where}: expected arpabet or ipa")
    try:
        return arpabet.from_ipa(reading.value) if reading.how == "ipa" else arpabet.parse(reading.value)
    except arpabet.ArpabetError as error:
        raise TextError(f"{where}: {error}") from None


def _said_as(reading: SpokenReading, text: str) -> str | None:
    try:
        return say_as(text, reading.how, reading.value)
    except SayAsError as error:
        raise TextError(str(error)) from None


def cleaned(text: str, config: TextConfig, lexicon: pronounce.Lexicon, fixed: Sequence[Fixed] = ()) -> Said:
    """`text` as it is said, by the configuration's cleaners; a space at its ends stays one. Raises TextError."""
    if "{" in text or "}" in text:
        raise TextError(f"{shortened(text)}: a brace without its partner; phonemes stand between two: {{HH AH0 L OW1}}")
    if config.cleaners in ("english_cleaners", "english_cleaners_v2"):
        quotes = '"' if '"' in SYMBOL_SETS.get(config.symbol_set, ()) else ""
        own = read_readings(config.readings) if config.readings else NONE
        said, places = said_english(
            text, keep=PUNCTUATION + quotes, known=lexicon, readings=own.words, units=own.units, fixed=fixed
        )
    else:
        said, places = _as_written(text, config, fixed)
        if config.cleaners == "none":
            return Said(said, places)
    kept = [i for i, c in enumerate(said) if not c.isspace() or (i and not said[i - 1].isspace())]
    if kept and said[kept[-1]].isspace():
        kept.pop()
    said, places = "".join(" " if said[i].isspace() else said[i] for i in kept), [places[i] for i in kept]
    before, after = (" " if end.isspace() else "" for end in (text[:1], text[-1:]))
    if not said:
        return Said(before, [0] * len(before))
    return Said(f"{before}{said}{after}", [*([0] * len(before)), *places, *([len(text) - 1] * len(after))])


def _as_written(text: str, config: TextConfig, fixed: Sequence[Fixed]) -> Said:
    """`text` in the letters that simple cleaners make of it."""
    characters = list(text)
    for start, stop, spoken in fixed:
        characters[start:stop] = [spoken, *[""] * (stop - start - 1)]
    if config.cleaners == "transliteration_cleaners":
        characters = [c if c and ord(c[0]) in PRIVATE else transliterated(c) for c in characters]
    if config.cleaners != "none":
        characters = [c.lower() for c in characters]
    return Said("".join(characters), [i for i, c in enumerate(characters) for _ in c])


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

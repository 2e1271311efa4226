"""Sentences from small grammars, English and German: words that are easily confused, in sentences of 3 to 12 words."""

import re
import zlib
from typing import Literal

import numpy as np

from common.data.texts import german

Subset = Literal["train", "dev", "test"]
Language = Literal["en", "de"]

# A sentence belongs to one subset by a checksum of its words, so the subsets share no sentence whatever their sizes.
_SHARES: dict[Subset, range] = {"train": range(8), "dev": range(8, 9), "test": range(9, 10)}

_MOST_WORDS, _FEWEST_WORDS = 12, 3

# "a|b|c": one of these; "{name}": the rule of that name. Words that sound alike in every accent are left out (nothing
# is the horse's, which sounds like horses), but some differ in one sound only (coat and goat, hat and cat, pin and
# thin).
_RULES = {
    "sentence": (
        "{someone} {did} {something}|{someone} {did} {something} {where}|{someone} {did} {something} {past}"
        "|{past} {someone} {did} {something}|{past} {someone} {moved} {where}|{someone} {moved} {how} {where}"
        "|{someone} {moved} {where} and {moved} {how}|{name} said that {someone} {moved} {where}"
        "|how many {things} did {name} {do} {past}|where did {someone} {do} {something}"
        "|there were {number} {quality} {things} {where}|there was a {quality} {thing} {where}"
        "|please {do} {something} {future}|please {do} {something} and {do} {something}"
        "|do you think {someone} will {do} {something}|{name} and {name} {did} {something} {where}"
        "|it was {weather} {where} so {someone} {moved} {how}|we didn't {do} {something} {past}"
        "|it's always {weather} {where}|they'll {do} {something} {future}|i can't {do} {something} without {something}"
        "|{name}'s {animal} {moved} {where}|{name}'s {animal} {did} {something}|who {did} my {quality} {thing}"
        "|the train to {city} leaves at {hour} o'clock|{name} lives in {city} with {number} {animals}"
        "|the {thing} cost {number} dollars {past}|my {family} {did} {number} {things} {where}"
        "|{someone} {did} {something} because it was {quality}|if you {do} {something} then {someone} will {do} it"
        "|what a {quality} {thing}|this {thing} is {quality} but that {thing} is {quality}"
        "|turn {side} at the {place} and {do} {something}|nobody {did} {something} {how}"
        "|her {family} never {did} {something} {where}|{number} {temper} {animals} {moved} {where}"
    ),
    "someone": (
        "the {animal}|the {temper} {animal}|a {person}|the {person}|the {temper} {person}|a {temper} {animal}|{name}"
        "|my {family}|our {person}"
    ),
    "something": (
        "the {thing}|a {quality} {thing}|the {quality} {thing}|{number} {things}|some {things}|his {thing}"
        "|a {thing} and a {thing}|{number} {quality} {things}|the {person}'s {thing}"
    ),
    "where": (
        "in the {place}|near the {place}|behind the {place}|under the {place}|on the way to {city}|across the {place}"
        "|inside the {quality} {place}|from the {place} to the {place}|at the {place}|in {city}"
        "|beside a {quality} {place}"
    ),
    "past": (
        "yesterday|last {day}|after {meal}|at {hour} o'clock|in {month}|this morning|one {weather} evening"
        "|all summer|on {day}"
    ),
    "future": (
        "tomorrow|every {day}|before {meal}|after {meal}|at {hour} o'clock|in {month}|next {day}|during the winter"
    ),
    "animal": "fox|bear|cat|dog|goat|sheep|horse|parrot|tiger",
    "animals": "foxes|bears|cats|dogs|goats|horses|parrots|tigers",
    "person": "doctor|teacher|farmer|queen|king|giant",
    "family": "sister|brother|mother|father|uncle|friend",
    "name": "anna|emma|oliver|walter",
    "city": "boston|paris|london|berlin",
    "thing": "apple|bottle|cake|coat|guitar|hat|key|lamp|pin|table|watch",
    "things": "apples|bottles|cakes|coats|guitars|hats|keys|lamps|pins|tables|watches",
    "quality": "old|tiny|red|green|blue|broken|empty|heavy|cold|thin",
    "temper": "young|quiet|happy|hungry|lazy|brave",
    "weather": "cold|windy|dark|sunny",
    "place": "bridge|garden|house|kitchen|market|mountain|park|river|school|village",
    "did": "bought|broke|carried|caught|cleaned|found|lost|needed|opened|painted|wanted|washed",
    "do": "bring|carry|catch|clean|find|keep|lose|open|paint|wash",
    "moved": "danced|slept|laughed|walked|waited|sang",
    "how": "quietly|slowly|happily|again|together|without a word",
    "number": "two|three|four|five|six|seven|eight|ten|thirteen|a hundred",
    "hour": "two|three|four|five|six|seven|eight|ten",
    "day": "monday|tuesday|friday|saturday|sunday",
    "month": "january|march|july|october",
    "meal": "breakfast|lunch|dinner|midnight",
    "side": "left|right",
}


def _choices(rules: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(rule.split("|")) for name, rule in rules.items()}


CHOICES: dict[Language, dict[str, tuple[str, ...]]] = {
    "en": _choices(_RULES),
    "de": _choices(german.RULES),
}
QUESTIONS: dict[Language, tuple[str, ...]] = {
    "en": ("how", "where", "who", "do you"),
    "de": ("wer ", "wo ", "wie viele", "warum", "hast du"),
}
"""How sentences begin that are questions."""


def sentences(count: int, *, subset: Subset = "train", seed: int = 0, language: Language = "en") -> list[str]:
    """`count` different sentences of lower-case words; no subset ever shares a sentence with another.

    The first sentences do not depend on `count`. Raises ValueError if the grammar does not yield that many.
    """
    random = np.random.default_rng([seed, _SHARES[subset].start])
    found: dict[str, None] = {}
    for _ in range(1000 + 200 * count):
        if len(found) >= count:
            return list(found)
        sentence = _expand("{sentence}", random, CHOICES[language])
        sentence = correct_articles(sentence) if language == "en" else sentence
        if subset_of(sentence) == subset and _is_natural(sentence):
            found[sentence] = None
    raise ValueError(f"the grammar gave {len(found)} different sentences for {subset}, not {count}")


def subset_of(sentence: str) -> Subset:
    """The only subset in which this sentence can occur."""
    share = zlib.crc32(sentence.encode()) % 10
    return next(subset for subset, shares in _SHARES.items() if share in shares)


def _expand(rule: str, random: np.random.Generator, all_choices: dict[str, tuple[str, ...]]) -> str:
    def choose(slot: re.Match[str]) -> str:
        choices = all_choices[slot[1]]
        return _expand(choices[int(random.integers(len(choices)))], random, all_choices)

    return re.sub(r"\{(\w+)\}", choose, rule)


def correct_articles(sentence: str) -> str:
    """An English sentence with "an" before vowels."""
    return re.sub(r"\ba (?=[aeiou])", "an ", sentence)


def _is_natural(sentence: str) -> bool:
    """Whether the length is right and no word of weight occurs twice."""
    words = sentence.split()
    long_words = [word for word in words if len(word) > 4]
    return _FEWEST_WORDS <= len(words) <= _MOST_WORDS and len(set(long_words)) == len(long_words)

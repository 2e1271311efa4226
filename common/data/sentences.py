"""Sentences from a small grammar: a few hundred words, some of them easily confused, in sentences of 3 to 12 words."""

import re
import zlib
from typing import Literal

import numpy as np

Subset = Literal["train", "dev", "test"]

# A sentence belongs to one subset by a checksum of its words, so the subsets share no sentence whatever their sizes.
_SHARES: dict[Subset, range] = {"train": range(8), "dev": range(8, 9), "test": range(9, 10)}

_MOST_WORDS, _FEWEST_WORDS = 12, 3

# "a|b|c": one of these; "{name}": the rule of that name. Words that sound alike in every accent are left out, but many
# differ in one sound only (ship and sheep, coat and goat, pin and pen, thirteen and thirty).
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
        "|a {thing} and a {thing}|{number} {quality} {things}|the {person}'s {thing}|the {animal}'s {thing}"
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
    "animal": (
        "fox|bear|cat|dog|goat|mouse|sheep|horse|rabbit|turtle|parrot|penguin|tiger|zebra|donkey|spider|owl|monkey"
        "|frog|duck"
    ),
    "animals": (
        "foxes|bears|cats|dogs|goats|mice|horses|rabbits|turtles|parrots|penguins|tigers|zebras|donkeys|owls"
        "|monkeys|frogs|ducks"
    ),
    "person": (
        "baker|doctor|teacher|farmer|queen|king|wizard|sailor|painter|judge|giant|pirate|singer|captain|gardener"
        "|stranger|dentist|lawyer|student|butcher"
    ),
    "family": "sister|brother|mother|father|uncle|cousin|neighbor|grandmother|daughter|friend",
    "name": (
        "alice|anna|oliver|ben|bill|clara|david|emma|felix|grace|henry|jack|julia|kate|laura|lucas|martin|nora|oscar"
        "|paul|peter|ruby|sarah|simon|thomas|victor|walter|zoe"
    ),
    "city": "boston|paris|london|chicago|denver|dublin|berlin|madrid|oxford|texas|japan|egypt",
    "thing": (
        "apple|basket|bottle|bucket|button|cake|candle|chair|clock|coat|cup|drum|fan|feather|fork|guitar|hammer|hat"
        "|jacket|jar|key|kite|ladder|lamp|lemon|letter|map|melon|mirror|needle|onion|pan|pen|pencil|pin|pillow|potato"
        "|pumpkin|puzzle|radio|ring|rope|sandwich|ship|shirt|shoe|spoon|table|teapot|ticket|trumpet|umbrella|van"
        "|violin|wallet|watch|wheel|whistle|yellow box|picture book"
    ),
    "things": (
        "apples|baskets|bottles|buckets|buttons|cakes|candles|chairs|clocks|coats|cups|drums|fans|feathers|forks"
        "|hammers|hats|jackets|jars|keys|kites|ladders|lamps|lemons|letters|maps|melons|mirrors|needles|onions|pans"
        "|pens|pencils|pins|pillows|potatoes|pumpkins|puzzles|rings|ropes|ships|shirts|shoes|spoons|tables|tickets"
        "|umbrellas|vans|wallets|watches|wheels|whistles"
    ),
    "quality": (
        "old|tiny|huge|red|green|blue|yellow|purple|black|white|golden|silver|wooden|broken|empty|heavy|light|rusty"
        "|shiny|dusty|frozen|warm|cold|expensive|beautiful|ordinary|thick|thin|strange|famous|round|square"
    ),
    "temper": (
        "young|quiet|noisy|happy|hungry|lazy|clever|friendly|gentle|brave|silly|grumpy|curious|sleepy|nervous|polite"
        "|jealous|proud|shy|elegant"
    ),
    "weather": "warm|cold|windy|foggy|quiet|dark|rainy|sunny",
    "place": (
        "bakery|barn|beach|bridge|castle|church|city|corner|desert|door|farm|field|forest|garden|garage|harbor|hill"
        "|hospital|house|island|kitchen|lake|library|market|mountain|museum|office|park|river|road|school|shop|stable"
        "|station|theater|tower|town|tree|valley|village|wall|window"
    ),
    "did": (
        "borrowed|bought|broke|carried|caught|cleaned|counted|dropped|found|followed|forgot|fixed|hid|juggled|kept|lost"
        "|loved|moved|needed|noticed|opened|painted|pushed|remembered|shook|sold|stole|took|touched|wanted|washed|wrapped"
    ),
    "do": (
        "borrow|bring|carry|catch|clean|count|drop|find|follow|forget|fix|hide|keep|lose|move|need|open|paint|push"
        "|remember|shake|sell|steal|take|touch|wash|wrap"
    ),
    "moved": (
        "danced|slept|laughed|walked|ran|jumped|waited|climbed|sang|smiled|sneezed|whispered|marched|wandered|stumbled"
        "|rested|swam|yawned|argued|shouted"
    ),
    "how": (
        "quietly|slowly|quickly|happily|carefully|badly|loudly|again|together|very politely|twice|without a word"
        "|for an hour"
    ),
    "number": (
        "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen"
        "|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|a hundred|twenty five|thirty three"
        "|forty two|sixty eight|ninety nine"
    ),
    "hour": "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve",
    "day": "monday|tuesday|wednesday|thursday|friday|saturday|sunday",
    "month": "january|february|march|april|may|june|july|august|september|october|november|december",
    "meal": "breakfast|lunch|dinner|school|the show|midnight",
    "side": "left|right",
}
_CHOICES = {name: tuple(rule.split("|")) for name, rule in _RULES.items()}


def sentences(count: int, *, subset: Subset = "train", seed: int = 0) -> list[str]:
    """`count` different sentences of lower-case words; no subset ever shares a sentence with another.

    The first sentences do not depend on `count`. Raises ValueError if the grammar does not yield that many.
    """
    random = np.random.default_rng([seed, _SHARES[subset].start])
    found: dict[str, None] = {}
    for _ in range(1000 + 200 * count):
        if len(found) >= count:
            return list(found)
        sentence = _correct_articles(_expand("{sentence}", random))
        if subset_of(sentence) == subset and _is_natural(sentence):
            found[sentence] = None
    raise ValueError(f"the grammar gave {len(found)} different sentences for {subset}, not {count}")


def subset_of(sentence: str) -> Subset:
    """The only subset in which this sentence can occur."""
    share = zlib.crc32(sentence.encode()) % 10
    return next(subset for subset, shares in _SHARES.items() if share in shares)


def vocabulary() -> set[str]:
    """Every word that a sentence may contain."""
    text = " ".join(" ".join(choices) for choices in _CHOICES.values())
    possessives = {f"{word}'s" for name in ("name", "person", "animal") for word in _CHOICES[name]}
    return set(re.sub(r"\{\w+\}('s)?", " ", text).split()) | possessives | {"an"}


def _expand(rule: str, random: np.random.Generator) -> str:
    def choose(slot: re.Match[str]) -> str:
        choices = _CHOICES[slot[1]]
        return _expand(choices[int(random.integers(len(choices)))], random)

    return re.sub(r"\{(\w+)\}", choose, rule)


def _correct_articles(sentence: str) -> str:
    return re.sub(r"\ba (?=[aeiou])", "an ", sentence)


def _is_natural(sentence: str) -> bool:
    """Whether the length is right and no word of weight occurs twice."""
    words = sentence.split()
    long_words = [word for word in words if len(word) > 4]
    return _FEWEST_WORDS <= len(words) <= _MOST_WORDS and len(set(long_words)) == len(long_words)

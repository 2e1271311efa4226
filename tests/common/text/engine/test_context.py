"""Sums of what a place tells, however one gets there, are those of the features by their names."""

import random
import zlib

import pytest

from common.text.engine.context import Before, KnownWords, Surroundings, named_words
from common.text.english.reader import classes, model

CHARACTERS = random.Random(1).choices("0123456789-/.:,$%½ abAI", k=300)
TEXTS = (
    "",
    "x",
    "Dr. Smith, 2nd floor: $5-10 on 3/4!",
    "US GDP ROSE 5%",
    "a^b ^ c",
    " ".join("aIb5" * 9),
    "".join(CHARACTERS),
)


@pytest.mark.parametrize("text", TEXTS)
def test_sums_are_those_of_all_features(text):
    choose = random.Random(0)
    worth = {feature: choose.randint(-99, 99) * 7919**i for i, feature in enumerate(model().weights) if i % 9 == 0}

    def total(names):
        return sum(worth.get(name, zlib.crc32(name.encode()) % 1009) for name in names)

    sums, names = Surroundings(text, KnownWords(classes(), total)), Surroundings(text, named_words(classes()))
    start = 0
    for _ in range(200):
        start = max(0, min(len(text), start + choose.choice((-20, -2, -1, 0, 1, 1, 1, 1, 2, 3, 30))))
        before = Before(choose.choice(["", "sign", "number"]), {"-": "range", "5": "number"})
        for stop in choose.sample(range(len(text) + 1), min(3, len(text) + 1)):
            assert sums.at(start, before)(stop) == total(names.at(start, before)(stop))

"""Phrases made of carriers: sentences with gaps."""

from benchmarks.carriers import carried


def test_every_gap_of_a_carrier_is_filled_and_said_and_the_phrases_are_the_same_each_time() -> None:
    made = list(carried())
    assert made == list(carried())
    assert len(set(made)) > 0.95 * len(made) > 600
    assert not [pair for pair in made if any(mark in text for text in pair for mark in "{}")]


def test_a_unit_is_singular_ahead_of_a_noun_and_plural_elsewhere() -> None:
    made = dict(carried())
    written = next(text for text in made if text.startswith("Its ") and "min lasted" not in text)
    number, name = made[written].split(" lasted ")
    assert not number.endswith("s")
    assert name

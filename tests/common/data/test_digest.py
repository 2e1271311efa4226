"""The digest of a list of utterances: what is another, and how long a long list takes."""

from dataclasses import replace

import pytest

from common.data.digest import difference, digest
from common.data.lists.utterances import Utterances
from common.data.manifest import Utterance
from tests.timing import timed


@pytest.fixture
def utterances(tmp_path) -> list[Utterance]:
    paths = [tmp_path / f"{i}.wav" for i in range(5)]
    for i, path in enumerate(paths):
        path.write_bytes(bytes(i))
    return [Utterance(id=f"u{i}", audio=path, seconds=1.0 + i, text=f"text {i}") for i, path in enumerate(paths)]


def read(utterances: list[Utterance]) -> Utterances:
    """As a list that was read, which knows the sizes of its files."""
    return Utterances.of(utterances, (u.audio.stat().st_size if u.audio.exists() else -1 for u in utterances))


def changed(place: int, **values):
    return lambda us: [replace(u, **values) if i == place else u for i, u in enumerate(us)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (list, ""),
        (changed(2, text="other"), "1 utterances, the first that differs is number 3, u2: its text changed"),
        (changed(1, speaker="b"), "1 utterances, the first that differs is number 2, u1: its text changed"),
        (changed(4, seconds=9.0), "1 utterances, the first that differs is number 5, u4: its duration changed"),
        (changed(4, offset_seconds=1.0), "1 utterances, the first that differs is number 5, u4: its duration changed"),
        (
            lambda us: [us[0], replace(us[1], text=us[2].text), replace(us[2], text=us[1].text), *us[3:]],
            "2 utterances, the first that differs is number 2, u1: its text changed",
        ),
        (
            lambda us: [us[0], *us[2:]],
            "4 utterances where there were 5, the first that differs is number 2, u2: another stood there",
        ),
        (lambda us: us[:3], "3 utterances where there were 5, the first 3 of them the same"),
        (lambda us: [us[0], us[2], us[1], *us[3:]], "2 utterances, the first that differs is number 2, u2: another "),
    ],
)
def test_the_first_that_differs_is_named(utterances, change, expected):
    now = change(utterances)
    found = difference(digest(read(utterances)), digest(read(now)), now)
    assert found.startswith(expected)
    assert bool(found) == bool(expected)


def test_a_recording_of_another_size_or_none_is_another_and_its_place_is_free(utterances, tmp_path):
    before = digest(read(utterances))
    moved = [replace(u, audio=u.audio.rename(tmp_path / f"moved{i}.wav")) for i, u in enumerate(utterances)]
    assert difference(before, digest(read(moved)), moved) == ""
    moved[3].audio.write_bytes(bytes(9))
    assert difference(before, digest(read(moved)), moved).endswith("number 4, u3: the size of its file changed")
    moved[3].audio.unlink()
    assert difference(before, digest(read(moved)), moved).endswith("number 4, u3: the size of its file changed")


def test_a_million_utterances_take_seconds(tmp_path):
    path = tmp_path / "a.wav"
    path.touch()
    many = [Utterance(id=f"{i}", audio=path, seconds=i / 7, text=f"what was said in {i}") for i in range(1_000_000)]
    found, took = timed(lambda: digest(many))
    assert took < 60
    assert found["marks"].nbytes == 8_000_000

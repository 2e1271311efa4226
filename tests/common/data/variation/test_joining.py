"""Utterances of a batch one after the other: which, in what order, how loud, and the same however they are loaded."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch

from common.data.loading import AudioBatch, LoadingError, SpeechDataset, loader
from common.data.manifest import Utterance
from common.data.variation.joining import JoinConfig, groups, one_after_the_other
from common.data.variation.speed import SpeedConfig

ALWAYS = JoinConfig(probability=1.0, max_utterances=3, gain_db=6.0)
RATE = 8000


def encode(text: str) -> list[int]:
    return [ord(letter) for letter in text]


@pytest.fixture
def utterances(tmp_path) -> list[Utterance]:
    """Nine of 0.2 to 1 s: one letter each, and a level of its own."""
    for i in range(9):
        soundfile.write(tmp_path / f"{i}.wav", np.full(1600 * (i + 1), 0.01 * (i + 1)), RATE, subtype="FLOAT")
    return [
        Utterance(id=f"clip{i}", audio=tmp_path / f"{i}.wav", seconds=0.2 * (i + 1), text="abcdefghi"[i])
        for i in range(9)
    ]


def dataset(utterances: list[Utterance], join: JoinConfig, **settings: object) -> SpeechDataset:
    return SpeechDataset(utterances, encode=encode, sample_rate=RATE, join=join, **settings)  # type: ignore[arg-type]


def batches(utterances: list[Utterance], join: JoinConfig, plans: list, workers: int = 0, **settings: object) -> list:
    return list(loader(dataset(utterances, join, **settings), plans, workers=workers))


def everything(batch: AudioBatch) -> list:
    return [part.tolist() if isinstance(part, torch.Tensor) else part for part in batch]


def test_each_utterance_is_heard_once_with_its_words_in_the_order_of_its_sound(utterances):
    join = replace(ALWAYS, gain_db=0.0, max_pause_seconds=0.0)
    (batch,) = batches(utterances, join, [list(range(9))])
    letters = Counter()
    for audio_N, n, target_U, u, name, count in zip(
        batch.audio_BN, batch.samples_B, batch.targets_BU, batch.target_lengths_B, batch.ids, batch.utterances,
        strict=True,
    ):  # fmt: skip
        text = "".join(map(chr, target_U[:u].tolist()))
        order = ["abcdefghi".index(letter) for letter in text.split(" ")]
        assert name == "+".join(f"clip{i}" for i in order)
        assert 1 <= len(order) == count <= 3
        heard = np.concatenate([np.full(1600 * (i + 1), np.float32(0.01 * (i + 1))) for i in order])
        np.testing.assert_array_equal(audio_N[:n].numpy(), heard)
        letters.update(text.replace(" ", ""))
    assert letters == Counter("abcdefghi")
    assert batch.samples_B.tolist() == sorted(batch.samples_B.tolist(), reverse=True)
    assert [utterances[i].id for i in batch.indices] == [name.split("+")[0] for name in batch.ids]


def test_what_has_no_words_or_no_spaces_is_joined_too(utterances):
    utterances[1] = replace(utterances[1], text="")
    plan, join = [list(range(3))], replace(ALWAYS, max_utterances=2)
    (batch,) = batches(utterances, join, plan)
    assert sorted(zip(batch.utterances, batch.target_lengths_B.tolist(), strict=True)) in (
        [(1, 0), (2, 3)],
        [(1, 1), (2, 1)],
    )

    def letters_alone(text: str) -> list[int]:
        if " " in text:
            raise ValueError("a space is no label")
        return encode(text)

    settings = {"encode": letters_alone, "sample_rate": RATE, "join": join}
    (batch,) = loader(SpeechDataset(utterances, **settings), plan)
    assert sorted(batch.utterances) == [1, 2]
    assert int(batch.target_lengths_B.sum()) == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_a_batch_is_the_same_in_whatever_process_and_after_whatever_others(utterances, workers):
    plans = [[(epoch, index) for index in order] for epoch in (3, 4) for order in ([8, 2, 5, 1], [0, 3, 4])]
    settings = {"seed": 5, "speed": SpeedConfig(mode="continuous")}
    alone = batches(utterances, ALWAYS, plans, **settings)
    for a, b in zip(alone, batches(utterances, ALWAYS, plans, workers, **settings), strict=True):
        assert everything(a) == everything(b)
    (last,) = batches(utterances, ALWAYS, plans[-1:], **settings)  # as after a run is resumed
    assert everything(last) == everything(alone[-1])


def test_epochs_and_seeds_have_joins_of_their_own(utterances):
    plans = [[(epoch, index) for index in range(9)] for epoch in range(6)]
    assert len({tuple(batch.ids) for batch in batches(utterances, ALWAYS, plans)}) == 6
    other = batches(utterances, ALWAYS, plans, seed=1)
    assert [b.ids for b in batches(utterances, ALWAYS, plans)] != [b.ids for b in other]


def test_without_a_share_and_in_the_first_epochs_utterances_stay_alone(utterances):
    plans = [[(epoch, index) for index in (4, 1, 7)] for epoch in range(3)]
    plain = batches(utterances, JoinConfig(), plans)
    assert [batch.utterances for batch in plain] == [[1, 1, 1]] * 3
    late = batches(utterances, replace(ALWAYS, single_epochs=2), plans)
    assert [everything(b) for b in late[:2]] == [everything(b) for b in plain[:2]]
    assert max(late[2].utterances) > 1
    many = [[(epoch, index) for index in (4, 1)] for epoch in range(200)]
    drawn = [len(batch.ids) == 1 for batch in batches(utterances, replace(ALWAYS, probability=0.3), many)]
    assert 40 < sum(drawn) < 80
    (alone,) = batches(utterances, ALWAYS, [[6]])
    assert alone.ids == ["clip6"]


def test_recordings_end_where_they_are_long_enough():
    random = np.random.default_rng(0)
    seconds = random.uniform(1, 4, 40).tolist()
    join = JoinConfig(probability=1.0, max_utterances=8, max_seconds=10.0, max_pause_seconds=0.5)
    for _ in range(50):
        found = groups(seconds, join, random)
        assert sorted(i for group in found for i in group) == list(range(40))
        assert all(sum(seconds[i] for i in g) + 0.5 * (len(g) - 1) <= 10.0 for g in found)
    assert groups([30.0, 40.0], join, random) in ([[0], [1]], [[1], [0]])


def test_half_of_the_utterances_follow_without_a_pause_and_pauses_are_as_loud_as_what_is_quiet():
    speech_N = np.concatenate([np.full(4000, 0.5), np.full(4000, 0.01)]).astype(np.float32)
    random, pauses = np.random.default_rng(0), []
    for _ in range(200):
        joined_N = one_after_the_other([speech_N, speech_N], ALWAYS, random, sample_rate=RATE)
        pause_N = joined_N[8000:-8000]
        pauses.append(len(pause_N) / RATE)
        if len(pause_N) > 400:
            assert np.sqrt(np.mean(pause_N**2)) == pytest.approx(joined_N[7999], rel=0.2)
        assert 0.5 * 10**-0.3 <= joined_N[0] <= 0.5 * 10**0.3
        assert joined_N.dtype == np.float32
    assert 70 < pauses.count(0.0) < 130
    assert 0.4 < max(pauses) <= 0.5


def test_an_utterance_that_cannot_be_read_is_left_out_of_what_is_joined(utterances):
    utterances[1].audio.write_text("no audio")
    (batch,) = batches(utterances, ALWAYS, [[0, 1, 2]], on_error="skip")
    assert (batch.ids in (["clip0+clip2"], ["clip2+clip0"]), len(batch.failures)) == (True, 1)
    with pytest.raises(LoadingError, match="utterance clip1"):
        batches(utterances, ALWAYS, [[0, 1, 2]])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"probability": 1.1}, r"probability = 1\.1: expected 0 to 1"),
        ({"max_utterances": 1}, "max_utterances = 1: expected at least 2"),
        ({"max_seconds": -1.0}, r"max_seconds = -1\.0: expected a number of at least 0"),
        ({"gain_db": float("nan")}, "gain_db = nan: expected a number"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        JoinConfig(**settings)

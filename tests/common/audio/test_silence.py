"""common/audio/silence.py: what training utterances hear besides their words, the same however they are loaded."""

import json
from dataclasses import replace

import numpy as np
import pytest
import soundfile

from common.audio.silence import SilenceConfig
from common.data.loading import SpeechDataset, loader
from common.data.manifest import Utterance, read_manifest, write_jsonl
from common.data.speed import SpeedConfig

RATE = 8_000
ALWAYS = SilenceConfig(probability=1.0, max_seconds=0.5, alone=0.0)


@pytest.fixture
def utterances(tmp_path) -> list[Utterance]:
    """Three words, of the levels 1, 2 and 3, with known ends."""
    words_N = np.repeat([0.1, 0.2, 0.3], [1600, 800, 2400]).astype(np.float32)
    found = []
    for i in range(12):
        soundfile.write(tmp_path / f"{i}.wav", words_N, RATE, subtype="FLOAT")
        found.append(
            Utterance(id=f"{i}", audio=tmp_path / f"{i}.wav", seconds=0.6, text="a b c", word_ends=(0.2, 0.3, 0.6))
        )
    return found


def heard(utterances, plans, workers=0, silence=ALWAYS, **settings):
    dataset = SpeechDataset(utterances, sample_rate=RATE, silence=silence, **settings)
    return [
        audio_N[:n].numpy()
        for batch in loader(dataset, plans, workers=workers)
        for audio_N, n in zip(batch.audio_BN, batch.samples_B, strict=True)
    ]


def test_silence_stands_around_and_between_the_words_and_in_none(utterances):
    found = heard(utterances, [[(epoch, i) for i in range(12)] for epoch in range(4)])
    pieces = set()
    for audio_N in found:
        level_N = np.round(audio_N, 1)
        np.testing.assert_array_equal(
            level_N[level_N > 0.05], np.repeat([0.1, 0.2, 0.3], [1600, 800, 2400]).astype("f4")
        )
        bounds = np.flatnonzero(np.diff(level_N, prepend=-1))
        pieces.add(len(bounds))
    assert {4, 5, 6} <= pieces <= {3, 4, 5, 6, 7}  # words, and some of four silences, in one piece each
    silences = [audio_N[np.abs(audio_N) < 0.05] for audio_N in found]
    assert any(len(s_N) and not s_N.any() for s_N in silences)  # zeros
    assert any(s_N.any() for s_N in silences)  # and noise
    assert max(np.abs(s_N).max(initial=0) for s_N in silences) < 10 ** (ALWAYS.max_db / 20) * 6


def test_it_follows_the_words_when_the_speed_changes(utterances):
    faster = SpeedConfig(mode="discrete", rates=(1.25,), probability=1.0)
    for audio_N in heard(utterances, [[(0, i) for i in range(12)]], speed=faster):
        level_N = np.round(audio_N, 1)
        assert [np.isclose(level_N, level).sum() for level in (0.1, 0.2, 0.3)] == pytest.approx(
            [1280, 640, 1920], abs=16
        )
        assert len(np.flatnonzero(np.diff(level_N))) <= 14  # ringing at the edges


def test_it_is_a_function_of_seed_and_epoch_whoever_loads(utterances):
    plans = [[(0, i) for i in range(6)], [(1, i) for i in range(6)]]
    late = replace(ALWAYS, clean_epochs=1)
    alone, workers, other = (heard(utterances, plans, **how) for how in ({}, {"workers": 2}, {"seed": 1}))
    assert all(map(np.array_equal, alone, workers))
    assert not all(map(np.array_equal, alone, other))
    assert not all(map(np.array_equal, alone[:6], alone[6:]))
    assert {len(audio_N) for audio_N in heard(utterances, plans, silence=late)[:6]} == {4800}


def test_some_utterances_are_silence_alone_with_nothing_to_write(utterances):
    silence = replace(ALWAYS, alone=0.5)
    dataset = SpeechDataset(utterances, sample_rate=RATE, silence=silence, encode=lambda text: [1, 2, 3])
    (batch,) = loader(dataset, [list(range(12))])
    rows = zip(batch.audio_BN, batch.samples_B, batch.target_lengths_B.tolist(), strict=True)
    said = {bool(audio_N.abs().max() > 0.05): labels for audio_N, _, labels in rows}
    assert said == {True: 3, False: 0}


def test_word_ends_are_read_from_a_synthetic_corpus_and_kept_in_manifests(tmp_path, utterances):
    folder = tmp_path / "train" / "1" / "2"
    folder.mkdir(parents=True)
    soundfile.write(folder / "1-2-0.flac", np.zeros(RATE), RATE)
    (folder / "1-2.trans.txt").write_text("1-2-0 A B\n")
    times = tmp_path / "train.word_times.jsonl"
    times.write_text(json.dumps({"id": "1-2-0", "words": [["a", 0.1, 0.2], ["b", 0.2, 0.5]]}) + "\n")
    (found,) = read_manifest(tmp_path / "train").utterances
    assert found.word_ends == (0.2, 0.5)
    write_jsonl(tmp_path / "again.jsonl", utterances)
    assert read_manifest(tmp_path / "again.jsonl").utterances == utterances
    times.write_text("{}\n")
    with pytest.raises(ValueError, match=r"train.word_times.jsonl: KeyError\('id'\); expected lines of id and words"):
        read_manifest(tmp_path / "train")

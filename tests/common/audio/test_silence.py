"""common/audio/silence.py: what training utterances hear besides their words, the same however they are loaded."""

import json

import numpy as np
import pytest
import soundfile

from common.audio.silence import (
    NOISE_DB,
    SilenceConfig,
    StreamPauses,
    cuts_of,
    in_recording,
    keeper,
    kept,
)
from common.data.loading import SpeechDataset, loader
from common.data.manifest import Utterance, read_manifest, write_jsonl
from common.data.variation.speed import SpeedConfig
from tests.data import shared

RATE = 8_000
ALWAYS = SilenceConfig(probability=1.0, max_seconds=0.5)


@pytest.fixture(autouse=True)
def none_alone(monkeypatch):
    monkeypatch.setattr("common.data.loading.ALONE", 0.0)


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
    assert max(np.abs(s_N).max(initial=0) for s_N in silences) < 10 ** (NOISE_DB[1] / 20) * 6


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
    alone, workers, other = (heard(utterances, plans, **how) for how in ({}, {"workers": 2}, {"seed": 1}))
    assert all(map(np.array_equal, alone, workers))
    assert not all(map(np.array_equal, alone, other))
    assert not all(map(np.array_equal, alone[:6], alone[6:]))


def test_some_utterances_are_silence_alone_with_nothing_to_write(utterances, monkeypatch):
    monkeypatch.setattr("common.data.loading.ALONE", 0.5)
    dataset = SpeechDataset(utterances, sample_rate=RATE, silence=ALWAYS, encode=lambda text: [1, 2, 3])
    (batch,) = loader(dataset, [list(range(12))])
    rows = zip(batch.audio_BN, batch.samples_B, batch.target_lengths_B.tolist(), strict=True)
    said = {bool(audio_N.abs().max() > 0.05): labels for audio_N, _, labels in rows}
    assert said == {True: 3, False: 0}


KEEP = keeper(RATE, longest_pause=0.1, pause_db=30.0)


def tone(seconds, level):
    """Noise of about so many decibels of full scale; None: zeros."""
    deviation = 0.0 if level is None else 10 ** (level / 20)
    samples = round(seconds * RATE)
    return (deviation * np.random.default_rng(samples).standard_normal(samples)).astype(np.float32)


@pytest.mark.parametrize("pause", [-75.0, -60.0])
def test_pauses_are_cut_to_the_longest_and_at_the_ends_to_half_of_it(pause):
    parts = [(3.0, pause), (0.5, -20), (0.09, pause), (0.5, -30), (2.0, pause), (0.2, -20), (0.3, pause)]
    kept_K2 = KEEP([np.concatenate([tone(*part) for part in parts])])
    assert (kept_K2 / RATE).tolist() == [[2.95, 4.14], [6.04, 6.34]]


@pytest.mark.parametrize("silence", [None, -100.0, -85.0])
def test_of_silence_nothing_is_kept_at_the_ends_and_where_it_is_longer_than_a_pause(silence):
    parts = [(3.0, silence), (0.5, -20), (0.05, silence), (0.5, -30), (2.0, silence), (0.2, -20), (0.05, silence)]
    kept_K2 = KEEP([np.concatenate([tone(*part) for part in parts])])
    assert (kept_K2 / RATE).tolist() == [[3.0, 4.05], [6.05, 6.25]]
    parts[4:5] = [(0.3, -60), (2.0, silence), (0.02, -60)]
    kept_K2 = KEEP([np.concatenate([tone(*part) for part in parts])])
    assert (kept_K2 / RATE).tolist() == [[3.0, 4.1], [6.35, 6.57]]


@pytest.mark.parametrize(
    "parts",
    [
        [(0.5, -20), (0.05, None), (0.5, -20), (0.1, -60), (0.5, -20)],  # as long as they may be
        [(0.5, -40), (0.02, -3), (1.0, -40), (0.01, 0), (0.3, -45)],  # clicks, which are no sounds
        [(0.5, -80)], [(0.5, None)], [(0.004, -20)], [],
    ],
)  # fmt: skip
def test_nothing_else_is_cut(parts):
    samples_N = np.concatenate([tone(0.0, None), *(tone(*part) for part in parts)])
    kept_K2 = KEEP([samples_N])
    np.testing.assert_array_equal(kept(samples_N, kept_K2), samples_N)
    assert cuts_of(kept_K2, RATE) == ()


def test_a_quiet_voice_is_heard_whole_from_seconds_after_something_loud_on():
    syllables = [tone(0.1, -35), tone(0.1, -45)] * 125
    first, end = KEEP([np.concatenate([tone(1.0, -3), *syllables])])[-1]
    assert (first <= 4 * RATE, end > 25.8 * RATE) == (True, True)


@pytest.mark.parametrize("seconds", [1.0, 5.0, 60.0])
@pytest.mark.parametrize("voice", [-20, -40])
def test_noise_is_a_pause_however_long_it_lasts_and_however_quiet_the_voice_is(voice, seconds):
    noise_N, voice_N = tone(seconds, -60), np.concatenate([tone(0.2, voice), tone(0.05, voice - 8), tone(0.2, voice)])
    samples_N = np.concatenate([noise_N, voice_N, noise_N, voice_N, noise_N])
    whole, stream = kept(samples_N, KEEP([samples_N])), StreamPauses(KEEP)
    assert len(whole) / RATE == pytest.approx(2 * 0.45 + 0.2, abs=0.03)
    samples_N = samples_N[len(noise_N) :]
    heard = [stream.feed(samples_N[first : first + 801]) for first in range(0, len(samples_N), 801)]
    assert sum(map(len, heard)) / RATE <= 2 * 0.45 + 2 * (0.5 + 0.1)


def test_times_of_what_is_kept_are_those_of_the_same_sample():
    parts = [(0.7, None), (0.5, -20), (0.4, None), (0.5, -25), (0.2, -70), (0.3, -20), (1.0, None)]
    samples_N = np.concatenate([tone(*part) for part in parts])
    kept_K2 = KEEP([samples_N])
    cuts, places = cuts_of(kept_K2, RATE), np.concatenate([np.arange(*part) for part in kept_K2])
    assert len(cuts) == 3
    found = [in_recording(cuts, i / RATE) for i in range(len(places))]
    np.testing.assert_allclose(found, places / RATE, atol=1e-9)
    ends = [in_recording(cuts, (i + 1) / RATE, is_end=True) for i in range(len(places))]
    np.testing.assert_allclose(ends, (places + 1) / RATE, atol=1e-9)


def check_stream(parts, step):
    samples_N, stream = np.concatenate(parts), StreamPauses(KEEP)
    given = [stream.feed(samples_N[first : first + step]) for first in range(0, len(samples_N), step)]
    found_N = np.concatenate([*given, stream.feed(samples_N[:0], last=True)])
    np.testing.assert_array_equal(found_N, kept(samples_N, KEEP([samples_N])))
    assert stream.cuts == list(cuts_of(KEEP([samples_N]), RATE))
    return stream


@pytest.mark.parametrize("step", [37, 80, 801, 100_000])
def test_a_stream_is_cut_as_a_recording_whose_loudest_sound_comes_first(step):
    parts = [(0.7, None), (0.5, -20), (0.4, None), (0.5, -25), (9.0, -70), (0.3, -20), (0.02, -60), (0.3, None)]
    parts += [(0.03, -60), (0.3, None), (0.2, -20), (0.05, None), (0.03, -60), (0.07, None), (0.02, -60), (0.2, -20)]
    parts += [(0.2, -60), (0.3, -20), (1.0, None), (0.0031, None)]
    stream = check_stream([tone(*part) for part in parts], step)
    assert stream.pause == len(tone(1.0, None)) + 25


@pytest.mark.parametrize("noise", [[None], [-100], [-85], [-60], [None, -60]])
@pytest.mark.parametrize("seconds", [0.05, 0.3, 1.0, 5.0])
def test_what_is_before_the_first_word_of_a_stream_is_a_pause(noise, seconds):
    voice = [tone(0.05, -35), tone(0.2, -22), tone(0.1, -20), tone(0.05, -60), tone(0.3, -18), tone(0.3, -30)]
    check_stream([*(tone(seconds / len(noise), level) for level in noise), *voice], 801)


@pytest.mark.parametrize("level", [-20, -45, -65])
def test_a_quiet_voice_between_zeros_is_heard_from_its_first_word_on(level):
    word = [tone(0.05, level - 15), tone(0.2, level), tone(0.1, level - 5), tone(0.3, None)]
    samples_N = np.concatenate([tone(1.0, None), *word * 5])
    found_N = np.concatenate([(stream := StreamPauses(KEEP)).feed(samples_N), stream.feed(samples_N[:0], last=True)])
    assert len(found_N) == round(5 * 0.35 * RATE)


@pytest.mark.parametrize("corpus", ["librispeech-mini", "digits"])
def test_speech_of_real_recordings_is_not_cut(corpus):
    paths = sorted(path for kind in ("flac", "wav") for path in shared(f"data/{corpus}").rglob(f"*.{kind}"))
    inner, whole = 0, 0
    for path in paths[:: max(1, len(paths) // 60)]:
        samples_N, rate = soundfile.read(path, dtype="float32")
        kept_K2 = keeper(rate, longest_pause=0.1, pause_db=30.0)([samples_N])
        whole += len(samples_N) / rate
        for end, first in zip(kept_K2[:-1, 1], kept_K2[1:, 0], strict=True):
            lost_N, level = samples_N[end:first], np.abs(samples_N).max()
            inner += len(lost_N) / rate
            assert np.sqrt(np.square(lost_N).mean()) < level / 30
    assert inner < 0.12 * whole


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

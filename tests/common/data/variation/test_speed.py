"""Which speed an utterance gets, and copies at other speeds."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile

from common.audio import waveform
from common.data.manifest import Utterance, read_manifest, write_jsonl
from common.data.variation.speed import SpeedConfig, Version, draw_version, prepare_speeds

UTTERANCE = Utterance(
    id="u", audio=Path("u.flac"), seconds=1, text="", speeds=((0.9, Path("slow.flac")), (1.1, Path("fast.flac")))
)


def drawn(cfg: SpeedConfig, n: int = 3000) -> list[Version]:
    return [
        draw_version(UTTERANCE, cfg, seed=0, epoch=epoch, index=index) for epoch in range(3) for index in range(n // 3)
    ]


@pytest.mark.parametrize("mode", ["offline", "discrete", "continuous"])
@pytest.mark.parametrize("probability", [0.0, 0.1, 1.0])
def test_the_probability_means_the_same_in_every_mode(mode, probability):
    versions = drawn(SpeedConfig(mode=mode, probability=probability, rates=(0.9, 1.1)))
    speeds = [version.recorded_speed * version.change for version in versions]
    changed = np.mean([speed != 1.0 for speed in speeds])
    # of the three files of mode offline one has speed 1; 4 standard deviations of a binomial share
    expected = probability * (2 / 3 if mode == "offline" else 1)
    assert abs(changed - expected) <= 4 * (expected * (1 - expected) / len(speeds)) ** 0.5


def test_no_perturbation_is_the_recording_as_it_is():
    assert set(drawn(SpeedConfig())) == {Version(Path("u.flac"), 1.0, 1.0)}


def test_offline_takes_each_copy_with_its_own_speed_equally_often():
    counts = Counter(drawn(SpeedConfig(mode="offline")))
    expected = {Version(Path("u.flac"), 1.0), Version(Path("slow.flac"), 0.9), Version(Path("fast.flac"), 1.1)}
    assert set(counts) == expected
    assert min(counts.values()) > 850


def test_discrete_takes_each_rate_equally_often_and_continuous_the_whole_range():
    counts = Counter(version.change for version in drawn(SpeedConfig(mode="discrete")))
    assert set(counts) == {0.9, 1.0, 1.1}
    assert min(counts.values()) > 850
    changes = np.array([version.change for version in drawn(SpeedConfig(mode="continuous"))])
    assert 0.85 <= changes.min() < 0.86
    assert 1.14 < changes.max() <= 1.15
    assert abs(changes.mean() - 1) < 0.01


def test_a_draw_depends_on_seed_epoch_and_index_alone():
    cfg = SpeedConfig(mode="continuous")

    def draw(seed, epoch, index):
        return draw_version(UTTERANCE, cfg, seed=seed, epoch=epoch, index=index).change

    assert draw(1, 2, 3) == draw(1, 2, 3)
    assert len({draw(1, 2, 3), draw(0, 2, 3), draw(1, 0, 3), draw(1, 2, 0), draw(3, 2, 1)}) == 5


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match=r"probability = 1\.5: expected 0 to 1"):
        SpeedConfig(probability=1.5)
    for wrong in ({"rates": ()}, {"rates": (0.9, -1)}, {"min_rate": 1.2}, {"min_rate": 0.0}):
        with pytest.raises(ValueError, match="expected positive numbers, at least one rate, and min_rate <= max_rate"):
            SpeedConfig(**wrong)


def clips(folder: Path, n: int) -> list[Utterance]:
    for i in range(n):
        path = folder / f"{i % 2}/clip{i}.flac"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, 0.1 * np.sin(np.arange(8000) * 0.1 * (i + 1)), 8000)
    return [Utterance(id=f"clip{i}", audio=folder / f"{i % 2}/clip{i}.flac", seconds=1.0, text="x") for i in range(n)]


def test_prepared_copies_have_the_speed_and_rate_that_the_manifest_says(tmp_path):
    utterances = clips(tmp_path / "train", 3)
    prepared = prepare_speeds(utterances, [0.9, 1.1], root=tmp_path / "train", workers=2)
    assert prepared[2].speeds[0] == (0.9, tmp_path / "train-speed0.9/0/clip2.flac")
    for utterance in prepared:
        original = waveform.read(utterance.audio).samples
        for rate, copy in utterance.speeds:
            samples, sample_rate = waveform.read(copy)
            assert sample_rate == 8000
            np.testing.assert_allclose(samples, waveform.change_speed(original, rate), atol=2**-15)
    write_jsonl(tmp_path / "m.jsonl", prepared)
    assert read_manifest(tmp_path / "m.jsonl").utterances == prepared


def test_copies_that_are_there_are_kept(tmp_path):
    utterances = clips(tmp_path / "train", 2)
    first = prepare_speeds(utterances, [0.9], root=tmp_path / "train", workers=1)
    before = first[0].speeds[0][1].stat().st_mtime_ns
    assert prepare_speeds(utterances, [0.9], root=tmp_path / "train", workers=1) == first
    assert first[0].speeds[0][1].stat().st_mtime_ns == before


def test_a_recording_that_cannot_be_copied_is_named(tmp_path):
    utterances = clips(tmp_path / "train", 3)
    utterances[1].audio.write_text("no audio")
    with pytest.raises(waveform.AudioError, match=r"clip1\.flac: cannot be read as audio"):
        prepare_speeds(utterances, [0.9], root=tmp_path / "train", workers=1)

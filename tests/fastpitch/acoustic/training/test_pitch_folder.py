import json
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch

from common.config import ConfigError
from common.data.manifest import Utterance
from common.devices.distributed import World
from fastpitch.acoustic.config import Config, DataConfig, ModelConfig
from fastpitch.acoustic.pitch import PitchConfig
from fastpitch.acoustic.training.data import ClipDataset
from fastpitch.acoustic.training.pitch_folder import measured, settle

ALONE = World(rank=0, size=1, device=torch.device("cpu"))


@pytest.fixture
def cfg(tmp_path):
    (tmp_path / "run").mkdir()
    return Config(output_dir=tmp_path / "run")


def other(cfg: Config) -> Config:
    return replace(cfg, pitch=PitchConfig(lowest_hz=80))


def test_pitch_of_other_settings_is_extracted_anew_and_told(cfg):
    own = cfg.output_dir / "pitch"
    assert settle(cfg) == ""
    (own / "a.pt").touch()
    assert settle(cfg) == ""
    assert (own / "a.pt").is_file()
    assert settle(other(cfg)).startswith(f"{own}: pitch was extracted with lowest_hz = 65.40639, not 80")
    assert not (own / "a.pt").exists()
    assert settle(other(cfg)) == ""


def test_a_folder_of_the_users_with_other_settings_is_refused(cfg, tmp_path):
    prepared = tmp_path / "prepared"
    (prepared / "pitch").mkdir(parents=True)
    named = replace(cfg, data=DataConfig(pitch_dir=prepared / "pitch"))
    (prepared / "settings.json").write_text(json.dumps({"pitch": {"method": "pyin"}}))
    with pytest.raises(
        ConfigError, match="extracted with method = pyin, not fast, .*; prepare it anew, or name another"
    ):
        settle(named)
    (prepared / "settings.json").unlink()
    (prepared / "pitch/a.pt").touch()
    assert settle(other(named)) == ""  # of unknown settings, as published ones are


def test_statistics_are_those_of_the_voices(tmp_path):
    rate, utterances = 22_050, []
    for i, (speaker, hertz) in enumerate([("a", 120.0), ("a", 140.0), ("b", 220.0), ("b", 240.0)]):
        wave = np.sign(np.sin(2 * np.pi * hertz * np.arange(2 * rate) / rate)) * 0.3
        soundfile.write(tmp_path / f"{i}.wav", wave, rate)
        utterances.append(Utterance(id=str(i), audio=tmp_path / f"{i}.wav", seconds=2.0, text="yes", speaker=speaker))
    cfg = Config(output_dir=tmp_path)
    of_all = measured(ClipDataset(utterances, cfg, training=True), ALONE)
    assert of_all.mean == pytest.approx((180.0,), rel=0.02)
    assert of_all.std == pytest.approx((51.0,), rel=0.05)
    assert of_all.told.startswith("pitch of 4 clips: mean 1")
    two = replace(cfg, model=ModelConfig(speakers=2), data=DataConfig(speakers=("a", "b")))
    of_each = measured(ClipDataset(utterances, two, training=True), ALONE)
    assert of_each.mean == pytest.approx((130.0, 230.0), rel=0.02)
    assert of_each.told.endswith("of 2 speakers each its own")


def test_without_a_voice_the_published_statistics_stand(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(22_050), 22_050)
    utterance = Utterance(id="a", audio=tmp_path / "a.wav", seconds=1.0, text="yes", speaker="")
    found = measured(ClipDataset([utterance], Config(output_dir=tmp_path), training=True), ALONE)
    assert (found.mean, found.told.startswith("pitch: no voiced frames")) == ((214.72203,), True)

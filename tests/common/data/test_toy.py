"""Speech for the toy configurations, and what a run without it says and leaves."""

from pathlib import Path

import pytest

from common import config
from common.data import toy
from common.data.manifest import ManifestError, read_sources
from fastpitch.acoustic.config import Config as FastPitchConfig
from fastpitch.vocoders import train as vocoders
from jasper import train
from jasper.config import Config as JasperConfig

TOYS = ((JasperConfig, "jasper/toy"), (FastPitchConfig, "fastpitch/toy"))


def test_every_toy_configuration_finds_its_speech(tmp_path):
    root = toy.build(tmp_path / "toy")
    vocoder = [(vocoders.schema([name]), name) for name in ("hifigan/toy", "waveglow/toy")]
    for cls, name in (*TOYS, *vocoder):
        data = config.load(cls, name).data
        for sources, training in ((data.train, True), (data.validation, False)):
            assert len(read_sources(sources, root=root, training=training).utterances) >= 4, name


def test_a_training_without_data_says_which_command_makes_some_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = (
        "train-clean: no such file or folder; expected a manifest or a corpus that --data.train names, in --data.root"
    )
    with pytest.raises(ManifestError, match=rf"^{told}, which is not set .*python -m common.data.toy toy\)$"):
        train.main(config.load(JasperConfig, "jasper/toy"))
    assert list(Path().iterdir()) == []

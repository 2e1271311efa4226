import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from common.data.manifest import read_sources
from common.features import TTS
from fastpitch.mels import MelsConfig, main
from fastpitch.vocoders.config import DataConfig
from fastpitch.vocoders.training.data import Segment, SegmentDataset
from tests.data import shared
from tests.fastpitch.vocoders.corpus import LENGTHS, write_corpus


@pytest.fixture
def cfg(tmp_path):
    root = write_corpus(tmp_path / "corpus")
    return MelsConfig(
        checkpoint=shared("golden/tts/FastPitch_checkpoint_3.pt"), sources=("train.txt",), root=root,
        output=tmp_path / "mels", batch_size=2, device="cpu", workers=0,
    )  # fmt: skip


def test_a_spectrogram_has_the_frames_of_its_clip_and_is_what_fine_tuning_reads(cfg, capsys):
    left_out = main(cfg)
    told = capsys.readouterr().out
    assert "mels: 5 written, 0 were there" in told
    assert left_out == ["utterance c3: 10 symbols but 2 frames, fewer than one each"]
    assert f"left out: {left_out[0]}" in told
    data = DataConfig(root=cfg.root, mels=cfg.output, segment_frames=8)
    utterances, _ = read_sources(cfg.sources, root=data.root, training=True)
    clips = SegmentDataset(utterances, data, TTS, seed=0)
    for index in (0, 4, 5):
        mel_MT = np.load(cfg.output / f"c{index}.npy")
        assert mel_MT.shape == (80, 1 + LENGTHS[index] // 256)
        assert np.isfinite(mel_MT).all()
        assert isinstance(clips[index], Segment)


def test_the_model_may_be_a_voice_by_its_name(cfg, tmp_path, monkeypatch):
    monkeypatch.setenv("SPEECH_VOICES", str(tmp_path))
    (tmp_path / "toy").mkdir()
    shutil.copy(cfg.checkpoint, tmp_path / "toy" / "fastpitch.pt")
    main(replace(cfg, checkpoint=Path("toy")))
    assert len(list(cfg.output.glob("*.npy"))) == 5


def test_what_is_there_is_left_as_it_is(cfg, capsys):
    main(cfg)
    before = (cfg.output / "c0.npy").stat().st_mtime_ns
    (cfg.output / "c4.npy").unlink()
    main(cfg)
    assert (cfg.output / "c0.npy").stat().st_mtime_ns == before
    assert "mels: 1 written, 4 were there" in capsys.readouterr().out


def test_a_spectrogram_is_the_same_alone_and_in_a_batch(cfg):
    main(cfg)
    together = torch.from_numpy(np.load(cfg.output / "c0.npy"))
    (cfg.output / "c0.npy").unlink()
    main(cfg)
    torch.testing.assert_close(torch.from_numpy(np.load(cfg.output / "c0.npy")), together, rtol=0, atol=1e-4)

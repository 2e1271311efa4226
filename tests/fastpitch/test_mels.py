import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from common.config import to_dict
from common.data.manifest import read_sources
from common.features import TTS
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from fastpitch.acoustic.checkpoints.own import FORMAT
from fastpitch.acoustic.checkpoints.reading import of_state
from fastpitch.acoustic.config import Config, RefinerConfig
from fastpitch.acoustic.model import FastPitch
from fastpitch.front.symbols import TextProcessor
from fastpitch.mels import MelsConfig, main
from fastpitch.pack import as_spoken
from fastpitch.vocoders.config import DataConfig
from fastpitch.vocoders.training.data import ClipSegment, SegmentDataset
from tests.data import shared
from tests.fastpitch.tiny import LETTERS, SMALL, tiny_model
from tests.fastpitch.vocoders.corpus import LENGTHS, write_corpus

REFINED = replace(SMALL, harmonics=True, refiner=RefinerConfig(layers=2, channels=8, filter_channels=16, bins=12))


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
        assert isinstance(clips[index], ClipSegment)


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


def refined_checkpoint(cfg: MelsConfig) -> tuple[Path, FastPitch]:
    """A small model with a refiner that says something, and its file."""
    model = tiny_model(REFINED)
    model.harmonics.draw(TTS)
    model.harmonics.depth.weight.normal_(0, 0.02)
    model.refiner.end.weight.normal_(0, 0.3)
    settings = Config(model=model.config, text=LETTERS)
    path = cfg.root / "refined.pt"
    checkpoint.save(path, {"format": FORMAT, "config": to_dict(settings), "weights": model.state_dict(), "ema": None})
    return path, model


def test_spectrograms_are_refined_as_they_are_spoken(cfg):
    path, model = refined_checkpoint(cfg)
    main(replace(cfg, checkpoint=path))
    refined_MT = np.load(cfg.output / "c0.npy")
    model.refiner.end.weight.zero_()  # then the lowest bins are the outline alone
    weights = model.state_dict()
    state = checkpoint.load(path)
    checkpoint.save(path, state | {"weights": weights})
    main(replace(cfg, checkpoint=path, output=cfg.output / "outline"))
    outline_MT = np.load(cfg.output / "outline" / "c0.npy")
    assert np.array_equal(refined_MT[12:], outline_MT[12:])
    assert np.abs(refined_MT[:12] - outline_MT[:12]).mean() > 0.05


def test_a_voice_that_was_packed_without_its_aligner_asks_for_durations_and_then_says_the_same(cfg):
    path, _ = refined_checkpoint(cfg)
    state = checkpoint.load(path)
    spoken, weights = as_spoken(of_state(state, path), path)
    packed = cfg.root / "packed.pt"
    checkpoint.save(packed, state | {"weights": weights, "config": to_dict(spoken)})
    expected = r"packed.pt: has no aligner, as a packed voice; expected --durations_dir, or the checkpoint"
    with pytest.raises(CheckpointError, match=expected):
        main(replace(cfg, checkpoint=packed))
    tokens_L = torch.tensor(TextProcessor(LETTERS).encode("tone 0").tokens)
    durations_L = torch.ones_like(tokens_L)
    durations_L[-1] = 1 + LENGTHS[0] // TTS.hop_samples - (len(tokens_L) - 1)
    checkpoint.save(cfg.root / "c0.pt", torch.stack([tokens_L, durations_L]))
    (cfg.root / "one.txt").write_text("wavs/c0.wav|tone 0\n")
    given = replace(cfg, sources=("one.txt",), durations_dir=cfg.root)
    found = []
    for name, each in (("whole", path), ("packed", packed)):
        assert main(replace(given, checkpoint=each, output=cfg.output / name)) == []
        found.append(torch.from_numpy(np.load(cfg.output / name / "c0.npy")))
    torch.testing.assert_close(*found, rtol=0, atol=1e-5)

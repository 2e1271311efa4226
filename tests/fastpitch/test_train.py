import traceback
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ctc.alignment.monotonic
from common import config
from common.audio import waveform
from common.data.batching import bucketed_batches
from common.data.loading import LoadingError
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.training import data
from fastpitch.acoustic.training.data import write_tensor
from fastpitch.train import main, update
from tests.fastpitch.runs import RATE, TOY, run_of, toy_config, write_corpus
from tests.processes import run_module
from tests.training import events, logged, on_record, state_of

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_loss_curve_is_the_one_on_record(corpus, tmp_path):
    main(toy_config(corpus, tmp_path, epochs=6))
    recorded = on_record(Path(__file__).with_name("golden_toy_losses.txt"))
    np.testing.assert_allclose(logged(tmp_path), recorded, rtol=2e-3)


def test_gradients_of_micro_batches_add_up_to_that_of_the_batch(corpus, tmp_path):
    cfg = without_dropout(toy_config(corpus, tmp_path / "a", ema=0.0))
    cfg = replace(cfg, optim=replace(cfg.optim, kind="adamw", eps=1.0))  # a step in proportion to the gradient
    updates = []
    for parts in (1, 2, 4):
        with run_of(replace(cfg, grad_accumulation=parts)) as run:
            batch = next(iter(data.loader(run.train_set, [[0, 4, 2, 7]])))
            before = [p.detach().clone() for p in run.model.parameters()]
            update(run, batch)
            updates.append([p.detach() - b for p, b in zip(run.model.parameters(), before, strict=True)])
    for other in updates[1:]:
        for whole, part in zip(updates[0], other, strict=True):
            torch.testing.assert_close(part, whole, rtol=1e-3, atol=1e-6)


def without_dropout(cfg: Config) -> Config:
    none = {"dropout": 0.0}
    transformer = none | {"attention_dropout": 0.0}
    model = replace(
        cfg.model,
        encoder=replace(cfg.model.encoder, **transformer),
        decoder=replace(cfg.model.decoder, **transformer),
        duration=replace(cfg.model.duration, **none),
        pitch=replace(cfg.model.pitch, **none),
        energy=replace(cfg.model.energy, **none),
    )
    return replace(cfg, model=model)


class Reads(TorchDispatchMode):
    """Notes the lines that read a number out of a tensor, for which a GPU would have to be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if any(name in str(operator) for name in ("_local_scalar_dense", "nonzero", "equal.default", "masked_select")):
            packages = [TOY.parents[2] / name for name in ("common", "ctc", "fastpitch")]
            ours = [f for f in traceback.extract_stack() if any(Path(f.filename).is_relative_to(p) for p in packages)]
            self.lines.append(f"{ours[-1].filename}:{ours[-1].lineno}")
        return operator(*args, **(kwargs or {}))


def test_a_training_step_never_waits_for_a_number_from_the_device(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(ctc.alignment.monotonic._native, "load", lambda: None)  # the search without native code
    with run_of(toy_config(corpus, tmp_path, grad_accumulation=2)) as run:
        batch = next(iter(data.loader(run.train_set, [[0, 1, 2, 3]])))
        with Reads() as reads:
            update(run, batch)
    assert [line for line in reads.lines if "/fastpitch/" in line] == []


def with_clip(root: Path, name: str, text: str, samples: np.ndarray) -> None:
    waveform.write(root / "train" / "wavs" / f"{name}.wav", samples, RATE)
    with (root / "train" / "metadata.csv").open("a") as file:
        file.write(f"{name}|{text}|{text}\n")


def test_a_clip_with_more_symbols_than_frames_is_left_out_and_named(tmp_path):
    root = write_corpus(tmp_path / "corpus", train=7)
    with_clip(root, "BRIEF", "far too many words", np.full(1600, 0.1, np.float32))
    assert main(toy_config(root, tmp_path / "run")).epoch == 2
    said = events(tmp_path / "run")
    assert "\n".join(said).count("left out: utterance BRIEF: 18 symbols but 13 frames, fewer than one each") == 1
    assert "left out: 1 utterances" in said


def test_pitch_that_is_not_a_number_stops_the_run_with_the_clip_s_name_or_is_skipped(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path / "run")
    cfg = replace(cfg, data=replace(cfg.data, pitch_dir=tmp_path / "pitch"))
    main(replace(cfg, steps=1))
    for path in (tmp_path / "pitch").glob("TRAIN-0003.pt"):
        path.unlink()
    write_tensor(tmp_path / "pitch" / "TRAIN-0003.pt", torch.full((1, 100), torch.nan))
    with pytest.raises(
        LoadingError, match=r"utterance TRAIN-0003: .*TRAIN-0003.pt: (pitch of 100 frames|found \[100\])"
    ):
        main(cfg)
    cfg = replace(cfg, data=replace(cfg.data, on_error="skip"), output_dir=tmp_path / "skipping")
    assert main(cfg).epoch == 2
    assert "left out: utterance TRAIN-0003: " in "\n".join(events(tmp_path / "skipping"))


def test_a_text_that_cannot_be_spoken_names_the_clip(tmp_path):
    root = write_corpus(tmp_path / "corpus", train=7)
    with_clip(root, "ODD", "one ☃ two", np.full(16000, 0.1, np.float32))
    with pytest.raises(LoadingError, match="utterance ODD: '☃'"):
        main(toy_config(root, tmp_path / "run"))


def test_prepared_mels_and_pitch_teach_the_same_as_the_recordings(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path / "online", steps=2)
    main(cfg)
    with run_of(replace(cfg, output_dir=tmp_path / "look", steps=0)) as run:
        for read in (run.train_set, run.validation):
            recordings = data.ClipDataset(read.utterances, cfg, training=False)
            for batch in data.loader(recordings, [[i] for i in range(len(read))]):
                mel_BMT, _ = run.log_mel(batch.audio_BN, batch.samples_B)
                write_tensor(tmp_path / "mels" / f"{batch.ids[0]}.pt", mel_BMT[0])
    prepared = replace(cfg.data, mel_dir=tmp_path / "mels", pitch_dir=tmp_path / "online" / "pitch")
    main(replace(cfg, data=prepared, output_dir=tmp_path / "prepared"))
    np.testing.assert_allclose(logged(tmp_path / "prepared"), logged(tmp_path / "online"), rtol=1e-5)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_low_precision_trains_to_about_the_same_losses(corpus, tmp_path, precision):
    main(toy_config(corpus, tmp_path / "fp32"))
    main(toy_config(corpus, tmp_path / precision, precision=precision))
    np.testing.assert_allclose(logged(tmp_path / precision), logged(tmp_path / "fp32"), rtol=0.03)


def test_tensorboard_shows_alignment_pitch_and_sound(corpus, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    main(toy_config(corpus, tmp_path, tensorboard=True, samples=1, epochs=1))
    shown = EventAccumulator(str(tmp_path / "samples"), size_guidance={"images": 0, "audio": 0})
    shown.Reload()
    tags = shown.Tags()
    assert sorted(tags["images"]) == ["alignment/VALIDATION-0000", "pitch/VALIDATION-0000"]
    assert sorted(tags["audio"]) == ["recorded/VALIDATION-0000", "spoken/VALIDATION-0000"]


def test_voices_are_told_apart(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path)
    speakers = replace(cfg.model, speakers=2, speaker_conditions="all")
    data_of_two = replace(cfg.data, speakers=("", "somebody"), pitch_mean=(200.0, 100.0), pitch_std=(50.0, 40.0))
    main(replace(cfg, model=speakers, data=data_of_two))
    weights = state_of(tmp_path)["weights"]
    assert weights["pitch_mean"].tolist() == [200.0, 100.0]
    assert weights["speakers.weight"].shape == (2, 16)


@pytest.mark.parametrize("path", sorted(TOY.parent.glob("*.toml")), ids=lambda path: path.stem)
def test_every_configuration_can_be_read(path):
    config.load(Config, path)


def test_two_processes_see_the_losses_of_one_with_the_same_global_batch(tmp_path):
    corpus = write_corpus(tmp_path / "corpus", train=24, validation=7)
    cfg = without_dropout(toy_config(corpus, tmp_path / "one", batch_size=8))
    main(cfg)
    toml = tmp_path / "no_dropout.toml"
    toml.write_text(config.to_toml(cfg))
    flags = ("--batch_size", 4, "--output_dir", tmp_path / "two")
    run_module("fastpitch.train", toml, *flags, processes=2)
    for key in ("train_loss", "train_attn_loss", "dev_loss", "dev_mel_loss", "dev_ema_pitch_loss"):
        assert logged(tmp_path / "two", key) == pytest.approx(logged(tmp_path / "one", key), abs=1e-5, rel=1e-4), key


def test_a_clip_that_only_the_second_process_cannot_use_is_told_and_training_goes_on(tmp_path):
    """With one clip per process, it also has to take part in a step for which it has nothing."""
    root = write_corpus(tmp_path / "corpus", train=4)
    with run_of(toy_config(root, tmp_path / "look", batch_size=1)) as run:
        batches = bucketed_batches(run.epochs.seconds, batch_size=1, seed=run.cfg.seed, epoch=0, ranks=2, rank=1)
        bad = run.train_set.utterances[batches[-1][0]]
    write_tensor(tmp_path / "run" / "pitch" / f"{bad.id}.pt", torch.full((64,), torch.nan))
    ended = run_module(
        "fastpitch.train", TOY, "--data.root", root, "--epochs", 1, "--batch_size", 1, "--data.on_error", "skip",
        "--output_dir", tmp_path / "run", processes=2,
    )  # fmt: skip
    assert ended.said.count(f"left out: utterance {bad.id}: ") == 1
    assert state_of(tmp_path / "run")["progress"]["step"] == 2

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from common import config
from common.data.batching import BatchingError
from common.data.loading import LoadingError
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from common.training.course import EveryConfig
from common.training.state import TrainingError
from fastpitch.vocoders.config import HifiganRun
from fastpitch.vocoders.train import main
from fastpitch.vocoders.training import data
from fastpitch.vocoders.training.data import GeneratorInput
from fastpitch.vocoders.training.objective import discriminator_loss
from fastpitch.vocoders.training.steps import generated, judged, update, update_discriminators
from fastpitch.vocoders.vocoder import load_vocoder
from tests.fastpitch.vocoders.corpus import CONFIGS, hifigan_config, run_of, write_corpus
from tests.fastpitch.vocoders.small import random_mel
from tests.training import (
    assert_all_finite,
    assert_same_state,
    events,
    finish,
    logged,
    on_record,
    run_module,
    state_of,
)

pytestmark = pytest.mark.usefixtures("one_thread")

TOY = CONFIGS / "hifigan" / "toy.toml"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("generator", ["hifigan", "istft"])
def test_a_run_directory_describes_itself_and_its_vocoders_speak(root, tmp_path, generator):
    cfg = hifigan_config(root, tmp_path, generator=generator, tensorboard=True, samples_every_epochs=2)
    progress = main(cfg)
    assert (progress.epoch, progress.step) == (2, 6)
    assert config.load(HifiganRun, tmp_path / "config.toml") == cfg
    assert {"torch", "device", "commit", "processes"} <= set(json.loads((tmp_path / "environment.json").read_text()))
    for name in ("loss", "mel_loss", "stft_loss", "feature_loss", "adversarial_loss", "discriminator_loss"):
        assert len(logged(tmp_path, f"train_{name}")) == 6
    assert len(logged(tmp_path, "dev_mel")) == len(logged(tmp_path, "dev_ema_lsd_db")) == 2
    assert list((tmp_path / "dev").glob("events.*"))
    for name in ("hifigan_best.pt", "hifigan_final.pt", "hifigan_step00000006.pt"):
        assert load_vocoder(tmp_path / name, device="cpu")(random_mel(1, 80, 9)).shape == (1, 9 * 256)
    assert "discriminators" not in checkpoint.load(tmp_path / "hifigan_final.pt")


@pytest.mark.parametrize("generator", ["hifigan", "istft"])
def test_the_loss_curve_is_the_one_on_record(root, tmp_path, generator):
    main(hifigan_config(root, tmp_path, generator=generator, every=EveryConfig(log_steps=1, validate_epochs=9)))
    recorded = on_record(Path(__file__).with_name(f"golden_toy_{generator}.txt"))
    np.testing.assert_allclose(logged(tmp_path), recorded, rtol=2e-3)


@pytest.mark.parametrize("stop_at", [4])
def test_stopping_at_any_step_and_resuming_gives_bitwise_the_weights_of_never_stopping(root, tmp_path, stop_at):
    cfg = hifigan_config(root, tmp_path / "whole")
    cfg = replace(cfg, loss=replace(cfg.loss, adversarial_from=2))
    main(cfg)
    stopped = replace(cfg, output_dir=tmp_path / "stopped")
    assert main(replace(stopped, steps=stop_at)).step == stop_at
    main(stopped)
    assert_same_state(state_of(tmp_path / "whole"), state_of(tmp_path / "stopped"))


def test_the_average_follows_the_generator_from_its_first_weights_on(root, tmp_path):
    cfg = hifigan_config(root, tmp_path, ema=0.9)
    with run_of(cfg) as run:
        expected = {name: weight.clone() for name, weight in run.generator.state_dict().items()}
        for step, batch in enumerate(data.loader(run.train_set, run.epochs.batches(0))):
            update(run, batch)
            run.state.progress.step += 1
            decay = min(0.9, (1 + step) / (10 + step))
            for name, weight in run.generator.state_dict().items():
                expected[name] = decay * expected[name] + (1 - decay) * weight
    assert run.learner.ema is not None
    for name, average in run.learner.ema.state_dict().items():
        torch.testing.assert_close(average, expected[name], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("generator", ["hifigan", "istft"])
def test_gradients_of_micro_batches_add_up_to_that_of_the_batch(root, tmp_path, generator):
    cfg = hifigan_config(root, tmp_path, generator=generator, ema=0.0, batch_size=4)
    weights = []
    for parts in (1, 4):
        parted = replace(cfg, grad_accumulation=parts, output_dir=tmp_path / str(parts))
        with run_of(replace(parted, optim=replace(cfg.optim, lr=1e-2))) as run:
            run.learner.optimizer = torch.optim.SGD(run.generator.parameters(), lr=1.0)
            run.against.optimizer = torch.optim.SGD(run.against.network.parameters(), lr=1.0)
            (batch,) = data.loader(run.train_set, [[0, 1, 2, 4]])
            before = [p.detach().clone() for p in run.generator.parameters()]
            update(run, batch)
            weights.append([p - b for p, b in zip(run.generator.parameters(), before, strict=True)])
    whole, parts = (torch.cat([w.flatten() for w in each]) for each in weights)
    assert (parts - whole).norm() < 2e-3 * whole.norm()  # spectral normalisation sees one more forward pass


def test_discriminators_learn_to_tell_recordings_from_what_a_still_generator_says(root, tmp_path):
    cfg = hifigan_config(root, tmp_path)
    with run_of(cfg) as run:
        (batch,) = data.loader(run.train_set, [[0, 4]])
        part = GeneratorInput(*data.heard(batch, run.log_mel))
        kept = generated(run, part).detach()
        losses = [update_discriminators(run, [part], kept).item() for _ in range(12)]
    assert losses[-1] < 0.9 * losses[0]
    assert discriminator_loss(*judged(run, part.audio_BN, kept)) < losses[0]


def test_without_a_weight_the_discriminators_are_left_as_they_are(root, tmp_path):
    cfg = hifigan_config(root, tmp_path)
    cfg = replace(cfg, loss=replace(cfg.loss, adversarial=0.0, features=0.0), epochs=1)
    with run_of(replace(cfg, output_dir=tmp_path / "look")) as run:
        fresh = run.against.network.state_dict()
    main(cfg)
    assert all(torch.equal(fresh[name], weight) for name, weight in state_of(tmp_path)["discriminators"].items())
    assert logged(tmp_path, "train_discriminator_loss") == []


def test_a_run_starts_from_the_generator_and_discriminators_of_another(root, tmp_path):
    first = hifigan_config(root, tmp_path / "first", ema=0.0, epochs=1)
    main(first)
    start = tmp_path / "first" / "hifigan_step00000003.pt"
    saved = state_of(tmp_path / "first")
    with run_of(replace(first, output_dir=tmp_path / "second", checkpoint=start)) as run:
        for module, part in ((run.generator, "generator"), (run.against.network, "discriminators")):
            assert all(torch.equal(weight, saved[part][name]) for name, weight in module.state_dict().items())
        assert run.state.progress.step == 0
    assert events(tmp_path / "second") == [f"{start}: taken"] * 2


def test_a_run_makes_the_generator_of_its_checkpoint(root, tmp_path):
    first = hifigan_config(root, tmp_path / "first", ema=0.0, epochs=1)
    main(first)
    start = tmp_path / "first" / "hifigan_step00000003.pt"
    wide = replace(first.hifigan, channels=2 * first.hifigan.channels)
    other = replace(first, hifigan=wide, checkpoint=start, output_dir=tmp_path / "second")
    with run_of(other) as run:
        assert run.cfg.hifigan == first.hifigan
    channels = f"hifigan.channels {wide.channels} -> {first.hifigan.channels}"
    assert events(tmp_path / "second") == [f"{start}: its architecture counts: {channels}", *[f"{start}: taken"] * 2]
    with (
        pytest.raises(CheckpointError, match="% of its numbers fit this model, expected at least 50%"),
        run_of(replace(other, from_checkpoint="half", output_dir=tmp_path / "third")),
    ):
        pass


def test_a_run_starts_from_a_voice_by_its_name(root, tmp_path, monkeypatch):
    first = hifigan_config(root, tmp_path / "first", ema=0.0, epochs=1)
    with run_of(first) as run:
        weights = {name: weight.half() for name, weight in run.generator.state_dict().items()}
    (tmp_path / "voices" / "toy").mkdir(parents=True)
    state = {"format": "hifigan", "config": config.to_dict(first), "generator": weights, "generator_ema": None}
    checkpoint.save(tmp_path / "voices" / "toy" / "vocoder.pt", state)
    monkeypatch.setenv("SPEECH_VOICES", str(tmp_path / "voices"))
    with run_of(replace(first, output_dir=tmp_path / "second", checkpoint=Path("toy"))) as run:
        for name, weight in run.generator.state_dict().items():
            torch.testing.assert_close(weight, weights[name].float())


def test_a_run_starts_from_names_of_the_hub(root, tmp_path, monkeypatch):
    first = hifigan_config(root, tmp_path / "first", ema=0.0, epochs=1)
    main(first)
    start = tmp_path / "first" / "hifigan_step00000003.pt"
    named = {Path("owner/generator"): start, Path("owner/discriminators"): start}
    monkeypatch.setattr("fastpitch.vocoders.training.run.hub.located", named.__getitem__)
    generator, discriminators = named
    cfg = replace(first, output_dir=tmp_path / "second", checkpoint=generator, checkpoint_discriminators=discriminators)
    with run_of(cfg):
        assert events(tmp_path / "second") == [f"{start}: taken"] * 2


def test_losses_that_are_not_finite_stop_the_run_before_anything_is_saved(root, tmp_path):
    cfg = hifigan_config(root, tmp_path, epochs=9)
    cfg = replace(cfg, optim=replace(cfg.optim, lr=1e30))
    with pytest.raises(TrainingError, match=r"the loss is (nan|inf).* at step \d+; utterances c\d"):
        main(cfg)
    assert checkpoint.load(tmp_path / "bad_batch_rank0.pt")["ids"]
    assert_all_finite(tmp_path, "hifigan", "generator")


def test_a_state_that_is_not_finite_is_not_saved(root, tmp_path):
    cfg = hifigan_config(root, tmp_path)
    with run_of(cfg) as run:
        next(run.generator.parameters()).data[0] = torch.nan
        with pytest.raises(TrainingError, match="weights or running statistics are not finite after step 0"):
            run.state.save_step()


def test_more_segments_than_there_are_is_told(root, tmp_path):
    with pytest.raises(BatchingError, match="6 utterances do not fill one batch"):
        main(hifigan_config(root, tmp_path, batch_size=100))


def test_a_run_that_is_not_resumed_must_not_mix_with_an_earlier_one(root, tmp_path):
    cfg = hifigan_config(root, tmp_path, epochs=1)
    main(cfg)
    with pytest.raises(CheckpointError, match=r"holds checkpoints of an earlier run, up to step 3; .*--resume true"):
        main(replace(cfg, resume=False))
    with pytest.raises(CheckpointError, match="newest checkpoint does not fit this configuration"):
        main(replace(cfg, generator="istft"))
    with pytest.raises(CheckpointError, match="optim.kind adamw -> lamb"):
        main(replace(cfg, optim=replace(cfg.optim, kind="lamb")))


def test_a_clip_that_cannot_be_read_is_left_out_and_told(tmp_path):
    root = write_corpus(tmp_path / "corpus")
    soundfile.write(root / "wavs" / "c5.wav", np.full(9000, np.nan, np.float32), 22050, subtype="FLOAT")
    cfg = hifigan_config(root, tmp_path / "run", epochs=1)
    cfg = replace(cfg, data=replace(cfg.data, on_error="skip"))
    assert main(cfg).step == 3
    assert len([event for event in events(tmp_path / "run") if "left out: utterance c5" in event]) == 1


def test_bad_data_does_not_lose_the_steps_before_it(tmp_path):
    cfg = hifigan_config(write_corpus(tmp_path / "corpus"), tmp_path / "run", epochs=1)
    with run_of(replace(cfg, output_dir=tmp_path / "look")) as run:
        bad = run.train_set.utterances[run.epochs.batches(0)[1][0]]
    soundfile.write(bad.audio, np.full(9000, np.nan, np.float32), 22050, subtype="FLOAT")
    with pytest.raises(LoadingError, match=bad.id):
        main(cfg)
    assert [step for step, _ in checkpoint.saved_steps(tmp_path / "run", "hifigan")] == [1]


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(root, tmp_path):
    """A global batch is drawn first and split: two processes with two segments are one with four."""
    flags = ("--data.root", root, "--epochs", 1, "--ema", 0.5, "--discriminator.scales", 0, "--batch_size", 1)
    finish(run_module("fastpitch.vocoders.train", TOY, *flags, "--output_dir", tmp_path / "two", processes=2))
    cfg = hifigan_config(root, tmp_path / "one", epochs=1, ema=0.5)
    main(replace(cfg, discriminator=replace(cfg.discriminator, scales=0)))
    one, two = state_of(tmp_path / "one"), state_of(tmp_path / "two")
    for part in ("generator", "generator_ema", "discriminators"):
        for name in one[part]:
            torch.testing.assert_close(two[part][name], one[part][name], rtol=0, atol=5e-4)

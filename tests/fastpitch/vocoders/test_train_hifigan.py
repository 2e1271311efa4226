from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from common import config
from common.data.batching import BatchingError
from common.runs import checkpoint
from common.training.course import EveryConfig
from fastpitch.vocoders.train import main
from fastpitch.vocoders.training import data
from fastpitch.vocoders.training.data import GeneratorInput
from fastpitch.vocoders.training.objective import discriminator_loss
from fastpitch.vocoders.training.steps import generated, judged, update, update_discriminators
from fastpitch.vocoders.vocoder import load_vocoder
from tests.fastpitch.vocoders.corpus import CONFIGS, hifigan_config, run_of, write_corpus
from tests.fastpitch.vocoders.small import random_mel
from tests.processes import run_module
from tests.training import events, logged, on_record, state_of

pytestmark = pytest.mark.usefixtures("one_thread")

TOY = CONFIGS / "hifigan" / "toy.toml"


@pytest.fixture(scope="module")
def first(root, tmp_path_factory):
    """The configuration of a run of one epoch, and its last checkpoint."""
    cfg = hifigan_config(root, tmp_path_factory.mktemp("first"), ema=0.0, epochs=1)
    main(cfg)
    return cfg, cfg.output_dir / "hifigan_step00000003.pt"


def test_the_final_checkpoint_speaks_and_needs_no_discriminators(root, tmp_path):
    main(hifigan_config(root, tmp_path, generator="istft", tensorboard=True, samples_every_epochs=2))
    assert list((tmp_path / "dev").glob("events.*"))
    assert load_vocoder(tmp_path / "hifigan_final.pt", device="cpu")(random_mel(1, 80, 9)).shape == (1, 9 * 256)
    assert "discriminators" not in checkpoint.load(tmp_path / "hifigan_final.pt")


@pytest.mark.parametrize("generator", ["hifigan", "istft"])
def test_the_loss_curve_is_the_one_on_record(root, tmp_path, generator):
    main(hifigan_config(root, tmp_path, generator=generator, every=EveryConfig(log_steps=1, validate_epochs=9)))
    recorded = on_record(Path(__file__).with_name(f"golden_toy_{generator}.txt"))
    np.testing.assert_allclose(logged(tmp_path), recorded, rtol=2e-3)


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


def test_a_run_starts_from_the_generator_and_discriminators_of_another_also_by_their_names_on_the_hub(
    first, tmp_path, monkeypatch
):
    cfg, start = first
    saved = state_of(cfg.output_dir)
    generator, discriminators = named = (Path("owner/generator"), Path("owner/discriminators"))
    monkeypatch.setattr("fastpitch.vocoders.training.run.hub.located", dict.fromkeys(named, start).__getitem__)
    taken = replace(cfg, output_dir=tmp_path, checkpoint=generator, checkpoint_discriminators=discriminators)
    with run_of(taken) as run:
        for module, part in ((run.generator, "generator"), (run.against.network, "discriminators")):
            assert all(torch.equal(weight, saved[part][name]) for name, weight in module.state_dict().items())
        assert run.state.progress.step == 0
    assert events(tmp_path) == [f"{start}: taken"] * 2


def test_a_run_starts_from_a_voice_by_its_name(first, tmp_path, monkeypatch):
    cfg, _ = first
    weights = {name: weight.half() for name, weight in state_of(cfg.output_dir)["generator"].items()}
    (tmp_path / "voices" / "toy").mkdir(parents=True)
    state = {"format": "hifigan", "config": config.to_dict(cfg), "generator": weights, "generator_ema": None}
    checkpoint.save(tmp_path / "voices" / "toy" / "vocoder.pt", state)
    monkeypatch.setenv("SPEECH_VOICES", str(tmp_path / "voices"))
    with run_of(replace(cfg, output_dir=tmp_path / "second", checkpoint=Path("toy"))) as run:
        for name, weight in run.generator.state_dict().items():
            torch.testing.assert_close(weight, weights[name].float())


def test_more_segments_than_there_are_is_told(root, tmp_path):
    with pytest.raises(BatchingError, match="6 utterances do not fill one batch"):
        main(hifigan_config(root, tmp_path, batch_size=100))


def test_a_clip_that_cannot_be_read_is_left_out_and_told(tmp_path):
    root = write_corpus(tmp_path / "corpus")
    soundfile.write(root / "wavs" / "c5.wav", np.full(9000, np.nan, np.float32), 22050, subtype="FLOAT")
    cfg = hifigan_config(root, tmp_path / "run", epochs=1)
    cfg = replace(cfg, data=replace(cfg.data, on_error="skip"))
    assert main(cfg).step == 3
    assert len([event for event in events(tmp_path / "run") if "left out: utterance c5" in event]) == 1


def test_two_processes_learn_what_one_learns(root, tmp_path):
    """A global batch is drawn first and split: two processes with two segments are one with four."""
    flags = ("--data.root", root, "--epochs", 1, "--ema", 0.5, "--discriminator.scales", 0, "--batch_size", 1)
    run_module("fastpitch.vocoders.train", TOY, *flags, "--output_dir", tmp_path / "two", processes=2)
    cfg = hifigan_config(root, tmp_path / "one", epochs=1, ema=0.5)
    main(replace(cfg, discriminator=replace(cfg.discriminator, scales=0)))
    one, two = state_of(tmp_path / "one"), state_of(tmp_path / "two")
    for part in ("generator", "generator_ema", "discriminators"):
        for name in one[part]:
            torch.testing.assert_close(two[part][name], one[part][name], rtol=0, atol=5e-4)

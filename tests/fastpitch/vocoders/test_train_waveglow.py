import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from common import config
from common.data.loading import LoadingError
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from common.training.course import EveryConfig
from common.training.state import TrainingError
from fastpitch.vocoders.config import WaveglowRun
from fastpitch.vocoders.train import main
from fastpitch.vocoders.training import data
from fastpitch.vocoders.training.steps import update
from fastpitch.vocoders.vocoder import load_vocoder
from tests.data import shared
from tests.fastpitch.vocoders.corpus import CONFIGS, run_of, waveglow_config, write_corpus
from tests.fastpitch.vocoders.small import random_mel
from tests.training import assert_all_finite, events, logged

pytestmark = pytest.mark.usefixtures("one_thread")

TOY = CONFIGS / "waveglow" / "toy.toml"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def test_a_run_directory_describes_itself_and_its_vocoders_speak(root, tmp_path):
    cfg = waveglow_config(root, tmp_path)
    progress = main(cfg)
    assert (progress.epoch, progress.step) == (2, 6)
    assert config.load(WaveglowRun, tmp_path / "config.toml") == cfg
    assert {"torch", "device", "commit", "processes"} <= set(json.loads((tmp_path / "environment.json").read_text()))
    assert len(logged(tmp_path, "train_loss")) == 6
    assert len(logged(tmp_path, "dev_loss")) == len(logged(tmp_path, "dev_ema_loss")) == 2
    for name in ("waveglow_best.pt", "waveglow_final.pt", "waveglow_step00000006.pt"):
        assert load_vocoder(tmp_path / name, device="cpu")(random_mel(1, 16, 9)).shape == (1, 9 * 64)


def test_the_shipped_toy_configuration_trains(root, tmp_path):
    cfg = config.load(WaveglowRun, TOY)
    cfg = replace(cfg, data=replace(cfg.data, root=root), output_dir=tmp_path, batch_size=2, steps=1)
    assert main(cfg).step == 1


def test_the_loss_falls(root, tmp_path):
    cfg = waveglow_config(root, tmp_path, epochs=10, ema=0.0)
    cfg = replace(cfg, optim=replace(cfg.optim, lr=3e-3), every=EveryConfig(validate_epochs=5))
    main(cfg)
    first, last = logged(tmp_path, "dev_loss")
    assert last < first - 0.1


def test_gradients_of_micro_batches_add_up_to_that_of_the_batch(root, tmp_path):
    cfg = waveglow_config(root, tmp_path, ema=0.0, batch_size=4)
    updates = []
    for parts in (1, 2, 4):
        with run_of(replace(cfg, grad_accumulation=parts, output_dir=tmp_path / str(parts))) as run:
            run.learner.optimizer = torch.optim.SGD(run.generator.parameters(), lr=1.0)
            (batch,) = data.loader(run.train_set, [[0, 1, 2, 4]])
            before = [p.detach().clone() for p in run.generator.parameters()]
            update(run, batch)
            after = run.generator.parameters()
            updates.append(torch.cat([(p - b).flatten() for p, b in zip(after, before, strict=True)]))
    for other in updates[1:]:
        assert (other - updates[0]).norm() < 1e-3 * updates[0].norm()


def test_a_run_starts_from_a_published_checkpoint_by_its_name_on_the_hub(root, tmp_path, monkeypatch):
    path = shared("golden/tts/checkpoint_WaveGlow_9.pt")
    monkeypatch.setattr("fastpitch.vocoders.training.run.hub.located", {Path("owner/waveglow"): path}.__getitem__)
    state = checkpoint.load(path)
    described = state["config"]
    cfg = waveglow_config(root, tmp_path, checkpoint=Path("owner/waveglow"))
    model = replace(
        cfg.model, flows=described["n_flows"], layers=described["WN_config"]["n_layers"],
        channels=described["WN_config"]["n_channels"],
    )  # fmt: skip
    cfg = replace(cfg, model=model, features=replace(WaveglowRun().features, mel_bins=20))
    with run_of(cfg) as run:
        assert events(tmp_path) == [f"{path}: taken"]
    expected = state["state_dict"]["WN.3.in_layers.1.weight_v"]
    assert torch.equal(run.generator.WN[3].in_layers[1].parametrizations.weight.original1, expected)


def test_a_loss_that_is_not_finite_stops_the_run_before_anything_is_saved(root, tmp_path):
    cfg = waveglow_config(root, tmp_path, epochs=9)
    cfg = replace(cfg, optim=replace(cfg.optim, lr=1e30))
    with pytest.raises(TrainingError, match=r"the loss is (nan|inf) at step \d+; utterances c\d.*batch saved as"):
        main(cfg)
    assert checkpoint.load(tmp_path / "bad_batch_rank0.pt")["ids"]
    assert_all_finite(tmp_path, "waveglow")


def test_a_state_that_is_not_finite_is_not_saved(root, tmp_path):
    with run_of(waveglow_config(root, tmp_path)) as run:
        next(run.generator.parameters()).data[0] = torch.nan
        with pytest.raises(TrainingError, match="weights or running statistics are not finite after step 0"):
            run.state.save_step()


def test_a_run_that_is_not_resumed_must_not_mix_with_an_earlier_one(root, tmp_path):
    cfg = waveglow_config(root, tmp_path, epochs=1)
    main(cfg)
    with pytest.raises(CheckpointError, match=r"holds checkpoints of an earlier run, up to step 3; .*--resume true"):
        main(replace(cfg, resume=False))
    with pytest.raises(CheckpointError, match="newest checkpoint does not fit this configuration"):
        main(replace(cfg, model=replace(cfg.model, channels=16)))
    with pytest.raises(CheckpointError, match="optim.kind adamw -> lamb"):
        main(replace(cfg, optim=replace(cfg.optim, kind="lamb")))


def test_bad_data_does_not_lose_the_steps_before_it(tmp_path):
    cfg = waveglow_config(write_corpus(tmp_path / "corpus"), tmp_path / "run", epochs=1)
    with run_of(replace(cfg, output_dir=tmp_path / "look")) as run:
        bad = run.train_set.utterances[run.epochs.batches(0)[1][0]]
    soundfile.write(bad.audio, np.full(9000, np.nan, np.float32), 22050, subtype="FLOAT")
    with pytest.raises(LoadingError, match=bad.id):
        main(cfg)
    assert [step for step, _ in checkpoint.saved_steps(tmp_path / "run", "waveglow")] == [1]

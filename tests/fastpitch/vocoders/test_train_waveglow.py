from dataclasses import replace
from pathlib import Path

import pytest
import torch

from common import config
from common.runs import checkpoint
from common.training.course import EveryConfig
from fastpitch.vocoders.config import WaveglowRun
from fastpitch.vocoders.train import main
from fastpitch.vocoders.training import data
from fastpitch.vocoders.training.steps import update
from tests.data import shared
from tests.fastpitch.vocoders.corpus import CONFIGS, run_of, waveglow_config
from tests.training import events, logged

pytestmark = pytest.mark.usefixtures("one_thread")

TOY = CONFIGS / "waveglow" / "toy.toml"


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

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from common import checkpoint, config, distributed
from common.checkpoint import CheckpointError
from common.logging import RunLogger, read_events
from fastpitch.hifigan import data
from fastpitch.vocoder import load_vocoder
from fastpitch.waveglow.config import Config
from fastpitch.waveglow.state import TrainingState
from fastpitch.waveglow.train import Trainer, TrainingError, main
from tests.data import shared
from tests.fastpitch.hifigan.corpus import write_corpus
from tests.fastpitch.vocoders import random_mel

TOY = Path(__file__).resolve().parents[3] / "configs" / "waveglow" / "toy.toml"


@pytest.fixture(autouse=True)
def one_thread():
    """Sums depend on the number of threads: runs that must agree bitwise have one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def toy_config(root: Path, output_dir: Path, **changes) -> Config:
    cfg = config.load(Config, TOY)
    features = replace(cfg.features, mel_bins=16, n_fft=256, window_samples=256, hop_samples=64)
    cfg = replace(cfg, data=replace(cfg.data, root=root), features=features, output_dir=output_dir, batch_size=2)
    return replace(cfg, **changes)


def state_of(folder: Path) -> dict:
    state, messages = checkpoint.load_newest(folder, "waveglow")
    assert messages == []
    return state


def values(folder: Path, key: str) -> list[float]:
    return [e["data"][key] for e in read_events(folder / "nvlog.json") if key in e["data"]]


def test_a_run_directory_describes_itself_and_its_vocoders_speak(root, tmp_path):
    cfg = toy_config(root, tmp_path)
    progress = main(cfg)
    assert (progress.epoch, progress.step) == (2, 6)
    assert config.load(Config, tmp_path / "config.toml") == cfg
    assert {"torch", "device", "commit", "processes"} <= set(json.loads((tmp_path / "environment.json").read_text()))
    assert len(values(tmp_path, "train_loss")) == 6
    assert len(values(tmp_path, "dev_loss")) == len(values(tmp_path, "dev_ema_loss")) == 2
    for name in ("waveglow_best.pt", "waveglow_final.pt", "waveglow_step00000006.pt"):
        assert load_vocoder(tmp_path / name, device="cpu")(random_mel(1, 16, 9)).shape == (1, 9 * 64)


def test_the_shipped_toy_configuration_trains(root, tmp_path):
    cfg = config.load(Config, TOY)
    cfg = replace(cfg, data=replace(cfg.data, root=root), output_dir=tmp_path, batch_size=2, steps=1)
    assert main(cfg).step == 1


@pytest.mark.parametrize("stop_at", [1, 3, 4])
def test_stopping_at_any_step_and_resuming_gives_bitwise_the_weights_of_never_stopping(root, tmp_path, stop_at):
    cfg = toy_config(root, tmp_path / "whole")
    main(cfg)
    stopped = replace(cfg, output_dir=tmp_path / "stopped")
    assert main(replace(stopped, steps=stop_at)).step == stop_at
    main(stopped)
    whole, resumed = state_of(tmp_path / "whole"), state_of(tmp_path / "stopped")
    for part in ("weights", "ema"):
        assert all(torch.equal(whole[part][name], resumed[part][name]) for name in whole[part])
    for a, b in zip(whole["optimizer"]["state"].values(), resumed["optimizer"]["state"].values(), strict=True):
        assert all(torch.equal(a[k], b[k]) for k in a)
    assert whole["progress"] == resumed["progress"]


def test_the_loss_falls(root, tmp_path):
    cfg = toy_config(root, tmp_path, epochs=10, ema=0.0)
    cfg = replace(cfg, optim=replace(cfg.optim, lr=3e-3), validate_every_epochs=5)
    main(cfg)
    first, last = values(tmp_path, "dev_loss")
    assert last < first - 0.1


def test_gradients_of_micro_batches_add_up_to_that_of_the_batch(root, tmp_path):
    cfg = toy_config(root, tmp_path, ema=0.0, batch_size=4)
    updates = []
    for parts in (1, 2, 4):
        with distributed.start("cpu") as world, contextlib.closing(RunLogger(tmp_path / str(parts))) as log:
            trainer = Trainer(replace(cfg, grad_accumulation=parts), world, log)
            trainer.state.optimizer = torch.optim.SGD(trainer.state.model.parameters(), lr=1.0)
            (batch,) = data.loader(trainer.train_set, [[0, 1, 2, 4]], workers=0)
            before = [p.detach().clone() for p in trainer.state.model.parameters()]
            trainer.update(batch)
            updates.append(
                torch.cat([(p - b).flatten() for p, b in zip(trainer.state.model.parameters(), before, strict=True)])
            )
    for update in updates[1:]:
        assert (update - updates[0]).norm() < 1e-3 * updates[0].norm()


def test_a_run_starts_from_a_published_checkpoint(root, tmp_path):
    state = checkpoint.load(shared("golden/tts/checkpoint_WaveGlow_9.pt"))
    described = state["config"]
    cfg = toy_config(root, tmp_path, checkpoint=shared("golden/tts/checkpoint_WaveGlow_9.pt"))
    model = replace(
        cfg.model, flows=described["n_flows"], layers=described["WN_config"]["n_layers"],
        channels=described["WN_config"]["n_channels"],
    )  # fmt: skip
    cfg = replace(cfg, model=model, features=replace(Config().features, mel_bins=20))
    started = TrainingState(cfg, torch.device("cpu"))
    assert started.messages == [f"{cfg.checkpoint}: taken"]
    expected = state["state_dict"]["WN.3.in_layers.1.weight_v"]
    assert torch.equal(started.model.WN[3].in_layers[1].parametrizations.weight.original1, expected)


def test_a_loss_that_is_not_finite_stops_the_run_before_anything_is_saved(root, tmp_path):
    cfg = toy_config(root, tmp_path, epochs=9)
    cfg = replace(cfg, optim=replace(cfg.optim, lr=1e30))
    with pytest.raises(TrainingError, match=r"the loss is (nan|inf) at step \d+; clips c\d.*batch saved as"):
        main(cfg)
    assert checkpoint.load(tmp_path / "bad_batch_rank0.pt")["ids"]
    for _, path in checkpoint.saved_steps(tmp_path, "waveglow"):
        assert all(torch.isfinite(w).all() for w in checkpoint.load(path)["weights"].values())


def test_a_state_that_is_not_finite_is_not_saved(root, tmp_path):
    with distributed.start("cpu") as world, contextlib.closing(RunLogger(tmp_path)) as log:
        trainer = Trainer(toy_config(root, tmp_path), world, log)
        next(trainer.state.model.parameters()).data[0] = torch.nan
        with pytest.raises(TrainingError, match="weights are not finite after step 0"):
            trainer._save()


def test_a_run_that_is_not_resumed_must_not_mix_with_an_earlier_one(root, tmp_path):
    cfg = toy_config(root, tmp_path, epochs=1)
    main(cfg)
    with pytest.raises(CheckpointError, match=r"holds checkpoints of an earlier run, up to step 3; .*--resume true"):
        main(replace(cfg, resume=False))
    with pytest.raises(CheckpointError, match="newest checkpoint does not fit this configuration"):
        main(replace(cfg, model=replace(cfg.model, channels=16)))
    with pytest.raises(CheckpointError, match="its optimiser is adamw, not lamb"):
        main(replace(cfg, optim=replace(cfg.optim, kind="lamb")))

import contextlib
import runpy
import warnings
from dataclasses import replace

import pytest
import torch

from common.devices.distributed import World
from common.interruption import Termination
from common.runs import checkpoint, run_directory
from common.runs.checkpoint import CheckpointError
from common.runs.run_directory import RunDirectory
from common.training import loop
from tests.training import assert_same_state, logged, state_of
from tests.wav2vec2.runs import finetune_config, pretrain_config, run_of
from wav2vec2 import finetune, pretrain, run
from wav2vec2.corpus.batches import loader

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def short_epochs(corpus):
    """Configurations of runs of five updates, in epochs of two."""

    def configured(output_dir, **changes):
        data = {"batch_size": 4} | changes.pop("data", {})
        return pretrain_config(corpus, output_dir, concat_batches=2, max_updates=5, data=data, **changes)

    return configured


@pytest.fixture
def sigterm_at(monkeypatch):
    """Lets SIGTERM come during an update."""
    signals, update = Termination(), pretrain.update
    monkeypatch.setattr(loop, "termination", lambda: contextlib.nullcontext(signals))

    def set_to(number):
        signals.came = False

        def updated(run, batches):
            if run.state.progress.step + 1 == number:
                signals.came = True
            return update(run, batches)

        monkeypatch.setattr(pretrain, "update", updated)

    return set_to


def best_of(folder):
    return checkpoint.load(folder / "wav2vec2_best.pt")


@pytest.mark.parametrize(("number", "validate_steps"), [(3, 1), (4, 1), (4, 0), (5, 0)])
def test_sigterm_saves_without_a_validation_which_the_next_job_makes_up_for(
    short_epochs, tmp_path, sigterm_at, number, validate_steps
):
    cfg = short_epochs(tmp_path / "whole", every={"validate_steps": validate_steps}, ema=0.9)
    pretrain.main(cfg)
    stopped = replace(cfg, output_dir=tmp_path / "stopped")
    sigterm_at(number)
    assert pretrain.main(stopped).step == number
    validations = number - 1 if validate_steps else (number - 1) // 2
    assert len(logged(tmp_path / "stopped", "dev_loss")) == validations
    sigterm_at(0)
    pretrain.main(stopped)
    assert_same_state(state_of(tmp_path / "whole"), state_of(tmp_path / "stopped"))
    assert_same_state(best_of(tmp_path / "whole"), best_of(tmp_path / "stopped"))
    assert logged(tmp_path / "whole", "dev_loss") == logged(tmp_path / "stopped", "dev_loss")


class SecondOfTwo(World):
    """Beside a first process that found 0.25 where this one finds other numbers."""

    def gather(self, item):
        return [{"raw": 0.25}, item] if isinstance(item, dict) else [item]


@pytest.mark.parametrize("own", [0.5, 0.125])
def test_all_processes_take_the_score_of_the_first_so_that_all_or_none_save_the_best(short_epochs, tmp_path, own):
    with run_of(short_epochs(tmp_path)) as run:
        run.directory.world = SecondOfTwo(rank=1, size=1, device=run.world.device)
        assert run.state.save_best({"raw": own})
    assert run.state.progress.best == 0.25


def test_a_limit_is_no_hurry_its_validation_comes_before_the_checkpoint(short_epochs, tmp_path):
    pretrain.main(short_epochs(tmp_path, stop_at=4))
    scores = logged(tmp_path, "dev_loss")
    assert len(scores) == 2
    assert state_of(tmp_path)["progress"]["best"] == min(scores)


def test_an_update_is_written_once_after_its_validation(short_epochs, tmp_path, monkeypatch):
    written, save_step = [], RunDirectory.save_step

    def noted(directory, step, state, **options):
        written.append((step, state["progress"]["validated_at"]))
        save_step(directory, step, state, **options)

    monkeypatch.setattr(RunDirectory, "save_step", noted)
    pretrain.main(short_epochs(tmp_path, keep_steps=(2, 5), every={"save_steps": 1}))
    assert written == [(1, 0), (2, 2), (3, 2), (4, 4), (5, 5)]
    assert state_of(tmp_path)["progress"]["best"] == min(logged(tmp_path, "dev_loss"))


def test_the_batches_of_an_epoch_are_drawn_once_and_by_one_loader(short_epochs, tmp_path, monkeypatch):
    drawn, loaders, plans, load = [], [], run.training_plans, run.loader
    monkeypatch.setattr(
        run, "training_plans", lambda *a, epoch, **o: drawn.append(epoch) or plans(*a, epoch=epoch, **o)
    )
    monkeypatch.setattr(run, "loader", lambda *a, **options: loaders.append(a) or load(*a, **options))
    pretrain.main(short_epochs(tmp_path))
    assert drawn == [0, 1, 2]
    assert len(loaders) == 1


@pytest.mark.parametrize("stop_at", [1, 2, 3])
def test_workers_that_are_epochs_ahead_change_nothing_across_a_stop(short_epochs, tmp_path, stop_at):
    cfg = short_epochs(tmp_path / "whole", data={"validation": ()})
    pretrain.main(cfg)
    cfg = replace(cfg, output_dir=tmp_path / "stopped", data=replace(cfg.data, workers=2))
    pretrain.main(replace(cfg, stop_at=stop_at))
    pretrain.main(cfg)
    assert_same_state(state_of(tmp_path / "whole"), state_of(tmp_path / "stopped"))


@pytest.mark.parametrize("module", [pretrain, finetune])
def test_a_stand_in_adds_nothing_whatever_its_loss_is(corpus, tmp_path, module):
    learning = {"layer_drop": 0.5, "extractor_gradient": 0.1}
    make = pretrain_config if module is pretrain else finetune_config
    cfg = make(corpus, tmp_path, learning=learning, update_freq=2)
    left = []
    for n_batches in (1, 2):
        with run_of(replace(cfg, output_dir=tmp_path / str(n_batches))) as run:
            batch = next(iter(loader(run.train_set, run.plans(0))))
            silent = batch._replace(audio_BN=torch.full_like(batch.audio_BN, torch.nan), counts=False)
            step = module.update(run, [batch, silent][:n_batches])
            left.append([*run.model.parameters(), step.sums_K])
    assert all(torch.equal(a, b) for a, b in zip(*left, strict=True))


@pytest.mark.parametrize(
    ("module", "changes", "message"),
    [
        (pretrain, {"learning": {"extractor_gradient": 0.1}}, "mask.time_prob was 0.0 and is 0.0, learning.ext"),
        (finetune, {"learning": {"extractor_gradient": 0.1}}, "learning.extractor_gradient was 0.0 and is 0.1; take"),
        (finetune, {"mask": {"time_prob": 0.5}}, r"it trains \d+ parameters, not \d+, .* was 0.0 and is 0.5, learning"),
    ],
)
def test_what_decides_which_parameters_are_trained_is_named(corpus, tmp_path, module, changes, message):
    make = pretrain_config if module is pretrain else finetune_config
    small = {"mask": {"time_prob": 0.0}, "learning": {"extractor_gradient": 0.0}, "max_updates": 1}
    module.main(make(corpus, tmp_path, **small))
    with pytest.raises(CheckpointError, match=message):
        module.main(make(corpus, tmp_path, **(small | changes)))


@pytest.mark.parametrize("module", ["wav2vec2.pretrain", "wav2vec2.finetune"])
def test_ctrl_c_before_the_first_update_is_one_line(module, tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_directory, "_newest", interrupted)
    monkeypatch.setattr("sys.argv", [module, "--output_dir", str(tmp_path)])
    with pytest.raises(SystemExit) as exit_, warnings.catch_warnings(action="ignore"):
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert exit_.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"

from dataclasses import replace

import pytest
import torch

from common.devices.distributed import World
from common.runs.checkpoint import CheckpointError
from common.runs.run_directory import RunDirectory
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


def test_an_update_is_written_once_after_its_validation(short_epochs, tmp_path, monkeypatch):
    written, save_step = [], RunDirectory.save_step

    def noted(directory, step, state, **options):
        written.append((step, state["progress"]["validated_at"]))
        save_step(directory, step, state, **options)

    monkeypatch.setattr(RunDirectory, "save_step", noted)
    pretrain.main(short_epochs(tmp_path, keep_steps=(2, 5), every={"save_steps": 1}))
    assert written == [(1, 0), (2, 2), (3, 2), (4, 4), (5, 5)]
    assert state_of(tmp_path)["progress"]["best"] == min(logged(tmp_path, "dev_loss"))


def test_no_best_is_kept_before_the_update_that_is_named(short_epochs, tmp_path, monkeypatch):
    losses = iter((1.0, 2.0, 3.0))  # after updates 2, 4 and 5
    monkeypatch.setattr(pretrain, "evaluate", lambda *_: {"loss": next(losses)})
    pretrain.main(short_epochs(tmp_path, save_best_from=4))
    progress = state_of(tmp_path)["progress"]
    assert (progress["best"], progress["best_step"]) == (2.0, 4)


def test_the_batches_of_an_epoch_are_drawn_once_and_by_one_loader(short_epochs, tmp_path, monkeypatch):
    drawn, loaders, plans, load = [], [], run.training_plans, run.loader
    monkeypatch.setattr(
        run, "training_plans", lambda *a, epoch, **o: drawn.append(epoch) or plans(*a, epoch=epoch, **o)
    )
    monkeypatch.setattr(run, "loader", lambda *a, **options: loaders.append(a) or load(*a, **options))
    pretrain.main(short_epochs(tmp_path))
    assert drawn == [0, 1, 2]
    assert len(loaders) == 1


def test_workers_that_are_epochs_ahead_change_nothing_across_a_stop(short_epochs, tmp_path):
    cfg = short_epochs(tmp_path / "whole", data={"validation": ()})
    pretrain.main(cfg)
    for stop_at in (1, 2):
        stopped = replace(cfg, output_dir=tmp_path / f"{stop_at}", data=replace(cfg.data, workers=2))
        pretrain.main(replace(stopped, stop_at=stop_at))
        pretrain.main(stopped)
        assert_same_state(state_of(tmp_path / "whole"), state_of(stopped.output_dir))


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


@pytest.mark.parametrize(("module", "close"), [(pretrain, (1e-4, 2e-5)), (finetune, (1e-3, 2e-4))])
def test_how_sub_batches_are_dealt_out_does_not_change_what_is_learned(corpus, tmp_path, module, close):
    gradients = []
    for concat, freq in ((4, 1), (2, 2), (1, 4)):
        changes = {"concat_batches": concat, "update_freq": freq, "data": {"batch_size": 3}}
        if module is pretrain:
            cfg = pretrain_config(corpus, tmp_path / f"{concat}", learning={"extractor_gradient": 0.1}, **changes)
        else:
            masked = {"channel_prob": 0.2, "channel_length": 2}
            cfg = finetune_config(corpus, tmp_path / f"{concat}", mask=masked, **changes)
        with run_of(cfg) as run:
            before = [p.detach().clone() for p in run.model.parameters()]
            run.learner.optimizer = torch.optim.SGD(run.model.parameters(), lr=1.0)
            run.learning_rate = lambda _: 1.0
            step = module.update(run, list(loader(run.train_set, run.plans(0)))[:freq])
            gradients.append([b - p.detach() for p, b in zip(run.model.parameters(), before, strict=True)])
            gradients[-1].append(step.sums_K)
    for other in gradients[1:]:
        for a, b in zip(gradients[0], other, strict=True):
            torch.testing.assert_close(a, b, rtol=close[0], atol=close[1])

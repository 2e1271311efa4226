import re
from dataclasses import replace

import pytest
import torch

from common import checkpoint
from common.checkpoint import CheckpointError
from common.optim import OptimConfig, build_optimizer
from common.precision import grad_scaler
from common.training_state import (
    Progress,
    average_of,
    check_optimizer,
    must_fit,
    newest,
    options_of_today,
    restore,
    save_step,
    states_of,
)
from tests.training import assert_same

OPTIM = OptimConfig(kind="novograd", betas=(0.9, 0.5), eps=1e-7, weight_decay=0.25)


def parts(seed: int, optim: OptimConfig = OPTIM, precision: str = "fp32") -> dict:
    torch.manual_seed(seed)
    model = torch.nn.Linear(3, 2)
    scaler = grad_scaler("cpu", precision)
    return {"weights": model, "optimizer": build_optimizer(model.parameters(), optim), "scaler": scaler}


def trained(seed: int, precision: str = "fp32") -> dict:
    made = parts(seed, precision=precision)
    made["weights"](torch.ones(1, 3)).sum().backward()
    made["optimizer"].step()
    return made


def test_every_part_gets_back_its_state():
    before, after = trained(1, precision="fp16"), parts(2, precision="fp16")
    before["scaler"].scale(torch.ones(()))
    before["scaler"].update(128.0)
    restore(states_of(before), after)
    assert_same(states_of(after), states_of(before), "")
    assert after["scaler"].get_scale() == 128


@pytest.mark.parametrize(("before", "after"), [("fp32", "fp16"), ("fp16", "fp32")])
def test_a_run_may_go_on_in_another_precision(before, after):
    fresh = parts(2, precision=after)
    scale = fresh["scaler"].get_scale()
    restore(states_of(trained(1, precision=before)), fresh)
    assert fresh["scaler"].get_scale() == scale


def test_options_of_today_count_and_moments_are_those_of_before():
    before = trained(1)
    today = replace(OPTIM, betas=(0.5, 0.25), eps=1e-3, weight_decay=0.125, lr=0.5)
    after = parts(2, today)
    restore(states_of(before), after)
    (group,) = after["optimizer"].param_groups
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.5, 0.25), 1e-3, 0.125)
    assert_same(after["optimizer"].state_dict()["state"], before["optimizer"].state_dict()["state"], "")


def test_options_of_today_are_kept_whatever_loads_the_state():
    optimizer = parts(1)["optimizer"]
    with options_of_today(optimizer):
        optimizer.param_groups = [{"params": [], "betas": (0, 0), "eps": 1.0, "weight_decay": 1.0, "lr": 9.0}]
    (group,) = optimizer.param_groups
    assert group == {"params": [], "betas": (0.9, 0.5), "eps": 1e-7, "weight_decay": 0.25, "lr": 9.0}


def test_what_does_not_fit_is_one_line_that_says_what_to_do(tmp_path):
    saved = states_of(trained(1))
    saved["weights"]["bias"] = torch.zeros(7)
    expected = (
        rf"^{re.escape(str(tmp_path))}: its newest checkpoint does not fit this configuration: .*size mismatch for "
        r"bias.*; take another --output_dir, or the configuration it was made with$"
    )
    with pytest.raises(CheckpointError, match=expected) as error, must_fit(tmp_path):
        restore(saved, parts(2))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("error", [TypeError("unexpected 'best'"), ValueError("no group")])
def test_whatever_a_part_raises_is_told(tmp_path, error):
    with (
        pytest.raises(CheckpointError, match=f"does not fit this configuration: .*{error.args[0]}"),
        must_fit(tmp_path),
    ):
        raise error


def test_what_the_checkpoint_lacks_is_named(tmp_path):
    expected = "does not fit this configuration: it has no 'optimizer'; take another"
    with pytest.raises(CheckpointError, match=expected), must_fit(tmp_path):
        restore({"weights": trained(1)["weights"].state_dict()}, trained(1))


def test_a_long_story_is_cut_short(tmp_path):
    with pytest.raises(CheckpointError) as error, must_fit(tmp_path):
        raise RuntimeError("long story\n\t" * 1000)
    assert "configuration: long story long story" in str(error.value)
    assert len(str(error.value)) < len(str(tmp_path)) + 500


def test_an_optimiser_of_another_kind_does_not_fit(tmp_path):
    saved = {"config": {"optim": {"kind": "novograd"}}}
    check_optimizer(saved, "novograd")
    with pytest.raises(ValueError, match="^its optimiser is novograd, not lamb$"):
        check_optimizer(saved, "lamb")
    with pytest.raises(CheckpointError, match="its optimiser is novograd, not lamb; take another"), must_fit(tmp_path):
        check_optimizer(saved, "lamb")


def test_a_run_goes_on_from_its_newest_checkpoint_and_tells_of_damaged_ones(tmp_path):
    assert newest(tmp_path, "m", resume=True) == (None, [])
    for step in (1, 2):
        save_step(tmp_path, "m", {"step": step}, Progress(step=step))
    checkpoint.step_path(tmp_path, "m", 2).write_bytes(b"half")
    saved, (message,) = newest(tmp_path, "m", resume=True)
    assert saved == {"step": 1}
    assert "m_step00000002.pt: damaged" in message


def test_a_new_run_that_saves_does_not_begin_among_the_checkpoints_of_another(tmp_path):
    assert newest(tmp_path, "m", resume=False) == (None, [])
    save_step(tmp_path, "m", {}, Progress(step=7))
    expected = (
        f"^{re.escape(str(tmp_path))}: holds checkpoints of an earlier run, up to step 7; go on from them with "
        "--resume true, or take another --output_dir$"
    )
    with pytest.raises(CheckpointError, match=expected):
        newest(tmp_path, "m", resume=False)
    assert newest(tmp_path, "m", resume=False, saves=False) == (None, [])
    assert newest(tmp_path, "another", resume=False) == (None, [])


def test_milestones_and_the_last_two_are_kept(tmp_path):
    progress = Progress(milestones=[2])
    for progress.step in range(1, 7):
        save_step(tmp_path, "m", {"step": progress.step}, progress)
    assert [step for step, _ in checkpoint.saved_steps(tmp_path, "m")] == [2, 5, 6]
    assert checkpoint.load(checkpoint.step_path(tmp_path, "m", 2)) == {"step": 2}


@pytest.mark.parametrize(("today", "batch"), [(6, 4), (1, 0), (12, 8)])
def test_with_other_batches_a_run_goes_on_at_the_same_part_of_the_epoch_and_tells(today, batch):
    progress = Progress(epoch=4, batch=2, steps_per_epoch=3, step=14)
    assert progress.recount(today) == (
        f"the epoch has {today} steps, and had 3 when the run was stopped: it goes on at step {batch} of it, in "
        "another order; the learning rate follows step 14"
    )
    assert progress == Progress(epoch=4, batch=batch, steps_per_epoch=today, step=14)


def test_a_new_run_and_one_with_the_same_batches_have_nothing_to_tell():
    for progress in (Progress(), Progress(batch=2, steps_per_epoch=3)):
        batch = progress.batch
        assert progress.recount(3) is None
        assert (progress.batch, progress.steps_per_epoch) == (batch, 3)


def test_an_average_goes_on_as_saved_or_begins_at_the_weights_of_now():
    model, saved = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2).state_dict()
    assert average_of(model, 0.0, saved) is None
    assert_same(dict(average_of(model, 0.9, saved).state_dict()), dict(saved), "")
    begun = average_of(model, 0.9, None)
    assert_same(dict(begun.state_dict()), dict(model.state_dict()), "")
    assert begun.decay == 0.9

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from common.devices.precision import grad_scaler
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from common.runs.run_directory import started
from common.training.ema import Ema
from common.training.optimizers import OptimConfig, build_optimizer
from common.training.state import Progress, TrainingError, TrainingState, must_fit, options_of_today, restore_part
from tests.training import assert_same, events

OPTIM = OptimConfig(kind="novograd", betas=(0.9, 0.5), eps=1e-7, weight_decay=0.25)


@dataclass(frozen=True, kw_only=True)
class Settings:
    output_dir: Path
    optim: OptimConfig = field(default_factory=lambda: OPTIM)
    device: str = "cpu"
    precision: str = "fp32"
    tensorboard: bool = False
    resume: bool = True


def parts(seed: int, optim: OptimConfig = OPTIM, precision: str = "fp32", ema: float = 0.0) -> dict:
    torch.manual_seed(seed)
    model = torch.nn.Linear(3, 2)
    return {
        "weights": model,
        "ema": Ema(model, ema) if ema else None,
        "optimizer": build_optimizer(model.parameters(), optim),
        "scaler": grad_scaler("cpu", precision),
    }


def train(made: dict) -> None:
    made["weights"](torch.ones(1, 3)).sum().backward()
    made["optimizer"].step()
    if made["ema"] is not None:
        made["ema"].update()


@contextmanager
def state(folder: Path, made: dict, **options) -> Iterator[TrainingState]:
    cfg = Settings(output_dir=folder)
    with started(cfg, "m") as directory:
        yield TrainingState(directory, cfg, made, extra={"format": "ours"}, **options)


def saved_after_a_step(folder: Path, **how) -> dict:
    made = parts(1, **how)
    with state(folder, made) as run:
        train(made)
        run.progress.step = 1
        run.is_saved = False
        run.save_step()
    return made


def test_every_part_gets_back_its_state(tmp_path):
    before = saved_after_a_step(tmp_path, ema=0.5)
    after = parts(2, ema=0.5)
    with state(tmp_path, after) as run:
        assert run.progress.step == 1
        assert run.is_saved
    for name, part in before.items():
        assert_same(after[name].state_dict(), part.state_dict(), name)
    assert "resumed at step 1, epoch 1" in events(tmp_path)


def test_a_scale_of_the_loss_is_part_of_the_state():
    before, after = grad_scaler("cpu", "fp16"), grad_scaler("cpu", "fp16")
    before.scale(torch.ones(()))
    before.update(128.0)
    restore_part(after, before.state_dict())
    assert after.get_scale() == 128


@pytest.mark.parametrize(("before", "after"), [("fp32", "fp16"), ("fp16", "fp32")])
def test_a_run_may_go_on_in_another_precision(tmp_path, before, after):
    saved_after_a_step(tmp_path, precision=before)
    fresh = parts(2, precision=after)
    scale = fresh["scaler"].get_scale()
    with state(tmp_path, fresh):
        assert fresh["scaler"].get_scale() == scale


def test_an_average_that_begins_later_begins_at_the_weights_of_then(tmp_path):
    before = saved_after_a_step(tmp_path)
    after = parts(2, ema=0.5)
    with state(tmp_path, after):
        assert_same(after["ema"].state_dict(), before["weights"].state_dict(), "ema")


def test_options_of_today_count_and_moments_are_those_of_before(tmp_path):
    before = saved_after_a_step(tmp_path)
    after = parts(2, replace(OPTIM, betas=(0.5, 0.25), eps=1e-3, weight_decay=0.125, lr=0.5))
    with state(tmp_path, after):
        pass
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
    saved_after_a_step(tmp_path)
    other = parts(2)
    other["weights"] = torch.nn.Linear(3, 7)
    expected = (
        rf"^{re.escape(str(tmp_path))}: its newest checkpoint does not fit this configuration: .*size mismatch for "
        r"weight.*; take another --output_dir, or the configuration it was made with$"
    )
    with pytest.raises(CheckpointError, match=expected) as error, state(tmp_path, other):
        pass
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("error", [TypeError("unexpected 'best'"), ValueError("no group")])
def test_whatever_a_damaged_state_raises_is_one_line(tmp_path, error):
    with pytest.raises(CheckpointError, match=f"does not fit this configuration: {error}; take"), must_fit(tmp_path):
        raise error


def test_a_part_that_is_missing_is_named(tmp_path):
    saved_after_a_step(tmp_path)
    with pytest.raises(CheckpointError, match="it has no 'discriminators'"):
        state(tmp_path, parts(2) | {"discriminators": torch.nn.Linear(1, 1)}).__enter__()


def test_a_checkpoint_of_another_kind_is_refused(tmp_path):
    saved_after_a_step(tmp_path)
    cfg = Settings(output_dir=tmp_path)
    with started(cfg, "m") as directory, pytest.raises(CheckpointError, match="its format is another"):
        TrainingState(directory, cfg, parts(1), extra={"format": "theirs"})


def test_a_step_is_saved_once(tmp_path):
    with state(tmp_path, parts(1)) as run:
        run.progress.step = 1
        run.save_step()
        path = checkpoint.step_path(tmp_path, "m", 1)
        written = path.stat().st_mtime_ns
        run.save_step()
        assert path.stat().st_mtime_ns == written


def test_the_best_is_that_of_the_better_of_raw_and_averaged_weights(tmp_path):
    made = parts(1, ema=0.5)
    with state(tmp_path, made) as run:
        run.progress.step = 3
        assert run.save_best({"raw": 0.32, "average": 0.47})
        best = checkpoint.load(tmp_path / "m_best.pt")
        assert best["ema"] is None
        assert (best["progress"]["best"], best["progress"]["best_weights"]) == (0.32, "raw")
        run.progress.step = 4
        assert not run.save_best({"raw": 0.34, "average": 0.33})
        assert run.save_best({"raw": 0.33, "average": 0.25})
        assert checkpoint.load(tmp_path / "m_best.pt")["ema"] is not None
        assert (run.progress.best_step, run.progress.validated_at) == (4, 4)
    assert "best so far: 0.3200, of the raw weights" in events(tmp_path)


def test_of_equal_scores_the_average_is_taken(tmp_path):
    with state(tmp_path, parts(1, ema=0.5)) as run:
        run.progress.step = 1
        run.save_best({"raw": 0.5, "average": 0.5})
        assert run.progress.best_weights == "average"


def test_of_equal_scores_the_last_is_kept(tmp_path):
    with state(tmp_path, parts(1)) as run:
        for step, score in ((1, 0.5), (2, 0.0), (3, 0.0), (4, 0.5)):
            run.progress.step = step
            assert run.save_best({"raw": score}) == (step < 4)
    assert checkpoint.load(tmp_path / "m_best.pt")["progress"]["step"] == 3


@pytest.mark.parametrize("first", [math.inf, math.nan])
def test_a_first_score_is_the_best_even_if_it_is_no_number_and_any_number_is_better(first, tmp_path):
    with state(tmp_path, parts(1)) as run:
        run.progress.step = 1
        assert run.save_best({"raw": first})
        run.progress.step = 2
        assert not run.save_best({"raw": math.nan})
        assert run.save_best({"raw": 3.0})


def test_of_equal_scores_the_last_is_kept_by_a_run_that_went_on_after_the_first(tmp_path):
    with state(tmp_path, parts(1)) as run:
        run.progress.step = 1
        run.save_best({"raw": 0.25})
        run.save_step()
    with state(tmp_path, parts(1)) as run:
        assert run.progress.best_step == 1
        run.progress.step = 2
        assert run.save_best({"raw": 0.25})
    assert checkpoint.load(tmp_path / "m_best.pt")["progress"]["step"] == 2


def test_a_score_that_does_not_count_yet_is_noted_as_a_validation(tmp_path):
    with state(tmp_path, parts(1)) as run:
        run.progress.step = 2
        assert not run.save_best({"raw": 0.1}, counts=False)
        assert run.progress.validated_at == 2
    assert not (tmp_path / "m_best.pt").exists()


def test_an_export_has_the_named_parts_alone(tmp_path):
    with state(tmp_path, parts(1, ema=0.5)) as run:
        run.progress.step = 1
        run.export("final", ["weights", "ema"])
    assert checkpoint.load(tmp_path / "m_final.pt").keys() == {"format", "config", "weights", "ema"}


def test_numbers_that_are_not_finite_are_not_saved(tmp_path):
    made = parts(1)
    with state(tmp_path, made) as run:
        run.progress.step = 2
        made["weights"].weight.data[0, 0] = float("nan")
        expected = "weights or running statistics are not finite after step 2, though its loss was; no checkpoint was"
        with pytest.raises(TrainingError, match=expected):
            run.save_step()
        run.save_alone()
    assert not list(tmp_path.glob("*.pt"))


def test_a_run_that_saves_nothing_saves_nothing(tmp_path):
    with state(tmp_path, parts(1), saves=False) as run:
        run.progress.step = 1
        run.save_step()
        run.save_best({"raw": 0.5})
        run.export("final", ["weights"])
        run.save_alone()
    assert not list(tmp_path.glob("*.pt"))


def test_an_epoch_of_other_length_goes_on_at_the_same_part():
    progress = Progress(epoch=1, batch=3, steps_per_epoch=6, step=9)
    told = progress.begin_epoch(10)
    assert progress.batch == 5
    assert told.startswith("the epoch has 10 steps, and had 6 when the run was stopped: it goes on at step 5 of it, in")
    assert progress.begin_epoch(10) is None
    assert Progress(epoch=1, steps_per_epoch=6).begin_epoch(10) is None

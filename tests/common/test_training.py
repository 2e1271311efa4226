import json
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from common import checkpoint, config
from common.distributed import World
from common.logging import read_events
from common.training import (
    HostCopy,
    TrainingError,
    bad_batch,
    check_finite,
    check_settings,
    limit_reached,
    started,
    tell_left_out,
    write_run_files,
)
from tests.training import alone, events

ALONE = World(rank=0, size=1, device=torch.device("cpu"))


class OneOfTwo(World):
    """Beside a process that has `others` to say; remembers whether it was asked."""

    def __init__(self, others: object, rank: int = 0):
        super().__init__(rank=rank, size=2, device=torch.device("cpu"))
        object.__setattr__(self, "others", others)
        object.__setattr__(self, "asked", [])

    def any(self, flag):
        self.asked.append(flag)
        return flag or bool(self.others)

    def gather(self, item):
        return [item, self.others]


@dataclass(frozen=True, kw_only=True)
class Options:
    lr: float = 0.5
    output_dir: Path = Path("runs")


def test_a_run_directory_says_how_the_run_was_made(tmp_path):
    with alone(tmp_path) as (world, log):
        write_run_files(Options(lr=0.25), world, log)
    assert config.load(Options, tmp_path / "config.toml") == Options(lr=0.25)
    told = json.loads((tmp_path / "environment.json").read_text())
    assert told["processes"] == 1
    assert told["torch"] == torch.__version__
    (parameters,) = read_events(tmp_path / "nvlog.json")
    assert (parameters["step"], parameters["data"]["lr"]) == ("PARAMETER", 0.25)


def test_only_the_main_process_writes_about_the_run(tmp_path):
    with alone(tmp_path) as (world, log):
        write_run_files(Options(), replace(world, rank=1, size=2), log)
    assert [path.name for path in tmp_path.iterdir()] == ["nvlog.json"]
    assert read_events(tmp_path / "nvlog.json") == []


@pytest.mark.parametrize(
    ("step", "limit", "terminated", "stops"),
    [(2, 3, [], False), (3, 3, [], True), (4, 3, [], True), (9, 0, [], False), (9, 0, [15], True), (1, 9, [15], True)],
)
def test_a_process_alone_stops_at_its_limit_or_at_once_when_it_is_told_to(step, limit, terminated, stops):
    assert limit_reached(step, limit, terminated, ask_every=100, world=ALONE) == stops


def test_several_processes_agree_on_a_signal_but_do_not_ask_each_other_at_every_step():
    world = OneOfTwo(others=True)
    stops = [limit_reached(step, 0, [], ask_every=3, world=world) for step in range(1, 7)]
    assert stops == [False, False, True, False, False, True]
    assert len(world.asked) == 2
    assert limit_reached(5, 5, [], ask_every=3, world=world)


def test_what_any_process_left_out_is_told_once(tmp_path):
    told: set[str] = set()
    with alone(tmp_path) as (_, log):
        world = OneOfTwo(others=["b: bad", "c: bad"])
        assert tell_left_out(["c: bad", "a: bad"], told, world, log) == ["c: bad", "a: bad", "b: bad", "c: bad"]
        tell_left_out(["d: bad"], told, world, log)
    assert events(tmp_path) == [f"left out: {name}: bad" for name in "abcd"]
    assert told == {f"{name}: bad" for name in "abcd"}


def test_a_bad_batch_is_saved_and_its_utterances_are_named(tmp_path):
    path, batch = tmp_path / "run" / "bad_batch_rank1.pt", {"step": 3, "audio_BN": torch.ones(2, 2)}
    error = bad_batch("the loss is nan at step 3", ["a", "b"], batch, path.parent, OneOfTwo(None, rank=1))
    assert isinstance(error, TrainingError)
    assert str(error) == (
        f"the loss is nan at step 3; utterances a, b; batch saved as {path}; the last checkpoint is from before: "
        "lower the learning rate or leave out the bad utterance"
    )
    assert checkpoint.load(path)["audio_BN"].shape == (2, 2)


@pytest.mark.parametrize("bad", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("name", ["weight", "running_var"])
def test_numbers_that_are_not_finite_end_the_run(bad, name):
    norm = torch.nn.BatchNorm1d(3)
    check_finite([*norm.state_dict().values(), torch.zeros(0)], after="step 7", world=ALONE)
    norm.state_dict()[name][1] = bad
    expected = (
        "weights or running statistics are not finite after step 7, though its loss was; the last checkpoint is from "
        "before: lower the learning rate"
    )
    with pytest.raises(TrainingError, match=f"^{re.escape(expected)}$"):
        check_finite(norm.state_dict().values(), after="step 7", world=ALONE)


def test_numbers_that_are_not_finite_in_another_process_end_the_run_here_too():
    check_finite([torch.ones(1)], after="step 1", world=OneOfTwo(others=False))
    with pytest.raises(TrainingError, match="not finite after step 1"):
        check_finite([torch.ones(1)], after="step 1", world=OneOfTwo(others=True))


def test_numbers_reach_the_host_as_they_were():
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    assert HostCopy(weight * 2).tolist() == [2.0, 4.0]
    assert HostCopy(weight.sum()).tolist() == 3.0


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_what_a_tensor_becomes_later_does_not_change_the_numbers_on_their_way(device):
    tensor = torch.ones(3, device=device)
    numbers = HostCopy(tensor)
    tensor.zero_()
    assert numbers.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.gpu
def test_numbers_from_a_gpu_are_read_before_what_it_was_told_later_is_done():
    numbers = HostCopy(torch.arange(3, device="cuda"))
    torch.cuda._sleep(2_000_000_000)  # cycles: about a second
    later = torch.cuda.current_stream().record_event()
    assert numbers.tolist() == [0, 1, 2]
    assert not later.query()
    torch.cuda.synchronize()


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    epochs: int = 1
    steps: int = 0
    batch_size: int = 4
    grad_accumulation: int = 2
    ema: float = 0.5

    def __post_init__(self) -> None:
        check_settings(self, counts=("epochs",), optional=("steps",))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"epochs": 0}, "epochs = 0: expected at least 1"),
        ({"batch_size": 0}, "batch_size = 0: expected at least 1"),
        ({"grad_accumulation": 0}, "grad_accumulation = 0: expected at least 1"),
        ({"steps": -1}, "steps = -1: expected a number, or 0 for none"),
        ({"steps": math.nan}, "steps = nan: expected a number, or 0 for none"),
        ({"steps": math.inf}, "steps = inf: expected a number, or 0 for none"),
        ({"grad_accumulation": 3}, "batch_size = 4 is not a multiple of grad_accumulation = 3"),
        ({"ema": 1.0}, "ema = 1.0: expected a decay from 0, for none, to below 1"),
        ({"ema": -0.1}, "ema = -0.1: expected a decay from 0, for none, to below 1"),
    ],
)
def test_settings_that_no_run_can_have_are_told(settings, told):
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        RunOptions(**settings)


@pytest.mark.parametrize(("precision", "expected"), [("fp32", "highest"), ("tf32", "high")])
def test_a_run_stands_in_its_arithmetic_with_its_log(tmp_path, precision, expected):
    before = torch.get_float32_matmul_precision()
    with started(tmp_path, device="cpu", precision=precision, tensorboard=False) as (world, log):
        assert (world.size, world.device) == (1, torch.device("cpu"))
        assert torch.get_float32_matmul_precision() == expected
        log.event("begun")
    assert torch.get_float32_matmul_precision() == before
    assert events(tmp_path) == ["begun"]

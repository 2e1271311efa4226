import errno
import math
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from common import config
from common.data.loading import Failure, LoadingError
from common.runs import checkpoint
from common.runs.logging import read_events
from common.runs.run_directory import RunDirectory, started
from common.training import loop
from common.training.course import Course, EveryConfig
from common.training.learner import Learner
from common.training.loop import Loop
from common.training.optimizers import OptimConfig
from common.training.state import TrainingError, TrainingState
from tests.processes import fork
from tests.timing import until
from tests.training import REPOSITORY, events, logged

NEVER = EveryConfig(log_steps=1000, validate_epochs=1000, save_epochs=0, save_minutes=0)


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    changed: str = "refuse"


@dataclass(frozen=True, kw_only=True)
class Settings:
    output_dir: Path
    optim: OptimConfig = field(default_factory=OptimConfig)
    data: DataConfig = field(default_factory=DataConfig)
    ema: float = 0.0
    device: str = "cpu"
    precision: str = "fp32"
    tensorboard: bool = False
    resume: bool = True
    numbers: tuple[float, ...] = field(default=())


class Read:
    utterances = ()

    def __init__(self):
        self.skipped = {}


DATA = (Read(), Read())


class Batch(NamedTuple):
    ids: list[str]
    audio_BN: torch.Tensor
    failures: list[Failure]


@contextmanager
def looped(folder: Path, course: Course, every: EveryConfig = NEVER, *, data=DATA, **options):
    """The loop of a training of one weight."""
    cfg = Settings(output_dir=folder)
    with started(cfg, "m") as directory:
        state = TrainingState(directory, cfg, {"weights": torch.nn.Linear(1, 1)}, extra={"format": 1})
        with Loop(state, every, course, data=data, **options) as running:
            yield running


def train(
    folder: Path,
    course: Course,
    every: EveryConfig = NEVER,
    *,
    steps_per_epoch=4,
    act=None,
    work=None,
    data=DATA,
    **options,
):
    """A training of one weight that counts steps, each of which is some `work`; `act` sees it after it was counted."""
    act, work = act or (lambda step, loop: None), work or (lambda: None)
    done = []
    with looped(folder, course, every, data=data, **options) as loop:
        batches = loop.plans(lambda epoch: [[i] for i in range(steps_per_epoch)])
        for epoch in loop.epochs():
            for batch in loop.steps(batches, steps_per_epoch):
                assert batch == [(epoch, loop.progress.batch)]
                work()
                loop.did(torch.tensor([float(loop.progress.step)]), amount=2.0)
                act(loop.progress.step, loop)
                what = "".join(name[0] for name in ("logs", "validates", "saves") if getattr(loop, name))
                done.append((loop.progress.step, what))
                if loop.logs:
                    loop.log.log("train", loop.where, {"loss": loop.means()[0]} | loop.speed(), global_step=0)
                if loop.saves:
                    loop.state.save_step()
    return done, loop.progress


def test_what_is_due_is_due_once_and_the_last_step_ends_with_everything(tmp_path):
    every = EveryConfig(log_steps=3, validate_epochs=1, save_epochs=0, save_steps=5, save_minutes=0)
    done, progress = train(tmp_path, Course(epochs=2), every)
    assert done == [(1, ""), (2, ""), (3, "l"), (4, "lv"), (5, "s"), (6, "l"), (7, ""), (8, "lvs")]
    assert (progress.epoch, progress.batch, progress.step) == (2, 0, 8)
    assert [step for step, _ in checkpoint.saved_steps(tmp_path, "m")] == [5, 8]


def test_a_line_of_the_log_is_the_mean_of_the_steps_since_the_last_one(tmp_path):
    train(tmp_path, Course(epochs=2), EveryConfig(log_steps=3))
    assert logged(tmp_path) == [1.0, 3.0, 4.5, 6.5]
    where = [event["step"] for event in read_events(tmp_path / "nvlog.json") if "train_loss" in event["data"]]
    assert where == [[1, 3, 4], [1, 4, 4], [2, 2, 4], [2, 4, 4]]


def test_throughput_leaves_out_what_is_done_between_two_steps(tmp_path, monkeypatch):
    now = [0.0]

    def passes(seconds):
        now[0] += seconds

    monkeypatch.setattr(loop.time, "perf_counter", lambda: now[0])
    every = EveryConfig(log_steps=2, save_minutes=0)
    train(tmp_path, Course(epochs=1), every, work=lambda: passes(1.0), act=lambda step, _: passes(100.0))
    assert logged(tmp_path, "train_took") == [2.0, 2.0]
    assert logged(tmp_path, "train_throughput") == [2.0, 2.0]


def train_with_bad_numbers(folder: Path) -> None:
    with looped(folder, Course(steps=9), names=("loss", "mel")) as loop:
        for _ in loop.epochs():
            for step in loop.steps(range(9), 9):
                numbers = [math.nan, math.inf] if step == 2 else [1.0, 2.0]
                batch = Batch([f"u{step}", f"v{step}"], torch.ones(2, 3), [Failure(7, "no such file")])
                loop.did(torch.tensor(numbers), batch, amount=1)
                assert step < 3, "one step late"


def test_numbers_that_are_not_finite_end_the_run_with_the_batch_and_save_nothing(tmp_path):
    expected = (
        r"the loss is nan, mel is inf at step 2; utterances u2, v2; batch saved as .*bad_batch_rank0.pt; "
        r"no checkpoint was saved yet: lower the learning rate or leave out the bad utterance"
    )
    with pytest.raises(TrainingError, match=expected):
        train_with_bad_numbers(tmp_path)
    saved = checkpoint.load(tmp_path / "bad_batch_rank0.pt")
    (batch,) = saved["batches"]
    assert (saved["step"], saved["ids"], batch["audio_BN"].shape) == (2, ["u2", "v2"], (2, 3))
    assert batch["failures"] == ["no such file"]
    assert checkpoint.saved_steps(tmp_path, "m") == []


def test_a_batch_that_cannot_be_saved_does_not_hide_the_numbers_that_are_not_finite(tmp_path, monkeypatch):
    def full(path, _state):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(checkpoint, "save", full)
    expected = r"the loss is nan, .* its batch could not be saved \(No space left on device\); no checkpoint was"
    with pytest.raises(TrainingError, match=expected):
        train_with_bad_numbers(tmp_path)


def train_with_bad_gradients(folder: Path, bad: range, *, steps: int = 6, **settings) -> tuple[list, Learner]:
    """Steps of one weight, whose loss is always finite; what the weight was after each."""
    cfg = Settings(output_dir=folder, optim=OptimConfig(kind="novograd", lr=0.1, max_skipped=3), **settings)
    with started(cfg, "m") as directory:
        torch.manual_seed(0)
        learner, weights = Learner(torch.nn.Linear(1, 1), cfg, directory.world), []
        state = TrainingState(directory, cfg, learner.parts, extra={})
        every = EveryConfig(log_steps=1, save_minutes=0)
        with Loop(state, every, Course(epochs=1), data=(Read(), None), learners={"": learner}) as loop:
            for _ in loop.epochs():
                for step in loop.steps(range(loop.progress.batch, steps), steps):
                    loss = learner.network(torch.ones(1, 1)).square().sum()
                    learner.backward(loss)
                    if step in bad:
                        learner.network.bias.grad.fill_(math.nan if step % 2 else math.inf)
                    learner.finish(loop.progress)
                    loop.did(loss.detach()[None], Batch([f"u{step}"], torch.ones(1, 1), []), amount=1)
                    weights.append(learner.network.bias.item())
                    if loop.logs:
                        loop.log_training({"loss": loop.means()[0]}, learning_rate=0.1)
                    if loop.saves:
                        state.save_step()
        return weights, learner


def test_a_step_whose_gradients_are_not_finite_changes_nothing_and_is_told(tmp_path):
    weights, learner = train_with_bad_gradients(tmp_path, range(1, 3))
    assert weights[0] == weights[1] == weights[2] != weights[3]
    assert all(moment.isfinite().all() for state in learner.optimizer.state.values() for moment in state.values())
    told = [event for event in events(tmp_path) if "skipped" in event]
    for step, norm, event in zip((1, 2), ("nan", "inf"), told, strict=False):
        expected = (
            f"step {step} was skipped: its loss is finite, but its grad_norm is {norm}; utterances u{step}; batch"
        )
        assert event.startswith(expected)
    assert told[2:] == ["skipped: 2 steps whose gradients were not finite"]
    assert checkpoint.load(tmp_path / "bad_batch_rank0.pt")["ids"] == ["u2"]
    assert len(logged(tmp_path, "train_grad_norm")) == 4  # of the others, the events tell
    assert logged(tmp_path, "train_skipped") == [1, 2, 2, 2, 2]
    state, _ = checkpoint.load_newest(tmp_path, "m")
    assert state["progress"]["skipped"] == 2


def test_so_many_bad_steps_in_a_row_end_the_run_with_good_weights_and_it_goes_on_from_there(tmp_path):
    expected = (
        r"^3 steps in a row were skipped, because their gradients are not finite, up to step 3: its grad_norm is nan; "
        r"utterances u3; batch saved as .*bad_batch_rank0.pt; the last checkpoint is that of step 4, with the weights "
    )
    with pytest.raises(TrainingError, match=expected):
        train_with_bad_gradients(tmp_path, range(1, 4))
    state, _ = checkpoint.load_newest(tmp_path, "m")
    assert state["progress"]["step"] == 4
    assert all(weight.isfinite().all() for weight in state["weights"].values())
    train_with_bad_gradients(tmp_path, range(0))
    assert checkpoint.load_newest(tmp_path, "m")[0]["progress"]["step"] == 6


def test_in_fp16_what_is_skipped_is_how_a_loss_scale_is_found(tmp_path):
    weights, _ = train_with_bad_gradients(tmp_path, range(5), steps=8, precision="fp16")
    assert weights[4] == weights[0] != weights[5]
    told = [event for event in events(tmp_path) if event.startswith("step")]
    assert len(told) == 5
    assert told[4].endswith("but its grad_norm is inf; the loss scale is 2048 now")
    assert not (tmp_path / "bad_batch_rank0.pt").exists()


def train_with_batches(folder: Path, found: int, count: int) -> None:
    with looped(folder, Course(epochs=1)) as loop:
        for _ in loop.epochs():
            for _ in loop.steps(range(found), count):
                loop.did(torch.ones(1), amount=1)


@pytest.mark.parametrize(
    ("found", "expected"),
    [(3, "epoch 1 has data for 3 of its 4 steps; no checkpoint"), (0, "epoch 1 has no steps: expected at least 1")],
)
def test_an_epoch_with_too_few_batches_ends_the_run_and_is_not_begun_for_ever(tmp_path, found, expected):
    with pytest.raises(TrainingError, match=expected):
        train_with_batches(tmp_path, found, 4 if found else 0)


def test_a_checkpoint_is_written_when_the_last_one_is_old(tmp_path):
    every = EveryConfig(log_steps=1000, save_epochs=0, save_minutes=1)

    def act(step, loop):
        if step == 1:
            loop.saved_at -= 61

    done, _ = train(tmp_path, Course(epochs=1), every, act=act)
    assert done == [(1, ""), (2, "s"), (3, ""), (4, "lvs")]


def test_what_is_left_out_is_logged_once(tmp_path):
    read = Read()

    def act(step, loop):
        read.skipped[step % 4] = f"utterance {step % 4}: broken"

    train(tmp_path, Course(epochs=3), EveryConfig(), act=act, data=(read, None))
    told = [event for event in events(tmp_path) if event.startswith("left out: utterance")]
    assert sorted(told) == [f"left out: utterance {i}: broken" for i in range(4)]
    assert events(tmp_path)[-1] == "left out: 4 utterances"


def stopped_before_the_first_step(folder: Path, work) -> None:
    with looped(folder, Course(epochs=1)) as loop:
        work()
        assert list(loop.epochs()) == []


def test_an_error_before_the_first_step_leaves_no_checkpoint(tmp_path):
    def work():
        raise LoadingError("utterance a: no such file")

    with pytest.raises(LoadingError, match="^utterance a: no such file$"):
        stopped_before_the_first_step(tmp_path, work)
    assert events(tmp_path) == ["ended by an error: no checkpoint was saved yet"]
    assert list(tmp_path.glob("*.pt")) == []


def test_a_signal_before_the_first_step_leaves_no_checkpoint(tmp_path):
    stopped_before_the_first_step(tmp_path, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert list(tmp_path.glob("*.pt")) == []


@pytest.mark.parametrize("between", [True, False])
def test_after_an_error_the_state_is_saved_if_it_is_that_between_two_steps(tmp_path, between):
    def act(step, loop):
        if step == 3:
            loop.is_whole = between
            raise ValueError("a bug")

    on_from = "the last checkpoint is that of step 3, and the run goes on from there"
    safe = on_from if between else "no checkpoint was saved yet"
    with pytest.raises(TrainingError, match=f"^ValueError: a bug; {safe}; what Python says is in"):
        train(tmp_path, Course(epochs=1), act=act)
    assert [step for step, _ in checkpoint.saved_steps(tmp_path, "m")] == ([3] if between else [])


def test_errors_for_the_user_stay_as_they_are(tmp_path):
    def act(step, loop):
        raise LoadingError("utterance 7: damaged")

    with pytest.raises(LoadingError, match="^utterance 7: damaged$"):
        train(tmp_path, Course(epochs=1), act=act)


def test_a_validation_cut_short_is_owed(tmp_path):
    every = EveryConfig(validate_steps=2)

    def act(step, loop):
        if step == 2:
            with loop.validation():
                os.kill(os.getpid(), signal.SIGTERM)
                raise AssertionError("it went on")
            assert loop.is_cut
            assert loop.saves

    done, _ = train(tmp_path, Course(epochs=1), every, act=act)
    assert done == [(1, ""), (2, "s")]
    with started(Settings(output_dir=tmp_path), "m") as directory:
        parts = {"weights": torch.nn.Linear(1, 1)}
        state = TrainingState(directory, Settings(output_dir=tmp_path), parts, extra={"format": 1})
        loop = Loop(state, every, Course(epochs=1), data=DATA)
        assert loop.owes_validation
        state.save_best({"raw": 0.5})
        assert not loop.owes_validation


def test_a_signal_between_a_step_and_its_validation_saves_without_validating(tmp_path):
    def act(step, loop):
        if step == 2:
            assert loop.decision.validates
            os.kill(os.getpid(), signal.SIGTERM)

    done, _ = train(tmp_path, Course(epochs=1), EveryConfig(validate_steps=2), act=act)
    assert done == [(1, ""), (2, "s")]


def test_a_signal_just_before_a_validation_cuts_it_at_its_first_exchange(tmp_path):
    went_on = []

    def act(step, loop):
        if step == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            with loop.validation() as world:
                world.gather(0)
                went_on.append("after")
            assert loop.is_cut

    done, _ = train(tmp_path, Course(epochs=1), EveryConfig(validate_steps=2), act=act)
    assert done == [(1, ""), (2, "s")]
    assert went_on == []


def test_an_error_in_the_last_save_is_one_line(tmp_path, monkeypatch):
    def act(step, loop):
        if step == 4:
            monkeypatch.setattr(RunDirectory, "save_step", full)
            monkeypatch.setattr(type(loop), "saves", False)  # as after a validation that was owed, and nothing else

    def full(*_given, **_named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "m_step00000004.pt")

    expected = "^m_step00000004.pt: No space left on device; no checkpoint was saved yet$"
    with pytest.raises(TrainingError, match=expected):
        train(tmp_path, Course(epochs=1), act=act)


def test_an_error_is_the_one_that_ended_the_run_also_where_nothing_can_be_saved_after_it(tmp_path, monkeypatch):
    def act(step, loop):
        monkeypatch.setattr(TrainingState, "to_dict", broken)
        raise ValueError("a bug")

    def broken(_state):
        raise RuntimeError("the device is lost")

    with pytest.raises(TrainingError, match="^ValueError: a bug; no checkpoint was saved yet; what Python says is in"):
        train(tmp_path, Course(epochs=1), act=act)


def signals(sent: Path) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    sent.touch()


def two(folder: Path, when: str) -> None:
    """What each of two processes does, of which the second gets a signal."""
    sent, every = folder.with_name("sent"), EveryConfig(log_steps=1000, validate_steps=5, save_minutes=0)
    with looped(folder, Course(steps=1000), every) as loop:
        rank = loop.directory.world.rank
        for _ in loop.epochs():
            for step in loop.steps(range(1000), 1000):
                loop.did(torch.ones(1), amount=1)
                if rank == 1 and (step, when) == (6, "in a step"):
                    os.kill(os.getpid(), signal.SIGTERM)
                if loop.validates:
                    with loop.validation() as some:
                        if rank == 1 and when == "in a validation":
                            os.kill(os.getpid(), signal.SIGTERM)
                        at_end = when == "at the end of a validation"
                        if rank == 1 and at_end:  # while it waits for the other
                            threading.Timer(0.3, signals, (sent,)).start()
                        for _ in range(3):
                            some.gather(step)
                        if rank == 0 and at_end:
                            until(sent.exists)
                    if loop.is_cut:
                        print("cut")
                    else:
                        loop.state.save_best({"raw": 1.0 / (step + 1)})
                if loop.saves:
                    loop.state.save_step()
    print("step", loop.progress.step)


@pytest.mark.parametrize(
    ("when", "step"), [("in a step", 9), ("in a validation", 5), ("at the end of a validation", 6)]
)
def test_processes_agree_on_a_signal_to_one_of_them_within_two_steps(tmp_path, when, step):
    statuses, told = fork(lambda: two(tmp_path / "run", when))
    assert statuses == [0, 0], told
    cut = ["cut"] if when == "in a validation" else []
    own = [[line for line in lines if line.startswith(("cut", "step"))] for lines in told]
    assert own[0] == own[1]
    assert own[0][:-1] == cut
    assert abs(int(own[0][-1].split()[1]) - step) <= 1
    assert [saved for saved, _ in checkpoint.saved_steps(tmp_path / "run", "m")] == [int(own[0][-1].split()[1])]


def lost(folder: Path, how: str) -> None:
    """What each of three processes does, of which the second is lost."""
    with config.reported(*loop.EXPECTED), looped(folder, Course(steps=1000)) as running:
        rank = running.directory.world.rank
        for _ in running.epochs():
            for step in running.steps(range(1000), 1000):
                if step == 3 and rank == 1:
                    if how == "stopped":
                        os.system(f"(sleep 12; kill -KILL {os.getpid()}) > /dev/null 2>&1 &")
                        os.kill(os.getpid(), signal.SIGSTOP)
                    if how == "killed":
                        os.kill(os.getpid(), signal.SIGKILL)
                    raise ValueError("a bug")
                running.did(torch.ones(1), amount=1)


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("stopped", "does not answer: stopped or dead"),
        ("killed", "does not answer: stopped or dead"),
        ("broken", "ended by an error"),
    ],
)
def test_a_process_that_is_gone_is_named_by_rank_and_host_in_the_error_of_the_others(tmp_path, monkeypatch, how, what):
    monkeypatch.setenv("DISTRIBUTED_TIMEOUT_MINUTES", "0.1")
    statuses, told = fork(lambda: lost(tmp_path / "run", how), processes=3)
    assert statuses[0] == statuses[2] == 2
    expected = f"rank 1 on {socket.gethostname()} {what}; no checkpoint was saved yet"
    assert [expected in told[rank][-1] for rank in (0, 2)] == [True, True], told


SECOND_INTERRUPT = """
import os, signal, socket, threading, time
from common.interruption import termination
mine, other = socket.socketpair()
with termination() as came:
    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        while not came.came:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=twice, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [])
    while True:
        mine.recv(1)  # a collective that never ends
"""


def test_a_second_ctrl_c_ends_a_process_that_waits_for_ever():

    told = subprocess.run(
        [sys.executable, "-c", SECOND_INTERRUPT],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
    )
    assert told.returncode == 130
    assert told.stderr == "interrupted twice: ended at once, nothing more is saved\n"

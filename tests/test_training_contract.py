"""What every training command promises, whatever happens to it: its run directory survives, and the weights with it."""

import contextlib
import json
import math
import os
import random
import resource
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from common import config
from common.config import ConfigError
from common.data.manifest import ManifestError
from common.runs import checkpoint, logging
from common.runs.checkpoint import CheckpointError
from common.training.course import EveryConfig
from common.training.learner import Learner
from common.training.state import TrainingError
from tests import processes
from tests.training import assert_same, assert_same_state, events, logged, state_of
from tests.training_commands import COMMANDS, RICHER, Command, from_shards
from tests.wav2vec2.runs import assert_float32

pytestmark = pytest.mark.slow
STEPS = 6
KILLS = int(os.environ.get("SPEECH_KILLS", "3"))
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT)
EVERY_STEP = EveryConfig(log_steps=1, save_steps=1)


@pytest.fixture(scope="module", params=COMMANDS, ids=lambda command: command.id or command.name)
def command(request) -> Command:
    return request.param


@pytest.fixture(scope="module")
def corpus(command, tmp_path_factory) -> Path:
    return command.corpus(tmp_path_factory.mktemp("corpus") / command.name)


@pytest.fixture(scope="module", autouse=True)
def one_thread_in_all_of_the_file():
    """Also in what is made once for several tests: sums depend on the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def whole(command, corpus, tmp_path_factory):
    """The configuration of a run that nothing happened to, and its last checkpoint."""
    folder = tmp_path_factory.mktemp("whole") / command.name
    cfg = command.config(corpus, folder)
    assert command.module.main(cfg).step == STEPS
    return cfg, state_of(folder)


@contextlib.contextmanager
def at_step(monkeypatch, step: int, act):
    """Calls `act` once, when the progress bar is moved to `step`: the step is done, and nothing is decided yet."""
    done = []
    before = logging.RunLogger.advance

    def advance(log):
        before(log)
        done.append(1)
        if len(done) == step:
            act()

    with monkeypatch.context() as patched:
        patched.setattr(logging.RunLogger, "advance", advance)
        yield


def signalled(number: int):
    return lambda: os.kill(os.getpid(), number)


def in_child(work) -> tuple[int, list[str]]:
    """Exit status of `work` in a process of its own, and its lines but those of the log; an error is reported."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        torch.set_num_threads(1)
        sys.stdout = sys.stderr = os.fdopen(writer, "w", encoding="utf-8")
        status = 1
        try:
            with config.reported(TrainingError, CheckpointError):
                work()
            status = 0
        except SystemExit as exit_:
            status = int(exit_.code or 0)
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as told:
        said = [line for line in told if not line.startswith("DLL ")]
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), said


def newest_step(folder: Path, name: str) -> int:
    """The newest step that a checkpoint is there of; 0 for none."""
    return max([step for step, _ in checkpoint.saved_steps(folder, name)], default=0)


def test_stopping_and_resuming_gives_bitwise_the_weights_of_never_stopping(command, whole, tmp_path):
    """Within an epoch; that runs which ended with one go on so, others say."""
    cfg, expected = whole
    key = "stop_at" if hasattr(cfg, "stop_at") else "steps"
    assert command.module.main(replace(cfg, output_dir=tmp_path / "run", **{key: 4})).step == 4
    command.module.main(replace(cfg, output_dir=tmp_path / "run"))
    assert_same_state(state_of(tmp_path / "run"), expected)


@pytest.mark.parametrize("command", RICHER, ids=lambda command: command.id, indirect=True)
def test_a_run_with_more_to_keep_goes_on_bitwise_too(command, whole, tmp_path):
    cfg, expected = whole
    key = "stop_at" if hasattr(cfg, "stop_at") else "steps"
    command.module.main(replace(cfg, output_dir=tmp_path / "run", **{key: 4}))
    command.module.main(replace(cfg, output_dir=tmp_path / "run"))
    assert_same_state(state_of(tmp_path / "run"), expected)
    assert all(math.isfinite(loss) for loss in logged(tmp_path / "run"))
    if command.name == "wav2vec2":
        assert_float32(expected)


@pytest.mark.parametrize("step", [2, 3])
def test_a_signal_saves_the_step_under_way_without_validating(command, whole, tmp_path, monkeypatch, step):
    """Of 3 steps an epoch; every signal comes after either step, in one command or another."""
    number = SIGNALS[(COMMANDS.index(command) + step) % len(SIGNALS)]
    cfg, expected = whole
    cfg = replace(cfg, output_dir=tmp_path / "run")
    with at_step(monkeypatch, step, signalled(number)):
        assert command.module.main(cfg).step == step
    assert [saved for saved, _ in checkpoint.saved_steps(cfg.output_dir, command.name)] == [step]
    assert not (cfg.output_dir / f"{command.name}_best.pt").exists()
    assert not (cfg.output_dir / f"{command.name}_final.pt").exists()
    command.module.main(cfg)
    assert_same_state(state_of(cfg.output_dir), expected)
    assert (cfg.output_dir / f"{command.name}_best.pt").exists()


def test_a_signal_in_a_validation_ends_it_at_once_and_the_next_job_does_it(command, whole, tmp_path, monkeypatch):
    cfg, expected = whole
    cfg = replace(cfg, output_dir=tmp_path / "run")

    def evaluate(*_given, **_named):
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the validation went on")

    with monkeypatch.context() as patched:
        patched.setattr(command.module, command.evaluates_by, evaluate)
        assert command.module.main(cfg).step == 3
    assert "validation of step 3 cut short by a signal; the next job does it" in events(cfg.output_dir)
    command.module.main(cfg)
    assert_same_state(state_of(cfg.output_dir), expected)


def test_an_error_in_a_validation_loses_no_step_and_is_one_line(command, whole, tmp_path, monkeypatch):
    cfg, expected = whole
    cfg = replace(cfg, output_dir=tmp_path / "run")

    def evaluate(*_given, **_named):
        raise RuntimeError("a bug\nof two lines")

    with monkeypatch.context() as patched:
        patched.setattr(command.module, command.evaluates_by, evaluate)
        with pytest.raises(TrainingError, match="^RuntimeError: a bug; the last checkpoint is that of step 3, and the"):
            command.module.main(cfg)
    assert "of two lines" in (cfg.output_dir / "error_rank0.txt").read_text()
    command.module.main(cfg)
    assert_same_state(state_of(cfg.output_dir), expected)


def test_a_flipped_bit_is_noticed_and_the_checkpoint_before_is_taken(command, whole, tmp_path):
    cfg, expected = whole
    cfg = replace(cfg, output_dir=tmp_path / "run")
    for source in whole[0].output_dir.glob("*.pt"):
        cfg.output_dir.mkdir(exist_ok=True)
        (cfg.output_dir / source.name).write_bytes(source.read_bytes())
    newest = checkpoint.step_path(cfg.output_dir, command.name, STEPS)
    damaged = bytearray(newest.read_bytes())
    place = random.Random(1).randrange(8 * len(damaged))
    damaged[place // 8] ^= 1 << place % 8
    newest.write_bytes(damaged)
    with pytest.raises(CheckpointError, match="damaged or not a checkpoint"):
        checkpoint.load(newest)
    command.module.main(cfg)
    told = [event for event in events(cfg.output_dir) if "damaged" in event]
    assert told == [f"{newest}: damaged, moved to {newest.name}.damaged; taking the one before"]
    assert newest.with_name(f"{newest.name}.damaged").exists()
    assert_same_state(state_of(cfg.output_dir), expected)


def test_a_run_whose_checkpoints_are_all_damaged_never_begins_anew(command, whole, tmp_path):
    cfg, _ = whole
    cfg = replace(cfg, output_dir=tmp_path / "run")
    cfg.output_dir.mkdir()
    checkpoint.step_path(cfg.output_dir, command.name, 3).write_bytes(b"PK")
    with pytest.raises(CheckpointError, match="none of its 1 checkpoints can be read"):
        command.module.main(cfg)
    assert checkpoint.step_path(cfg.output_dir, command.name, 3).exists()


def test_a_second_job_ends_at_once_and_names_the_first(command, whole, tmp_path, monkeypatch):
    cfg, expected = whole
    cfg = replace(cfg, output_dir=tmp_path / "run")
    second = []
    with at_step(monkeypatch, 2, lambda: second.append(in_child(lambda: command.module.main(cfg)))):
        command.module.main(cfg)
    ((status, (said,)),) = second
    assert status == 2
    assert f"process {os.getpid()} on host {socket.gethostname()}" in said
    assert "is writing there; take another --output_dir" in said
    assert_same_state(state_of(cfg.output_dir), expected)


def test_kills_at_random_moments_leave_a_run_that_resumes_to_the_same_weights(command, whole, tmp_path):
    cfg, expected = whole
    cfg = replace(cfg, output_dir=tmp_path / "run")
    draw = random.Random(2)
    lasting, after_a_save = replace(cfg, every=EVERY_STEP), 0
    for _ in range(KILLS):
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):  # whatever happens, the child must not go on with the tests
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                command.module.main(lasting)
            os._exit(0)
        before = newest_step(cfg.output_dir, command.name)
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if newest_step(cfg.output_dir, command.name) > before:  # the kill falls after a save
                time.sleep(draw.uniform(0, 0.05))
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                break
            time.sleep(0.002)  # looking takes as much of the processor as the run that is looked at
        saved, damaged = checkpoint.load_newest(cfg.output_dir, command.name)
        assert damaged == []
        assert saved is not None
        after_a_save += saved["progress"]["step"] < STEPS
    assert after_a_save
    command.module.main(replace(lasting))
    assert_same_state(state_of(cfg.output_dir), expected)


def test_a_reader_of_the_output_who_left_does_not_end_the_run(command, whole, tmp_path):
    cfg, expected = whole
    (tmp_path / "cfg.toml").write_text(config.to_toml(replace(cfg, output_dir=tmp_path / "run")))
    left, told = os.pipe()
    os.close(left)

    def unread() -> None:
        sys.stdout = os.fdopen(told, "w")
        os.dup2(told, 1)
        processes.run_here(command.module.__name__, tmp_path / "cfg.toml")

    assert processes.fork(unread, processes=1) == ([0], [[]])
    os.close(told)
    assert_same_state(state_of(tmp_path / "run"), expected)


def poisoned(monkeypatch, steps):
    """From the second number of a gradient on, in these steps of the first network that learns, it is NaN."""
    before = Learner.finish

    def finish(learner, progress, **options):
        if progress.step in steps and learner.ema is not None:
            next(p.grad for p in learner.network.parameters() if p.grad is not None).view(-1)[1:].fill_(float("nan"))
        return before(learner, progress, **options)

    monkeypatch.setattr(Learner, "finish", finish)


def test_gradients_that_are_not_finite_cost_a_step_and_no_weight(command, whole, tmp_path, monkeypatch):
    cfg, _ = whole
    cfg = replace(cfg, output_dir=tmp_path / "run")
    with monkeypatch.context() as patched:
        poisoned(patched, {2})
        assert command.module.main(cfg).step == STEPS
    (told,) = [event for event in events(cfg.output_dir) if event.startswith("step 2 was skipped")]
    assert "its grad_norm is nan; utterances " in told
    assert checkpoint.load(cfg.output_dir / "bad_batch_rank0.pt")["step"] == 2
    assert len(logged(cfg.output_dir, "train_grad_norm")) == STEPS - 1
    state = state_of(cfg.output_dir)
    weights = state["weights" if "weights" in state else "generator"]
    assert all(weight.isfinite().all() for weight in weights.values())
    assert state["progress"]["skipped"] == 1


def test_other_data_than_a_run_was_begun_with_are_refused_unless_accepted(command, tmp_path):
    root = command.corpus(tmp_path / "corpus")
    cfg = command.config(root, tmp_path / "run")
    key = "stop_at" if hasattr(cfg, "stop_at") else "steps"
    command.module.main(replace(cfg, **{key: 2}))
    for recording in (path for path in sorted(root.rglob("*")) if path.suffix in (".flac", ".wav")):
        recording.write_bytes(recording.read_bytes() + b"\0")
    message = (
        r"run: its data are not those that the run was begun with: \d+ utterances, the first that differs is number "
    )
    with pytest.raises(CheckpointError, match=message + r"1, .*: the size of its file changed; take another"):
        command.module.main(cfg)
    accepted = replace(cfg, data=replace(cfg.data, changed="accept"), **{key: 3})
    assert command.module.main(accepted).step == 3
    assert any(event.startswith("data changed: ") for event in events(cfg.output_dir))
    assert command.module.main(cfg).step == STEPS  # from now on these are its data


def test_a_training_from_shards_has_the_weights_of_one_from_plain_files(command, whole, tmp_path):
    cfg, expected = whole
    command.module.main(from_shards(cfg, tmp_path / "shards", tmp_path / "run"))
    assert_same_state(state_of(tmp_path / "run"), expected)


def test_no_data_is_an_error_that_says_what_to_name(command, tmp_path):
    cfg = command.config(tmp_path, tmp_path / "run")
    with pytest.raises(
        ManifestError, match="no utterance to train on: none is named; name (manifests|lists) with --data.train"
    ):
        command.module.main(replace(cfg, data=replace(cfg.data, train=())))


def test_a_full_disk_is_one_line_and_more_space_gives_the_same_weights(command, whole, tmp_path):
    cfg, expected = whole
    cfg = replace(cfg, output_dir=tmp_path / "run", every=replace(cfg.every, save_steps=2))
    key = "stop_at" if hasattr(cfg, "stop_at") else "steps"
    command.module.main(replace(cfg, **{key: 2}))
    size = checkpoint.step_path(cfg.output_dir, command.name, 2).stat().st_size

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))
        command.module.main(cfg)

    status, (said,) = in_child(limited)
    assert status == 2
    assert f"{command.name}_" in said
    assert "File too large; the last checkpoint is that of step 2, and the run goes on from there" in said
    command.module.main(cfg)
    assert_same_state(state_of(cfg.output_dir), expected)


def test_a_run_directory_that_cannot_be_one_is_one_line(command, whole, tmp_path):
    cfg, _ = whole
    (tmp_path / "file").touch()
    for output_dir in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(ConfigError, match=f"{output_dir}: cannot be used as a run directory: "):
            command.module.main(replace(cfg, output_dir=output_dir))


def test_a_run_directory_that_is_removed_under_way_is_one_line(command, whole, tmp_path, monkeypatch):
    cfg, _ = whole
    cfg = replace(cfg, output_dir=tmp_path / "run")
    with (
        at_step(monkeypatch, 2, lambda: cfg.output_dir.rename(tmp_path / "moved")),
        pytest.raises(TrainingError, match="run: the run directory was removed or replaced under way; no checkpoint"),
    ):
        command.module.main(cfg)
    assert not cfg.output_dir.exists()


def test_changed_settings_are_told(command, whole, tmp_path):
    cfg, _ = whole
    cfg = replace(cfg, output_dir=tmp_path / "run")
    key = "stop_at" if hasattr(cfg, "stop_at") else "steps"
    command.module.main(replace(cfg, **{key: 2}))
    command.module.main(replace(cfg, optim=replace(cfg.optim, lr=0.5 * cfg.optim.lr), **{key: 3}))
    assert f"setting changed: optim.lr {cfg.optim.lr} -> {0.5 * cfg.optim.lr}" in events(cfg.output_dir)


def test_what_the_weights_depend_on_cannot_change(command, whole):
    cfg, _ = whole
    kind = "adamw" if cfg.optim.kind != "adamw" else "lamb"
    with pytest.raises(CheckpointError, match=f"does not fit this configuration: .*optim.kind {cfg.optim.kind} -> "):
        command.module.main(replace(cfg, optim=replace(cfg.optim, kind=kind)))
    for change, problem in command.others:
        message = f"its newest checkpoint does not fit this configuration: .*{problem}.*; take another --output_dir, or"
        with pytest.raises(CheckpointError, match=message):
            command.module.main(change(cfg))


def test_a_new_run_does_not_begin_among_the_checkpoints_of_another(command, whole):
    cfg, _ = whole
    message = f"{cfg.output_dir}: holds checkpoints of an earlier run, up to step {STEPS}; go on from"
    with pytest.raises(CheckpointError, match=message):
        command.module.main(replace(cfg, resume=False))


def test_another_start_for_an_existing_run_is_refused(command, whole):
    cfg, _ = whole
    start = checkpoint.step_path(cfg.output_dir, command.name, STEPS)
    key = "checkpoint" if hasattr(cfg, "checkpoint") else "pretrained"
    with pytest.raises(CheckpointError, match=f"holds a run that did not start from there: {key} none -> "):
        command.module.main(replace(cfg, **{key: start}))


def test_a_finished_run_stays_as_it_is_and_refuses_other_settings(command, whole):
    cfg, expected = whole
    assert command.module.main(cfg).step == STEPS
    assert f"finished at step {STEPS}: there is nothing to do" in events(cfg.output_dir)
    with pytest.raises(
        ConfigError, match=r"this run is finished, and was made with other settings: optim.lr .* -> 0.5"
    ):
        command.module.main(replace(cfg, optim=replace(cfg.optim, lr=0.5)))
    assert_same_state(state_of(cfg.output_dir), expected)


def test_the_run_directory_describes_the_run(command, whole):
    cfg, state = whole
    assert config.load(type(cfg), cfg.output_dir / "config.toml") == config.build(type(cfg), state["config"], "")
    described = json.loads((cfg.output_dir / "environment.json").read_text())
    assert {"torch", "device", "commit", "processes"} <= set(described)
    assert len(logged(cfg.output_dir)) == len(logged(cfg.output_dir, "train_throughput")) == STEPS
    for name in command.logs:
        averaged = [name.replace("dev_", "dev_ema_")] if name.startswith("dev_") else []
        for logs in (name, *averaged):
            assert len(logged(cfg.output_dir, logs)) == (2 if averaged else STEPS), logs
    folders = {path.parent.name for path in cfg.output_dir.glob("*/events.out.tfevents.*")}
    assert folders == ({"train", "train_avg", "dev", "dev_ema"} if cfg.tensorboard else set())


def test_milestones_the_last_two_and_the_best_are_kept_and_can_be_used(command, whole, tmp_path):
    cfg, _ = whole
    key = {"keep_epochs": (1,)} if hasattr(cfg, "keep_epochs") else {"keep_steps": (3,)}
    cfg = replace(cfg, output_dir=tmp_path, every=replace(cfg.every, save_steps=1), **key)
    command.module.main(cfg)
    saved = dict(checkpoint.saved_steps(tmp_path, command.name))
    assert list(saved) == [3, 5, 6]
    best = checkpoint.load(tmp_path / f"{command.name}_best.pt")
    scores = logged(tmp_path, f"dev_{command.score}") + logged(tmp_path, f"dev_ema_{command.score}")
    assert best.get("progress", {"best": min(scores)})["best"] == min(scores)  # that of a vocoder is for use alone
    assert "config" in best
    for path in (*saved.values(), tmp_path / f"{command.name}_best.pt", *tmp_path.glob("*_final.pt")):
        command.load(path, device="cpu")


def test_a_run_starts_from_the_weights_of_another_whose_architecture_counts_unless_asked_otherwise(
    command, whole, tmp_path
):
    cfg, state = whole
    raw, averaged = ("weights", "ema") if "weights" in state else ("generator", "generator_ema")
    start = checkpoint.step_path(cfg.output_dir, command.name, STEPS)
    key = "checkpoint" if hasattr(cfg, "checkpoint") else "pretrained"
    until = {"stop_at" if hasattr(cfg, "stop_at") else "steps": 1}
    still = replace(cfg, output_dir=tmp_path / "own", optim=replace(cfg.optim, lr=1e-12), **{key: start}, **until)
    (change, problem), *_ = command.others or ((lambda cfg: cfg, ""),)
    assert command.module.main(change(still)).step == 1
    told = [event for event in events(still.output_dir) if event.startswith(f"{start}: ")]
    assert told[-1].startswith(f"{start}: taken")
    if problem:
        assert told[0].startswith(f"{start}: its architecture counts: {problem.split()[0]}")
    found = state_of(still.output_dir)
    for part in ("model", "generator", "hifigan"):
        ours, theirs = (checked["config"].get(part) for checked in (found, state))
        if command.id == "attention" and part == "model":
            ours["attention"] |= {
                key: theirs["attention"][key] for key in ("directions", "longest_seconds")
            }  # of its data
        assert ours == theirs

    def differs(weights) -> set[str]:
        learned = [name for name, weight in weights.items() if weight.is_floating_point() and "running" not in name]
        return {name for name in learned if not torch.allclose(weights[name], found[raw][name], rtol=0, atol=1e-6)}

    assert {name.partition(".")[0] for name in min(differs(state[averaged]), differs(state[raw]), key=len)} <= {"head"}


def test_averaged_weights_are_used_where_there_are_any_unless_told_otherwise(command, whole, tmp_path):
    cfg, state = whole
    raw, averaged = ("weights", "ema") if "weights" in state else ("generator", "generator_ema")
    newest, without = checkpoint.step_path(cfg.output_dir, command.name, STEPS), tmp_path / "without.pt"
    checkpoint.save(without, state | {raw: state[averaged], averaged: None})

    def weights(path, **options):
        loaded = command.load(path, device="cpu", **options)
        return (loaded.generator if hasattr(loaded, "generator") else loaded.model).state_dict()

    expected = weights(without)
    for options in ({}, {"ema": True}):
        assert_same(weights(newest, **options), expected, "averaged")
    assert any(not torch.equal(weight, expected[name]) for name, weight in weights(newest, ema=False).items())
    with pytest.raises(CheckpointError, match=r"without\.pt: has no averaged \(EMA\) weights; load it with ema=False"):
        command.load(without, device="cpu", ema=True)


def test_the_longest_batch_can_be_tried_first(command, whole, tmp_path, capsys):
    cfg, _ = whole
    if not hasattr(cfg, "dry_run"):
        pytest.skip("this command has no trial")
    assert command.module.main(replace(cfg, output_dir=tmp_path, dry_run=True)).step == 0
    assert "the longest batch fits: " in capsys.readouterr().out
    assert checkpoint.saved_steps(tmp_path, command.name) == []

"""Trainings side by side: how they are shown, and how they end."""

import io
import multiprocessing
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from multiprocessing import forkserver
from pathlib import Path
from typing import NamedTuple

import pytest

from common import config
from common.config import ConfigError
from common.runs import checkpoint
from jasper.config import Config

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def together():
    """The script as a module; its processes are those of a server that has imported torch."""
    sys.path.insert(0, str(SCRIPTS))
    import quickstart_together

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "common.training.loop", "quickstart_together", __name__])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(multiprocessing, "get_context", lambda _: context)
        yield quickstart_together
    forkserver._forkserver._stop()  # others begin with one of their own
    context.set_forkserver_preload([])
    sys.path.remove(str(SCRIPTS))


class Task(NamedTuple):
    """What a process of these tests does."""

    notes: Path
    message: str = ""


def finishes(task: Task) -> None:
    """A training without trouble."""
    print("DLL 2026-11-22 10:00:00 - epoch    1 | iter    4/4 | loss   1.000")
    task.notes.write_text("finished")


def fails(task: Task) -> None:
    """A training whose data cannot be read."""
    while not task.notes.exists():  # until the other one has begun
        time.sleep(0.05)
    raise ConfigError(task.message)


def saves_when_asked(task: Task) -> None:
    """A training that goes on until a signal comes, and then saves."""
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    task.notes.write_text("began")
    print("begins", flush=True)
    assert asked.wait(60)
    task.notes.write_text("saved")


def notes_priority(task):
    task.notes.write_text(str(os.getpriority(os.PRIO_PROCESS, 0)))


def training(together, label, run, notes, message=""):
    """One of the test's."""
    log = notes.with_name(f"{label}.log")
    return together.TrainingJob(label, run, Task(notes, message), log, epochs=2, share=0.3)


def test_every_line_has_its_label_and_is_kept(together, tmp_path, capsys):
    both = [training(together, name, finishes, tmp_path / name) for name in ("ears", "voice")]
    assert together.train_together(both, cores=1)
    shown = sorted(capsys.readouterr().out.splitlines())
    assert shown == [f"{name:12}epoch    1 | iter    4/4 | loss   1.000" for name in ("ears", "voice")]
    assert (tmp_path / "ears.log").read_text().startswith("DLL 2026-11-22 10:00:00 - epoch")
    assert (tmp_path / "ears").read_text() == (tmp_path / "voice").read_text() == "finished"


def test_an_error_of_one_ends_the_others_which_save_and_is_the_message(together, tmp_path):
    other = tmp_path / "other"
    both = [
        training(together, "ears", saves_when_asked, other),
        training(together, "voice", fails, other, "clips/a.wav: no such file"),
    ]
    with pytest.raises(ConfigError, match=r"the training of the voice ended with an error: clips/a.wav: no such file"):
        together.train_together(both, cores=1)
    assert other.read_text() == "saved"


def test_a_signal_ends_all_of_them_with_what_they_have(together, tmp_path):
    notes = [tmp_path / name for name in ("ears", "voice")]

    def interrupts() -> None:
        while not all(each.exists() for each in notes):
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupts, daemon=True).start()
    before = signal.getsignal(signal.SIGINT)
    assert not together.train_together(
        [training(together, each.name, saves_when_asked, each) for each in notes], cores=1
    )
    assert [each.read_text() for each in notes] == ["saved", "saved"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_that_comes_while_they_are_started_ends_all_of_them_too(together, tmp_path, monkeypatch):
    starts, notes = together.started, [tmp_path / name for name in ("ears", "voice")]

    def interrupted(each, threads):
        started = starts(each, threads)
        signal.raise_signal(signal.SIGTERM)
        return started

    monkeypatch.setattr(together, "started", interrupted)
    trainings = [training(together, each.name, saves_when_asked, each) for each in notes]
    assert not together.train_together(trainings, cores=1)


def test_one_that_cannot_be_started_ends_those_before_it(together, tmp_path, monkeypatch):
    starts, running = together.started, []

    def starts_one(each, threads):
        if running:
            raise OSError("no more processes")
        running.append(starts(each, threads))
        return running[0]

    monkeypatch.setattr(together, "started", starts_one)
    notes = [tmp_path / name for name in ("ears", "voice")]
    with pytest.raises(OSError, match="no more processes"):
        together.train_together([training(together, each.name, saves_when_asked, each) for each in notes], cores=1)
    running[0].process.join(60)
    assert running[0].process.exitcode is not None


def test_cores_are_shared_by_work_and_each_has_one(together, tmp_path):
    def threads(share: float, cores: int) -> int:
        return together.threads_of(training(together, "a", finishes, tmp_path)._replace(share=share), cores)

    assert [threads(share, 2) for share in (0.45, 0.35, 0.2)] == [1, 1, 1]
    assert [threads(share, 16) for share in (0.45, 0.35, 0.2)] == [7, 5, 3]


def test_the_processor_is_shared_by_work_so_that_all_end_together(together, tmp_path):
    notes = [tmp_path / name for name in ("most", "less", "least")]
    shares = (0.44, 0.43, 0.13)
    all_three = [
        training(together, each.name, notes_priority, each)._replace(share=share)
        for each, share in zip(notes, shares, strict=True)
    ]
    assert together.train_together(all_three, cores=2)
    before = os.getpriority(os.PRIO_PROCESS, 0)
    assert [int(each.read_text()) - before for each in notes] == [0, 0, 5]


def test_a_terminal_shows_the_newest_step_of_each_in_one_line(together, tmp_path):
    screen = io.StringIO()
    shown = together.Terminal(screen, [training(together, name, finishes, tmp_path) for name in ("ears", "voice")])
    shown.line("ears", "epoch    1 | iter    1/4 | loss 9.000")
    shown.line("voice", "best so far: 1.0")
    shown.line("ears", "epoch    2 | iter    2/4 | loss 8.000")
    lines = screen.getvalue().rsplit("\x1b[2K", 1)[1].splitlines()
    assert lines[0].startswith("ears         75% -0:0")
    assert lines[0].endswith("epoch    2 | iter    2/4 | loss 8.000")
    assert lines[1] == "voice       starts"
    assert "voice       best so far: 1.0\n" in screen.getvalue()


def test_a_reader_who_left_does_not_end_a_training(together, monkeypatch):
    class Left(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(together, "discard_output", lambda: None)
    shown = together.Lines(Left())
    shown.line("ears", "epoch")
    shown.line("ears", "epoch")


def test_a_run_from_before_there_was_a_setting_is_this_one_and_of_another_seed_another(together, tmp_path, capsys):
    run = Config(output_dir=tmp_path, epochs=2)
    settings = config.to_dict(run)
    del settings["seed"]
    checkpoint.save(tmp_path / "jasper_step00000002.pt", {"config": settings, "progress": {"epoch": 2}})
    assert not together.needs_training(run, "jasper", fresh=False)
    assert "trained before (2 epochs); --fresh trains it anew" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="a run with other settings; --fresh trains anew in its place"):
        together.needs_training(replace(run, seed=1), "jasper", fresh=False)

"""Trainings that need nothing of each other, each in a process of its own, side by side on one terminal.

Ctrl-C, SIGTERM and SIGHUP end all of them after the step under way, with checkpoints; the second one ends them at once.
If one ends with an error, the others are ended (and save) too.
"""

import contextlib
import math
import multiprocessing
import os
import queue
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TextIO

from common.config import ConfigError
from common.interruption import discard_output

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STAMP = re.compile(r"^DLL \S+ \S+ - ")
_PLACE = re.compile(r"^epoch +(\d+) \| iter +(\d+)/(\d+) \| ")
_LABEL = 12  # columns
_CLEAR, _UP = "\r\x1b[2K", "\x1b[1A"


class TrainingJob(NamedTuple):
    """`run(settings)` in a process of its own; `label` stands before what it prints, which `log` keeps.

    `epochs` is how many it has in all. `share` is its part of the work, which decides how many threads it gets, and how
    much of the processor: so that all end at about the same time, and no core waits for the last one.
    """

    label: str
    run: Callable[[Any], object]
    settings: Any
    log: Path
    epochs: int
    share: float
    nice: int = 0


class _Running(NamedTuple):
    training: TrainingJob
    process: BaseProcess
    reader: Connection


def train_together(trainings: Sequence[TrainingJob], *, cores: int) -> bool:
    """Whether all of them ran to the end of what they were asked; False if a signal ended them.

    Raises ConfigError, with what was said last, if one of them ended with an error.
    """
    show = Terminal(sys.stdout, trainings) if sys.stdout.isatty() else Lines(sys.stdout)
    with contextlib.closing(show), _ending() as signals:
        running = []
        most = max((training.share for training in trainings), default=0.0)
        for training in (each._replace(nice=_nice(each.share, most)) for each in trainings):
            running.append(started(training, threads_of(training, cores)))
            signals.add(running[-1].process)
        said: queue.SimpleQueue[tuple[str, str] | _Running] = queue.SimpleQueue()
        listeners = [threading.Thread(target=_listen, args=(each, said), daemon=True) for each in running]
        for listener in listeners:
            listener.start()
        last: dict[str, str] = {}
        ended: list[_Running] = []
        while len(ended) < len(running):
            item = said.get()
            if isinstance(item, _Running):
                ended.append(item)
                item.process.join()  # its pipes are closed a moment before the system knows its status
                if item.process.exitcode:
                    signals.end(because_of=item.training.label)
            else:
                label, line = item
                show.line(label, line)
                last[label] = line
    failed = [each for each in running if each.process.exitcode and not signals.excuses(each.process)]
    if failed:
        raise ConfigError(" ".join(_told(each, last.get(each.training.label, "")) for each in failed))
    return not signals.count


def needs_training(run: Any, name: str, *, fresh: bool) -> bool:
    """Whether there is something to train of the run `run`, whose checkpoints begin with `name`; `fresh` deletes it.

    Settings that a checkpoint of before does not have are the defaults. Raises ConfigError at a run of other settings.
    """
    from common import config
    from common.runs import checkpoint

    folder = run.output_dir
    if fresh and (folder / "nvlog.json").is_file():
        shutil.rmtree(folder)
    saved, _ = checkpoint.load_newest(folder, name)
    if saved is None:
        return True
    if config.to_dict(config.build(type(run), saved["config"], str(folder))) != config.to_dict(run):
        raise ConfigError(f"{folder}: a run with other settings; --fresh trains anew in its place")
    if is_trained := saved["progress"]["epoch"] >= run.epochs:
        print(f"{folder}: trained before ({run.epochs} epochs); --fresh trains it anew")
    return not is_trained


def threads_of(training: TrainingJob, cores: int) -> int:
    """Threads of a training: its share of the machine's cores, rounded down, and at least one."""
    return max(1, int(cores * training.share))


def _nice(share: float, most: float) -> int:
    """How far a training stands back behind the one with the most work: a step is a fourth more time for the others."""
    return min(19, round(math.log(most / share, 1.25)))


def started(training: TrainingJob, threads: int) -> _Running:
    reader, writer = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_work, args=(training, threads, writer))
    # Ctrl-C reaches all processes of a terminal; what it means for these, this one tells them.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, before)
    writer.close()
    return _Running(training, process, reader)


def _work(training: TrainingJob, threads: int, writer: Connection) -> None:
    """What the process does: the training, its output in the pipe, until it, or who started it, ends."""
    os.setsid()
    os.nice(training.nice)
    with contextlib.suppress(OSError):  # Linux may share cores among sessions first, and among their processes then
        Path("/proc/self/autogroup").write_text(str(training.nice))
    for name in ("stdout", "stderr"):  # new ones, since the old may count on a file's position
        descriptor = getattr(sys, name).fileno()
        os.dup2(writer.fileno(), descriptor)
        setattr(sys, name, os.fdopen(descriptor, "w", buffering=1, encoding="utf-8", closefd=False))
    writer.close()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    from common import config
    from common.training.loop import EXPECTED

    torch.set_num_threads(threads)
    with config.reported(*EXPECTED):
        training.run(training.settings)


def _end_with_parent() -> None:
    """Ends this process, with a checkpoint, when the one that started it is no more: nobody would know of it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


class _Signals:
    """What came, and whom it is passed on to."""

    def __init__(self) -> None:
        self.processes: list[BaseProcess] = []
        self.count = 0
        self._because_of = ""

    def add(self, process: BaseProcess) -> None:
        """One more, which is asked to end if a signal came while it was started."""
        self.processes.append(process)
        self._pass_on(process)

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """For `signal.signal`."""
        self.count += 1
        for process in self.processes:
            self._pass_on(process)

    def _pass_on(self, process: BaseProcess) -> None:
        if self.count and process.is_alive():
            process.terminate() if self.count == 1 else process.kill()

    def end(self, *, because_of: str) -> None:
        """Asks the others to end, once."""
        if self._because_of:
            return
        self._because_of = because_of
        for process in self.processes:
            if process.is_alive():
                process.terminate()

    def excuses(self, process: BaseProcess) -> bool:
        """Whether a status of this process only says that it was asked to end before it could do so well."""
        asked = self.count or self._because_of
        return bool(asked) and process.exitcode in (-signal.SIGTERM, -signal.SIGKILL)


@contextlib.contextmanager
def _ending() -> Iterator[_Signals]:
    signals = _Signals()
    taken = [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, signals.handle) for number in taken}
    try:
        yield signals
    except BaseException:
        signals.end(because_of="this process")
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen(running: _Running, said: "queue.SimpleQueue[tuple[str, str] | _Running]") -> None:
    """Lines of one process, with its label, into the queue and its log; then what has ended."""
    training = running.training
    place = training.log
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError:  # of which the training will say what is wrong
        place = Path(os.devnull)
    with (
        place.open("a", encoding="utf-8") as log,
        open(running.reader.fileno(), encoding="utf-8", errors="replace", closefd=False) as lines,
    ):
        for line in lines:
            log.write(line)
            log.flush()
            said.put((training.label, _STAMP.sub("", line.rstrip("\n"))))
    wait([running.process.sentinel])
    said.put(running)


def _told(running: _Running, last: str) -> str:
    status = running.process.exitcode
    how = f"was ended by signal {-status}" if status and status < 0 else "ended with an error"
    label, log = running.training.label, running.training.log
    return f"the training of the {label} {how}: {last.removeprefix('error: ')} ({log} has all that it said)"


class Lines:
    """Every line as it comes, after its label: for files and pipes. Of a reader who left, no more notice is taken."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._has_reader = True

    def line(self, label: str, text: str) -> None:
        """Shows a line of a training."""
        self._write(f"{label:{_LABEL}}{text}\n")

    def close(self) -> None:
        """Nothing is left to show."""

    def _write(self, text: str) -> None:
        try:
            if self._has_reader:
                self._stream.write(text)
                self._stream.flush()
        except OSError:
            self._has_reader = False
            discard_output()


class Terminal(Lines):
    """The newest step of each training in a line of its own, with how far it is and how long it takes; others above."""

    def __init__(self, stream: TextIO, trainings: Sequence[TrainingJob]):
        super().__init__(stream)
        self._epochs = {training.label: training.epochs for training in trainings}
        self._newest = dict.fromkeys(self._epochs, "starts")
        self._first: dict[str, tuple[float, float]] = {}  # how far it was, and when
        self._draw()

    def line(self, label: str, text: str) -> None:
        """A step in place of the one before; other lines above."""
        self._erase()
        if place := _PLACE.match(text):
            epoch, done, steps = map(int, place.groups())
            part = (epoch - 1 + done / steps) / self._epochs[label]
            self._newest[label] = f"{part:4.0%} {self._left(label, part)}  {text}"
        else:
            super().line(label, text)
        self._draw()

    def close(self) -> None:
        """Takes the lines of the steps away."""
        self._erase()

    def _left(self, label: str, part: float) -> str:
        now = time.monotonic()
        before, since = self._first.setdefault(label, (part, now))
        if part <= before:
            return "     "
        minutes, seconds = divmod(round((now - since) * (1 - part) / (part - before)), 60)
        return f"-{minutes}:{seconds:02}"

    def _draw(self) -> None:
        width = shutil.get_terminal_size().columns - 1
        shown = [f"{label:{_LABEL}}{text}"[:width] for label, text in self._newest.items()]
        self._write("".join(f"{line}\n" for line in shown))

    def _erase(self) -> None:
        self._write((_UP + _CLEAR) * len(self._newest))

"""Ends that users ask for: of a training run between two steps, of any other command at once."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from common import starting

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)  # the last is what Slurm's --signal sends


class Interrupted(Exception):  # noqa: N818  it is no error
    """A signal came while something ran that need not be finished; `is_agreed` if all processes know."""

    def __init__(self, *, is_agreed: bool = False):
        super().__init__("interrupted by a signal")
        self.is_agreed = is_agreed


class Termination:
    """Whether a signal asked this process to stop."""

    def __init__(self) -> None:
        self.came = False
        self._raises = False

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Meanwhile a signal raises Interrupted at once; one that came before does so where `held` ends."""
        self._raises = True
        try:
            yield
        finally:
            self._raises = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Within `raising`: meanwhile a signal raises nothing; afterwards one that came does."""
        before, self._raises = self._raises, False
        yield
        self._raises = before
        if self._raises and self.came:
            self._raises = False
            raise Interrupted

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """For `signal.signal`."""
        self.came = True
        if self._raises:
            self._raises = False
            raise Interrupted


@contextlib.contextmanager
def termination() -> Iterator[Termination]:
    """Meanwhile SIGTERM, SIGINT, SIGHUP and SIGUSR1 only set `came`; a second SIGINT (Ctrl-C) ends the process at once.

    At once means also while it waits for other processes, where Python does not run its handlers: a thread looks at
    the signals. A signal that was ignored before (SIGHUP under nohup) still is.
    """
    state = Termination()
    taken = [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, state.handle) for number in taken}
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    woken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_end_at_second_interrupt, args=(reader,), daemon=True).start()
    try:
        yield state
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writer)  # ends the thread


def _end_at_second_interrupt(reader: int) -> None:
    interrupts = 0
    with open(reader, "rb", buffering=0) as signals:
        while numbers := signals.read(64):
            interrupts += numbers.count(signal.SIGINT)
            if interrupts > 1:
                os.write(2, b"interrupted twice: ended at once, nothing more is saved\n")
                os._exit(128 + signal.SIGINT)


def leave_group(_worker: int) -> None:
    """For `worker_init_fn` of a DataLoader: signals to the whole group of processes do not reach its workers.

    torchrun passes SIGTERM on to groups, a terminal Ctrl-C: a training would end at once if its workers died of it.
    What the training does with signals is not what a worker does, which ends when it is told to.
    """
    signal.set_wakeup_fd(-1)
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)
    os.setpgid(0, 0)


@contextlib.contextmanager
def ended_by_the_user() -> Iterator[None]:
    """Ctrl-C, or a reader of the output who left (as `head` does), ends the program, without a traceback.

    What was written until then stays. The status is the shell's for such an end: 130, or 141.
    """
    starting.begin()
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(128 + signal.SIGINT) from None
    except BrokenPipeError:
        discard_output()
        raise SystemExit(128 + signal.SIGPIPE) from None


def discard_output() -> None:
    """What this process writes to standard output from now on, and what Python still has to flush, goes nowhere."""
    with contextlib.suppress(AttributeError, ValueError), Path(os.devnull).open("w") as nowhere:  # closed, or no file
        os.dup2(nowhere.fileno(), sys.stdout.fileno())

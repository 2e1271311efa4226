"""Ends that users ask for: of a training run between two steps, of any other command at once."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def termination() -> Iterator[list[int]]:
    """A list that is not empty once SIGTERM or SIGINT came; the step under way is finished first."""
    came: list[int] = []
    before = {s: signal.signal(s, lambda number, _: came.append(number)) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave_group(_worker: int) -> None:
    """For `worker_init_fn` of a DataLoader: signals to the whole group of processes do not reach its workers.

    torchrun passes SIGTERM on to groups, a terminal Ctrl-C: a training would end at once if its workers died of it.
    """
    os.setpgid(0, 0)


@contextlib.contextmanager
def ended_by_the_user() -> Iterator[None]:
    """Ctrl-C, or a reader of the output who left (as `head` does), ends the program, without a traceback.

    What was written until then stays. The status is the shell's for such an end: 130, or 141.
    """
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(128 + signal.SIGINT) from None
    except BrokenPipeError:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())  # what Python still flushes at its end
        raise SystemExit(128 + signal.SIGPIPE) from None

"""Ending a training run between two steps."""

import contextlib
import signal
from collections.abc import Iterator


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

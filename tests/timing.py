"""Bounds on time that hold on a machine that does other things as well."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")
ATTEMPTS = 5
USUAL = 0.0065  # seconds of `_slowness` on the processor for which bounds are written, an AMD EPYC of 2024


def until(condition: Callable[[], object]) -> None:
    """Returns once the condition holds. What ends a wait for one that never does is the limit of the test."""
    while not condition():
        time.sleep(0.01)


def timed(work: Callable[[], Found]) -> tuple[Found, float]:
    """What `work` gives, and its seconds of processor time, or those of the usual processor where this is slower."""
    before, start = _slowness(), time.process_time()
    found = work()
    took = time.process_time() - start
    return found, took / max(before, _slowness())


def _slowness() -> float:
    """How many times as long as the usual processor this one takes, or 1: others may use its caches and its clock."""
    start = time.process_time()
    sum(i * i % 7 for i in range(150_000))
    return max(1.0, (time.process_time() - start) / USUAL)


def quickest(seconds: float, measure: Callable[[], float]) -> float:
    """The least of up to five measurements; no more are made once one is below `seconds`.

    What else runs makes a measurement longer, of processor time too, and never shorter: one that is below the bound
    shows that the work can be done in it.
    """
    least = float("inf")
    for _ in range(ATTEMPTS):
        least = min(least, measure())
        if least < seconds:
            break
    return least


def assert_takes_less(seconds: float, work: Callable[[], object]) -> None:
    """`work` takes less than that many seconds of processor time, in one of a few attempts."""

    took = quickest(seconds, lambda: timed(work)[1])
    assert took < seconds, f"{took:.2f} s of processor time, more than {seconds}"


def importing(module: str, interpreter: str | Path = sys.executable, cwd: Path | None = None) -> float:
    """Seconds of processor time that a new process takes to start and to import a module, as `timed`."""
    before, code = _slowness(), f"import {module}, time; print(time.process_time())"
    done = subprocess.run([interpreter, "-c", code], capture_output=True, check=True, cwd=cwd)
    return float(done.stdout) / max(before, _slowness())

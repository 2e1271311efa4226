"""Tests marked `gpu` are skipped where torch sees no GPU, and those marked `nightly` are left out unless asked for.

Those of a stand-in device run in a process of their own.
"""

import faulthandler
import gc
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import measured

STDERR = pytest.StashKey[int]()
DEVICE = Path(__file__).with_name("device")

# Tests send signals to themselves and to commands, which would inherit that nohup and `&` in a script ignore some.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """The process that only hands out tests to others imports neither hypothesis nor torch, which takes seconds."""
    if config.getoption("numprocesses", None):
        return
    config.stash[STDERR] = os.dup(2)  # before what tests write to it is caught
    import hypothesis

    gc.disable()  # until `pytest_collection_finish`: what is imported and collected stays
    os.sync = lambda: None
    os.fsync = os.fstat  # as strict, and no test loses power; commands that are tested as processes of their own wait
    # An example takes as long as a busy machine lets it; tests that hang have a limit of their own.
    hypothesis.settings.register_profile("any machine", deadline=None)
    hypothesis.settings.load_profile("any machine")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """tests/device is collected only where it is named: its device changes torch for all of the process, and processes
    that are forked from it cannot compute gradients.
    """
    named = any((config.invocation_params.dir / arg.split("::")[0]).is_relative_to(DEVICE) for arg in config.args)
    return True if collection_path == DEVICE and not named else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `nightly` are asked for by NIGHTLY=1, by `-m nightly`, or each by its name."""
    slow = measured.on_record()
    for item in items:
        if measured.named(item) in slow:
            item.add_marker("slow")
    if os.environ.get("NIGHTLY") or "nightly" in config.option.markexpr or any("::" in arg for arg in config.args):
        return
    left_out = [item for item in items if item.get_closest_marker("nightly")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]


def pytest_collection_finish() -> None:
    """No later collection of garbage looks at what is there by now, and few look at all of what comes."""
    gc.freeze()
    gc.set_threshold(700, 10, 100)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """A test that its limit did not end, as one that waits in native code or while it ends, ends its process, which
    first says where each thread is: others then go on, in a process in its place.

    What a file has left behind, no later collection looks at: one of all that tests import takes a second.
    """
    limit = item.get_closest_marker("timeout")
    seconds = limit.args[0] if limit else float(item.config.getoption("timeout"))
    faulthandler.dump_traceback_later(seconds + 60, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        if nextitem is None or nextitem.path != item.path:
            gc.collect()
            gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Random numbers that no test seeds are the same whatever ran before it in its process, its fixtures' too."""
    random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip(f"torch {torch.__version__} sees no GPU")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Sums depend on the number of threads: runs that must agree bitwise, in whatever process, have one."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)

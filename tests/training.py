"""What the tests of training share: runs in this process and in others, and what they leave."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from common.devices import distributed
from common.devices.distributed import World
from common.runs import checkpoint
from common.runs.logging import RunLogger, read_events
from common.runs.run_directory import RunDirectory, started

REPOSITORY = Path(__file__).resolve().parents[1]


@contextlib.contextmanager
def directory_of(cfg: Any, name: str) -> Iterator[RunDirectory]:
    """The run directory of `cfg`, as a training holds it."""
    with started(cfg, name) as directory:
        yield directory


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[tuple[World, RunLogger]]:
    """What a Trainer on the CPU wants besides its configuration."""
    with distributed.start("cpu") as world, contextlib.closing(RunLogger(folder, tensorboard=False)) as log:
        yield world, log


def state_of(folder: Path) -> dict[str, Any]:
    """The newest checkpoint of a run, whatever the model."""
    (name,) = {path.name.split("_step")[0] for path in folder.glob("*_step*.pt")}
    state, damaged = checkpoint.load_newest(folder, name)
    assert damaged == []
    assert state is not None
    return state


def assert_same_state(a: dict[str, Any], b: dict[str, Any]) -> None:
    """Bitwise, but for the configuration, which says where the run lies."""
    assert a.keys() == b.keys()
    for name in a.keys() - {"config"}:
        assert_same(a[name], b[name], name)


def assert_same(a: Any, b: Any, where: str) -> None:
    assert type(a) is type(b), where
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b), where
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{i}]")
    else:
        assert a == b, where


def logged(folder: Path, key: str = "train_loss") -> list[float]:
    """The values of `key` in the log."""
    return [e["data"][key] for e in read_events(folder / "nvlog.json") if key in e["data"]]


def events(folder: Path) -> list[str]:
    """What the log tells in words."""
    return [e["data"]["event"] for e in read_events(folder / "nvlog.json") if "event" in e["data"]]


def on_record(path: Path) -> list[float]:
    """A golden loss curve: a number per line, and comments."""
    return [float(line) for line in path.read_text().splitlines() if not line.startswith("#")]

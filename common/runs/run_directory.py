"""A run directory: locked by the job that writes it, with checkpoints that are whole or absent, and what changed.

| file | what |
|---|---|
| `config.toml`, `environment.json` | the resolved configuration; versions, device, commit |
| `<name>_step<N>.pt`, `<name>_best.pt` | checkpoints; `*.damaged` are those that were found to be |
| `.lock` | held by the job that writes here: its host and process |
| `bad_batch_rank<R>.pt`, `error_rank<R>.txt` | the batch of a step that was skipped or ended the run; its error |
"""

import contextlib
import errno
import fcntl
import functools
import json
import os
import shutil
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TextIO, TypeVar

from torch import Tensor, nn

from common import config
from common.config import ConfigError
from common.devices import distributed, memory
from common.devices.distributed import World
from common.devices.precision import float32_math
from common.files import atomic
from common.files.json_text import parsed
from common.machine import environment
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from common.runs.logging import RunLogger

FromCheckpoint = Literal["architecture", "half", "any"]
"""What a run takes from the checkpoint that it starts from: its architecture with all weights, or, into the configured
model, the weights that fit, of at least half of the checkpoint or however few.
"""

LOCK = ".lock"
# What may be different in a job that goes on: it changes where, how fast and how often, not what is learned.
FREE = (
    "output_dir", "resume", "device", "every", "keep_epochs", "keep_steps", "epochs_this_job", "steps", "stop_at",
    "dry_run", "tensorboard", "save", "samples", "vocoder", "prediction_frequency", "data.root",
    "data.workers", "data.changed", "data.fit", "compile", "cudnn_benchmark", "optim.max_skipped",
)  # fmt: skip

LEAST = 0.5  # share of a checkpoint that fits, below which the checkpoint is probably the wrong one
MOST_SHOWN, LONGEST_SHOWN = 12, 60  # settings, and characters of both values of one
_ADVICE: dict[FromCheckpoint, str] = {
    "architecture": "take the checkpoint of such a model, or --from_checkpoint any takes what fits",
    "half": "--from_checkpoint architecture makes the model that it describes, any takes what fits",
    "any": "--from_checkpoint architecture makes the model that it describes",
}
T = TypeVar("T", bound=Any)


class RunDirectory:
    """The folder of one run, held by this job: its processes, its log, and its checkpoints.

    `saved` is the checkpoint to go on from, or None for a new run.
    """

    def __init__(self, folder: Path, name: str, world: World, log: RunLogger, saved: dict[str, Any] | None):
        self.folder, self.name, self.world, self.log, self.saved = folder, name, world, log, saved
        self.last_saved: int | None = (saved or {}).get("progress", {}).get("step")
        """The step of the newest checkpoint that is known to be whole."""

    def compare(self, cfg: Any, *, depends_on: Sequence[str]) -> None:
        """Logs a line for each setting that is another than in the job before: "optim.lr 0.02 -> 0.5".

        Raises CheckpointError if the weights depend on one of them (`depends_on`: "model", "optim.kind"), or if
        `checkpoint` or `pretrained` name another start.
        """
        if self.saved is not None:
            for line in changed_settings(self.saved, cfg, depends_on=depends_on):
                self.log.event(f"setting changed: {line}")

    def adopted(
        self, cfg: T, theirs: T | None, parts: Sequence[str], *, keeps: Sequence[str] = (), named: str = "checkpoint"
    ) -> T:
        """`cfg` with the `parts` ("model", "data.energy") of the checkpoint that its run starts from, but for `keeps`.

        They are those of `theirs`, of which one line is logged, or, where the run goes on, those that it has had so
        far. `cfg` as it is if from_checkpoint says so, or no checkpoint is `named`. Raises ConfigError,
        CheckpointError.
        """
        start = getattr(cfg, named)
        if self.saved is not None:
            theirs = _config_in(self.saved, cfg)
            start = getattr(theirs, named)
        if start is None or theirs is None or cfg.from_checkpoint not in ("architecture", "encoder"):
            return cfg
        now, found = config.to_dict(cfg), config.to_dict(theirs)
        kept = {name: _at(now, name) for name in keeps}
        for name, value in ({name: _at(found, name) for name in parts} | kept).items():
            _put(now, name, value)
        new = config.build(type(cfg), now, str(start))
        before, after = _flat(config.to_dict(cfg)), _flat(config.to_dict(new))
        changed = [key for key in after if after[key] != before[key]]
        if self.saved is None and changed:
            pairs = [(key, str(before[key]), str(after[key])) for key in changed]
            shown = [key if len(was + now) > LONGEST_SHOWN else f"{key} {was} -> {now}" for key, was, now in pairs]
            more = f" and {len(shown) - MOST_SHOWN} more" if len(shown) > MOST_SHOWN else ""
            self.log.event(f"{start}: its architecture counts: {', '.join(shown[:MOST_SHOWN])}{more}")
        return new

    def start_from(
        self, network: nn.Module, weights: Mapping[str, Tensor], path: Path, takes: FromCheckpoint = "architecture"
    ) -> None:
        """Gives `network` the weights of the checkpoint at `path` that fit it; logs one line, which names the others.

        Raises CheckpointError where none fits, or less than half does, unless any will do.
        """
        try:
            told = checkpoint.load_matching(network, weights, path, least=0.0 if takes == "any" else LEAST)
        except CheckpointError as error:
            raise CheckpointError(f"{error}; {_ADVICE[takes]}") from None
        self.log.event(f"{path}: {'; '.join(told) or 'taken'}")

    def left_out(self, messages: Iterable[str]) -> None:
        """Logs what of the data cannot be used."""
        for message in messages:
            self.log.event(f"left out: {message}")

    def describe(self, cfg: Any, facts: Iterable[str], *, steps: int, done: int) -> None:
        """Writes config.toml, environment.json and a line of `facts` about the run; begins a bar of all its `steps`.

        Raises OSError.
        """
        if self.world.is_main:
            atomic.write_text(self.folder / "config.toml", config.to_toml(cfg))
            found = environment(self.world.device) | {"processes": self.world.size}
            atomic.write_text(self.folder / "environment.json", json.dumps(found, indent=2) + "\n")
            self.log.parameters(config.to_dict(cfg))
        self.log.event("; ".join(facts))
        self.log.progress(steps, done)

    def save_step(self, step: int, state: dict[str, Any], *, milestones: Sequence[int]) -> None:
        """Writes the checkpoint of `step`, then removes those before it but the milestones and one more.

        For the main process. Raises OSError.
        """
        self._check_there()
        checkpoint.save(checkpoint.step_path(self.folder, self.name, step), state)
        before = [(n, path) for n, path in checkpoint.saved_steps(self.folder, self.name) if n < step]
        for number, path in before[:-1]:
            if number not in milestones:
                path.unlink(missing_ok=True)

    def save(self, kind: str, state: dict[str, Any]) -> None:
        """Writes `<name>_<kind>.pt`. For the main process. Raises OSError."""
        self._check_there()
        checkpoint.save(self.folder / f"{self.name}_{kind}.pt", state)

    def keep_batches(self, step: int, batches: Sequence[Any]) -> tuple[list[str], str]:
        """Writes what this process had in a bad step; the ids of its utterances, and in words where it was saved."""
        path = self.folder / f"bad_batch_rank{self.world.rank}.pt"
        ids = [id_ for batch in batches for id_ in batch.ids]
        try:
            checkpoint.save(path, {"step": step, "ids": ids, "batches": _plain(batches)})
        except OSError as error:
            return ids, f"its batch could not be saved ({error.strerror})"
        return ids, f"batch saved as {path}"

    def safe_step(self) -> str:
        """Which checkpoint is there to go on from, for messages."""
        if self.last_saved is None:
            return "no checkpoint was saved yet"
        return f"the last checkpoint is that of step {self.last_saved}"

    def _check_there(self) -> None:
        if not (self.folder / LOCK).exists():
            raise OSError(errno.ENOENT, "the run directory was removed or replaced under way", str(self.folder))


@contextlib.contextmanager
def started(cfg: Any, name: str, *, saves: bool = True) -> Iterator[RunDirectory]:
    """What a training stands in: its processes, how they multiply, and `cfg.output_dir`, locked, with its log.

    `cfg` has output_dir, resume, device, precision and tensorboard; checkpoints are called after `name`. A run that
    `saves` nothing may begin anew beside checkpoints. Damaged checkpoints are moved aside. Raises ConfigError and
    CheckpointError, the same in all processes.
    """
    folder: Path = cfg.output_dir
    with contextlib.ExitStack() as held:
        held.enter_context(float32_math(cfg.precision))
        world = held.enter_context(distributed.start(cfg.device))
        held.enter_context(memory.uncollected())
        if world.device.type == "cpu":
            held.enter_context(memory.kept())
        problem: Exception | None = None
        newest: Path | None = None
        saved: dict[str, Any] | None = None
        messages: list[str] = []
        if world.is_main:
            try:
                held.enter_context(_removed(folder, tried=getattr(cfg, "dry_run", False)))
                held.enter_context(locked(folder))
                newest, saved, messages = _newest(folder, name, resume=cfg.resume, saves=saves)
                log = held.enter_context(contextlib.closing(RunLogger(folder, tensorboard=cfg.tensorboard)))
            except (ConfigError, CheckpointError) as error:
                problem = error
            except OSError as error:
                problem = ConfigError(f"{folder}: cannot be used as a run directory: {error.strerror or error}")
        else:
            log = RunLogger(folder, enabled=False)
        problem, newest, messages = world.gather((problem, newest, messages))[0]
        if problem is not None:
            raise problem
        for message in messages:
            log.event(message)
        if newest is not None and not world.is_main:
            saved = checkpoint.load(newest)
        yield RunDirectory(folder, name, world, log, saved)


def _newest(
    folder: Path, name: str, *, resume: bool, saves: bool
) -> tuple[Path | None, dict[str, Any] | None, list[str]]:
    """The newest whole checkpoint, what it holds, and what to say of those that are damaged, which are moved aside."""
    for leftover in (*folder.glob(".*.[0-9]*.tmp"), *folder.glob("*/.*.[0-9]*.tmp")):  # of jobs that were killed
        if leftover.parent == folder or not (leftover.parent / LOCK).exists():  # a folder within that is another run's
            leftover.unlink(missing_ok=True)
    steps = checkpoint.saved_steps(folder, name)
    if not resume:
        if steps and saves:  # a new run's checkpoints would be older than these, and be removed
            raise CheckpointError(
                f"{folder}: holds checkpoints of an earlier run, up to step {steps[-1][0]}; "
                "go on from them with --resume true, or take another --output_dir"
            )
        return None, None, []
    saved, damaged = checkpoint.load_newest(folder, name)
    messages = []
    for path in damaged:
        aside = path.with_name(f"{path.name}.damaged")
        path.replace(aside)
        messages.append(f"{path}: damaged, moved to {aside.name}; taking the one before")
    whole = [path for _, path in steps if path not in damaged]
    return (whole[-1] if whole else None), saved, messages


@contextlib.contextmanager
def _removed(folder: Path, *, tried: bool) -> Iterator[None]:
    """Removes `folder`, if it was not there before, where the run was only `tried` or has not begun."""
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        yield
    finally:
        begun = folder.is_dir() and {path.name for path in folder.iterdir()} - {LOCK, "nvlog.json"}
        if new and (tried or not begun):
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                for place in new[1:]:
                    place.rmdir()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Makes `folder` and holds its lock, which ends with this process however it ends.

    Raises ConfigError if another job has it, named by host and process; OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+", encoding="utf-8") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of this process alone: its data workers have no part
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                _take_over(file, folder)  # a file system without locks
            else:
                raise ConfigError(f"{folder}: {_holder(file)} is writing there; take another --output_dir") from None
        file.truncate(0)
        file.write(json.dumps({"host": socket.gethostname(), "process": os.getpid(), "since": _now()}) + "\n")
        file.flush()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                file.truncate(0)


def _take_over(file: TextIO, folder: Path) -> None:
    """Where no lock can be had: by what the file says. Raises ConfigError if that job may still run."""
    file.seek(0)
    try:
        found = parsed(file.read())
        has_ended = found["host"] == socket.gethostname() and not Path(f"/proc/{found['process']}").exists()
    except (ValueError, KeyError, TypeError):
        return
    if not has_ended:
        raise ConfigError(
            f"{folder}: {_holder(file)} is or was writing there, and this file system has no locks to tell; "
            f"take another --output_dir, or remove {folder / LOCK} if that job has ended"
        )


def _holder(file: TextIO) -> str:
    file.seek(0)
    try:
        found = parsed(file.read())
        return f"process {found['process']} on host {found['host']} (since {found['since']})"
    except (ValueError, KeyError, TypeError):
        return "another process"


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def changed_settings(saved: Mapping[str, Any], cfg: Any, *, depends_on: Sequence[str]) -> list[str]:
    """A line for each setting that is another than in the job that `saved`: "optim.lr 0.02 -> 0.5".

    Raises CheckpointError if one of them is among those the weights `depends_on`, or is the checkpoint that the run
    started from.
    """
    before = _flat(config.to_dict(_config_in(saved, cfg)))
    now = _flat(config.to_dict(cfg))
    changed = {
        key: f"{key} {_shown(before.get(key))} -> {_shown(now.get(key))}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key) and not _under(key, ("output_dir", "resume", "epochs_this_job"))
    }
    start = next((line for key, line in changed.items() if key in ("checkpoint", "pretrained")), None)
    if start is not None and (now.get("checkpoint") or now.get("pretrained")):
        raise CheckpointError(
            f"{cfg.output_dir}: holds a run that did not start from there: {start}; take another --output_dir"
        )
    if refused := [line for key, line in changed.items() if _under(key, depends_on)]:
        raise CheckpointError(
            f"{cfg.output_dir}: its newest checkpoint does not fit this configuration: {', '.join(refused)}; "
            "take another --output_dir, or the configuration it was made with"
        )
    return list(changed.values())


def check_same_settings(saved: Mapping[str, Any], cfg: Any) -> None:
    """Raises ConfigError if the settings of a run that is finished are others than those it was made with.

    What only says where and how often is free: see FREE.
    """
    before, now = _flat(config.to_dict(config.build(type(cfg), saved["config"], ""))), _flat(config.to_dict(cfg))
    changed = [key for key in sorted(now) if before.get(key) != now[key] and not _under(key, FREE)]
    if changed:
        pairs = ", ".join(f"{key} {_shown(before.get(key))} -> {_shown(now[key])}" for key in changed)
        raise ConfigError(f"{cfg.output_dir}: this run is finished, and was made with other settings: {pairs}; "
                          "take another --output_dir")  # fmt: skip


def _plain(value: Any) -> Any:
    """`value` as dictionaries and lists of what a checkpoint may hold."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(part) for name, part in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return getattr(value, "message", value)  # of what could not be loaded


def _config_in(saved: Mapping[str, Any], cfg: T) -> T:
    """That of the run that `saved`. Raises CheckpointError."""
    try:
        return config.build(type(cfg), saved["config"], "")
    except (ConfigError, KeyError, TypeError) as error:
        raise CheckpointError(f"{cfg.output_dir}: its newest checkpoint is not of this model: {error}") from None


def _at(settings: Mapping[str, Any], name: str) -> Any:
    """What is there; `settings` itself for the empty name."""
    return functools.reduce(lambda found, part: found[part], name.split(".") if name else (), settings)


def _put(settings: dict[str, Any], name: str, value: Any) -> None:
    group, _, last = name.rpartition(".")
    _at(settings, group)[last] = value


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _under(key: str, names: Sequence[str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in names)


def _shown(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

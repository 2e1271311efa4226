"""What every training loop does around its steps: stop, check, tell, describe itself."""

import contextlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from common import checkpoint, config, distributed
from common.distributed import World
from common.logging import RunLogger, environment
from common.loop import HostCopy
from common.precision import Precision, float32_math
from common.training_state import TrainingError

__all__ = ["HostCopy", "TrainingError"]


def check_settings(cfg: Any, *, counts: Iterable[str], optional: Iterable[str]) -> None:
    """Raises ValueError, which names the field, if a run cannot be as `cfg` says; for its `__post_init__`.

    `counts` are the fields of at least 1, besides batch_size and grad_accumulation, which divides it; `optional` those
    that are 0 for none; ema is a decay.
    """
    for name in (*counts, "batch_size", "grad_accumulation"):
        if getattr(cfg, name) < 1:
            raise ValueError(f"{name} = {getattr(cfg, name)}: expected at least 1")
    for name in optional:
        if not 0 <= getattr(cfg, name) < math.inf:
            raise ValueError(f"{name} = {getattr(cfg, name)}: expected a number, or 0 for none")
    if cfg.batch_size % cfg.grad_accumulation:
        raise ValueError(
            f"batch_size = {cfg.batch_size} is not a multiple of grad_accumulation = {cfg.grad_accumulation}"
        )
    if not 0 <= cfg.ema < 1:
        raise ValueError(f"ema = {cfg.ema}: expected a decay from 0, for none, to below 1")


@contextlib.contextmanager
def started(folder: Path, *, device: str, precision: Precision, tensorboard: bool) -> Iterator[tuple[World, RunLogger]]:
    """What a run stands in: its processes, its log in `folder`, how it multiplies. Raises ConfigError."""
    with (
        float32_math(precision),
        distributed.start(device) as world,
        contextlib.closing(RunLogger(folder, enabled=world.is_main, tensorboard=tensorboard)) as log,
    ):
        yield world, log


def write_run_files(cfg: Any, world: World, log: RunLogger) -> None:
    """The configuration and the environment, into files of the run directory; by the main process."""
    if not world.is_main:
        return
    (log.folder / "config.toml").write_text(config.to_toml(cfg), encoding="utf-8")
    told = environment(world.device) | {"processes": world.size}
    (log.folder / "environment.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    log.parameters(config.to_dict(cfg))


def limit_reached(step: int, limit: int, terminated: Sequence[int], *, ask_every: int, world: World) -> bool:
    """Whether to stop after `step` steps: at the limit (0: none), or because a process was `terminated`.

    A signal is agreed on by all processes; where there are several, every `ask_every` steps.
    """
    if limit and step >= limit:
        return True
    may_ask = world.size == 1 or step % ask_every == 0
    return may_ask and world.any(bool(terminated))


def tell_left_out(messages: Iterable[str], told: set[str], world: World, log: RunLogger) -> list[str]:
    """An event for each message of some process that is not among those `told`, which it joins; all messages of all.

    By all processes together.
    """
    everything = [message for share in world.gather(list(messages)) for message in share]
    for message in sorted(set(everything) - told):
        log.event(f"left out: {message}")
    told.update(everything)
    return everything


def bad_batch(problem: str, ids: Iterable[str], batch: dict[str, Any], folder: Path, world: World) -> TrainingError:
    """Saves the batch; the error that says so. `problem`: which number is what, at which step."""
    path = folder / f"bad_batch_rank{world.rank}.pt"
    checkpoint.save(path, batch)
    return TrainingError(
        f"{problem}; utterances {', '.join(ids)}; batch saved as {path}; "
        "the last checkpoint is from before: lower the learning rate or leave out the bad utterance"
    )


def check_finite(state: Iterable[Tensor], *, after: str, world: World) -> None:
    """Raises TrainingError in all processes if the `state` of one is not finite: a gradient may be so where its loss
    was not. `after`: "step 3". Waits for the device.
    """
    numbers = [tensor for tensor in state if tensor.is_floating_point() and tensor.numel()]
    norms = torch.stack(torch._foreach_norm(numbers, ord=math.inf))
    if world.any(not norms.isfinite().all()):
        raise TrainingError(
            f"weights or running statistics are not finite after {after}, though its loss was; "
            "the last checkpoint is from before: lower the learning rate"
        )

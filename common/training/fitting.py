"""How many seconds of audio a device has memory for, found by real steps."""

import copy
import functools
import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch

from common.data.batching import BatchingError
from common.devices.distributed import World
from common.runs.run_directory import RunDirectory

T = TypeVar("T", bound=Any)
MARGIN = 0.9  # of what fits is used: other batches have other texts, and memory has gaps
MOST_SECONDS = 3600.0  # of audio in a batch; more is tried by nobody
MOST_TIMES = 8  # as many of the shortest utterances as of the longest are tried together


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device, or the host, had no memory for what was asked of it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)  # of torch's CPU allocator


def too_large(batch: Any, cfg: Any, directory: RunDirectory, step: int) -> str:
    """What is said where memory did not suffice for the `batch` of the step after `step`, and what to set."""
    parts = batch if isinstance(batch, list) else [batch]
    parts = [part if hasattr(part, "ids") else part[0] for part in parts]  # some come with weights
    ids, saved = directory.keep_batches(step, parts)
    shapes = ", ".join(" x ".join(map(str, part.audio_BN.shape)) for part in parts)
    lower = "batch_seconds" if getattr(cfg, "batch_seconds", 0) else "batch_size"
    lower = "data.max_tokens" if hasattr(cfg.data, "max_tokens") else lower
    advice = ", which --data.fit true finds in a new run" if hasattr(cfg.data, "fit") else ""
    return (
        f"out of memory at step {step + 1}, in a batch of {shapes} samples; utterances {', '.join(ids)}; {saved}: "
        f"lower {lower}{advice}"
    )


def in_epochs(run: Any) -> tuple[Any, np.ndarray | None]:
    """Durations of a run's utterances, and their numbers where these are not 0 and on."""
    return run.epochs.seconds, run.epochs.rows


def fitted(
    cfg: T,
    directory: RunDirectory,
    begin: Callable[[T, RunDirectory], Any],
    step: Callable[..., Any],
    lengths: Callable[[Any], tuple[Any, np.ndarray | None]] = in_epochs,
) -> T:
    """`cfg` with the seconds of a batch that fit, where data.fit wants that they are found; a run keeps its own.

    `begin` makes a run, which is thrown away; `step` makes a step of it, on a batch of indices. Each process tries on
    its own device, as if alone, and all take what fits everywhere. `cfg` is `budgeted` with seconds, and says which
    settings that changes as BUDGET. Raises BatchingError where nothing fits.
    """
    if not cfg.data.fit:
        return cfg
    if directory.saved is not None:
        saved = directory.saved["config"]
        of_data = {name[5:]: saved["data"][name[5:]] for name in cfg.BUDGET if name.startswith("data.")}
        others = {name: saved[name] for name in cfg.BUDGET if "." not in name}
        return replace(cfg, data=replace(cfg.data, **of_data), **others)
    alone = copy.copy(directory)
    alone.world, alone.log = World(rank=0, size=1, device=directory.world.device), copy.copy(directory.log)
    alone.log.event = lambda message: None  # type: ignore[method-assign]  # which the run itself says again
    run = begin(cfg.budgeted(0.0), alone)
    longest, count = _found(run, step, *lengths(run))
    del run
    _freed()
    count = min(directory.world.gather(count))
    least = getattr(cfg, "concat_batches", 1)
    if count < least:
        each = f", in each of {least} concat_batches," if least > 1 else ""
        raise BatchingError(
            f"data.fit: not even one utterance of {longest:.2f} s{each} fits into the memory of {alone.world.device}: "
            f"lower {cfg.BUDGET[-1]}, or take another --precision"
        )
    fitting, name = cfg.budgeted(max(least, int(MARGIN * count)) * longest), cfg.BUDGET[0]
    found = functools.reduce(getattr, name.split("."), fitting)
    directory.log.event(
        f"fit: {count} utterances of {longest:.2f} s fit into memory; "
        f"{name} = {found:{'.2f' if isinstance(found, float) else ''}} is used and stored"
    )
    return fitting


def _found(run: Any, step: Callable[..., Any], seconds: Any, numbers: np.ndarray | None) -> tuple[float, int]:
    """Seconds of the longest utterance, and how many like it fit into a step, by doubling and bisection."""
    seconds = np.asarray(seconds)
    order = np.argsort(-seconds, kind="stable")
    rows = order if numbers is None else numbers[order]
    longest, shortest = float(seconds.max()), rows[-max(1, len(rows) // 10) :]
    times = min(MOST_TIMES, longest / max(float(seconds.min()), longest / MOST_TIMES))

    def fits(count: int) -> bool:
        """Whether batches of so many of the longest, and of as long together of the shortest, fit."""
        try:
            for own in (np.resize(rows, count), np.resize(shortest, int(count * times))):
                step(run, own.tolist())
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        else:
            return True
        run.learner.optimizer.zero_grad(set_to_none=True)
        _freed()
        return False

    low, high, most = 0, 1, max(1, int(MOST_SECONDS / longest))
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > max(1, low // 20):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return longest, low


def _freed() -> None:
    """Gives back what an attempt left."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()

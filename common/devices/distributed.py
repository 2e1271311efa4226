"""One process or many, by torchrun, through the same code path."""

import contextlib
import importlib
import itertools
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from common.config import ConfigError

BEAT = 0.5  # seconds


class Pulse:
    """Says in a thread, through the store by which processes met, that this one lives; knows which others do not."""

    def __init__(self, rank: int, size: int):
        self.rank, self.size = rank, size
        self._store = dist.distributed_c10d._get_default_store().clone()  # type: ignore[attr-defined]  # own connection: the other may be waiting
        self._store.set_timeout(timedelta(seconds=10 * BEAT))
        self._store.set(f"host {rank}", socket.gethostname())
        self._ends = threading.Event()
        self._silent: list[int] = []
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        beats = itertools.count()
        with contextlib.suppress(RuntimeError):  # the store is gone
            while not self._ends.wait(BEAT):
                self._store.set(f"beat {self.rank}", str(next(beats)))

    def end(self, error: BaseException | None) -> None:
        """No longer; after an `error`, the others can tell who ended first."""
        self._ends.set()
        self._thread.join(10 * BEAT)
        if error is not None:
            with contextlib.suppress(RuntimeError):
                self._store.set(f"end {self.rank}", "")
                if self.rank == 0 and self._silent:  # it may keep the store, in which the others look now, too
                    looking = [f"end {rank}" for rank in range(1, self.size) if rank not in self._silent]
                    self._store.wait(looking, timedelta(seconds=40 * BEAT))

    def lost(self) -> str:
        """Which other processes are stopped or dead, by rank and host, or ended by an error of theirs; "" for none.

        Takes some beats.
        """
        others = [rank for rank in range(self.size) if rank != self.rank]
        try:
            before = self._beats(others)
            time.sleep(5 * BEAT)
            silent = self._silent = [rank for rank, beat in self._beats(others).items() if beat == before[rank]]
            ended = [rank for rank in silent if self._store.check([f"end {rank}"])]
            named = [
                f"rank {rank} on {self._store.get(f'host {rank}').decode()}"
                for rank in sorted(set(silent) - set(ended)) or ended
            ]
        except RuntimeError:
            return f"rank 0 on {os.environ.get('MASTER_ADDR')}, or the launcher there, is dead or cannot be reached"
        what = "ended by an error" if len(ended) == len(silent) else "does not answer: stopped or dead"
        return f"{', '.join(named)} {what}" if named else ""

    def _beats(self, ranks: list[int]) -> dict[int, bytes]:
        keys = {rank: f"beat {rank}" for rank in ranks}
        return {rank: self._store.get(key) if self._store.check([key]) else b"" for rank, key in keys.items()}


@dataclass(frozen=True, kw_only=True)
class World:
    """This process among all: `rank` of `size`, and the device it computes on."""

    rank: int
    size: int
    device: torch.device
    pulse: Pulse | None = None
    """Tells which other processes are gone."""

    @property
    def is_main(self) -> bool:
        """Whether this process writes logs and checkpoints."""
        return self.rank == 0

    def mean(self, value: Tensor) -> Tensor:
        """The mean of `value` over all processes (a new tensor)."""
        return self.sum(value) / self.size

    def sum(self, value: Tensor) -> Tensor:
        """The sum of `value` over all processes (a new tensor)."""
        total = value.detach().clone()
        if self.size > 1:
            dist.all_reduce(total)
        return total

    def gather(self, item: Any) -> list[Any]:
        """`item` of every process, by rank, in every process."""
        if self.size == 1:
            return [item]
        items: list[Any] = [None] * self.size
        dist.all_gather_object(items, item)
        return items

    def any(self, flag: bool) -> bool:
        """Whether `flag` is set in at least one process."""
        if self.size == 1:
            return flag
        return bool(self.sum(torch.tensor(float(flag), device=self.device)).item())

    def barrier(self) -> None:
        """Waits until every process is here."""
        if self.size > 1:
            dist.barrier()


@contextlib.contextmanager
def start(device: str = "auto") -> Iterator[World]:
    """Joins the processes that torchrun started, or stands alone. `device` is what `pick_device` takes.

    Several processes take one GPU each, whatever its number in `device`. Raises ConfigError.
    """
    rank, size, local_rank = _number("RANK", 0), _number("WORLD_SIZE", 1), _number("LOCAL_RANK", 0)
    if not 0 <= rank < size:
        raise ConfigError(f"RANK = {rank}, WORLD_SIZE = {size}: expected a rank from 0 to below the size")
    chosen = pick_device(device)
    if chosen.type != "cpu":
        if size > 1 or chosen.index is None:
            chosen = torch.device(chosen.type, local_rank)
        torch.accelerator.set_device_index(chosen.index)
    if size > 1:
        # Default arguments there are the group of the moment of import: later, they would keep it and its threads
        # alive when the interpreter ends, which such a thread may abort (pytorch issue 190489).
        importlib.import_module("torch.distributed.nn.functional")
        backend, gpu = ("nccl", chosen) if chosen.type == "cuda" else ("gloo", None)
        # With its device NCCL connects now, not in the first step, and a barrier need not guess the GPU.
        dist.init_process_group(backend, device_id=gpu, timeout=_timeout())
    pulse = Pulse(rank, size) if dist.is_initialized() else None
    try:
        yield World(rank=rank, size=size, device=chosen, pulse=pulse)
    finally:
        if pulse is not None:
            pulse.end(sys.exception())
    if size > 1:
        dist.barrier()  # who leaves early breaks the connections of the others
        dist.destroy_process_group()  # not after an error: NCCL would wait for the others, who wait for this process


def _number(variable: str, default: int) -> int:
    """What torchrun, or whoever started this process, says in the environment. Raises ConfigError."""
    text = os.environ.get(variable) or str(default)
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{variable} = {text!r} in the environment: expected a whole number; unset it") from None


def _timeout() -> timedelta | None:
    """How long a process waits for the others: DISTRIBUTED_TIMEOUT_MINUTES, or torch's own. Raises ConfigError."""
    told = os.environ.get("DISTRIBUTED_TIMEOUT_MINUTES", "")
    if not told:
        return None
    try:
        minutes = float(told)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes < math.inf:
        raise ConfigError(f"DISTRIBUTED_TIMEOUT_MINUTES = {told!r}: expected a number of minutes above 0")
    return timedelta(minutes=minutes)


def pick_device(name: str) -> torch.device:
    """The device called `name`: "auto" (CUDA where there is one, else the CPU), "cpu", "cuda", "cuda:N".

    Other types of device that torch knows are taken too. Raises ConfigError.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device {name!r}: expected auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device {name!r}: this torch ({torch.__version__}) sees no CUDA device; use --device cpu")
    return device


def data_parallel(model: nn.Module, world: World) -> nn.Module:
    """`model` with gradients averaged over all processes; `model` itself where there is one process."""
    if world.size == 1:
        return model
    device_ids = [world.device.index] if world.device.type != "cpu" else None
    return nn.parallel.DistributedDataParallel(model, device_ids=device_ids, gradient_as_bucket_view=True)


def share_buffers(model: nn.Module, world: World) -> None:
    """Gives every process the first one's buffers (running statistics), so that all evaluate the same model."""
    if world.size > 1:
        for buffer in model.buffers():
            dist.broadcast(buffer, src=0)


def total(norm: Tensor) -> Tensor:
    """A norm over all processes' parts as an ordinary tensor."""
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


def gradient_sync(model: nn.Module, *, enabled: bool) -> contextlib.AbstractContextManager[None]:
    """Whether the next backward exchanges gradients: only the last of an accumulated step needs to."""
    if set_sync := getattr(model, "set_requires_gradient_sync", None):  # FSDP2
        set_sync(enabled)
        return contextlib.nullcontext()
    if enabled or not isinstance(model, nn.parallel.DistributedDataParallel):
        return contextlib.nullcontext()
    return model.no_sync()

"""Processes that find each other as those of torchrun do, each with its own exit status."""

import importlib
import os
import runpy
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch

REPOSITORY = Path(__file__).resolve().parents[1]


class Ended(NamedTuple):
    """What became of processes, by rank."""

    statuses: list[int]
    told: list[list[str]]
    """Lines of stdout and stderr."""

    @property
    def said(self) -> str:
        """The lines of all."""
        return "\n".join(line for lines in self.told for line in lines)


def run_module(*words: object, processes: int = 1) -> Ended:
    """`python -m` of these words in forked processes, which need not import torch again; they must end well."""
    ended = fork_module(*words, processes=processes)
    assert not any(ended.statuses), ended.said
    return ended


def fork_module(*words: object, processes: int = 1) -> Ended:
    """The same of processes that may end in whatever way."""

    return fork(lambda: run_here(*words), processes=processes)


def run_here(*words: object) -> None:
    """The same in this process, which is a child of the tests."""
    sys.argv = [str(word) for word in words]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def fork(work: Callable[[], None], *, processes: int = 2, seconds: float = 500) -> Ended:
    """Calls `work` in forked processes of one thread each."""
    if processes > 1:
        importlib.import_module("torch._dynamo")  # by DistributedDataParallel: here once, and not in each of them
    shared = _variables(processes)
    with TemporaryDirectory() as folder:
        files = [Path(folder) / f"{rank}" for rank in range(processes)]
        running = {}
        for rank, file in enumerate(files):
            running[pid := os.fork()] = rank
            if pid == 0:
                os.environ.update(shared, RANK=str(rank), LOCAL_RANK=str(rank))
                _child(work, file)
        statuses, ends = [-signal.SIGKILL] * processes, time.monotonic() + seconds
        while running:
            for pid in list(running):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    statuses[running.pop(pid)] = os.waitstatus_to_exitcode(status)
                elif time.monotonic() > ends:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        return Ended(statuses, [file.read_text().splitlines() for file in files])


def _child(work: Callable[[], None], file: Path) -> None:
    """Never returns: what happens, the child must not go on with the tests."""
    status = 1
    try:
        torch.set_num_threads(1)
        with file.open("w", encoding="utf-8", buffering=1) as told:
            os.dup2(told.fileno(), 1)
            os.dup2(told.fileno(), 2)
            sys.stdout = sys.stderr = told
            try:
                work()
                status = 0
            except SystemExit as end:
                if isinstance(end.code, str):
                    print(end.code)
                else:
                    status = int(end.code or 0)
            except BaseException:
                traceback.print_exc()
    finally:
        os._exit(status)


def run_python(*arguments: object, processes: int = 2) -> tuple[list[int], list[list[str]]]:
    """`python` of these words in every process, new ones: exit statuses and lines of stderr, by rank."""
    shared = _variables(processes) | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)}
    ranks = [
        subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            env=os.environ | shared | {"RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    told = [process.communicate()[1].splitlines() for process in ranks]
    return [process.returncode for process in ranks], told


def _variables(processes: int) -> dict[str, str]:
    """What torchrun tells all of them; nothing where there is one."""
    if processes == 1:
        return {}
    return {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}


def free_port() -> int:
    """A port for a server that starts later. No client gets it meanwhile, as those that the system chooses; one that
    asks for it again and again would be connected with itself in the end."""
    from trt.serving.triton.program import free

    return free([0])[0]

"""Processes that find each other as those of torchrun do, each with its own exit status."""

import os
import socket
import subprocess
import sys

from tests.training import REPOSITORY


def run_python(*arguments: object, processes: int = 2) -> tuple[list[int], list[list[str]]]:
    """`python` of these words in every process: exit statuses and lines of stderr, by rank."""
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    shared |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)}
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
    told = [process.communicate(timeout=60)[1].splitlines() for process in ranks]
    return [process.returncode for process in ranks], told


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]

"""Memory that a training keeps from step to step, and memory that goes back to the system."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from common import memory

STEPS = """
import resource, torch
from common import memory
print(memory.keep())
for step in range(6):
    if step == 3:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    large = [torch.zeros(2**22) for _ in range(8)]
    del large
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def kept_and_faults(**environment: str) -> list[str]:
    """Whether it says that memory is kept, and how many pages took 24 tensors of 4096."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", STEPS]
    said = subprocess.run(command, env=inherited | environment, capture_output=True, text=True, check=True)
    return said.stdout.split()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's C library does so")
def test_a_large_tensor_takes_the_memory_of_the_one_before():
    kept, faults = kept_and_faults()
    assert kept == "True"
    assert int(faults) < 24 * 4096 / 4


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's C library does so")
def test_what_the_environment_says_stays():
    assert kept_and_faults(MALLOC_TRIM_THRESHOLD_="131072")[0] == "False"


def test_freed_memory_goes_back_where_the_c_library_can_do_that(monkeypatch):
    kept: list[int] = []
    monkeypatch.setattr("ctypes.CDLL", lambda name: SimpleNamespace(malloc_trim=kept.append))
    assert memory.can_give_back()
    memory.give_back()
    assert kept == [0]


def test_other_c_libraries_keep_it(monkeypatch):
    def no_library(name: None) -> None:
        raise TypeError("bad argument type for built-in operation")

    for library in (lambda name: SimpleNamespace(), no_library):
        monkeypatch.setattr("ctypes.CDLL", library)
        assert not memory.can_give_back()
        memory.give_back()

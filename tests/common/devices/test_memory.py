"""Memory that a training keeps from step to step, and memory that goes back to the system."""

import gc
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from common.devices import memory

STEPS = """
import ctypes, resource
from common.devices import memory
def steps():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for step in range(3):
        large = [ctypes.create_string_buffer(2**24) for _ in range(8)]
        del large
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def held():
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1])
before = held()
with memory.kept() as is_kept:
    steps()
    print(is_kept, steps(), held() - before)
print(held() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's C library does so")
def test_what_is_large_takes_the_memory_of_what_was_before_and_at_the_end_it_goes_back():
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    said = subprocess.run([sys.executable, "-c", STEPS], env=inherited, capture_output=True, text=True, check=True)
    is_kept, faults, pages_within, pages_after = said.stdout.split()
    assert is_kept == "True"
    assert int(faults) < 24 * 4096 / 4  # of 24 times 16 MiB
    assert int(pages_within) > 7 * 4096
    assert int(pages_after) < 4096


HEAPS = """
import ctypes, os, threading
from common.devices import memory
if os.environ["HEAPS"] == "one":
    memory.in_one_heap()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def held():
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1])
def take_and_free():
    places = [libc.malloc(2**16) for _ in range(400)]
    for place in places:
        ctypes.memset(place, 1, 2**16)
    for place in places:
        libc.free(place)
    done.set()
    ends.wait()
libc.mallopt(-1, 2**30)  # as glibc sets it itself once it has seen large pieces
before, done, ends = held(), threading.Event(), threading.Event()
threading.Thread(target=take_and_free).start()
done.wait()
memory.give_back()
print(held() - before)
ends.set()
"""


@pytest.mark.skipif(not memory.can_give_back(), reason="glibc does so")
def test_memory_that_threads_freed_goes_back_from_one_heap():
    def pages_after(heaps: str) -> int:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
        command = [sys.executable, "-c", HEAPS]
        return int(subprocess.check_output(command, env=inherited | {"HEAPS": heaps}, text=True))

    assert pages_after("one") < 300 < pages_after("each")


def test_what_the_environment_says_stays(monkeypatch):
    def set_option(number: int, value: int) -> int:
        raise AssertionError("the environment has said it")

    monkeypatch.setattr("ctypes.CDLL", lambda name: SimpleNamespace(mallopt=set_option))
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    memory.in_one_heap()
    with memory.kept() as is_kept:
        assert not is_kept


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


def test_the_collector_passes_over_what_is_there_and_no_longer_than_that():
    with memory.uncollected():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0

"""Reads mutated files in a process of its own, under limits of time and memory, and counts what becomes of them."""

import gc
import multiprocessing
import random
import resource
import signal
import tempfile
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tests.fuzz.mutator import mutated
from tests.fuzz.readers import READERS, Reader

SECONDS_EACH = 5
WAITING = 6
"""How many times as long a reader may wait."""
MEMORY = 1 << 30
"""Bytes that a reader may take beyond what its process has at the start."""


class Finding(NamedTuple):
    """A file that was neither read nor refused."""

    what: str
    number: int
    told: str


class Result(NamedTuple):
    """What became of a reader's files."""

    counts: Counter[str]
    findings: list[Finding]


def file_of(reader: Reader, seed: int, number: int) -> tuple[str, bytes]:
    """Suffix and content of mutation `number`, a function of it and the seed."""
    draw = random.Random(f"{seed}/{number}")
    suffix, content = draw.choice(reader.seeds)
    return suffix, mutated(content, draw)


def fuzz(name: str, *, seed: int, seconds: float, most: int, least: int = 0) -> Result:
    """At most `most` mutations in at most `seconds`, but `least` in any case; a process that dies is a finding, and
    another goes on."""
    counts: Counter[str] = Counter()
    findings: list[Finding] = []
    reader = READERS[name]()
    end = time.monotonic() + seconds
    first = 0
    while first < least or (first < most and time.monotonic() < end):
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(reader, seed, range(first, most), least, end, theirs))
        process.start()
        theirs.close()
        first, is_done = _collect(ours, first, counts, findings)
        process.join(SECONDS_EACH)
        if not is_done:
            process.kill()
            process.join()
            findings.append(Finding("crash", first, f"exit status {process.exitcode}"))
            counts["crash"] += 1
            first += 1
        elif first < most:
            break
    return Result(counts, findings)


def _collect(ours: Any, first: int, counts: Counter[str], findings: list[Finding]) -> tuple[int, bool]:
    """(the number of the file that was not finished, whether the process ended by itself)."""
    with suppress(EOFError):
        while ours.poll(4 * WAITING * SECONDS_EACH):
            message = ours.recv()
            if message is None:
                return first, True
            number, what, told = message
            counts[what] += 1
            first = number + 1
            if what not in ("read", "refused"):
                findings.append(Finding(what, number, told))
    return first, False


class _TimeUpError(BaseException):
    """A reader took too long; no reader catches it."""


def _time_up(*_: object) -> None:
    raise _TimeUpError


def _work(reader: Reader, seed: int, numbers: range, least: int, end: float, theirs: Any) -> None:
    gc.freeze()  # what was made before the fork may end by waiting for threads that are not here, as ONNX Runtime's do
    torch.set_num_threads(1)  # threads of OpenMP do not survive a fork: a second one would be waited for, for ever
    for kind in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(kind, _time_up)
    started = time.monotonic()
    _limit_memory(2 * MEMORY)
    _warm_up(reader)
    end += time.monotonic() - started
    _limit_memory(MEMORY)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            if number >= least and time.monotonic() > end:
                break
            suffix, content = file_of(reader, seed, number)
            path = Path(folder) / f"file{suffix}"
            path.write_bytes(content)
            theirs.send((number, *outcome(reader, path)))
    theirs.send(None)


def _limit_memory(more: int) -> None:
    """Lets this process take so many bytes more than it has now."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)  # which nobody but root can raise
    bound = used + more if most == resource.RLIM_INFINITY else min(used + more, most)
    resource.setrlimit(resource.RLIMIT_AS, (bound, most))


def _warm_up(reader: Reader) -> None:
    """Imports what the first file imports, which does not count as time and memory of its reader."""
    suffix, content = reader.seeds[0]
    with suppress(Exception, _TimeUpError), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        path.write_bytes(content)
        signal.alarm(WAITING * SECONDS_EACH)
        try:
            reader.read(path)
        finally:
            signal.alarm(0)


def outcome(reader: Reader, path: Path) -> tuple[str, str]:
    """(read, refused, traceback, memory or hang; the words of the last)."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS_EACH)  # of the processor: a busy machine makes nothing hang
    signal.alarm(WAITING * SECONDS_EACH)
    try:
        reader.read(path)
        return "read", ""
    except reader.errors:
        return "refused", ""
    except MemoryError:
        return "memory", traceback.format_exc(limit=-3)
    except _TimeUpError:
        return "hang", traceback.format_exc(limit=-3)
    except Exception:
        return "traceback", traceback.format_exc(limit=-3)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)

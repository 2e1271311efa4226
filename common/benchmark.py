"""Measuring, and keeping what was measured: rows of benchmarks/results/*.jsonl, from which README tables are rendered.

Warm-up is excluded, the device is synchronised around every single call, percentiles are over single calls, and the
sides of a comparison take turns in one run. A row says how far the repeats lie apart, of which commit the code was, and
how fast the machine multiplies and copies, so that a time can be read as a share of what is possible.
"""

import functools
import json
import math
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch.profiler import ProfilerActivity, profile

from common import config
from common.convolution import native
from common.machine import commit, environment, processor_flags
from common.threads import torch_threads

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
Clock = Literal["wall", "processor"]
Named = TypeVar("Named", bound=Any)  # a class of settings with a name
USUAL = {
    "Measurement": ("task", "batch_sizes", "seconds", "sides", "modes", "precisions", "precision", "checkpoint"),
    "Machine and rows": ("device", "threads", "repeats", "clock", "results"),
}  # of `--help`
COMMIT = commit()  # now, before anything that is measured changes the tree
CLOCKS: dict[Clock, Callable[[], float]] = {"wall": time.perf_counter, "processor": time.process_time}


class Timings(NamedTuple):
    """Milliseconds of single calls, in the order they were made."""

    milliseconds: list[float]

    def percentile(self, percent: float) -> float:
        """The smallest time that at least `percent` % of the calls did not exceed (nearest rank)."""
        ordered = sorted(self.milliseconds)
        return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]

    def summary(self) -> dict[str, float]:
        """p50, p90, p95, p99, mean and spread, as benchmark rows have them."""
        row = {f"p{p}": round(self.percentile(p), 4) for p in (50, 90, 95, 99)}
        row |= {"mean": round(statistics.fmean(self.milliseconds), 4), "n": len(self.milliseconds)}
        return row | {"spread": spread(self)}


@dataclass(frozen=True, kw_only=True)
class TimingSettings:
    """How a benchmark times calls, and where its rows go."""

    repeats: int = 20
    """Calls that are timed."""
    warmup: int = 3
    """Calls before those that are timed."""
    clock: Clock = "wall"
    """Time that is measured: the time that passes, or processor time, for a machine that others use too."""
    results: Path = RESULTS
    """Folder of the file that rows are appended to."""

    def compared(self, calls: Mapping[str, Callable[[], Any]], device: torch.device) -> dict[str, Timings]:
        """`compare` with these settings."""
        clock = CLOCKS[self.clock]
        return compare(calls, device=device, warmup=self.warmup, repeats=self.repeats, clock=clock)


def command_line(cls: type[Named], description: str | None, *, unnamed: str = "") -> Named:
    """As `common.config.command_line`; rows that are given no name have that of the last TOML file, or `unnamed`."""
    cfg = config.command_line(cls, description=description or "")
    files = [Path(argument).stem for argument in sys.argv[1:] if argument.endswith(".toml")]
    return replace(cfg, name=cfg.name or (files[-1] if files else unnamed))


def spread(*sides: Timings) -> float:
    """How far repeats lie apart: half of the calls around the median, as a part of it; the most of several sides."""
    most = max((side.percentile(75) - side.percentile(25)) / side.percentile(50) for side in sides)
    return round(most, 4)


def compare(
    calls: Mapping[str, Callable[[], Any]],
    *,
    device: torch.device,
    warmup: int = 2,
    repeats: int = 20,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timings]:
    """Times several calls in turns (A B C A B C …), so that drift of the machine reaches all of them alike.

    `clock` gives seconds; `time.process_time` counts those of the processor alone, where others use it too.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(warmup + repeats):
        for name, call in calls.items():
            _synchronise(device)
            start = clock()
            call()
            _synchronise(device)
            if turn >= warmup:
                times[name].append((clock() - start) * 1e3)
    return {name: Timings(values) for name, values in times.items()}


def ratio(slow: Timings, fast: Timings) -> float:
    """Median over the turns of slow/fast: how many times faster `fast` is."""
    return statistics.median(s / f for s, f in zip(slow.milliseconds, fast.milliseconds, strict=True))


def peak_memory(call: Callable[[], object], device: torch.device) -> int:
    """Bytes that torch's allocator holds at most during `call` beyond what it held before."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        call()
        return torch.cuda.max_memory_allocated(device) - before
    os.environ.setdefault(
        "KINETO_LOG_LEVEL", "6"
    )  # the profiler reports its start and stop on stderr at all levels below
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        call()
    held = peak = 0
    results = profiled.profiler.kineto_results
    for _, size in sorted((e.start_ns(), e.nbytes()) for e in results.events() if e.name() == "[memory]"):
        held += size
        peak = max(peak, held)
    return peak


def peak_memory_mib(call: Callable[[], object], device: torch.device) -> int | None:
    """MiB that torch's allocator holds at most during `call`, weights of all models included; None on a CPU."""
    if device.type != "cuda":
        return None
    held = torch.cuda.memory_allocated(device)
    return round((held + peak_memory(call, device)) / 2**20)


def process_peak_mib() -> float:
    """The most memory that this process has held. On Linux `ru_maxrss` begins with that of the process before it."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


@functools.cache
def limits(device: torch.device) -> dict[str, float | None]:
    """What no code is faster than on this machine, measured: 10^9 floating-point operations a second of a loop of
    multiply-adds in float32 on one thread of a CPU (None where native code is missing), or of float16 matrices on a
    GPU; 10^9 bytes a second that a copy reads and writes."""
    rounds, operations = 1 << 18, 0
    calls: dict[str, Callable[[], object]] = {}
    if device.type == "cuda":
        a, b = torch.ones(2, 4096, 4096, device=device, dtype=torch.float16)
        operations = 2 * 4096**3
        calls["multiply"] = lambda: torch.matmul(a, b)
    elif library := native.load():
        operations = 2 * rounds * library.convolution_multiply_adds(0)
        calls["multiply"] = lambda: library.convolution_multiply_adds(rounds)
    source = torch.ones(1 << 25, device=device)
    copied = torch.empty_like(source)
    calls["copy"] = lambda: copied.copy_(source)
    clock = time.perf_counter if device.type == "cuda" else time.process_time  # others may use the cores too
    with torch_threads(1):
        times = compare(calls, device=device, repeats=15, clock=clock)
    fastest = {name: min(side.milliseconds) for name, side in times.items()}
    return {
        "peak_gflops": round(operations / fastest["multiply"] / 1e6, 1) if operations else None,
        "copy_gb_per_second": round(2 * source.nbytes / fastest["copy"] / 1e6, 1),
    }


def append_row(name: str, row: Mapping[str, Any], *, device: torch.device, folder: Path = RESULTS) -> dict[str, Any]:
    """Appends `row`, with date, commit, device, its limits and versions, to `<folder>/<name>.jsonl`; returns what was
    written."""
    about = environment(device) | {"commit": COMMIT, "processor_flags": processor_flags()}
    full = {"date": date.today().isoformat(), **about, **limits(device), **row}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(full) + "\n")
    return full


def print_row(row: Mapping[str, Any], columns: Mapping[str, str], *, with_heads: bool) -> None:
    """Prints what `row` has under the names of `columns`, first their heads if `with_heads`; the first one is wide."""
    lines = [list(columns.values())] if with_heads else []
    for cells in [*lines, ["-" if row.get(name) is None else str(row[name]) for name in columns]]:
        print(" ".join(f"{cell[-40:]:>{10 if i else 36}}" for i, cell in enumerate(cells)), flush=True)


def read_rows(name: str, *, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """All rows of `<folder>/<name>.jsonl`, oldest first; none if there is no such file."""
    path = folder / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def newest(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[Mapping[str, Any]]:
    """The newest row for every combination of values under `keys`, in the order of first appearance."""
    by_key = {tuple(row.get(key) for key in keys): row for row in rows}
    return list(by_key.values())


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

"""Sides of a comparison in turns: their times, their memory, their rows in benchmarks/results/."""

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from common import benchmark
from common.benchmark import Timings
from common.config import ConfigError
from common.devices import distributed
from common.devices.precision import float32_math
from wav2vec2.benchmark.config import BenchmarkConfig
from wav2vec2.benchmark.sides import Sides, finetuning, inference, pretraining

TASKS: dict[str, Callable[[BenchmarkConfig, int, torch.device], Sides]] = {
    "inference": inference,
    "pretraining": pretraining,
    "finetuning": finetuning,
}
MIB = 2**20

Row = dict[str, Any]


def main(cfg: BenchmarkConfig) -> list[Row]:
    """Measures, appends the rows and prints them; returns them. Raises ConfigError."""
    device = distributed.pick_device(cfg.device)
    rows: list[Row] = []
    with float32_math(cfg.precision):
        for batch_size in cfg.batch_sizes:
            torch.manual_seed(cfg.seed)
            sides = fitting(TASKS[cfg.task](cfg, batch_size, device), batch_size)
            timings = cfg.compared({name: side.call for name, side in sides.items()}, device)
            for row in rows_of(cfg, batch_size, sides, timings, device):
                print(_line(row), flush=True)
                rows.append(row)
                benchmark.append_row(f"wav2vec2_{cfg.task}", row, device=device, folder=cfg.results)
    return rows


def fitting(sides: Sides, batch_size: int) -> Sides:
    """The sides whose first call fits into the memory of the GPU; the others are told. Raises ConfigError for none."""
    if not sides:
        raise ConfigError("no side takes part: name some with --sides, and --hourglass for hourglass")
    fit: Sides = {}
    while sides:
        name, side = sides.popitem()
        try:
            side.call()
            fit[name] = side
        except torch.OutOfMemoryError:
            print(f"{name}: out of memory with a batch of {batch_size}; left out", file=sys.stderr, flush=True)
            del side
            gc.collect()
            torch.cuda.empty_cache()
    return dict(reversed(fit.items()))


def rows_of(
    cfg: BenchmarkConfig, batch_size: int, sides: Sides, timings: dict[str, Timings], device: torch.device
) -> Iterator[Row]:
    """A row for each side."""
    peaks = {name: benchmark.peak_memory(side.call, device) for name, side in sides.items()}
    memory = {name: peaks[name] + sum(tensor.nbytes for tensor in side.kept()) for name, side in sides.items()}
    for name, times in timings.items():
        seconds = batch_size * cfg.concat_batches * cfg.seconds
        row: Row = {"config": cfg.name, "side": name, "hourglass": sides[name].hourglass, "precision": cfg.precision}
        row |= {"batch": batch_size, "concat_batches": cfg.concat_batches, "seconds_of_audio": cfg.seconds}
        row |= {"audio": "speech" if cfg.audio else "noise", "metric": "latency_ms", "clock": cfg.clock}
        row |= {"threads": torch.get_num_threads(), **times.summary()}
        row |= {"peak_memory_mib": round(peaks[name] / MIB), "memory_mib": round(memory[name] / MIB)}
        row["times_real_time"] = round(seconds / times.summary()["mean"] * 1e3, 2)
        row["times_faster"] = {
            other: round(benchmark.ratio(timings[other], times), 3) for other in timings if other != name
        }
        if "ours" in sides and name != "ours":
            row["memory_percent_of_ours"] = round(100 * memory[name] / memory["ours"], 2)
        yield row


def _line(row: Row) -> str:
    told = [f"{ratio:.2f} x as fast as {other}" for other, ratio in row["times_faster"].items()]
    if "memory_percent_of_ours" in row:
        told.append(f"{row['memory_percent_of_ours']:.0f} % of the memory of ours")
    return (
        f"{row['config']:>8} {row['side']:>12} {row['precision']} batch {row['batch']:2d} x {row['concat_batches']}: "
        f"p50 {row['p50']:.2f} ms, mean {row['mean']:.2f} ms, {row['times_real_time']:.0f} s of audio per s, "
        f"{row['memory_mib']} MiB; {', '.join(told)}"
    )

"""Two workers over one list beside two jobs that share nothing: `python -m benchmarks.bulk_workers MODEL FOLDER`.

The same recordings either way: `trt.run --shard 1/2` and `2/2` over all of them at the same time, or two jobs with a
list of one half each. Rounds of both follow one another; the row has the median of the ratios of their times, and of
the processor time that they took.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from tyro.conf import Positional, arg

from common import config
from common.benchmark import Timings, append_row, spread
from common.config import ConfigError

REPOSITORY = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class BulkWorkersConfig:
    """What is transcribed, with what, how often."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """ONNX file of a recogniser."""
    folder: Annotated[Path, Positional, arg(metavar="FOLDER")]
    """Folder of recordings."""
    repeat: int = 20
    """Times that each recording is in the list, so that the work is longer than the start of a process."""
    rounds: int = 3
    """Rounds of both ways."""
    save: bool = False
    """Whether the row is appended to benchmarks/results/bulk_workers.jsonl."""


def main(cfg: BulkWorkersConfig) -> int:
    """Prints the row. Raises ConfigError where there is nothing to transcribe or a job fails."""
    files = [
        str(path.resolve()) for path in sorted(cfg.folder.iterdir()) if path.suffix in (".wav", ".flac")
    ] * cfg.repeat
    if not files:
        raise ConfigError(f"{cfg.folder}: no .flac or .wav files in it")
    times: dict[str, list[float]] = {"shards": [], "unrelated": []}
    processor: dict[str, list[float]] = {"shards": [], "unrelated": []}
    for number in range(2 * cfg.rounds):
        way = ("shards", "unrelated")[(number + number // 2) % 2]  # neither always comes first
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            _write(folder / "all.txt", files)
            for i, half in enumerate((files[: len(files) // 2], files[len(files) // 2 :]), 1):
                _write(folder / f"{i}.txt", half)
            jobs = [
                ["all.txt", "--output", "all.jsonl", "--shard", f"{i}/2"]
                if way == "shards"
                else [f"{i}.txt", "--output", f"{i}.jsonl"]
                for i in (1, 2)
            ]
            seconds, cpu = _timed([[*_command(cfg.model), *job, "--format", "json"] for job in jobs], folder)
        times[way].append(seconds)
        processor[way].append(cpu)
    ratios = [alone / together for alone, together in zip(times["unrelated"], times["shards"], strict=True)]
    of_processor = [a / b for a, b in zip(processor["unrelated"], processor["shards"], strict=True)]
    row = {
        "recordings": len(files),
        "rounds": cfg.rounds,
        "seconds_shards": round(statistics.median(times["shards"]), 2),
        "seconds_unrelated": round(statistics.median(times["unrelated"]), 2),
        "spread": spread(*map(Timings, times.values())),
        "of_unrelated": round(statistics.median(ratios), 3),
        "of_unrelated_processor": round(statistics.median(of_processor), 3),
    }
    print(json.dumps(row))
    if cfg.save:
        append_row("bulk_workers", row, device=torch.device("cpu"))
    return 0


def _command(model: Path) -> list[str]:
    return [sys.executable, "-m", "trt.run", str(model.resolve()), "--threads", "1"]


def _write(path: Path, files: list[str]) -> None:
    path.write_text("\n".join(files) + "\n", encoding="utf-8")


def _timed(commands: list[list[str]], folder: Path) -> tuple[float, float]:
    """Seconds, and seconds of processor, until all of them are done."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"}
    jobs = [subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE) for command in commands]
    for job in jobs:
        told = job.communicate()[1]
        if job.returncode:
            raise ConfigError(f"trt.run: {told.decode(errors='replace')[-500:]}")
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    with config.reported(OSError):
        sys.exit(main(config.parse_flags(BulkWorkersConfig, None, sys.argv[1:], description=__doc__ or "")))

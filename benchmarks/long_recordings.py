"""What the length of a recording costs: the memory of the commands that transcribe it, each in a process of its own.

    python -m benchmarks.long_recordings --hours 10

A recording of so many hours and one of a minute, of the same sounds at 8 kHz, in several formats, by small models with
random weights, whose own memory is next to none. Appends rows to benchmarks/results/long_recordings.jsonl.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
import torch

from common.benchmark import RESULTS, append_row
from tests.toys import KINDS, save_toy

RATE = 8_000
# A command in this process, and what it took.
MEASURED = """
import runpy, sys, time
from common.benchmark import process_peak_mib
del sys.argv[0]
start = time.perf_counter()
try:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
except SystemExit as ended:
    if ended.code:
        raise
print(process_peak_mib(), time.process_time(), time.perf_counter() - start)
"""
FORMATS = {"wav": "PCM_16", "flac": "PCM_16", "mp3": "MPEG_LAYER_III"}


class Spent(NamedTuple):
    """What a command took: its peak memory, and the time of the processor and of the clock."""

    mib: float
    processor_seconds: float
    seconds: float


def write_recording(path: Path, seconds: float) -> Path:
    """Bursts of noise and tones with pauses, the same minute again and again, in the format that the suffix names."""
    draw = np.random.default_rng(0)
    minute = 0.2 * draw.standard_normal(60 * RATE) * np.sin(np.arange(60 * RATE) / 900) ** 2
    minute += 0.2 * np.sin(np.arange(60 * RATE) * (0.2 + 0.1 * np.sin(np.arange(60 * RATE) / 5000)))
    minute[np.sin(np.arange(60 * RATE) / 7000) < -0.6] = 0
    suffix = path.suffix[1:]
    with soundfile.SoundFile(path, "w", RATE, 1, FORMATS[suffix], format=suffix.upper()) as file:
        left = round(seconds * RATE)
        while left:
            file.write(minute[:left].astype(np.float32))
            left -= min(left, len(minute))
    return path


def transcribe(kind: str, model: Path, recording: Path, output: Path, *, by: str, decoding: str) -> Spent:
    """Runs the command that a user runs; raises RuntimeError where it fails."""
    given = "-" if by == "standard input" else str(recording)
    command = [f"{kind}.inference", str(model), given, "--device", "cpu", "--output", str(output)]
    command += ["--decoding.beam", "4"] if decoding == "beam" else []
    with recording.open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, *command], stdin=file, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr}")
    return Spent(*map(float, done.stdout.split()))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=10, help="length of the recording (default 10)")
    parser.add_argument("--models", nargs="+", choices=KINDS, default=list(KINDS), help="kinds of recognisers")
    parser.add_argument(
        "--formats", nargs="+", choices=list(FORMATS), default=list(FORMATS), help="formats of the file"
    )
    parser.add_argument(
        "--decoding", nargs="+", choices=["greedy", "beam"], default=["greedy"], help="ways to decode it"
    )
    parser.add_argument(
        "--by",
        nargs="+",
        choices=["path", "standard input"],
        default=["path"],
        help="ways to hand it to the recogniser",
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the file that rows are appended to")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in options.models:
            save_toy(kind, folder / f"{kind}.pt")
        for suffix in options.formats:
            short = write_recording(folder / f"short.{suffix}", 60)
            long = write_recording(folder / f"long.{suffix}", options.hours * 3600)
            for kind in options.models:
                for decoding in options.decoding:
                    for by in options.by:
                        spent = [
                            transcribe(kind, folder / f"{kind}.pt", each, folder / "text", by=by, decoding=decoding)
                            for each in (short, long)
                        ]
                        words = len((folder / "text").read_text().split())
                        row = {
                            "model": kind,
                            "format": suffix,
                            "by": by,
                            "decoding": decoding,
                            "hours": options.hours,
                            "minute_mib": round(spent[0].mib),
                            "mib": round(spent[1].mib),
                            "more_mib": round(spent[1].mib - spent[0].mib),
                            "processor_seconds": round(spent[1].processor_seconds, 1),
                            "seconds": round(spent[1].seconds, 1),
                            "words": words,
                        }
                        print(
                            append_row("long_recordings", row, device=torch.device("cpu"), folder=options.results),
                            flush=True,
                        )
            long.unlink()


if __name__ == "__main__":
    main()

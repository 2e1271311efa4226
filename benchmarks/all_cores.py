"""Many short files on all cores: one command against as many unrelated ones as there are cores, one thread each.

    python benchmarks/all_cores.py jasper_best.pt LibriSpeech --files 200

The files of the folder are taken over again until there are so many. Both sides take turns; what counts is the time
from the start until the last process has ended, loading of the model and all. The row says which part of the speed of
unrelated processes the one command reaches. Appends it to benchmarks/results/all_cores.jsonl.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch

from common.benchmark import RESULTS, Timings, append_row, spread


def took(commands: list[list[str]], threads: int | None) -> float:
    """Seconds until all have ended; raises SystemExit with what was said if one fails."""
    own = {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    if threads is not None:
        own["OMP_NUM_THREADS"] = str(threads)
    start = time.perf_counter()
    running = [
        subprocess.Popen(words, env=os.environ | own, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for words in commands
    ]
    for process in running:
        _, said = process.communicate()
        if process.returncode:
            raise SystemExit(f"{' '.join(process.args[:4])} …: {said.strip()}")
    return time.perf_counter() - start


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="model")
    parser.add_argument("folder", type=Path, help="folder with .flac or .wav files, in it or below")
    parser.add_argument(
        "--package", choices=["jasper", "wav2vec2", "fastconformer"], default="jasper", help="its package"
    )
    parser.add_argument("--files", type=int, default=200, help="files that are transcribed")
    parser.add_argument("--repeats", type=int, default=3, help="turns")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the file that the row is appended to")
    given = parser.parse_args(arguments)
    found = sorted(given.folder.rglob("*.flac")) + sorted(given.folder.rglob("*.wav"))
    if not found:
        raise SystemExit(f"{given.folder}: no .flac or .wav files in it")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    command = [sys.executable, "-m", f"{given.package}.inference", str(given.checkpoint.absolute())]
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name) / f"{i:04d}{found[i % len(found)].suffix}" for i in range(given.files)]
        for i, file in enumerate(files):
            file.symlink_to(found[i % len(found)].absolute())
        one = [[*command, *map(str, files)]]
        unrelated = [[*command, *map(str, files[i::cores])] for i in range(cores)]
        turns = [(took(one, None), took(unrelated, 1)) for _ in range(given.repeats)]
    row = {
        "metric": "wall_s", "package": given.package, "files": given.files, "cores": cores,
        "one_command_s": round(median(ours for ours, _ in turns), 2),
        "unrelated_s": round(median(theirs for _, theirs in turns), 2),
        "part_of_unrelated": round(median(theirs / ours for ours, theirs in turns), 3),
        "spread": spread(*(Timings(list(side)) for side in zip(*turns, strict=True))),
    }  # fmt: skip
    print(row)
    append_row("all_cores", row, device=torch.device("cpu"), folder=given.results)


if __name__ == "__main__":
    main()

"""What a recording's or a text's length costs: processor time and memory of whole commands, one thread each.

    python benchmarks/length.py --recordings LibriSpeech --jasper jasper_best.pt --wav2vec2 wav2vec2_best.pt
    python benchmarks/length.py --fastpitch fastpitch_step00001200.pt --vocoder hifigan_final.pt
    python benchmarks/length.py --plot docs/images/length.svg

Recordings of 1, 10 and 60 minutes are made of those in a folder, one after the other; a text for FastPitch of as many
sentences as take about that long. What a command takes for one second of audio, or for one sentence, is its start, and
is subtracted. All lengths take turns, and --repeats says how often; medians count, and the most memory. A row per
model and length is appended to benchmarks/results/length.jsonl; --plot draws the newest rows.
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import soundfile
import torch

from common.audio import waveform
from common.benchmark import RESULTS, Timings, append_row, read_rows, spread
from common.data.texts.sentences import sentences

RECOGNISERS = ("jasper", "wav2vec2", "fastconformer")
RATE = 16_000
SENTENCES_PER_MINUTE = 24  # of the synthetic grammar
SHORTEST = 1 / 60  # minutes: a command that does little more than start
WORKS = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[1])}


class Cost(NamedTuple):
    """Processor time and memory of a command that has ended."""

    processor_seconds: float
    peak_mib: float


def cost(command: list[str]) -> Cost:
    """Runs it; raises SystemExit with what it said if it fails."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, env=os.environ | WORKS, stdout=subprocess.DEVNULL, stderr=said)
        ended, peak = 0, 0.0
        while not ended:
            peak = max(peak, held_mib(process.pid))
            time.sleep(0.02)
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{' '.join(command)}: {said.read().strip()}")
    return Cost(used.ru_utime + used.ru_stime, peak)


def held_mib(process: int) -> float:
    """The most memory that a process has held so far; 0 where it has ended or the system does not say.

    What Linux says of one that has ended includes what the process held that started it.
    """
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


def recording(folder: Path, seconds: float, path: Path) -> None:
    """Writes what the files of `folder` hold, one after the other and over again, until it is so long."""
    files = sorted(folder.rglob("*.flac")) + sorted(folder.rglob("*.wav"))
    if not files:
        raise SystemExit(f"{folder}: no .flac or .wav files in it")
    left = round(seconds * RATE)
    with soundfile.SoundFile(path, "w", RATE, 1, subtype="PCM_16") as written:
        for file in itertools.cycle(files):
            samples_N = waveform.read(file, sample_rate=RATE).samples[:left]
            written.write(samples_N.astype(np.float32))
            left -= len(samples_N)
            if left <= 0:
                return


def recognised(name: str, given: argparse.Namespace, folder: Path, minutes: float) -> list[str]:
    """The command that transcribes so many minutes."""
    path = folder / f"{minutes:g}.wav"
    if not path.exists():
        recording(given.recordings, 60 * minutes, path)
    return [sys.executable, "-m", f"{name}.inference", str(getattr(given, name)), str(path)]


def spoken(given: argparse.Namespace, folder: Path, minutes: float) -> list[str]:
    """The command that says about so many minutes of text."""
    path = folder / f"{minutes:g}.txt"
    count = max(1, round(minutes * SENTENCES_PER_MINUTE))
    few = sentences(min(count, 500), subset="test")
    path.write_text("\n".join(few[i % len(few)] for i in range(count)) + "\n", encoding="utf-8")
    models = ["--fastpitch", str(given.fastpitch), "--vocoder", str(given.vocoder)]
    said = folder / f"said-{minutes:g}"
    return [sys.executable, "-m", "fastpitch.inference", str(path), *models, "--output", str(said)]


def measure(given: argparse.Namespace) -> None:
    """Appends the rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model in (*RECOGNISERS, "fastpitch"):
            if getattr(given, model) is None:
                continue
            commands = {
                minutes: spoken(given, folder, minutes)
                if model == "fastpitch"
                else recognised(model, given, folder, minutes)
                for minutes in (SHORTEST, *given.minutes)
            }
            cost(commands[SHORTEST])  # a first start compiles what is missing
            # In turns: what else runs on the machine then makes all lengths dearer, and not one of them.
            turns = [{minutes: cost(command) for minutes, command in commands.items()} for _ in range(given.repeats)]
            start = median(turn[SHORTEST].processor_seconds for turn in turns)
            for minutes in given.minutes:
                seconds = median(turn[minutes].processor_seconds for turn in turns) - start
                row = {
                    "metric": "processor_s", "model": model, "checkpoint": getattr(given, model).stem,
                    "minutes": minutes, "repeats": given.repeats,
                    "processor_seconds": round(seconds, 2), "seconds_per_minute": round(seconds / minutes, 3),
                    "start_seconds": round(start, 2), "peak_mib": round(max(turn[minutes].peak_mib for turn in turns)),
                    "spread": spread(Timings([turn[minutes].processor_seconds for turn in turns])),
                }  # fmt: skip
                print(append_row("length", row, device=torch.device("cpu"), folder=given.results), flush=True)


def plot(path: Path, results: Path) -> None:
    """Draws the newest row of each model and length: processor seconds for a minute, and memory, over minutes."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "length"  # the same file for the same rows
    from matplotlib import pyplot

    newest = {(row["model"], row["minutes"]): row for row in read_rows("length", folder=results)}
    if not newest:
        raise SystemExit(f"{results / 'length.jsonl'}: no rows to draw; measure some first")
    figure, (cost_axes, memory_axes) = pyplot.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for model in sorted({model for model, _ in newest}):
        minutes = sorted(length for name, length in newest if name == model)
        rows = [newest[model, length] for length in minutes]
        cost_axes.plot(minutes, [row["seconds_per_minute"] for row in rows], "o-", label=model)
        memory_axes.plot(minutes, [row["peak_mib"] for row in rows], "o-", label=model)
    lengths = sorted({length for _, length in newest})
    for axes, title in ((cost_axes, "processor, s for a minute"), (memory_axes, "most memory, MiB")):
        axes.set(xscale="log", xlabel="minutes", title=title)
        axes.set_xticks(lengths, [f"{each:g}" for each in lengths])
        axes.set_xticks([], minor=True)
        axes.set_ylim(bottom=0)
    cost_axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=Path, help="folder of .flac or .wav files that recordings are made of")
    for model in (*RECOGNISERS, "fastpitch", "vocoder"):
        parser.add_argument(f"--{model}", type=Path, help=f"checkpoint of {model}")
    parser.add_argument("--minutes", type=float, nargs="+", default=[1.0, 10.0, 60.0], help="lengths")
    parser.add_argument("--repeats", type=int, default=1, help="turns of all lengths, of which medians are taken")
    parser.add_argument("--plot", type=Path, help="image, .svg or .png, of the newest rows, in place of measuring")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the file that rows are appended to")
    given = parser.parse_args(arguments)
    if given.plot is not None:
        plot(given.plot, given.results)
    elif given.repeats < 1 or min(given.minutes) <= 0:
        parser.error(f"--repeats {given.repeats}, --minutes {given.minutes}: expected at least 1, and above 0")
    elif given.recordings is None and any(getattr(given, name) is not None for name in RECOGNISERS):
        parser.error("--recordings: a folder is needed to measure recognisers")
    elif (given.fastpitch is None) != (given.vocoder is None):
        parser.error("--fastpitch and --vocoder: expected both or none")
    elif all(getattr(given, name) is None for name in (*RECOGNISERS, "fastpitch")):
        parser.error("nothing to measure: expected the checkpoint of a model, or --plot")
    else:
        measure(given)


if __name__ == "__main__":
    main()

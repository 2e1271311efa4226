"""What data of any size cost: a second of audio from shards and from plain files, plans, resumes, orders, a training.

    python benchmarks/data_scale.py data/librispeech-mini --utterances 10000000
    python benchmarks/data_scale.py data/librispeech-mini --utterances 10000000 --memory fork spawn forkserver
    python benchmarks/data_scale.py data/quickstart/LibriSpeech/train-clean --train configs/jasper/quickstart.toml

Processor time, one thread, sides in turns, medians; plans are of utterances that are made up. Rows are appended to
benchmarks/results/data_scale.jsonl.
"""

import argparse
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from common.audio import waveform
from common.benchmark import RESULTS, append_row
from common.data.batching import BATCHES_OF_WINDOW, bucketed_batches
from common.data.lists.index import _HEADER, MAGIC, RECORD, VERSION, Index
from common.data.loading import SpeechDataset, batch_loader
from common.data.manifest import Utterances, read_manifest
from common.data.shards.writing import write
from common.files.stores import Stored

BUDGET = 400.0  # seconds of a rank's batch
MEAN_SECONDS = 9.42  # of utterances whose ideal is 368 steps of 64 ranks a million
A_BLOCK = 11  # utterances in the block of a store, of FLAC at 16 kHz
A_NODE = 8  # ranks that read blocks together
LOOK_UPS = 125_000
A_SPEAKER = 200  # utterances, one after the other


def measured(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median CPU seconds of each side, one after the other in every round."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            start = time.process_time()
            side()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def of_audio(corpus: Path, rounds: int) -> dict[str, Any]:
    plain = read_manifest(corpus).utterances
    with tempfile.TemporaryDirectory() as folder:
        write(plain, Path(folder))
        shards = read_manifest(folder).utterances
        order = np.random.default_rng(0).permutation(len(plain)).tolist() * max(1, 500 // len(plain))

        def decoded(utterances: Utterances) -> None:
            for i in order:
                waveform.read(utterances[i].audio, sample_rate=16000)

        def fetched() -> None:
            for i in order:
                audio = shards[i].audio
                assert isinstance(audio, Stored)
                audio.read()

        def looked_up() -> None:
            for i in order:
                shards[i]

        sides = {"plain": lambda: decoded(plain), "shards": lambda: decoded(shards), "fetched": fetched,
                 "looked up": looked_up}  # fmt: skip
        found = measured(sides, rounds)
        seconds, count = float(plain.seconds[np.array(order)].sum()), len(order)
        size = statistics.fmean(u.audio.size for u in shards if isinstance(u.audio, Stored))
    return {"task": "audio", "us_per_second_files": round(found["plain"] / seconds * 1e6, 1),
            "us_per_second_shards": round(found["shards"] / seconds * 1e6, 1),
            "ratio": round(found["shards"] / found["plain"], 4), "bytes": round(size),
            "fetched_per_second": round(count / found["fetched"]),
            "looked_up_us": round(found["looked up"] / count * 1e6, 2), "repeats": rounds}  # fmt: skip


def of_plans(count: int, ranks: int, order: str, seed: int = 0) -> dict[str, Any]:
    """A plan of one rank of many, the batches of a resume in the middle, and what the order is like."""
    seconds, blocks = durations(count, seed), np.arange(count, dtype=np.uint32) // A_BLOCK
    given: dict[str, Any] = {"max_seconds": BUDGET, "seed": seed, "epoch": 1, "ranks": ranks, "rank": ranks // 2}
    given |= {"blocks": blocks} if order == "windows" else {}
    start = time.process_time()
    batches = bucketed_batches(seconds, **given)
    first = batches[0]
    planned = time.process_time() - start
    start = time.process_time()
    again = bucketed_batches(seconds, **given)[len(batches) // 2 :][0]
    resumed = time.process_time() - start
    assert again == batches[len(batches) // 2]
    tracemalloc.start()  # by itself, for it takes time
    bucketed_batches(seconds, **given)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    ideal = seconds.sum() / BUDGET / ranks
    return {"task": "plan", "order": order, "utterances": count, "ranks": ranks, "plan_s": round(planned, 2),
            "resume_s": round(resumed, 2), "plan_mib": round(peak), "steps": len(batches), "in_a_batch": len(first),
            "ideal": round(ideal), "over_ideal": round(len(batches) / ideal, 4)}  # fmt: skip


def of_all_ranks(count: int, ranks: int, order: str, seed: int = 0) -> dict[str, Any]:
    """All ranks begin, and all resume in the middle: together they have the whole of a batch, each its own part."""
    seconds, blocks = durations(count, seed), np.arange(count, dtype=np.uint32) // A_BLOCK
    own = {"blocks": blocks} if order == "windows" else {}
    start, begun, resumed = time.process_time(), [], []
    of_node: list[set[int]] = [set() for _ in range(-(-ranks // A_NODE))]
    for rank in range(ranks):
        batches = bucketed_batches(seconds, max_seconds=BUDGET, seed=seed, epoch=1, ranks=ranks, rank=rank, **own)
        begun.append(batches[0])
        resumed.append(batches[len(batches) // 2 :][0])
        of_node[rank // A_NODE].update(*(blocks[batch].tolist() for batch in batches[:BATCHES_OF_WINDOW]))
    for step in (begun, resumed):
        together = [index for batch in step for index in batch]
        assert len(together) == len(set(together)) == ranks * len(step[0])
    over = sum(map(len, of_node)) / len(set().union(*of_node))
    took = (time.process_time() - start) / ranks
    return {"task": "all ranks", "order": order, "utterances": count, "ranks": ranks, "rank_s": round(took, 3),
            "blocks_over_once": round(over, 2)}  # fmt: skip


def of_speakers(count: int, order: str, seed: int = 0) -> dict[str, Any]:
    """How many speakers a batch of 256 has of a corpus that lies speaker by speaker."""
    speakers, blocks = np.arange(count) // A_SPEAKER, np.arange(count, dtype=np.uint32) // A_BLOCK
    own = {"blocks": blocks} if order == "windows" else {}
    batches = bucketed_batches(durations(count, seed), batch_size=256, seed=seed, epoch=1, **own)
    found = [len(set(speakers[batch].tolist())) for batch in batches[:1000]]
    return {"task": "speakers", "order": order, "utterances": count, "batch": 256,
            "speakers": round(statistics.fmean(found), 1)}  # fmt: skip


def durations(count: int, seed: int) -> np.ndarray:
    seconds = np.random.default_rng(seed).lognormal(2.3, 0.6, count).clip(0.3, 16)
    return seconds * (MEAN_SECONDS / seconds.mean())


class Looking(SpeechDataset):
    """A data set whose workers look up many utterances, and say what memory is theirs alone after them."""

    def __getitem__(self, place: Any) -> Any:
        for row in np.random.default_rng(place).integers(len(self.utterances), size=LOOK_UPS):
            self.utterances[int(row)]
        for row in range(8):
            super().__getitem__(row)
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()  # of a mapped file nothing is ever dirty
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:")) / 1024


class WorkerReport(NamedTuple):
    """What a worker says, as a batch."""

    mib: float
    failures: tuple[Any, ...] = ()


def said(found: list[float]) -> WorkerReport:
    return WorkerReport(found[0])


def many(path: Path, corpus: Path, count: int) -> Path:
    """An index of `count` utterances, which are those of a corpus again and again."""
    small = Utterances.of(list(read_manifest(corpus).utterances)).parts[0]
    times = -(-count // len(small))
    strings = small.records.tobytes(), bytes(small._buffer)[small._strings_at :]
    with path.open("wb") as file:
        file.write(_HEADER.pack(MAGIC, VERSION, RECORD.itemsize, times * len(small), len(strings[1]), 0, bytes(16)))
        for part in (small.seconds.tobytes(), small.marks.tobytes(), strings[0]):
            for _ in range(times):
                file.write(part)
        file.write(strings[1])
    return path


def worker_memory(path: Path) -> float:
    """MiB of private memory of a data worker, in a process whose start method is set."""
    utterances = Utterances([Index(path)])
    utterances = utterances[np.arange(len(utterances)) != 3]  # as settings leave some out
    loaded = batch_loader(Looking(utterances), [[0], [1]], said, workers=1)
    return max(batch.mib for batch in loaded)


def of_memory(corpus: Path, count: int, method: str) -> dict[str, Any]:
    """What a worker of so many utterances has of its own, and what one of few has: imports, and loading itself."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for number in (1, count):
            path = many(Path(folder, "data.index"), corpus, number)
            command = [sys.executable, __file__, str(path), "--worker", method]
            found.append(float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
    few, all_ = found
    return {"task": "worker memory", "start": method, "utterances": count, "looked_up": LOOK_UPS,
            "worker_mib": round(all_, 1), "of_few_mib": round(few, 1), "above_mib": round(all_ - few, 1)}  # fmt: skip


def of_training(corpus: Path, recipe: str, steps: int, rounds: int) -> dict[str, Any]:
    """Processor time of the first steps of a recipe on a corpus, from its files and from shards of them, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        write(read_manifest(corpus).utterances, Path(folder, "shards"))
        sides = {"files": str(corpus.absolute()), "shards": f"{folder}/shards"}
        times: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(rounds):
            for name, train in sides.items():
                command = [sys.executable, "-m", "jasper.train", recipe, "--data.train", train, "--data.validation",
                           train, "--steps", str(steps), "--output_dir", f"{folder}/{name}{number}",
                           "--every.validate_epochs", "1000", "--data.workers", "0", "--data.root", "/"]  # fmt: skip
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run(
                    command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"}
                )
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                times[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    files, shards = (statistics.median(times[name]) for name in sides)
    return {"task": "training", "recipe": Path(recipe).stem, "steps": steps, "files_s": round(files, 2),
            "shards_s": round(shards, 2), "ratio": round(shards / files, 4), "repeats": rounds}  # fmt: skip


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="manifest or corpus folder")
    parser.add_argument("--utterances", type=int, default=1_000_000, help="length of the plan")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of which the median counts; 0: plans alone")
    parser.add_argument("--orders", nargs="+", default=["full", "windows"], help="of plans")
    parser.add_argument("--ranks", nargs="+", type=int, default=[8, 64, 512], help="of plans")
    parser.add_argument(
        "--train", default="", help="recipe of Jasper, of which both sides make some steps; nothing else"
    )
    parser.add_argument("--steps", type=int, default=20, help="steps of it")
    parser.add_argument("--memory", nargs="+", default=[], help="start methods of workers; their memory alone")
    parser.add_argument("--worker", default="", help="the start method of one whose memory is printed, of an index")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the rows")
    options = parser.parse_args(arguments)

    def keep(row: dict[str, Any]) -> None:
        append_row("data_scale", {"metric": "processor_s"} | row, device=torch.device("cpu"), folder=options.results)
        print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)

    if options.worker:
        multiprocessing.set_start_method(options.worker)
        print(worker_memory(options.corpus))
        return
    if options.memory:
        for method in options.memory:
            keep(of_memory(options.corpus, options.utterances, method) | {"metric": "mib"})
        return
    if options.train:
        keep(of_training(options.corpus, options.train, options.steps, options.rounds))
        return
    if options.rounds:
        keep(of_audio(options.corpus, options.rounds))
    for order in options.orders:
        for ranks in options.ranks:
            keep(of_plans(options.utterances, ranks, order))
            keep(of_all_ranks(max(1 << 16, options.utterances // 40), ranks, order))
        keep(of_speakers(min(options.utterances, 1_000_000), order))


if __name__ == "__main__":
    main(sys.argv[1:])

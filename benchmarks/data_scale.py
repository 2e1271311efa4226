"""What data of any size costs: a second of audio from shards and from plain files, a look-up, a plan, a resume.

    python benchmarks/data_scale.py data/librispeech-mini --utterances 10000000

CPU time of this process, one thread, both sides interleaved, medians; the plan is of utterances that are made up.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from common.audio import waveform
from common.data.batching import bucketed_batches
from common.data.manifest import Utterances, read_manifest
from common.data.shards.writing import write
from common.files.stores import Stored


def measured(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median CPU seconds of each side, one after the other in every round."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            start = time.process_time()
            side()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def of_audio(corpus: Path, rounds: int) -> None:
    plain = read_manifest(corpus).utterances
    with tempfile.TemporaryDirectory() as folder:
        write(plain, Path(folder))
        shards = read_manifest(folder).utterances
        order = np.random.default_rng(0).permutation(len(plain)).tolist()

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
        seconds, count = float(plain.seconds.sum()), len(plain)
    print(f"a second of audio: plain files {found['plain'] / seconds * 1e6:.0f} us, shards with CRC "
          f"{found['shards'] / seconds * 1e6:.0f} us: {found['shards'] / found['plain']:.3f}")  # fmt: skip
    print(f"fetched with CRC: {count / found['fetched']:,.0f} utterances a second and core")
    print(f"looked up: {found['looked up'] / count * 1e6:.1f} us")


def of_plans(utterances: int, seed: int = 0) -> None:
    seconds = np.random.default_rng(seed).lognormal(2.3, 0.6, utterances).clip(0.3, 16)
    for ranks in (8, 64, 512):
        start = time.process_time()
        batches = bucketed_batches(seconds, max_seconds=400.0, seed=seed, epoch=1, ranks=ranks, rank=ranks // 2)
        planned = time.process_time() - start
        start = time.process_time()
        left = batches[len(batches) // 2 :][0]
        resumed = time.process_time() - start
        ideal = seconds.sum() / 400 / ranks
        print(f"{utterances:,} utterances, {ranks} ranks x 400 s: planned in {planned:.1f} s, {len(batches):,} steps "
              f"({len(batches) / ideal:.3f} of the ideal), {len(left)} in a batch; resumed in the middle in "
              f"{planned + resumed:.1f} s")  # fmt: skip


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="manifest or corpus folder")
    parser.add_argument("--utterances", type=int, default=1_000_000, help="length of the plan")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of which the median counts")
    options = parser.parse_args(arguments)
    of_audio(options.corpus, options.rounds)
    of_plans(options.utterances)


if __name__ == "__main__":
    main(sys.argv[1:])

"""What the comparisons of greedy transducer decoders share: options, heads and encoder frames, turns, rows.

Heads have the size of NVIDIA's large models; they are random, with biases that make blanks and durations as frequent as
Parakeet's are (`benchmarks.transducer_heads`). The clock counts processor time, and both decoders have to find the
same.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from benchmarks.transducer_heads import calibrate, random_frames, random_heads, rates
from common.benchmark import append_row, compare, ratio, spread
from fastconformer.transducer.decoder import Decoder, DecoderOptions
from fastconformer.transducer.weights import DecoderWeights

CPU = torch.device("cpu")
MAX_SYMBOLS = 10
"""Labels on one frame, at most."""

Decode = Callable[[Tensor, Tensor], Sequence[Sequence[Any]]]
"""From encoder frames [B, S, C] and how many of them each utterance has to labels, their frames and more of each."""


@dataclass(frozen=True, kw_only=True)
class Rival:
    """Another greedy decoder, and how rows call it."""

    results: str
    """Name of the file of rows, without .jsonl."""
    name: str
    """Beginning of the name of its time in a row."""
    made: Callable[[DecoderWeights], Decode]
    """From the weights of a head to the decoder."""
    compared: int
    """How much of every result has to be the same: 2 for labels and frames, 3 for durations too."""
    about: Mapping[str, object] = field(default_factory=dict)
    """More that its rows say."""


def parsed(description: str | None) -> argparse.Namespace:
    """The options of the command line; `description` is what --help shows at its head."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="turns of every comparison")
    parser.add_argument("--clips", type=int, default=32, help="utterances in all")
    parser.add_argument("--frames", type=int, default=150, help="encoder frames of the longest; 150 are 12 seconds")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32], help="sizes of a batch")
    return parser.parse_args()


def against(rival: Rival, options: argparse.Namespace) -> None:
    """Appends a row per head and batch size. Ends the process where the decoders do not find the same."""
    torch.set_num_threads(1)
    for head in ("RNN-T", "TDT"):
        weights = random_heads(has_durations=head == "TDT")
        encoded_BSC, frames_B = random_frames(weights, options.clips, options.frames)
        calibrate(weights, encoded_BSC, frames_B)
        labels_per_evaluation, _ = rates(weights, encoded_BSC, frames_B)
        decode, other = Decoder(weights, DecoderOptions(max_symbols=MAX_SYMBOLS)), rival.made(weights)
        for batch in options.batches:
            batches = list(zip(encoded_BSC.split(batch), frames_B.split(batch), strict=True))
            sides: dict[str, Callable[[], list[Any]]] = {
                "ours": lambda batches=batches, decode=decode: [one for each in batches for one in decode(*each)],
                "other": lambda batches=batches, other=other: [one for each in batches for one in other(*each)],
            }
            found, expected = ([tuple(one[: rival.compared]) for one in side()] for side in sides.values())
            if found != expected:
                raise SystemExit(f"{head}, batches of {batch}: the two decoders do not find the same")
            times = compare(sides, device=CPU, warmup=1, repeats=options.repeats, clock=time.process_time)
            row: dict[str, object] = {
                "precision": "fp32",
                "head": head,
                "batch": batch,
                "clips": options.clips,
                "frames": int(frames_B.sum()),
                "labels_per_evaluation": round(labels_per_evaluation, 3),
                **rival.about,
                "n": options.repeats,
                "spread": spread(*times.values()),
                "ms_p50": round(times["ours"].percentile(50), 1),
                f"{rival.name}_ms_p50": round(times["other"].percentile(50), 1),
                "times_faster": round(ratio(times["other"], times["ours"]), 2),
            }
            print(append_row(rival.results, row, device=CPU), flush=True)

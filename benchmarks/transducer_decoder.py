"""The greedy decoder beside label-looping in torch: appends rows to benchmarks/results/transducer_decoder.jsonl.

    OMP_NUM_THREADS=1 python benchmarks/transducer_decoder.py [--repeats 5] [--clips 32] [--frames 150]

Both decode the same clips in batches, from encoder frames to lists of labels; heads of the size of NVIDIA's large
models, random, with biases that make blanks and durations as frequent as Parakeet's are (`transducer.benchmark.heads`).
Seconds of processor time, the sides in turns; both have to find the same.
"""

import argparse
import time

import torch

from common.benchmark import append_row, compare, ratio
from transducer.benchmark.heads import calibrate, random_frames, random_heads, rates
from transducer.benchmark.label_looping import LabelLooping
from transducer.decoder import Decoder

CPU = torch.device("cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="turns of every comparison")
    parser.add_argument("--clips", type=int, default=32, help="utterances in all")
    parser.add_argument("--frames", type=int, default=150, help="encoder frames of the longest; 150 are 12 seconds")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32], help="sizes of a batch")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for head in ("RNN-T", "TDT"):
        weights = random_heads(has_durations=head == "TDT")
        encoded_BSC, frames_B = random_frames(weights, options.clips, options.frames)
        calibrate(weights, encoded_BSC, frames_B)
        labels_per_evaluation, _ = rates(weights, encoded_BSC, frames_B)
        decode, other = Decoder(weights), LabelLooping(weights)
        for batch in options.batches:
            batches = list(zip(encoded_BSC.split(batch), frames_B.split(batch), strict=True))
            for each in batches:
                if [one[:3] for one in decode(*each)] != [one[:3] for one in other(*each)]:
                    raise SystemExit(f"{head}, batches of {batch}: the two decoders do not find the same")
            sides = {
                "ours": lambda batches=batches, decode=decode: [decode(*each) for each in batches],
                "label_looping": lambda batches=batches, other=other: [other(*each) for each in batches],
            }
            times = compare(sides, device=CPU, warmup=1, repeats=options.repeats, clock=time.process_time)
            row: dict[str, object] = {
                "precision": "fp32",
                "head": head,
                "batch": batch,
                "clips": options.clips,
                "frames": int(frames_B.sum()),
                "labels_per_evaluation": round(labels_per_evaluation, 3),
                "n": options.repeats,
                "ms_p50": round(times["ours"].percentile(50), 1),
                "label_looping_ms_p50": round(times["label_looping"].percentile(50), 1),
                "times_faster": round(ratio(times["label_looping"], times["ours"]), 2),
            }
            print(append_row("transducer_decoder", row, device=CPU), flush=True)


if __name__ == "__main__":
    main()

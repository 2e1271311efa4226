"""Pitch extraction against librosa's PYIN, on the same frames of recorded speech.

    python benchmarks/pitch.py FOLDER [--clips 24] [--timed-clips 2]

One thread on a CPU. Appends a row for each range of pitch to benchmarks/results/pitch.jsonl.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from common.audio import waveform
from common.benchmark import append_row, compare, ratio
from fastpitch.acoustic.pitch import PitchConfig, extract_pitch

RANGES_HZ = {"C2 to C7": (65.40639, 2093.0045), "60 to 500 Hz": (60.0, 500.0)}


def agreement(clips: list[np.ndarray], fast: PitchConfig, pyin: PitchConfig) -> dict[str, float]:
    """Voicing decisions that agree, and how far the pitch is from PYIN's where both hear one."""
    pairs = [(extract_pitch(samples, fast), extract_pitch(samples, pyin)) for samples in clips]
    ours_T, theirs_T = (np.concatenate(side) for side in zip(*pairs, strict=True))
    both_T = (ours_T > 0) & (theirs_T > 0)
    difference = np.abs(ours_T[both_T] / theirs_T[both_T] - 1)
    return {
        "frames": len(ours_T),
        "voicing_agreement": round(float(((ours_T > 0) == (theirs_T > 0)).mean()), 5),
        "median_difference": round(float(np.median(difference)), 5),
        "greatest_difference": round(float(difference.max()), 5),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of recordings")
    parser.add_argument(
        "--clips", type=int, default=24, help="recordings that are compared, taken evenly from the folder (default 24)"
    )
    parser.add_argument("--timed-clips", type=int, default=2, help="number of these that are timed (default 2)")
    parser.add_argument("--repeats", type=int, default=5, help="turns of every comparison (default 5)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    paths = sorted(arguments.folder.rglob("*.wav"))
    paths = paths[:: max(1, len(paths) // arguments.clips)][: arguments.clips]
    rate = waveform.info(paths[0]).sample_rate
    clips = [waveform.read(path, sample_rate=rate).samples for path in paths]
    timed = clips[: arguments.timed_clips]
    for name, (lowest_hz, highest_hz) in RANGES_HZ.items():
        fast, pyin = (
            PitchConfig(method=method, sample_rate=rate, lowest_hz=lowest_hz, highest_hz=highest_hz)
            for method in ("fast", "pyin")
        )
        calls = {
            "fast": lambda cfg=fast: [extract_pitch(samples, cfg) for samples in timed],
            "pyin": lambda cfg=pyin: [extract_pitch(samples, cfg) for samples in timed],
        }
        times = compare(calls, device=torch.device("cpu"), warmup=1, repeats=arguments.repeats)
        seconds = sum(map(len, timed)) / rate
        row = {
            "metric": "latency_ms",
            "what": "pitch",
            "against": "librosa.pyin",
            "range": name,
            "seconds_of_audio": round(seconds, 2),
            "times_faster": round(ratio(times["pyin"], times["fast"]), 1),
            "times_real_time": round(1e3 * seconds / times["fast"].percentile(50)),
            "against_p50": round(times["pyin"].percentile(50), 1),
            **times["fast"].summary(),
            **(agreement(clips, fast, pyin) if arguments.clips > arguments.timed_clips else {}),
        }
        print(row)
        append_row("pitch", row, device=torch.device("cpu"))


if __name__ == "__main__":
    main()

"""Which rows of a benchmark are slower than what they are compared with: `python scripts/gpu_slow.py < rows.jsonl`.

Reads a row of `benchmarks/results` per line and prints one line for each whose "times_faster…" is below 1. Exits with
status 1 if there is one. With --published prints instead a line for each that others have published a number for.
"""

import argparse
import json
import sys
from typing import Any

PUBLISHED = (
    *(("jasper10x5dr", "fp16", batch, seconds, ms) for batch, seconds, ms in (
        (1, 2.0, 32.30), (16, 2.0, 35.77), (1, 7.0, 33.03), (16, 7.0, 39.33), (1, 16.7, 34.36), (16, 16.7, 60.92)
    )),
    *(("base", "bf16", batch, 6.54, ms) for batch, ms in ((1, 10.45), (16, 58.82))),
    *(("FastPitch + hifigan", "fp16", batch, None, ms) for batch, ms in ((1, 15.0), (4, 38.0), (8, 69.0))),
)  # fmt: skip
"""Means in ms on an A100 80 GB, of NVIDIA's own code (DeepLearningExamples): what, precision, batch, seconds of audio.
That of wav2vec 2.0 is with an hourglass, those of FastPitch are with denoising."""
RATES = ((6098, "NeMo"), (12353, "fast-gpu-asr with a beam of 6"))
"""Times real time of a TDT of 0.6 B on an H200, over whole sets of recordings."""
MOST = {"A100": 11543, "H100": 18965, "H200": 27174}
"""What docs/gpu_model.md leaves for ours, of the encoder and greedy decoding."""
DESCRIBES = ("config", "what", "part", "mode", "vocoder", "precision", "batch", "seconds_of_audio", "symbols")


def slow(row: dict[str, object]) -> list[str]:
    """What in `row` is slower than its rival, in words."""
    name = " ".join(f"{row[key]}" for key in DESCRIBES if row.get(key) is not None)
    return [
        f"{name}: {key} {value:g}"
        for key, value in row.items()
        if "times_faster" in key and isinstance(value, int | float) and value < 1
    ]


def beside_published(row: dict[str, Any]) -> list[str]:
    """How `row` compares with what was published for it."""
    name = " ".join(f"{row[key]}" for key in DESCRIBES if row.get(key) is not None)
    if str(row.get("what")).startswith("TDT 0.6 B") and (rate := row.get("times_real_time")):
        beside = ", ".join(f"{own:,} by {who} ({rate / own:.2f})" for own, who in RATES)
        most = "".join(f"; {most:,} at most by the limits" for of, most in MOST.items() if of in str(row.get("device")))
        return [f"{name}: {rate:,} times real time, published on an H200 {beside}{most}"]
    return [
        f"{name}: {row['mean']:.4g} ms, published {ms:g} on an A100: {ms / row['mean']:.2f} times as fast"
        for what, precision, batch, seconds, ms in PUBLISHED
        if what in (row.get("what"), row.get("config"))
        and (row.get("precision"), row.get("batch")) == (precision, batch)
        if row.get("metric") == "latency_ms" and seconds in (None, row.get("seconds_of_audio"))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--published", action="store_true", help="rows beside published numbers")
    lines = beside_published if parser.parse_args().published else slow
    found = [line for row in sys.stdin if row.strip() for line in lines(json.loads(row))]
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found) and lines is slow)


if __name__ == "__main__":
    main()

"""Which rows of a benchmark are slower than what they are compared with: `python scripts/gpu_slow.py < rows.jsonl`.

Reads a row of `benchmarks/results` per line and prints one line for each whose "times_faster…" is below 1. Exits with
status 1 if there is one.
"""

import argparse
import json
import sys

DESCRIBES = ("config", "what", "part", "mode", "vocoder", "precision", "batch", "seconds_of_audio", "symbols")


def slow(row: dict[str, object]) -> list[str]:
    """What in `row` is slower than its rival, in words."""
    name = " ".join(f"{row[key]}" for key in DESCRIBES if row.get(key) is not None)
    return [
        f"{name}: {key} {value:g}"
        for key, value in row.items()
        if "times_faster" in key and isinstance(value, int | float) and value < 1
    ]


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    found = [line for row in sys.stdin if row.strip() for line in slow(json.loads(row))]
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

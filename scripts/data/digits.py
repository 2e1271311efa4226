"""Manifests of the Free Spoken Digit Dataset with its official split: takes 0 to 4 of every digit are the test set.

    python scripts/data/digits.py FOLDER [OUTPUT]

FOLDER holds the recordings, named DIGIT_SPEAKER_TAKE.wav, directly or in a folder below it. Writes train.jsonl and
test.jsonl into OUTPUT (default: data/digits). Source: github.com/Jakobovski/free-spoken-digit-dataset, CC BY-SA 4.0.
"""

import argparse
import re
from pathlib import Path

from common.audio import waveform
from common.data.manifest import Utterance, write_jsonl

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEST_TAKES = range(5)
OUTPUT_HELP = "folder for train.jsonl and test.jsonl (default data/digits)"


def main(folder: Path, output: Path) -> None:
    """Writes both manifests; says how many clips each has."""
    subsets: dict[str, list[Utterance]] = {"train": [], "test": []}
    for path in sorted(folder.resolve().rglob("*.wav")):
        if name := re.fullmatch(r"(\d)_(\w+)_(\d+)", path.stem):
            digit, speaker, take = int(name[1]), name[2], int(name[3])
            utterance = Utterance(
                id=path.stem, audio=path, seconds=waveform.info(path).seconds, text=WORDS[digit], speaker=speaker
            )
            subsets["test" if take in TEST_TAKES else "train"].append(utterance)
    if not all(subsets.values()):
        raise SystemExit(f"error: {folder}: no recordings named DIGIT_SPEAKER_TAKE.wav for both train and test")
    output.mkdir(parents=True, exist_ok=True)
    for subset, utterances in subsets.items():
        write_jsonl(output / f"{subset}.jsonl", utterances)
        print(f"{output / f'{subset}.jsonl'}: {len(utterances)} clips, {sum(u.seconds for u in utterances):.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of the recordings")
    parser.add_argument("output", type=Path, metavar="OUTPUT", nargs="?", default=Path("data/digits"), help=OUTPUT_HELP)
    options = parser.parse_args()
    main(options.folder, options.output)

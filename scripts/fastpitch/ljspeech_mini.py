"""File lists of the first 354 clips of LJSpeech: python scripts/fastpitch/ljspeech_mini.py LJSpeech-1.1 LISTS.

Of the 354 in their order every seventh from the fourth on is held out of every training: fifty, `unseen.txt`. Twenty of
these are `test.txt`, for copy synthesis, and ten others `validation.txt`. The rest is `train.txt`.
"""

import argparse
import sys
from pathlib import Path

CLIPS = 354  # LJ001-0001 to LJ002-0169
FIRST_HELD_OUT, EVERY, HELD_OUT = 3, 7, 50


def split(rows: list[str]) -> dict[str, list[str]]:
    """The lists by name, of rows in the order of the corpus."""
    unseen = rows[FIRST_HELD_OUT::EVERY][:HELD_OUT]
    test = [row for number, row in enumerate(unseen) if number % 5 in (0, 2)]
    rest = [row for row in unseen if row not in test]
    train = [row for row in rows if row not in unseen]
    return {"train": train, "validation": rest[::3], "test": test, "unseen": unseen}


def rows_of(corpus: Path) -> list[str]:
    """`wavs/ID.wav|TEXT` of the first clips. Exits with a message where they are not all there."""
    metadata = corpus / "metadata.csv"
    if not metadata.is_file():
        sys.exit(
            f"{metadata}: no such file; bash scripts/data/ljspeech.sh downloads LJSpeech, DATA_DIR says where it is"
        )
    fields = [line.split("|") for line in metadata.read_text(encoding="utf-8").splitlines() if line]
    there = [each for each in fields[:CLIPS] if (corpus / "wavs" / f"{each[0]}.wav").is_file()]
    if len(there) < CLIPS:
        sys.exit(f"{corpus}: has {len(there)} of the first {CLIPS} clips; expected all")
    return [f"wavs/{name}.wav|{text}" for name, _, text in there]


def main(corpus: Path, lists: Path) -> None:
    """Writes the lists."""
    lists.mkdir(parents=True, exist_ok=True)
    for name, rows in split(rows_of(corpus)).items():
        (lists / f"{name}.txt").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        print(f"{lists / name}.txt: {len(rows)} clips")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="folder of LJSpeech, with metadata.csv and wavs/")
    parser.add_argument("lists", type=Path, help="folder that the lists are written to")
    options = parser.parse_args()
    main(options.corpus, options.lists)

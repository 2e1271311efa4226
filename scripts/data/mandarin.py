"""File lists of a Mandarin corpus, SF_bilingual or AISHELL-1.

    python scripts/data/mandarin.py FOLDER [ARCHIVE]

FOLDER is SF_bilingual, with text_SF.txt and wavs/, or it holds data_aishell/ as AISHELL-1 is unpacked. ARCHIVE is that
of SF_bilingual: SF_bilingual.zip, or the files.zip of NGC, which contains it; it is unpacked where FOLDER is not there
yet.
Writes FOLDER/filelists/*_audio_pitch_text_*.txt, with lines path|pitch|text|speaker.
"""

import argparse
import re
import sys
import zipfile
from pathlib import Path

from common.data.archives import DAMAGED_ZIP, ArchiveError, unpack_zip

# Held out by the published recipe; their ids are com_SF_ce<number>.
VALIDATION = {
    227, 832, 912, 979, 998, 1045, 1282, 1329, 1350, 1376, 1519, 1664, 1777, 1843, 2017, 2042, 2100, 2251, 2443, 2566,
}  # fmt: skip
TEST = {
    161, 577, 781, 814, 1042, 1089, 1123, 1425, 1514, 1577, 1780, 1857, 1940, 2051, 2181, 2258, 2406, 2512, 2564, 2657,
}  # fmt: skip

INSIDE = "SF_bilingual"  # the folder of the archive


class MandarinError(ValueError):
    """A corpus that is not as expected; the message says what was looked for and where."""


def main(folder: Path, archive: Path | None = None) -> None:
    """Unpacks, if there is an archive, and lists. Raises MandarinError and ArchiveError."""
    if archive is not None and not (folder / "text_SF.txt").is_file():
        unpack(archive, folder)
    if (folder / "text_SF.txt").is_file():
        name, lines = "sf", list_sf(folder)
    elif (folder / "data_aishell/transcript").is_dir():
        name, lines = "aishell", list_aishell(folder)
    else:
        raise MandarinError(f"{folder}: neither text_SF.txt (SF_bilingual) nor data_aishell/transcript is in it")
    (folder / "filelists").mkdir(exist_ok=True)
    for part, of_part in lines.items():
        if of_part:
            path = folder / "filelists" / f"{name}_audio_pitch_text_{part}.txt"
            path.write_text("\n".join(of_part) + "\n", encoding="utf-8")
            print(f"{path}: {len(of_part)} clips")


def unpack(archive: Path, target: Path) -> None:
    """Unpacks SF_bilingual as `target`. Raises MandarinError and ArchiveError."""
    try:
        with zipfile.ZipFile(archive) as outer:
            inner = next((name for name in outer.namelist() if name.endswith("SF_bilingual.zip")), None)
            if inner is None:
                unpack_zip(outer, archive, INSIDE, target)
                return
            with outer.open(inner) as file, zipfile.ZipFile(file) as of_corpus:
                unpack_zip(of_corpus, archive, INSIDE, target)
    except (*DAMAGED_ZIP, OSError) as error:
        raise MandarinError(f"{archive}: cannot be unpacked into {target}: {error}") from None


def list_sf(folder: Path) -> dict[str, list[str]]:
    """SF_bilingual: one speaker; the text says com_DL where the recordings say com_SF."""
    lines: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for line in (folder / "text_SF.txt").read_text(encoding="utf-8-sig").replace("\ufeff", "").splitlines():
        id, _, text = line.replace("－", "-").strip().replace("com_DL", "com_SF", 1).partition(" ")
        if text:
            digits = id.removeprefix("com_SF_ce")
            number = int(digits) if digits.isdecimal() else 0
            part = "val" if number in VALIDATION else "test" if number in TEST else "train"
            lines[part].append(f"wavs/{id}.wav|pitch/{id}.pt|{text.strip()}")
    return lines


def list_aishell(folder: Path) -> dict[str, list[str]]:
    """AISHELL-1: spaces between its words are none of writing."""
    texts: dict[str, str] = {}
    for transcript in sorted((folder / "data_aishell/transcript").glob("*.txt")):
        for line in transcript.read_text(encoding="utf-8").splitlines():
            id, _, text = line.partition(" ")
            texts[id] = re.sub(r"\s+", "", text)
    lines: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for path in sorted((folder / "data_aishell/wav").glob("*/*/*.wav")):
        if path.stem in texts:
            part = {"dev": "val"}.get(path.parts[-3], path.parts[-3])
            columns = (path.relative_to(folder).as_posix(), f"pitch/{path.stem}.pt", texts[path.stem], path.parts[-2])
            lines[part].append("|".join(columns))
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of the corpus")
    parser.add_argument("archive", type=Path, metavar="ARCHIVE", nargs="?", help="files.zip or SF_bilingual.zip")
    options = parser.parse_args()
    try:
        main(options.folder, options.archive)
    except (MandarinError, ArchiveError, OSError) as error:
        sys.exit(f"error: {error}")

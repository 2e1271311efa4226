"""Voices by name: `fastpitch.load("ljspeech-mini")`, and `--fastpitch ljspeech-mini --vocoder ljspeech-mini` likewise.

A voice is a folder with `fastpitch.pt`, `vocoder.pt` and their checksums in `SHA256SUMS`, as `python -m fastpitch.pack`
writes it. Its name is looked for in the folders that SPEECH_VOICES lists (separated as PATH is), else in
`~/.cache/speech-models/voices` (XDG_CACHE_HOME in place of ~/.cache). Such a folder may be named by its path, too.
Nothing is downloaded.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Literal

from common.published import hub
from common.runs.checkpoint import CheckpointError

Part = Literal["fastpitch.pt", "vocoder.pt"]
ACOUSTIC: Part = "fastpitch.pt"
VOCODER: Part = "vocoder.pt"
SUMS = "SHA256SUMS"
RECIPES = {"ljspeech-mini": "bash scripts/fastpitch/ljspeech_mini.sh"}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_SUM = re.compile(r"^([0-9a-f]{64}) [ *](\S+)$", re.MULTILINE)  # as sha256sum writes them


def folders() -> list[Path]:
    """Where voices are looked for, in this order; the first is where `fastpitch.pack` writes."""
    if listed := os.environ.get("SPEECH_VOICES"):
        return [Path(folder).expanduser() for folder in listed.split(os.pathsep) if folder]
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return [Path(cache).expanduser() / "speech-models" / "voices"]


def is_name(path: str | Path) -> bool:
    """Whether `path` can only be the name of a voice: one word without a suffix, and no file or folder."""
    return NAME.fullmatch(str(path)) is not None and not Path(path).exists()


def located(path: str | Path, part: Part) -> Path:
    """`path`, or the `part` of the voice of that name or in that folder; names on the hub as `hub.located` has them.

    Raises CheckpointError for a name that no folder has, and for a file that is not the one that was packed.
    """
    if not is_name(path):
        inside = Path(path) / part
        return _verified(inside) if inside.is_file() else hub.located(path)
    name = str(path)
    for folder in folders():
        found = folder / name / part
        if found.is_file():
            return _verified(found)
    searched = ", ".join(map(str, folders()))
    make = f"; {RECIPES[name]} makes it" if name in RECIPES else ""
    raise CheckpointError(f"{name}: no such file, and no voice of that name ({part}) in {searched}{make}")


def checksum(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verified(path: Path) -> Path:
    sums = path.with_name(SUMS)
    if not sums.is_file():
        return path
    listed = {name: digits for digits, name in _SUM.findall(sums.read_text(encoding="utf-8", errors="replace"))}
    expected, found = listed.get(path.name, "nothing"), checksum(path)
    if found != expected:
        raise CheckpointError(
            f"{path}: its SHA-256 is {found[:12]}…, and {sums.name} says {expected[:12]}…: damaged, or not what "
            "was packed; pack the voice again"
        )
    return path

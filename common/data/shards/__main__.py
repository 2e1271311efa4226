"""Data sets in few large files, which every training and evaluation takes where it takes a manifest.

    python -m common.data.shards write train.jsonl --out shards/train
    python -m common.data.shards index 'audio_{0..3}.tar' tarred_audio_manifest.json --out indexed/train
    python -m common.data.shards check shards/train
    python -m common.data.shards repair shards/train --from copy/of/train

`write` makes tars that others can read, and goes on where it was killed; `index` leaves NeMo's tarred sets, WebDataset,
lhotse Shar, Parquet and Arrow of Hugging Face and Kaldi's archives where they are; `check` reads everything and names
what is damaged; `repair` takes that from a copy. Exit status 3: some utterances cannot be used, and are named.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from zlib import crc32

from tyro.conf import Positional, arg

from common import config
from common.data.lists.entries import ManifestError
from common.data.lists.index import Builder, IndexFileError
from common.data.lists.keeping import made
from common.data.lists.utterances import Utterances
from common.data.manifest import read_sources, told_apart
from common.data.shards import foreign, writing
from common.data.shards.writing import Codec, told
from common.data.utterance import Utterance
from common.files.stores import Stored, StoreError

NAMES = "name manifests, corpus folders or data sets of shards"
Sources = Annotated[tuple[str, ...], Positional, arg(metavar="SOURCE")]


@dataclass(frozen=True, kw_only=True)
class WriteConfig:
    """Shards of the recordings of manifests."""

    sources: Sources
    """Manifests, corpus folders or data sets of shards."""
    out: Path
    """Folder of the data set."""
    root: Path | None = None
    """Folder that relative paths start from; by default that of the manifest."""
    codec: Codec = "copy"
    """Bytes of the recordings. copy: as they are, and pieces of long recordings as FLAC; flac: all as FLAC."""
    rate: int | None = None
    """Sample rate in Hz of what is encoded; by default its own."""
    shard_megabytes: int = 512
    """Size of a shard."""
    workers: int = max(1, (os.cpu_count() or 2) - 1)
    """Processes that write; the shards do not depend on them."""
    seed: int = 1
    """Seed of the order in the shards."""

    def __post_init__(self) -> None:
        if self.shard_megabytes < 1 or self.workers < 1:
            raise ValueError("shard_megabytes and workers: expected at least 1")


@dataclass(frozen=True, kw_only=True)
class IndexConfig:
    """An index over archives that stay where they are."""

    sources: Sources
    """Tars with their manifests, tars, folders of shards, Parquet, Arrow and .scp files, or a data set of the hub."""
    out: Path
    """Folder of the index."""


@dataclass(frozen=True, kw_only=True)
class CheckConfig:
    """A look at every byte."""

    sources: Sources
    """Data sets that were written or indexed."""


@dataclass(frozen=True, kw_only=True)
class RepairConfig:
    """Damaged recordings taken from a copy."""

    sources: Annotated[tuple[str, ...], Positional, arg(metavar="DATA")]
    """The data sets with the damage."""
    copy: Annotated[tuple[str, ...], arg(name="from")]
    """Manifests or data sets with the same recordings."""


def write(cfg: WriteConfig) -> int:
    """Writes shards; the exit status."""
    found = read_sources(cfg.sources, root=cfg.root, on_error="skip", training=False, advice=NAMES)
    problems = writing.write(
        found.utterances, cfg.out, codec=cfg.codec, rate=cfg.rate, shard_bytes=cfg.shard_megabytes << 20,
        seed=cfg.seed, workers=cfg.workers, log=print,
    )  # fmt: skip
    return told([*found.skipped, *problems])


def index(cfg: IndexConfig) -> int:
    """Writes an index; the exit status."""
    cfg.out.mkdir(parents=True, exist_ok=True)

    def fill(builder: Builder) -> dict[str, Any]:
        return {"skipped": foreign.index(cfg.sources, builder)}

    found = made(fill, lambda index: told_apart(index, cfg.out), cfg.out / writing.INDEX, {})
    problems = found.about["skipped"]
    print(f"{cfg.out}: {len(found)} utterances, {found.seconds.sum() / 3600:.2f} h, {len(problems)} problems")
    return told(problems)


def check(cfg: CheckConfig) -> int:
    """Names all recordings whose bytes are not those that were written; the exit status."""
    utterances = _data(cfg.sources)
    for part in utterances.parts:
        part.verify()
    damaged = [told for _, told in _damaged(utterances)]
    print(f"{len(utterances)} recordings read, {len(damaged)} damaged")
    return told(damaged)


def repair(cfg: RepairConfig) -> int:
    """Writes recordings anew whose bytes a copy has; the exit status."""
    wanted = {utterance.id: utterance.audio for utterance, _ in _damaged(_data(cfg.sources))}
    total = len(wanted)
    for utterance in _data(cfg.copy) if wanted else ():
        audio = wanted.get(utterance.id)
        if isinstance(audio, Stored) and _put(audio, utterance):
            del wanted[utterance.id]
    print(f"{total - len(wanted)} recordings repaired, {len(wanted)} left")
    return told([f"utterance {id}: {audio}: no copy has the bytes that were written" for id, audio in wanted.items()])


def _data(sources: tuple[str, ...]) -> Utterances:
    return read_sources(sources, on_error="skip", training=False, advice=NAMES).utterances


def _damaged(utterances: Utterances) -> list[tuple[Utterance, str]]:
    found = []
    for utterance in utterances:
        try:
            if isinstance(utterance.audio, Stored):
                utterance.audio.read()
        except StoreError as error:
            found.append((utterance, f"utterance {utterance.id}: {error}"))
    return found


def _put(audio: Stored, other: Utterance) -> bool:
    """Whether `other` has the bytes of a damaged recording, which then stand in their place."""
    try:
        content = other.audio.read() if isinstance(other.audio, Stored) else other.audio.read_bytes()
        if len(content) != audio.size or audio.file.endswith(".parquet") or "://" in audio.file:
            return False
        if (audio.crc is None) or crc32(content) != audio.crc:
            return False
        with Path(audio.file).open("r+b") as file:
            file.seek(audio.start)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        return False
    return True


COMMANDS = {"write": (write, WriteConfig), "index": (index, IndexConfig), "check": (check, CheckConfig),
            "repair": (repair, RepairConfig)}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Runs a command; the exit status."""
    if not arguments or arguments[0] not in COMMANDS:
        if not {"-h", "--help", "--help-all"} & set(arguments[:1]):
            found = arguments[0] if arguments else "no command"
            raise config.ConfigError(f"{found}: expected one of {', '.join(COMMANDS)}; see --help")
        print(__doc__)
        return 0
    run, schema = COMMANDS[arguments[0]]
    return run(config.parse_flags(schema, None, arguments[1:], description=__doc__ or ""))  # type: ignore[operator]


if __name__ == "__main__":
    with config.reported(ManifestError, IndexFileError, StoreError, OSError):
        sys.exit(main(sys.argv[1:]))

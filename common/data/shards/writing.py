"""A data set as shards: plain tars of recordings beside an index, each a function of list, seed and number.

Recordings are shuffled over the shards, so that whoever reads them in order hears a mixture; the index has them in the
order of the list, so that a training from shards sees what one from plain files does. A shard appears under its name
when it is whole, with its own index, which says what it was made of: a writer that was killed goes on behind it.
"""

import hashlib
import io
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import numpy as np
import soundfile

from common.audio import waveform
from common.data.digest import digest
from common.data.lists.index import Builder, Index, IndexFileError
from common.data.lists.utterances import Utterances
from common.data.shards.tar import write_end, write_member
from common.data.utterance import Utterance
from common.files.atomic import write_text, written_whole
from common.files.stores import Stored, StoreError
from ctc.native.library import alone

INDEX, ABOUT = "data.index", "data.json"
Codec = Literal["copy", "flac"]
_SUFFIXES = {b"fLaC": ".flac", b"RIFF": ".wav", b"OggS": ".ogg", b"ID3\3": ".mp3", b"ID3\4": ".mp3", b"FORM": ".aiff"}
_BYTES_A_SECOND = 18_500  # of FLAC at 16 kHz, by which what is not copied is shared out


def write(
    utterances: Utterances,
    out: Path,
    *,
    codec: Codec = "copy",
    rate: int | None = None,
    shard_bytes: int = 512 << 20,
    seed: int = 1,
    workers: int = 1,
    log: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """Writes the recordings into shards in `out`; returns a message for each that cannot be read.

    "copy" keeps the bytes of whole files and cuts pieces of long recordings to FLAC; "flac" encodes all, at `rate`
    where that is given. Raises OSError.
    """
    out.mkdir(parents=True, exist_ok=True)
    sizes = _sizes(utterances, codec)
    also = _also(utterances)
    rows = np.setdiff1d(np.arange(len(utterances)), [row for rows in also.values() for row in rows])
    order = np.random.default_rng(seed).permutation(rows)
    numbers = np.minimum(sizes[order].cumsum() - sizes[order], sizes.sum()) // shard_bytes
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(order)]
    made_of = _made_of(utterances, (also, codec, rate, shard_bytes, seed))
    parts = [order[a:b].tolist() for a, b in itertools.pairwise(cuts)]
    jobs = [(number, {row: also.get(row, []) for row in part}) for number, part in enumerate(parts)]
    one = partial(_write_shard, utterances, out, made_of, codec, rate)
    with alone(out / ".lock"):
        for left in [*out.glob(".shard-*.tmp"), *out.glob(".data.*.tmp")]:  # by a writer that was killed
            left.unlink()
        if workers > 1:
            with ProcessPoolExecutor(workers) as pool:
                shards = list(pool.map(one, jobs))
        else:
            shards = list(map(one, jobs))
        problems = [problem for shard in shards for problem in shard["problems"]]
        _join(out, [shard["name"] for shard in shards])
        about = {
            "version": 1, "utterances": len(utterances) - len(problems), "seed": seed, "made_of": made_of,
            "shards": [{key: shard[key] for key in ("name", "bytes", "sha256")} for shard in shards],
        }  # fmt: skip
        write_text(out / ABOUT, json.dumps(about, indent=1) + "\n")
    log(f"{out}: {about['utterances']} utterances in {len(shards)} shards")
    return problems


def _made_of(utterances: Utterances, settings: object) -> str:
    """What tells whether a shard that is there is still the one that would be written."""
    found = hashlib.sha256(repr((digest(utterances)["hash"], settings)).encode())
    found.update(utterances.column(lambda part: part.records["flags"]).tobytes())
    for row in np.flatnonzero(utterances.column(lambda part: part.records["rest"])).tolist():
        found.update(repr((row, utterances[row].wanted, utterances[row].word_ends)).encode())
    return found.hexdigest()


def _also(utterances: Utterances) -> dict[int, list[int]]:
    """Rows of recordings that have several texts, such as translations: of the first all others."""
    known = (hash((str(u.audio), u.offset_seconds, u.seconds)) for u in utterances)
    _, first, number = np.unique(np.fromiter(known, np.int64, len(utterances)), return_index=True, return_inverse=True)
    found: dict[int, list[int]] = {}
    for row in np.flatnonzero(first[number] != np.arange(len(utterances))).tolist():
        found.setdefault(int(first[number[row]]), []).append(row)
    return found


def _sizes(utterances: Utterances, codec: Codec) -> np.ndarray:
    """About the bytes of each, by which they are shared out: of the list alone, as all processes know it."""
    found = np.maximum(1, (utterances.seconds * _BYTES_A_SECOND).astype(np.int64))
    is_part = utterances.column(lambda part: part.records["size"]).astype(np.int64)
    return np.where(is_part > 0, is_part, found) if codec == "copy" else found


def _write_shard(
    utterances: Utterances,
    out: Path,
    made_of: str,
    codec: Codec,
    rate: int | None,
    job: tuple[int, dict[int, list[int]]],
) -> dict[str, Any]:
    """What its index says of a shard, which is written unless it is there already."""
    number, rows = job
    path = out / f"shard-{number:05d}.tar"
    try:
        known = Index(path.with_suffix(".index")).about
        if known["made_of"] == made_of and known["sha256"] == _sha256(path):
            return known
    except (OSError, IndexFileError, KeyError, ValueError):
        pass
    builder, kept, problems = Builder(out), [], []
    with written_whole(path) as file:
        for row, others in rows.items():
            utterance = utterances[row]
            try:
                content = _content(utterance, codec, rate)
                info = waveform.info(waveform.Held(content, str(utterance.audio)))
            except (waveform.AudioError, StoreError, OSError) as error:
                problems += [f"utterance {utterances[each].id}: {error}" for each in (row, *others)]
                continue
            name = f"{row:09d}"
            start = write_member(file, name + _suffix(content), content)
            write_member(file, f"{name}.json", _described(utterance, info.seconds))
            audio = Stored(path.name, start, len(content), crc32(content))
            for each in (row, *others):
                builder.add(replace(utterances[each], audio=audio, offset_seconds=None))
                kept.append(each)
        write_end(file)
    about = {"name": path.name, "bytes": path.stat().st_size, "sha256": _sha256(path), "made_of": made_of,
             "rows": kept, "problems": problems, "relative": True}  # fmt: skip
    return builder.finish(path.with_suffix(".index"), about).about


def _join(out: Path, names: Sequence[str]) -> None:
    """One index over all shards, in the order of the list."""
    parts = [Index((out / name).with_suffix(".index")) for name in names]
    whole = Utterances(parts)
    places = np.argsort(np.concatenate([np.array(part.about["rows"], np.int64) for part in parts]), kind="stable")
    builder = Builder(out)
    for place in places.tolist():
        utterance = whole[place]
        assert isinstance(utterance.audio, Stored)
        builder.add(replace(utterance, audio=utterance.audio._replace(file=Path(utterance.audio.file).name)))
    builder.finish(out / INDEX, {"relative": True, "skipped": []})


def _content(utterance: Utterance, codec: Codec, rate: int | None) -> bytes:
    """The bytes that are stored."""
    if codec == "copy" and not utterance.piece():
        audio = utterance.audio
        return audio.read() if isinstance(audio, Stored) else audio.read_bytes()
    read = waveform.read(utterance.audio, sample_rate=rate, **utterance.piece())
    file = io.BytesIO()
    soundfile.write(file, read.samples, read.sample_rate, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def _suffix(content: bytes) -> str:
    return _SUFFIXES.get(content[:4], ".audio")


def _described(utterance: Utterance, seconds: float) -> bytes:
    """What other readers of tars find beside a recording."""
    told = {"id": utterance.id, "duration": seconds, "text": utterance.text if utterance.has_text else None,
            "speaker": utterance.speaker}  # fmt: skip
    return json.dumps({key: value for key, value in told.items() if value not in (None, "")}).encode()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def told(problems: Sequence[str]) -> int:
    """Names what could not be used; the exit status."""
    for problem in problems:
        print(problem, file=sys.stderr)
    return 3 if problems else 0

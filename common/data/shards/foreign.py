"""Indexes in place over the archives of others: their bytes stay where they are, and each is read by its place.

| sources                       | what                                                                               |
|-------------------------------|------------------------------------------------------------------------------------|
| manifests and tars            | NeMo's tarred sets: braces, `_OP_0..3_CL_`, `shard_id`, `-sub1`, `_skipme`         |
| tars                          | WebDataset: a recording and a .json or .txt of the same name                       |
| cuts.*.jsonl, recording.*.tar | lhotse Shar, by its folder; fields are joined by the cuts' ids, not by their order |
| .parquet, .arrow              | data sets of Hugging Face: files, a folder of them, a name of the hub              |
| .scp                          | Kaldi's archives of WAV files: lines `id file.ark:place`                           |

What cannot be used is told by name: an utterance whose member is damaged or missing, and no other.
"""

import functools
import itertools
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from zlib import crc32

from common.data.lists.entries import Entry, EntryError, ManifestError, short
from common.data.lists.formats import described
from common.data.lists.index import Builder
from common.data.lists.recordings import usable
from common.data.lists.tables import NAMES, read_kaldi
from common.data.shards.tar import Damage, Member, members
from common.data.utterance import Utterance
from common.files import columns, stores
from common.files.atomic import files_below
from common.files.downloads import listed, missing_by, missing_files
from common.files.gzipped import gunzipped
from common.files.stores import Stored

_RANGE = re.compile(r"(?:\{|\(|\[|<|_OP_)(?:(\d+)\.\.(\d+)|([^{}()\[\]<>]*,[^{}()\[\]<>]*))(?:\}|\)|\]|>|_CL_)")
_SHARD = re.compile(r"audio[^/]*?_(\d+)[^/]*\.tar$")
_PIECE = re.compile(r"-sub\d+(?=\.[^.]*$|$)")
_HUB = re.compile(r"(?:hf:/+datasets/)?([\w.-]+/[\w.-]+?)/?")
_CUTS = re.compile(r"/cuts\.(\d+)\.jsonl(?:\.gz)?$")
_AUDIO = (".flac", ".wav", ".ogg", ".opus", ".mp3", ".aiff", ".aif", ".sph", ".m4a", ".audio")
MOST = 1 << 20  # names that braces stand for
Found = Utterance | str  # or why it cannot be used


def index(sources: Sequence[str], builder: Builder) -> list[str]:
    """Gives a builder all utterances of `sources`, of any kind of the table; a message for each that it cannot.

    Raises ManifestError where nothing can be read.
    """
    problems = []
    for found in _utterances([_absolute(name) for source in sources for name in expanded(source)]):
        if isinstance(found, str):
            problems.append(found)
        else:
            builder.add(found)
    if not builder.count:
        reason = problems[0] if problems else "no utterance in them"
        raise ManifestError(f"{', '.join(sources)}: {reason}")
    return problems


def _absolute(name: str) -> str:
    """As it is called from any folder."""
    return str(Path(name).absolute()) if Path(name).exists() else stores.named(name) or name


def expanded(name: str) -> list[str]:
    """The names that braces, or what stands for them where a shell would take them, mean: as in bash."""
    ranges = [_numbers(name, *found.groups()) for found in _RANGE.finditer(name)]
    if (count := math.prod(map(len, ranges))) > MOST:
        raise ManifestError(f"{name}: stands for {count:,} names; expected at most {MOST:,}")
    between = _RANGE.sub("\0", name).split("\0")
    return ["".join(itertools.chain(*zip(between, [*each, ""], strict=True))) for each in itertools.product(*ranges)]


def _numbers(name: str, first: str | None, last: str | None, listed: str | None) -> Sequence[str]:
    """What one pair of braces stands for: down where the first number is the greater, as wide where one has zeros."""
    if first is None or last is None:
        return (listed or "").split(",")
    start, end = int(first), int(last)
    step = 1 if start <= end else -1
    if abs(end - start) >= MOST:
        raise ManifestError(f"{name}: stands for {abs(end - start) + 1:,} names; expected at most {MOST:,}")
    width = max(len(first), len(last)) if any(len(each) > 1 and each[0] == "0" for each in (first, last)) else 0
    return [str(number).zfill(width) for number in range(start, end + step, step)]


def _utterances(names: Sequence[str]) -> Iterator[Found]:
    tars = [name for name in names if name.endswith(".tar")]
    lists = [name for name in names if name.endswith((".json", ".jsonl"))]
    others = [name for name in names if name not in {*tars, *lists}]
    if tars and lists:
        yield from _nemo(lists, tars)
    elif tars:
        for tar in tars:
            yield from _webdataset(tar)
    elif lists:
        raise ManifestError(f"{lists[0]}: a manifest without tars is read as it is; name it to a training")
    for name in others:
        yield from _other(Path(name))


def _other(path: Path) -> Iterator[Found]:
    store = stores.named(path)
    if path.suffix in (".parquet", ".arrow"):
        yield from _table(path)
    elif path.suffix == ".scp" or (path / "wav.scp").is_file():
        yield from _kaldi(path)
    elif not path.exists() and (found := _HUB.fullmatch(str(path))):
        yield from _from_hub(found[1])
    elif store or path.is_dir():
        yield from _folder(path, stores.files(store) if store else sorted(map(str, files_below(path))))
    else:
        raise ManifestError(f"{path}: expected tars, manifests, Shar, Parquet, Arrow or .scp files")


def _folder(path: Path, files: Sequence[str]) -> Iterator[Found]:
    """A folder here or in a store, by all files below it."""
    cuts = [(file, found) for file in files if (found := _CUTS.search(file))]
    tables = [file for file in files if file.endswith((".parquet", ".arrow"))]
    tars = [file for file in files if file.endswith(".tar")]
    lists = [file for file in files if file.endswith("/tarred_audio_manifest.json")]
    lists = lists or [file for file in files if file.endswith(".json") and "/sharded_manifests/" in file]
    if cuts:
        for file, found in cuts:
            yield from _shar(file, f"{file[: found.start() + 1]}recording.{found[1]}.tar")
    elif tables:
        for file in tables:
            yield from _table(Path(file))
    elif tars:
        yield from _utterances([*lists, *tars])
    else:
        raise ManifestError(f"{path}: no tars, Shar, Parquet or Arrow files in it")


def _from_hub(name: str) -> Iterator[Found]:
    """A data set of the hub: its Parquet files as copies on this machine, else its tars where they are."""
    from huggingface_hub import HfApi, snapshot_download

    download = functools.partial(snapshot_download, name, repo_type="dataset", allow_patterns="*.parquet")
    why: Exception | None = None  # it cannot be asked
    files = []
    try:
        try:
            files = sorted(file.rfilename for file in HfApi().dataset_info(name).siblings or ())
        except Exception as error:  # of the network, by whichever client it has
            why = error
        has_tables = why or any(file.endswith(".parquet") for file in files)
        copy = download(local_files_only=why is not None) if has_tables else ""
        missing = listed(missing_files(Path(copy))) if why and copy else ""
    except Exception as error:
        told, missing = str(why or error).strip().partition("\n")[0], missing_by(error)
        if missing:
            raise ManifestError(f"{name}: its download broke off: missing are {missing}: {told}") from None
        raise ManifestError(f"{name}: no such file, and no data set of the hub: {told}") from None
    if missing:
        raise ManifestError(f"{name}: its download broke off: missing are {missing}: {why}")
    if copy:
        yield from _other(Path(copy))
    else:
        yield from _folder(Path(name), [f"hf://datasets/{name}/{file}" for file in files])


class _Tar:
    """The members of an archive by name, and messages about its damaged headers."""

    def __init__(self, path: str):
        self.path = path
        self.damage: list[str] = []
        self.found: dict[str, Member] = {}
        try:
            size = stores.size(path)
            if size and stores.read(path, 0, min(size, 6))[:2] == b"\x1f\x8b":
                raise ManifestError(f"{path}: is compressed, so that nothing in it has a place; unpack it (gunzip)")
            for member in members(lambda start, count: stores.read(path, start, count), size):
                if isinstance(member, Damage):
                    what = "damaged header" if member.end < size else "cut short, or damaged up to its end"
                    place = f"bytes {member.start}-{member.end}"
                    self.damage.append(f"{path}: {what}, {place}: what should be there is left out")
                elif member.name in self.found:
                    self.damage.append(f"{path}: {member.name} is in it twice; the one at {member.start} is left out")
                else:
                    self.found[member.name] = member
        except stores.StoreError as error:
            raise ManifestError(str(error)) from None

    def stored(self, name: str) -> Stored | None:
        """Its bytes with their checksum."""
        member = self.found.get(name)
        if member is None:
            return None
        content = stores.read(self.path, member.start, member.size)
        return Stored(self.path, member.start, member.size, crc32(content))

    def content(self, name: str) -> bytes:
        """The bytes of a member that is there."""
        member = self.found[name]
        return stores.read(self.path, member.start, member.size)


def _nemo(lists: Sequence[str], tars: Sequence[str]) -> Iterator[Found]:
    """Manifests of members; of several, each has its own tar, in their order, unless rows name a shard_id."""
    numbered = {int(found[1]): tar for tar in tars if (found := _SHARD.search(tar))}
    rows: dict[str, list[tuple[str, int, dict[str, Any]]]] = {}
    if 1 < len(lists) != len(tars):
        raise ManifestError(f"{len(lists)} manifests and {len(tars)} tars; expected as many, or one manifest for all")
    for place, name in enumerate(lists):
        for line, content in _lines(name):
            row = content if isinstance(content, str) else _json(content, f"{name}:{line}")
            if isinstance(row, str):
                yield row
            elif not row.get("_skipme"):
                own = tars[place] if len(lists) > 1 or len(tars) == 1 else numbered.get(row.get("shard_id", -1))
                if own is None:
                    yield f"{name}:{line}: shard_id is {row.get('shard_id')!r}; expected the number of a tar"
                else:
                    rows.setdefault(own, []).append((name, line, row))
    for tar, own_rows in rows.items():
        archive = _Tar(tar)
        yield from archive.damage
        by_stem = {PurePosixPath(name).stem: name for name in archive.found}
        known: dict[str, Stored | None] = {}
        for name, line, row in own_rows:
            wanted = _PIECE.sub("", str(row.get("audio_filepath", "")))
            known_as = (n for n in (wanted, PurePosixPath(wanted).name) if n in archive.found)
            member = next(known_as, None) or by_stem.get(PurePosixPath(wanted).stem, "")
            if member not in known:
                known = {member: archive.stored(member)}  # pieces of one recording follow each other
            yield _told(row, known[member], f"{name}:{line}", f"{wanted} is not in {tar}")


def _webdataset(tar: str) -> Iterator[Found]:
    archive = _Tar(tar)
    yield from archive.damage
    samples: dict[str, dict[str, str]] = {}
    for name in archive.found:
        folder, _, last = name.rpartition("/")
        stem, dot, suffix = last.partition(".")
        samples.setdefault(f"{folder}/{stem}" if folder else stem, {})[f"{dot}{suffix}".lower()] = name
    for key, files in samples.items():
        audio = next((files[suffix] for suffix in _AUDIO if suffix in files), None)
        row: dict[str, Any] | str = {}
        if ".json" in files:
            row = _json(archive.content(files[".json"]), f"{tar}: {key}.json")
        elif named := files.get(".txt") or files.get(".text"):
            try:
                row = {"text": archive.content(named).decode()}
            except UnicodeDecodeError as error:
                row = f"utterance {key}: {tar}: {named}: byte {error.object[error.start]:#x} is not UTF-8"
        if isinstance(row, str):
            yield row
        elif not row:
            yield f"utterance {key}: {tar}: has neither .json nor .txt"
        else:
            row = row | {"audio_filepath": key} | ({} if "id" in row else {"id": key})
            yield _told(row, archive.stored(audio or ""), tar, "has no recording", is_whole=True)


def _shar(cuts: str, tar: str) -> Iterator[Found]:
    archive = _Tar(tar)
    yield from archive.damage
    by_stem = {PurePosixPath(name).stem: name for name in archive.found if not name.endswith(".json")}
    told, is_damaged = set(), False
    for line, text in _lines(cuts):
        cut = text if isinstance(text, str) else _json(text, f"{cuts}:{line}")
        is_damaged |= isinstance(cut, str)
        if isinstance(cut, str):
            yield cut
        elif (kind := cut.get("type", "MonoCut")) not in ("MonoCut", "Cut"):
            yield f"{cuts}:{line}: utterance {cut.get('id')}: a {kind}; expected one recording"
        else:
            said = cut.get("supervisions") or [{}]
            row = {"id": str(cut.get("id")), "audio_filepath": str(cut.get("id")), "duration": cut.get("duration"),
                   "speaker": said[0].get("speaker") or "",
                   "text": " ".join(s["text"] for s in said if s.get("text"))}  # fmt: skip
            member = by_stem.get(str(cut.get("id")), "")
            told.add(str(cut.get("id")))
            yield _told(row, archive.stored(member), f"{cuts}:{line}", f"has no recording in {tar}")
    if is_damaged:
        yield from (f"{tar}: utterance {id}: its line in {cuts} is lost" for id in by_stem if id not in told)


def _table(path: Path) -> Iterator[Found]:
    """Rows of Parquet, read by group and row, and of Arrow, whose bytes have places of their own."""
    if store := stores.named(path):
        yield f"{store}: Parquet and Arrow files are read from disks; copy it to one"
        return
    try:
        yield from map(functools.partial(_row, path), itertools.count(), columns.rows(path))
    except columns.ColumnsError as error:
        yield str(error)


def _row(path: Path, number: int, found: columns.Row | str) -> Found:
    if isinstance(found, str):
        return found
    row, content = found.told, found.content
    stored = Stored(str(path), found.start, len(content), crc32(content)) if content else None
    spoken = next((row[name] for name in NAMES["text"] if isinstance(row.get(name), str)), None)
    named = next((str(row[name]) for name in NAMES["id"] if row.get(name) is not None), f"{path.stem}-{number}")
    told = {"id": named, "audio_filepath": named, "text": spoken,
            "speaker": next((str(row[n]) for n in NAMES["speaker"] if row.get(n) is not None), "")}  # fmt: skip
    return _told(told, stored, f"{path}: row {number}", found.problem or "has no bytes of audio", is_whole=True)


def _kaldi(path: Path) -> Iterator[Found]:
    """Lines `id file.ark:place`, and text, segments and utt2spk beside them."""
    known: dict[str, Stored | str] = {}
    for entry in read_kaldi(path, None, with_text=False):
        if not isinstance(entry, Entry):
            yield str(entry)
            continue
        name = str(entry.utterance.audio)
        file, _, place = name.rpartition(":")
        if not place.isdecimal():
            yield str(entry.error(f"{short(name)}; expected file.ark:place"))
            continue
        if name not in known:
            known = {name: _wave(file, int(place))}
        found = known[name]
        yield str(entry.error(found)) if isinstance(found, str) else _checked(entry, found)


def _wave(file: str, start: int) -> Stored | str:
    """The WAV file that begins there, as long as its header says."""
    try:
        head = stores.read(file, start, 12)
        if head[:4] != b"RIFF" or head[8:] != b"WAVE":
            return f"{file}, byte {start}: expected a WAV file"
        size = int.from_bytes(head[4:8], "little") + 8
        return Stored(file, start, size, crc32(stores.read(file, start, size)))
    except stores.StoreError as error:
        return str(error)


def _told(row: dict[str, Any], stored: Stored | None, place: str, lost: str, *, is_whole: bool = False) -> Found:
    """The utterance that a row of JSON tells of, with its recording; `is_whole`: whatever offset the row gives."""
    name, _, line = place.rpartition(":") if re.search(r":\d+$", place) else (place, "", "0")
    row = row | {"offset": None} if is_whole else row
    try:
        entry = described(Path(name), Path(), int(line), row, with_text=False)
    except EntryError as error:
        return f"{place}: {error}"
    if stored is None:
        return f"{place}: utterance {entry.utterance.id}: {lost}"
    return _checked(entry, stored)


def _checked(entry: Entry, stored: Stored) -> Found:
    found = usable(entry, stored)
    return str(found) if isinstance(found, ManifestError) else found


def _lines(name: str) -> Iterator[tuple[int, bytes | str]]:
    """The lines of a file here or in a store that are not blank, by number, and why some cannot be read."""
    content, number, rest = stores.whole(name), 1, b""
    for found in gunzipped(content) if name.endswith(".gz") else (content,):
        if isinstance(found, str):
            yield number, f"{name}: damaged ({found}): what begins at line {number} is left out"
            rest = b""
            continue
        *lines, rest = (rest + found).split(b"\n")
        for line in lines:
            if line.strip():
                yield number, line
            number += 1
    if rest.strip():
        yield number, rest


def _json(content: bytes, place: str) -> dict[str, Any] | str:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        return f"{place}: not JSON ({error})"
    told = short(content.decode("utf-8", "replace"))
    return found if isinstance(found, dict) else f"{place}: found {told}; expected an object"

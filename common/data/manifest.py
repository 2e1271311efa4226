"""Lists of utterances, in the formats in which speech corpora come.

| format           | what                                                                                            |
|------------------|-------------------------------------------------------------------------------------------------|
| jsonl            | a line {"audio_filepath", "text", "duration", optional "id", "speaker", "offset", "speeds",      |
|                  | "word_ends": [seconds, ...]}; or what others call these, such as "path" and "sentence" (`NAMES`  |
|                  | of lists/tables.py); also over several lines each, or all in one object, {"data": [...]};  |
|                  | besides, what a model is to write, as NeMo's "source_lang" (`WANTED` of lists/entries.py)  |
| librispeech-json | an array of {"transcript", "files": [{"fname", "speed", "duration"}, ...], "original_duration"}, |
|                  | or of what jsonl has in its lines                                                               |
| librispeech      | a folder with <subset>/<speaker>/<chapter>/*.flac and *.trans.txt, or any folder of it           |
| ljspeech         | a folder with metadata.csv (id|text|normalised text) and wavs/                                   |
| pipe             | a line `path|text` or `path|text|speaker`, or tabs in place of pipes; a column with FastPitch's  |
|                  | pitch (.pt) is passed over                                                                       |
| table            | names of the columns in the first line, between tabs, commas, semicolons or pipes: Common        |
|                  | Voice's `client_id path sentence`, `wav_filename,transcript`, `audio|pitch|text|speaker`; others |
|                  | after the name of the file: `clips.csv?audio=clip&text=said`                                     |
| kaldi            | a folder with wav.scp, or any .scp; text, segments and utt2spk beside it where there are any     |
| shards           | a folder with data.index, as `python -m common.data.shards` writes it, or that file             |
| fairseq          | .tsv (root folder, then `path<TAB>samples`); .ltr and dict.ltr.txt beside it where there are any |

`duration` and `offset` are seconds. A duration that the manifest does not give is read from the header of the audio.
Where there is an `offset`, 0 too, no more than `duration` is read from there. Where different recordings have one id,
their paths become their ids. Files are UTF-8, or UTF-16 with its mark, and their lines may end as on Windows.
"""

import functools
import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from common.data.lists import formats, tables
from common.data.lists.entries import Entries
from common.data.lists.entries import ManifestError as ManifestError
from common.data.lists.index import Builder, Index, IndexFileError
from common.data.lists.keeping import fetched, kept
from common.data.lists.recordings import Checked, with_audio
from common.data.lists.utterances import Utterances as Utterances
from common.data.utterance import Utterance as Utterance
from common.files import stores
from common.files.atomic import decoded, files_below, written_whole
from common.files.stores import Stored, StoreError

Format = Literal["auto", "jsonl", "librispeech-json", "librispeech", "ljspeech", "pipe", "table", "kaldi", "fairseq"]

_READERS: dict[str, Callable[..., Entries]] = {
    "jsonl": formats.read_jsonl,
    "librispeech-json": formats.read_librispeech_json,
    "librispeech": formats.read_librispeech,
    "ljspeech": formats.read_ljspeech,
    "pipe": tables.read_pipe,
    "table": tables.read_table,
    "kaldi": tables.read_kaldi,
    "fairseq": formats.read_fairseq,
}
NO_SUCH = "no such file or folder; expected a manifest"
_MAY_LACK_TEXT = ("jsonl", "librispeech-json", "pipe", "table", "kaldi")
_ARRAY_OF_OBJECTS = re.compile(r"\[\s*(?:\{|$)")
_HEAD = 1 << 16  # bytes of a file by which its format is known


class Manifest(NamedTuple):
    """The utterances that can be used, and a message for each that was skipped."""

    utterances: Utterances
    skipped: list[str]


class Selection(NamedTuple):
    """The utterances that passed the filters, and a line that counts the others by reason; "" if there are none."""

    utterances: Utterances
    dropped: str


def read_manifest(
    path: Path | str,
    *,
    root: Path | None = None,
    on_error: Literal["stop", "skip"] = "stop",
    format: Format = "auto",
    with_text: bool = True,
) -> Manifest:
    """Reads a manifest file or corpus folder in any format of the module's table.

    Relative audio paths start from `root`, by default the folder of the manifest, or the current one where nothing is
    there. The first bad entry (malformed,
    audio missing, a duration that is not positive) raises ManifestError "FILE:LINE: utterance ID: ..." or, with
    `on_error="skip"`, bad entries are left out and listed. Without `with_text` entries need none. What nothing can be
    read from is an error in any case.
    """
    if stores.named(path):
        return _indexed(stores.named(path))
    path, columns = tables.with_columns(path)
    if is_index(path):
        return _indexed(path)
    named = "table" if columns else _detected(path) if format == "auto" else format
    reader = functools.partial(_READERS[named], with_text=with_text) if named in _MAY_LACK_TEXT else _READERS[named]
    reader = functools.partial(tables.read_table, with_text=with_text, columns=columns) if columns else reader
    folder = path if path.is_dir() else path.parent

    def fill(builder: Builder) -> dict[str, Any]:
        skipped: list[str] = []
        cwd = ""
        for found in with_audio(reader(path, root), folder if root is None else None):
            if isinstance(found, Checked):
                builder.add(found.utterance, found.size)
                cwd = cwd or found.cwd
            elif on_error == "stop":
                raise found
            else:
                skipped.append(str(found))
        return {"skipped": skipped, "cwd": cwd}

    options = (str(path), None if root is None else str(root), on_error, named, with_text, *columns.items())
    index = kept(path, _files(path, named), options, fill, lambda index: told_apart(index, folder))
    skipped = index.about["skipped"]
    if not len(index):
        found = f"none of its {len(skipped)} utterances can be used; {skipped[0]}" if skipped else "no utterance in it"
        raise ManifestError(f"{path}: {found}")
    return Manifest(Utterances([index]), skipped)


def read_sources(
    sources: Iterable[str],
    *,
    root: Path | None = None,
    on_error: Literal["stop", "skip"] = "stop",
    training: bool,
    speakers: Collection[str] = (),
    min_seconds: float = 0.0,
    max_seconds: float = math.inf,
    need_text: bool = False,
    advice: str = "",
) -> Manifest:
    """The utterances of all `sources`, manifests or corpus folders below `root`, and messages about what is left out.

    Speakers (none named: all), durations and texts are selected in training only: an evaluation counts every utterance.
    Raises ManifestError, also if nothing is left, with `advice`; by default which flag names sources of a training.
    """
    sources = list(sources)
    try:
        manifests = [read_manifest(located(source, root), root=root, on_error=on_error) for source in sources]
    except ManifestError as error:
        if advice or not str(error).endswith(NO_SUCH):
            raise
        flag, where = "--data.train" if training else "--data.validation", "" if root else ", which is not set"
        raise ManifestError(
            f"{error} or a corpus that {flag} names, in --data.root{where} "
            "(speech for toy configurations: python -m common.data.toy toy)"
        ) from None
    utterances = Utterances.joined([manifest.utterances for manifest in manifests])
    messages = [message for manifest in manifests for message in manifest.skipped]
    if training:
        if speakers:
            names, numbers = utterances.speakers()
            utterances = utterances[np.isin(numbers, [i for i, name in enumerate(names) if name in speakers])]
        utterances, dropped = select(utterances, min_seconds=min_seconds, max_seconds=max_seconds, need_text=need_text)
        messages += [dropped] if dropped else []
    if not len(utterances):
        named = ", ".join(sources) or "none is named"
        purpose, flag = ("train", "--data.train") if training else ("validate", "--data.validation")
        raise ManifestError(f"no utterance to {purpose} on: {named}; {advice or f'name manifests with {flag}'}")
    ends = np.cumsum([0, *(len(manifest.utterances) for manifest in manifests)])
    counts = np.diff(np.searchsorted(utterances.rows, ends))
    utterances.corpora = tuple((Path(source).name, int(n)) for source, n in zip(sources, counts, strict=True))
    return Manifest(utterances, messages)


def select(
    utterances: Sequence[Utterance],
    *,
    min_seconds: float = 0.1,
    max_seconds: float = float("inf"),
    need_text: bool = False,
) -> Selection:
    """The utterances of min_seconds to max_seconds (both included)."""
    found = Utterances.of(utterances)
    seconds = found.seconds
    is_spoken = found.text_bytes > 0 if need_text else np.ones(len(found), bool)
    is_long = is_spoken & (seconds >= min_seconds)
    fits = is_long & (seconds <= max_seconds)
    spoken, long, fitting = (int(mask.sum()) for mask in (is_spoken, is_long, fits))
    kept = found if fitting == len(found) else found[fits]
    dropped = {
        "without text": len(found) - spoken,
        f"shorter than {min_seconds:g} s": spoken - long,
        f"longer than {max_seconds:g} s": long - fitting,
    }
    reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items() if count)
    return Selection(kept, f"left out of {len(found)} utterances: {reasons}" if reasons else "")


def write_jsonl(path: Path | str, utterances: Sequence[Utterance]) -> None:
    """Writes a manifest that `read_manifest` reads back as it is; audio below its folder gets a relative path.

    The file appears under its name only when it is complete.
    """
    path = Path(path)
    base = str(path.parent.absolute()) + os.sep

    def name(recording: Path | Stored) -> str:
        if isinstance(recording, Stored):
            raise ManifestError(f"{path}: {recording} is a part of a file, which a line cannot name")
        return str(recording.absolute()).removeprefix(base)

    with written_whole(path, is_flushed=False) as file:
        for utterance in utterances:
            record = {
                "id": utterance.id,
                "audio_filepath": name(utterance.audio),
                "duration": utterance.seconds,
                "text": utterance.text,
                "speaker": utterance.speaker,
                "offset": utterance.offset_seconds,
                "speeds": {f"{speed:g}": name(copy) for speed, copy in utterance.speeds},
                "word_ends": utterance.word_ends,
                **dict(utterance.wanted),
            }
            needed = {"text"} if utterance.has_text else set()  # "" says that nothing was said
            given = {key: value for key, value in record.items() if key in needed or value not in (None, "", {}, ())}
            file.write(f"{json.dumps(given)}\n".encode())


def is_index(path: Path) -> bool:
    """Whether it is a data set of shards, or its index."""
    return bool(stores.named(path)) or path.suffix == ".index" or (path / "data.index").is_file()


def located(source: str, root: Path | None) -> Path:
    """Where a manifest lies, below `root` unless it lies in a store."""
    return Path(source) if root is None or stores.named(source) else root / source


def _indexed(path: Path | str) -> Manifest:
    """A data set of shards, by its folder or its index, on disk or in a store."""
    try:
        if isinstance(path, str):
            name = path if path.endswith(".index") else f"{path.rstrip('/')}/data.index"
            index = Index(fetched(name), name)
        else:
            index = Index(path / "data.index" if path.is_dir() else path)
        return Manifest(Utterances([index]), list(index.about.get("skipped", ())))
    except StoreError as error:  # where nothing is known of the data
        raise ManifestError(str(error)) from None
    except (OSError, IndexFileError) as error:
        raise ManifestError(f"{error}; write or index the data anew (python -m common.data.shards)") from None


def told_apart(index: Index, folder: Path) -> dict[int, str]:
    """Ids that other recordings have too: of each utterance its path from `folder`, or the whole one, by its place."""
    marks = index.marks[:, 0]
    values, counts = np.unique(marks, return_counts=True)
    others: dict[int, str] = {}
    named: dict[str, list[int]] = {}
    for row in np.flatnonzero(np.isin(marks, values[counts > 1])).tolist() if len(values) < len(marks) else ():
        named.setdefault(index[row].id, []).append(row)
    for rows in named.values():
        found = [index[row] for row in rows]
        if len({(utterance.audio, utterance.offset_seconds) for utterance in found}) > 1:
            others |= {row: _place(utterance, folder) for row, utterance in zip(rows, found, strict=True)}
    return others


def _place(utterance: Utterance, folder: Path) -> str:
    if isinstance(utterance.audio, Stored):
        later = f"+{utterance.offset_seconds:g}" if utterance.offset_seconds else ""
        return f"{Path(utterance.audio.file).stem}/{utterance.id}@{utterance.audio.start}{later}"
    recording = Path(str(utterance.audio))
    name = recording.relative_to(folder) if recording.is_relative_to(folder) else recording
    offset = utterance.offset_seconds
    return name.as_posix().lstrip("/") + (f"@{offset:g}" if offset else "")


def _files(path: Path, format: str) -> list[Path]:
    """All files that a list of this format is read from."""
    if format == "librispeech":
        transcripts = formats.transcripts_below(path)
        subsets = {transcript.absolute().parents[2] for transcript in transcripts}
        return [*transcripts, *(subset.parent / f"{subset.name}.word_times.jsonl" for subset in sorted(subsets))]
    if format == "kaldi":
        listed = path / "wav.scp" if path.is_dir() else path
        return [listed, *(listed.parent / name for name in ("text", "segments", "utt2spk"))]
    if format == "fairseq":
        return [path, path.with_suffix(".ltr"), path.with_name("dict.ltr.txt")]
    return [path / "metadata.csv" if path.is_dir() else path]


def _detected(path: Path) -> str:
    """The format of a file or folder, by its name and its first line."""
    if path.is_dir():
        if (path / "metadata.csv").is_file():
            return _detected(path / "metadata.csv")
        if any(file.name.endswith(".trans.txt") for file in files_below(path)):
            return "librispeech"
        if (path / "wav.scp").is_file():
            return "kaldi"
        raise ManifestError(
            f"{path}: has neither metadata.csv (LJSpeech) nor a *.trans.txt (LibriSpeech) nor wav.scp (Kaldi) in it"
        )
    if not path.is_file():
        raise ManifestError(f"{path}: {NO_SUCH}")
    first = _first_line(path)
    if path.suffix == ".json":
        return "librispeech-json" if first.startswith("[") else "jsonl"
    if path.suffix == ".jsonl":
        return "librispeech-json" if _ARRAY_OF_OBJECTS.match(first) else "jsonl"
    if path.suffix == ".scp":
        return "kaldi"
    if tables.header_of(first):
        return "table"
    if path.name == "metadata.csv":
        return "ljspeech"
    if path.suffix == ".csv" and "|" not in first:
        return "table"
    return "fairseq" if path.suffix == ".tsv" else "pipe"


def _first_line(path: Path) -> str:
    """Without what cannot be read of it; "" of an empty file."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        text = decoded(head)
    except UnicodeDecodeError:  # which the reader tells, or a letter that the end of `head` cuts
        text = head.decode("utf-8", "replace")
    return text.lstrip("\ufeff \t\r\n").partition("\n")[0]

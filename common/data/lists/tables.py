"""Readers of manifests that are tables: columns between pipes, tabs, commas or semicolons; and Kaldi's folders.

Where the first line names columns, they may stand in any order, and those that are not known are passed over:
`client_id<TAB>path<TAB>sentence` (Common Voice), `wav_filename,wav_filesize,transcript` (DeepSpeech),
`file_name,transcription` (Hugging Face), `audio|pitch|text|speaker` (FastPitch).
"""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from common.data.lists.entries import (
    UNKNOWN,
    Entries,
    Entry,
    EntryError,
    ManifestError,
    lines_of,
    parsed,
    short,
    text_of,
)
from common.data.utterance import Utterance
from common.files.atomic import is_file

NAMES = {
    "audio": (
        "audio_filepath", "audio", "wav", "wavs", "path", "file", "filename", "file_name", "audio_path", "audio_file",
        "file_path", "filepath", "wav_filename", "wav_path",
    ),
    "text": ("text", "transcript", "sentence", "transcription", "normalized_text", "txt"),
    "speaker": ("speaker", "speaker_id", "client_id", "spk", "spk_id"),
    "id": ("id", "utt_id", "utterance_id", "key"),
    "duration": ("duration", "seconds", "duration_seconds"),
    "offset": ("offset",),
    "channel": ("channel",),
}  # fmt: skip
"""What corpora call the same thing: columns of tables, keys of JSON. Of several, the first that is there counts."""
SEPARATORS = "\t|,;"
NO_COLUMNS: Mapping[str, str] = MappingProxyType({})


def with_columns(source: Path | str) -> tuple[Path, dict[str, str]]:
    """The path of a table, and the columns that its name gives, as "clips.csv?audio=clip&text=said". ManifestError."""
    path, mark, named = str(source).rpartition("?")
    if not mark or "=" not in named or is_file(Path(source)):
        return Path(source), {}
    columns = {what: name.lower() for what, _, name in (part.partition("=") for part in named.split("&"))}
    if unknown := sorted(columns.keys() - NAMES.keys()):
        raise ManifestError(f"{source}: {unknown[0]} is nothing that a column may be; expected {', '.join(NAMES)}")
    return Path(path), columns


def header_of(line: str, columns: Mapping[str, str] = NO_COLUMNS) -> tuple[str, list[str]] | None:
    """The separator and the columns' names, in lower case, of a line that names columns, a recording's among them."""
    for separator in SEPARATORS:
        names = [name.strip().strip('"').lower() for name in line.rstrip("\r").split(separator)]
        is_of_names = all(names[1:]) and not any(mark in name for name in names for mark in "/|\t")
        if len(names) > 1 and _column("audio", names, columns) is not None and is_of_names:
            return separator, names
    only = line.strip().strip('"').lower()
    return (",", [only]) if only in NAMES["audio"] else None


def _column(what: str, names: Sequence[str], columns: Mapping[str, str]) -> int | None:
    wanted = (columns[what],) if what in columns else NAMES[what]
    return next((names.index(name) for name in wanted if name in names), None)


def read_table(
    path: Path, root: Path | None, *, with_text: bool = True, columns: Mapping[str, str] = NO_COLUMNS
) -> Entries:
    """A table whose first line names its columns; Common Voice's, whose recordings lie in clips/ beside it, too.

    `columns`: the names of those that are called otherwise than in `NAMES`.
    """
    path = path / "metadata.csv" if path.is_dir() else path
    text = text_of(path)
    separator, names = header_of(text.partition("\n")[0], columns) or ("", [])
    places = {what: _column(what, names, columns) for what in NAMES}
    if missing := [columns[what] for what in columns if places[what] is None]:
        raise ManifestError(f"{path}:1: no column {missing[0]}; found {short(text.partition(chr(10))[0])}")
    if places["audio"] is None:
        expected = "names of columns, such as path,text,speaker, in the first line"
        raise ManifestError(f"{path}:1: found {short(text.partition(chr(10))[0])}; expected {expected}")
    if places["text"] is None and with_text:
        named = f"expected text or transcript, or its name after the file's: {path.name}?text=NAME"
        raise ManifestError(f"{path}:1: no column of texts among {', '.join(names)}; {named}")
    base = root or path.parent
    if "client_id" in names and (base / "clips").is_dir():
        base /= "clips"

    def parse(line: int, values: list[str]) -> Entry:
        if len(values) != len(names):
            found, expected = separator.join(values), separator.join(names)
            raise EntryError(f"found {short(found)}; expected {expected}, as the first line says")
        given = {what: values[place].strip() for what, place in places.items() if place is not None}
        if not given["audio"]:
            raise EntryError(f"{names[places['audio'] or 0]} is empty; expected a recording")
        recording = base / given["audio"]
        offset, seconds = _seconds(given.get("offset", "")), _seconds(given.get("duration", ""))
        if given.get("offset") and offset is None:
            raise EntryError(f"offset is {short(given['offset'])}; expected a number of seconds, such as 2.5")
        if offset is not None and given.get("duration") and seconds is None:
            raise EntryError(f"duration is {short(given['duration'])}; expected a number of seconds, such as 2.5")
        utterance = Utterance(
            id=given.get("id") or recording.stem + (f"@{offset:g}" if offset else ""),
            audio=recording,
            text=given.get("text", ""),
            seconds=UNKNOWN if seconds is None else seconds,
            speaker=given.get("speaker", ""),
            offset_seconds=offset,
            has_text="text" in given,
        )
        return Entry(path, line, utterance, given.get("channel", ""))

    rows = _quoted(path, text, separator) if separator in ",;" else _plain(text, separator)
    return parsed(path, rows, parse)


def _plain(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.split("\n")[1:], start=2):
        if line.strip():
            values = line.rstrip("\r").split(separator)
            yield number, list(map(_unquoted, values)) if separator == "\t" else values


def _unquoted(value: str) -> str:
    """What a spreadsheet, or Common Voice, has put in quotes with those within doubled; anything else as it is."""
    inner = value[1:-1]
    is_quoted = len(value) > 1 and value[0] == value[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if is_quoted else value


def _quoted(path: Path, text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The rows after the first as spreadsheets write them: with separators, quotes and ends of lines in quotes."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        next(rows)
        line = rows.line_num + 1
        for row in rows:
            if any(value.strip() for value in row):
                yield line, row
            line = rows.line_num + 1
    except csv.Error as error:  # a quotation mark that nothing closes would swallow the other rows
        raise ManifestError(f"{path}:{rows.line_num}: cannot be read as a table: {error}") from error


def _seconds(value: str) -> float | None:
    """A number of seconds; None where there is none, as in FastPitch's columns of files."""
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None


def read_pipe(path: Path, root: Path | None, *, with_text: bool = True) -> Entries:
    """Lists as Tacotron 2 and FastPitch use them, pipes or tabs between the columns, which the first line may name."""
    base = root or path.parent
    lines = list(lines_of(path))
    if lines and header_of(lines[0][1]):
        return read_table(path, root, with_text=with_text)

    def parse(line: int, content: str) -> Entry:
        columns = content.split("|" if "|" in content else "\t")
        if len(columns) > 2 and columns[1].endswith(".pt"):
            del columns[1]
        if len(columns) not in (2, 3) or not columns[0]:
            raise EntryError(f"found {short(content)}; expected path|text or path|text|speaker")
        name, text, speaker = (*map(str.strip, columns), "")[:3]
        said = Utterance(id=Path(name).stem, audio=base / name, seconds=UNKNOWN, text=text, speaker=speaker)
        return Entry(path, line, said)

    return parsed(path, lines, parse)


def read_kaldi(path: Path, root: Path | None, *, with_text: bool = True) -> Entries:
    """Kaldi's data folder, or its wav.scp: recordings by name, and beside it text, segments and utt2spk.

    Relative paths start from `root`, by default the folder. A recording that a command is to make is refused.
    """
    listed = path / "wav.scp" if path.is_dir() else path
    folder = listed.parent
    recordings = _by_name(listed)
    texts = (
        {name: value for name, (_, value) in _by_name(folder / "text").items()} if is_file(folder / "text") else None
    )
    if texts is None and with_text:
        raise ManifestError(f"{folder}: no file text in it; expected one with what was said, beside wav.scp")
    speakers = {name: value for _, name, value in _pairs(folder / "utt2spk")}
    has_segments = is_file(folder / "segments")
    source = folder / "segments" if has_segments else listed
    rows = _pairs(source) if has_segments else ((line, name, name) for name, (line, _) in recordings.items())

    def parse(line: int, row: tuple[str, str]) -> Entry:
        id, value = row
        name, start, end = (*value.split(), "", "", "")[:3] if has_segments else (value, "", "")
        if name not in recordings:
            raise EntryError(f"utterance {id}: recording {short(name)} is not in {listed}")
        recording = recordings[name][1]
        if recording.endswith("|"):
            raise EntryError(f"utterance {id}: {short(recording)} is a command; run it, and name the file it writes")
        if with_text and texts is not None and id not in texts:
            raise EntryError(f"utterance {id}: has no line in {folder / 'text'}")
        first, last = _seconds(start), _seconds(end)
        if has_segments and (first is None or last is None):
            raise EntryError(f"utterance {id}: found {short(value)}; expected recording, start and end in seconds")
        utterance = Utterance(
            id=id,
            audio=(root or folder) / recording,
            text=texts.get(id, "") if texts is not None else "",
            seconds=UNKNOWN if first is None or last is None else last - first,
            speaker=speakers.get(id, ""),
            offset_seconds=first,
            has_text=texts is not None and id in texts,
        )
        return Entry(source, line, utterance)

    return parsed(source, ((line, (name, value)) for line, name, value in rows), parse)


def _by_name(path: Path) -> dict[str, tuple[int, str]]:
    """Line number and the rest of the line of every name. Raises ManifestError for a name that is there twice."""
    found: dict[str, tuple[int, str]] = {}
    for line, name, value in _pairs(path):
        if name in found:
            raise ManifestError(f"{path}:{line}: {short(name)} is in line {found[name][0]} too; expected it once")
        found[name] = line, value
    return found


def _pairs(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line number, first word and the rest of every line of a file that may be missing."""
    for line, content in lines_of(path) if is_file(path) else ():
        name, _, value = content.strip().replace("\t", " ", 1).partition(" ")
        yield line, name, value.strip()

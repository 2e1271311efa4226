"""Readers of the manifest formats: each goes through a file or folder and yields its entries as they are written.

A reader yields a ManifestError in place of an entry that it cannot use, so that the caller may go on after it, and
raises one where nothing can be read after it. Whether the audio exists is not looked at here. `root` is the folder
that relative audio paths start from, by default the folder of the manifest.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from common.audio import waveform
from common.data.lists.entries import (
    UNKNOWN,
    WANTED,
    Entries,
    Entry,
    EntryError,
    ManifestError,
    found,
    lines_of,
    numbered,
    parsed,
    short,
    text_of,
)
from common.data.lists.tables import NAMES
from common.data.utterance import Utterance
from common.files.atomic import files_below, is_file

_BETWEEN_ITEMS = re.compile(r"[\s,]*")
_BEFORE_VALUE = re.compile(r"\s*:\s*")
MOST_DIGITS = 15  # of a count of samples


def read_jsonl(path: Path, root: Path | None, *, with_text: bool = True) -> Entries:
    """One JSON object a line: the keys of NeMo's manifests or others of NAMES, and `speeds`: {"0.9": path, ...}.

    Objects over several lines, and one that holds an array of objects, {"data": [...]}, are read too.
    """
    content = text_of(path)
    start = _BETWEEN_ITEMS.match(content).end()  # type: ignore[union-attr]
    if (array := _array_in(path, content, start)) is not None:
        return _objects(path, root, _items(path, content, array, end="]"), with_text=with_text)
    if _is_over_lines(content, start):
        return _objects(path, root, _items(path, content, start, end=""), with_text=with_text)
    base = root or path.parent

    def parse(line: int, content: str) -> Entry:
        try:
            record = json.loads(content)
        except json.JSONDecodeError as error:
            raise EntryError(f"not JSON ({error.msg} at column {error.colno}): {short(content)}") from error
        except (ValueError, RecursionError) as error:  # integers of thousands of digits, thousands of brackets
            raise EntryError(f"not JSON that can be read ({error}): {short(content)}") from error
        if not isinstance(record, dict):
            raise EntryError(f"found {short(content)}; expected an object with audio_filepath, duration and text")
        return described(path, base, line, record, with_text=with_text)

    return parsed(path, numbered(content), parse)


def described(path: Path, base: Path, line: int, record: dict[str, Any], *, with_text: bool) -> Entry:
    """The entry that an object of JSON describes."""
    id = str(record.get(_key(record, "id", "id"), ""))
    name = _string(record, _key(record, "audio", "audio_filepath"), id)
    spoken = _key(record, "text", "text")
    offset = _number(record, "offset", id or Path(name).stem)
    if spoken not in record and isinstance(record.get("text_filepath"), str):
        record = record | {spoken: _file_text(base / record["text_filepath"], id or Path(name).stem)}
    id = id or Path(name).stem + (f"@{offset:g}" if offset else "")
    utterance = Utterance(
        id=id,
        audio=base / name,
        text=_string(record, spoken, id).strip() if with_text or record.get(spoken) is not None else "",
        seconds=_seconds(record, "duration", id),
        has_text=record.get(spoken) is not None,
        speaker=str(record.get(_key(record, "speaker", "speaker"), "")),
        offset_seconds=offset,
        speeds=_speeds(record.get("speeds", {}), base, id),
        word_ends=_word_ends(record.get("word_ends", []), id),
        wanted=tuple((key, str(record[key])) for key in WANTED if record.get(key) is not None),
    )
    return Entry(path, line, utterance, "" if record.get("channel") is None else str(record["channel"]))


def _word_ends(value: Any, id: str) -> tuple[float, ...]:
    if not isinstance(value, list) or not all(type(end) in (int, float) and 0 <= end < 1e9 for end in value):
        raise EntryError(f"utterance {id}: word_ends {short(json.dumps(value))}; expected a list of seconds")
    return tuple(map(float, value))


def read_librispeech_json(path: Path, root: Path | None, *, with_text: bool = True) -> Entries:
    """Arrays: NVIDIA's preparation of LibriSpeech, with several speeds of each utterance, or `read_jsonl`'s objects."""
    content = text_of(path)
    array = _BETWEEN_ITEMS.match(content).end() + 1  # type: ignore[union-attr]
    return _objects(path, root, _items(path, content, array, end="]"), with_text=with_text)


def _objects(path: Path, root: Path | None, items: Iterable[tuple[int, Any]], *, with_text: bool) -> Entries:
    base = root or path.parent

    def parse(line: int, record: Any) -> Entry:
        if isinstance(record, dict) and "files" not in record and any(name in record for name in NAMES["audio"]):
            return described(path, base, line, record, with_text=with_text)
        files = record.get("files") if isinstance(record, dict) else None
        if not isinstance(files, list) or not all(isinstance(file, dict) for file in files):
            raise EntryError(f'found {short(json.dumps(record))}; expected an object with "transcript" and "files"')
        speeds = [_number(file, "speed", str(file.get("fname", ""))) or 1.0 for file in files]
        originals = [file for speed, file in zip(speeds, files, strict=True) if speed == 1]
        if len(originals) != 1:
            names = ", ".join(str(file.get("fname")) for file in files)
            raise EntryError(f"{len(originals)} of its files ({names}) have speed 1; expected one")
        name = _string(originals[0], "fname", "")
        id = Path(name).stem
        seconds = _seconds(originals[0], "duration", id)
        if "text_filepath" in record:
            text = _file_text(base / _string(record, "text_filepath", id), id)
        else:
            text = _string(record, "transcript", id).strip()
        utterance = Utterance(
            id=id,
            audio=base / name,
            text=text,
            seconds=_seconds(record, "original_duration", id) if math.isnan(seconds) else seconds,
            offset_seconds=_number(record, "offset", id),
            speeds=tuple(
                (speed, base / _string(file, "fname", id))
                for speed, file in zip(speeds, files, strict=True)
                if speed != 1
            ),
        )
        return Entry(path, line, utterance)

    return parsed(path, items, parse)


def transcripts_below(folder: Path) -> list[Path]:
    """LibriSpeech's, in the order of their names."""
    return sorted(path for path in files_below(folder) if path.name.endswith(".trans.txt"))


def read_librispeech(path: Path, root: Path | None) -> Entries:
    """LibriSpeech as downloaded, whole or any folder of it; `root` is not used.

    Where words end is in `<subset>.word_times.jsonl` beside the subset of a synthetic corpus.
    """
    word_ends: dict[Path, dict[str, tuple[float, ...]]] = {}
    for transcripts in transcripts_below(path):
        subset = transcripts.absolute().parents[2]
        if subset not in word_ends:
            word_ends[subset] = _read_word_ends(subset.parent / f"{subset.name}.word_times.jsonl")
        yield from _read_chapter(transcripts, word_ends[subset])


def _read_word_ends(path: Path) -> dict[str, tuple[float, ...]]:
    """Ends of words of every utterance, by its id; none where there is no such file. Raises ManifestError."""
    try:
        lines = map(json.loads, text_of(path).splitlines()) if is_file(path) else ()
        return {line["id"]: tuple(float(end) for _, _, end in line["words"]) for line in lines}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ManifestError(f"{path}: {error!r}; expected lines of id and words, [word, start, end] each") from None


def _read_chapter(transcripts: Path, word_ends: dict[str, tuple[float, ...]]) -> Entries:
    folder = transcripts.parent
    recordings = {path.stem: path for path in folder.iterdir() if path.suffix in (".flac", ".wav")}

    def parse(line: int, content: str) -> Entry:
        id, _, text = content.partition(" ")
        if id not in recordings:
            raise EntryError(f"utterance {id}: neither {id}.flac nor {id}.wav is in {folder}")
        audio, speaker, ends = recordings.pop(id), id.split("-")[0], word_ends.get(id, ())
        said = Utterance(id=id, audio=audio, seconds=UNKNOWN, text=text.strip(), speaker=speaker, word_ends=ends)
        return Entry(transcripts, line, said)

    lines = list(lines_of(transcripts))
    yield from parsed(transcripts, lines, parse)
    for id in sorted(recordings):
        yield ManifestError(f"{transcripts}:{len(lines)}: utterance {id}: has audio but no transcript in this file")


def read_ljspeech(path: Path, root: Path | None) -> Entries:
    """LJSpeech's folder or its metadata.csv, whose recordings lie beside it: `root` is not used.

    The text is the normalised one where there are both.
    """
    table = path / "metadata.csv" if path.is_dir() else path

    def parse(line: int, content: str) -> Entry:
        columns = content.split("|")
        if len(columns) not in (2, 3) or not columns[0]:
            raise EntryError(f"found {short(content)}; expected id|text or id|text|normalised text")
        recording, text = table.parent / "wavs" / f"{columns[0]}.wav", (columns[-1] or columns[1]).strip()
        return Entry(table, line, Utterance(id=columns[0], audio=recording, text=text, seconds=UNKNOWN))

    return parsed(table, lines_of(table), parse)


def read_fairseq(path: Path, root: Path | None) -> Entries:
    """Fairseq's .tsv with letters from the .ltr beside it; without one the texts are empty.

    Its sample counts become seconds at the rate of the first recording that can be read: wav2vec 2.0 wants one rate
    for all.
    """
    lines = list(lines_of(path))
    if not lines or "\t" in lines[0][1]:
        found_there = short(lines[0][1]) if lines else "nothing"
        expected = "the root folder, as Fairseq has it, or names of columns, path and text among them"
        raise ManifestError(f"{path}:1: found {found_there}; expected {expected}")
    base = root or path.parent / lines[0][1]
    entries = lines[1:]
    texts, has_text = _letters(path.with_suffix(".ltr"), len(entries)), path.with_suffix(".ltr").is_file()
    rate, unreadable = _rate(path, (base / content.split("\t")[0] for _, content in entries))

    def parse(line: int, entry: tuple[str, str | EntryError]) -> Entry:
        content, text = entry
        name, _, count = content.partition("\t")
        if not count.isdecimal() or len(count) > MOST_DIGITS:
            raise EntryError(f"utterance {Path(name).stem}: found {short(content)}; expected path, tab, samples")
        if isinstance(text, EntryError):
            raise EntryError(f"utterance {Path(name).stem}: {text}")
        recording = base / name
        if recording in unreadable:
            raise EntryError(f"utterance {recording.stem}: {unreadable[recording]}")
        seconds = int(count) / rate
        said = Utterance(id=recording.stem, audio=recording, seconds=seconds, text=text, has_text=has_text)
        return Entry(path, line, said)

    items = [(line, (content, text)) for (line, content), text in zip(entries, texts, strict=True)]
    return parsed(path, items, parse)


def _rate(path: Path, recordings: Iterable[Path]) -> tuple[int, dict[Path, str]]:
    """That of the first of `recordings` that can be read, and what is wrong with those before it."""
    unreadable: dict[Path, str] = {}
    for recording in filter(is_file, recordings):
        try:
            return waveform.info(recording).sample_rate, unreadable
        except waveform.AudioError as error:
            unreadable[recording] = str(error)
    if unreadable:
        raise ManifestError(f"{path}: {next(iter(unreadable.values()))}; no other recording tells the sample rate")
    return 16000, {}  # none is there, which whoever looks for them tells


def _letters(path: Path, n_entries: int) -> list[str | EntryError]:
    """The texts of a .ltr file, "H I | Y O U |" for "HI YOU", against the symbols of dict.ltr.txt beside it.

    A line is one entry's even if it is empty: nothing is said there.
    """
    if not path.is_file():
        return [""] * n_entries
    lines = text_of(path).removesuffix("\n").split("\n")
    while len(lines) > n_entries and not lines[-1].strip():
        lines.pop()
    if len(lines) != n_entries:
        raise ManifestError(f"{path}: {len(lines)} lines; expected {n_entries}, one for each entry of the .tsv")
    dictionary = path.with_name("dict.ltr.txt")
    known = {content.split()[0] for _, content in lines_of(dictionary)} if dictionary.is_file() else None

    def text(content: str) -> str | EntryError:
        letters = content.split()
        unknown = sorted(set(letters) - known) if known else []
        if unknown:
            return EntryError(f"{path.name} has {' '.join(unknown)}, which {dictionary} does not list")
        return "".join(letters).replace("|", " ").strip()

    return [text(content) for content in lines]


def _items(path: Path, content: str, position: int, *, end: Literal["]", ""]) -> Iterator[tuple[int, Any]]:
    """What stands one after the other from `position` on, up to the end of an array or of all, with its lines."""
    decoder = json.JSONDecoder()
    counted, line = 0, 1
    while True:
        position = _BETWEEN_ITEMS.match(content, position).end()  # type: ignore[union-attr]
        line += content.count("\n", counted, position)
        counted = position
        if content[position : position + 1] == end:
            return
        try:
            item, position = decoder.raw_decode(content, position)
        except json.JSONDecodeError as error:
            raise ManifestError(f"{path}:{error.lineno}: not JSON ({error.msg} at column {error.colno})") from error
        except (ValueError, RecursionError) as error:
            raise ManifestError(f"{path}:{line}: not JSON that can be read ({error})") from error
        yield line, item


def _decoded_at(content: str, position: int) -> tuple[Any, int]:
    """The JSON that stands there, and its end; None where none can be read, which whoever reads the lines tells."""
    try:
        return json.JSONDecoder().raw_decode(content, position)
    except (ValueError, RecursionError):
        return None, position


def _is_over_lines(content: str, start: int) -> bool:
    """Whether the object that starts there goes on behind the end of its line."""
    record, end = _decoded_at(content, start)
    return isinstance(record, dict) and "\n" in content[start:end]


def _array_in(path: Path, content: str, start: int) -> int | None:
    """Where in the one object of a file the items of its array of objects begin; None where it is no such file.

    Raises ManifestError where several of its arrays may be meant, as of a training and a test set.
    """
    record, end = _decoded_at(content, start)
    is_alone = isinstance(record, dict) and _BETWEEN_ITEMS.match(content, end).end() == len(content)  # type: ignore[union-attr]
    if not is_alone or any(name in record for name in (*NAMES["audio"], *NAMES["text"])):
        return None
    arrays = [key for key, value in record.items() if isinstance(value, list) and _are_objects(value)]
    of_audio = [key for key in arrays if any(name in record[key][0] for name in (*NAMES["audio"], "files"))]
    if len(arrays := of_audio or arrays) > 1:
        raise ManifestError(f"{path}:1: found arrays called {', '.join(arrays)}; expected one, or a file for each")
    wanted = arrays[0] if arrays else None
    position = start + 1
    while wanted is not None:
        key, position = _decoded_at(content, _BETWEEN_ITEMS.match(content, position).end())  # type: ignore[union-attr]
        position = _BEFORE_VALUE.match(content, position).end()  # type: ignore[union-attr]
        if key == wanted and content[position] == "[":
            return position + 1
        _, position = _decoded_at(content, position)
    return None


def _are_objects(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(value, dict) for value in values)


def _key(record: dict[str, Any], what: str, usual: str) -> str:
    """The key of `what` that is there; without one the usual."""
    return next((name for name in (usual, *NAMES[what]) if name in record), usual)


def _string(record: dict[str, Any], key: str, id: str) -> str:
    value = record.get(key)
    if isinstance(value, str) and (value or key in NAMES["text"]):
        return value
    raise EntryError(f"{_of(id)}{key} is {found(record, key)}; expected a string")


def _seconds(record: dict[str, Any], key: str, id: str) -> float:
    seconds = _number(record, key, id)
    return UNKNOWN if seconds is None else seconds


def _number(record: dict[str, Any], key: str, id: str) -> float | None:
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):  # an integer beyond all floats
            if math.isfinite(float(value)):
                return float(value)
    raise EntryError(f"{_of(id)}{key} is {found(record, key)}; expected a number")


def _speeds(value: Any, base: Path, id: str) -> tuple[tuple[float, Path], ...]:
    try:
        speeds = tuple((float(speed), base / name) for speed, name in value.items())
        if not all(0 < speed < math.inf for speed, _ in speeds):
            raise ValueError("no speed")
        return speeds
    except (AttributeError, TypeError, ValueError) as error:
        found = short(json.dumps(value))
        raise EntryError(f'{_of(id)}speeds is {found}; expected {{"0.9": path, "1.1": path}}') from error


def _file_text(path: Path, id: str) -> str:
    if not path.is_file():
        raise EntryError(f"utterance {id}: text_filepath: no such file: {path}")
    return text_of(path).strip()


def _of(id: str) -> str:
    return f"utterance {id}: " if id else ""

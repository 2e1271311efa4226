"""Lists of utterances, in the formats in which speech corpora come.

| format           | what                                                                                            |
|------------------|-------------------------------------------------------------------------------------------------|
| jsonl            | a line {"audio_filepath", "text", "duration", optional "id", "speaker", "offset", "speeds",      |
|                  | "word_ends": [seconds, ...]}; or what others call these, such as "path" and "sentence" (`NAMES`  |
|                  | of common/data/tables.py); also over several lines each, or all in one object, {"data": [...]};  |
|                  | besides, what a model is to write, as NeMo's "source_lang" (`WANTED` of common/data/entries.py)  |
| librispeech-json | an array of {"transcript", "files": [{"fname", "speed", "duration"}, ...], "original_duration"}, |
|                  | or of what jsonl has in its lines                                                               |
| librispeech      | a folder with <subset>/<speaker>/<chapter>/*.flac and *.trans.txt, or any folder of it           |
| ljspeech         | a folder with metadata.csv (id|text|normalised text) and wavs/                                   |
| pipe             | a line `path|text` or `path|text|speaker`, or tabs in place of pipes; a column with FastPitch's  |
|                  | pitch (.pt) is passed over                                                                       |
| table            | names of the columns in the first line, between tabs, commas, semicolons or pipes: Common        |
|                  | Voice's `client_id path sentence`, `wav_filename,transcript`, `audio|pitch|text|speaker`         |
| kaldi            | a folder with wav.scp, or any .scp; text, segments and utt2spk beside it where there are any     |
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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from common.audio import waveform as audio
from common.data import formats, tables
from common.data.entries import Entries, Entry, ManifestError
from common.files.atomic import decoded, found_file

__all__ = [
    "Format",
    "Manifest",
    "ManifestError",
    "Selection",
    "Utterance",
    "read_manifest",
    "read_sources",
    "select",
    "write_jsonl",
]

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
_MAY_LACK_TEXT = ("jsonl", "librispeech-json", "pipe", "table", "kaldi")
_ARRAY_OF_OBJECTS = re.compile(r"\[\s*(?:\{|$)")
_HEAD = 1 << 16  # bytes of a file by which its format is known


@dataclass(frozen=True, kw_only=True, slots=True)
class Utterance:
    """A piece of speech and what was said in it."""

    id: str
    """Name in messages and results."""
    audio: Path
    """The recording."""
    seconds: float
    """Duration of the piece, at its original speed."""
    text: str
    """Transcript as the corpus gives it, not normalised; "" where there is none."""
    speaker: str = ""
    """Name of the speaker, "" where it is not known."""
    offset_seconds: float | None = None
    """Where the piece starts in the recording; None: it is the whole recording, whatever `seconds` says."""
    speeds: tuple[tuple[float, Path], ...] = ()
    """The same recording at other speeds: (0.9, path of the copy that is slower and longer by 1/0.9)."""
    word_ends: tuple[float, ...] = ()
    """Where its words end, in seconds from its start; empty where that is not known."""
    has_text: bool = field(default=True, compare=False)
    """Whether it is known what was said: "" is nothing then."""
    wanted: tuple[tuple[str, str], ...] = ()
    """What a model of several languages is to write, by NeMo's keys; see `common.data.entries.WANTED`."""

    def piece(self, speed: float = 1.0) -> dict[str, float]:
        """What audio.read is to be told to read no more than the piece, of a copy recorded at `speed`."""
        if self.offset_seconds is None:
            return {}
        return {"offset_seconds": self.offset_seconds / speed, "seconds": self.seconds / speed}


class Manifest(NamedTuple):
    """The utterances that can be used, and a message for each that was skipped."""

    utterances: list[Utterance]
    skipped: list[str]


class Selection(NamedTuple):
    """The utterances that passed the filters, and a line that counts the others by reason; "" if there are none."""

    utterances: list[Utterance]
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
    path = Path(path)
    named = _detected(path) if format == "auto" else format
    reader = functools.partial(_READERS[named], with_text=with_text) if named in _MAY_LACK_TEXT else _READERS[named]
    utterances: list[Utterance] = []
    skipped: list[str] = []
    folder = (path if path.is_dir() else path.parent) if root is None else None
    for result in _with_audio(reader(path, root), folder):
        if isinstance(result, Utterance):
            utterances.append(result)
        elif on_error == "stop":
            raise result
        else:
            skipped.append(str(result))
    if not utterances:
        found = f"none of its {len(skipped)} utterances can be used; {skipped[0]}" if skipped else "no utterance in it"
        raise ManifestError(f"{path}: {found}")
    return Manifest(_told_apart(utterances, path if path.is_dir() else path.parent), skipped)


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
    utterances: list[Utterance] = []
    messages: list[str] = []
    for source in sources:
        found = read_manifest(root / source if root is not None else Path(source), root=root, on_error=on_error)
        utterances += found.utterances
        messages += found.skipped
    if training:
        wanted = [utterance for utterance in utterances if not speakers or utterance.speaker in speakers]
        utterances, dropped = select(wanted, min_seconds=min_seconds, max_seconds=max_seconds, need_text=need_text)
        messages += [dropped] if dropped else []
    if not utterances:
        named = ", ".join(sources) or "none is named"
        purpose, flag = ("train", "--data.train") if training else ("validate", "--data.validation")
        raise ManifestError(f"no utterance to {purpose} on: {named}; {advice or f'name manifests with {flag}'}")
    return Manifest(utterances, messages)


def select(
    utterances: Sequence[Utterance],
    *,
    min_seconds: float = 0.1,
    max_seconds: float = float("inf"),
    max_utterances: int | None = None,
    need_text: bool = False,
) -> Selection:
    """The utterances of min_seconds to max_seconds (both included), at most the first max_utterances of them."""
    spoken = [utterance for utterance in utterances if utterance.text or not need_text]
    long_enough = [utterance for utterance in spoken if utterance.seconds >= min_seconds]
    fitting = [utterance for utterance in long_enough if utterance.seconds <= max_seconds]
    kept = fitting[:max_utterances]
    dropped = {
        "without text": len(utterances) - len(spoken),
        f"shorter than {min_seconds:g} s": len(spoken) - len(long_enough),
        f"longer than {max_seconds:g} s": len(long_enough) - len(fitting),
        f"beyond the first {max_utterances}": len(fitting) - len(kept),
    }
    reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items() if count)
    return Selection(kept, f"left out of {len(utterances)} utterances: {reasons}" if reasons else "")


def write_jsonl(path: Path | str, utterances: Sequence[Utterance]) -> None:
    """Writes a manifest that `read_manifest` reads back as it is; audio below its folder gets a relative path.

    The file appears under its name only when it is complete.
    """
    path = Path(path)
    base = str(path.parent.absolute()) + os.sep

    def name(recording: Path) -> str:
        return str(recording.absolute()).removeprefix(base)

    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with unfinished.open("w", encoding="utf-8") as file:
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
            file.write(json.dumps(given) + "\n")
    unfinished.replace(path)


def _told_apart(utterances: list[Utterance], folder: Path) -> list[Utterance]:
    """The utterances, those whose id another recording has too under their paths from `folder`, or whole ones."""
    places: dict[str, set[tuple[Path, float | None]]] = {}
    for utterance in utterances:
        places.setdefault(utterance.id, set()).add((utterance.audio, utterance.offset_seconds))
    if len(places) == len(utterances) or all(len(found) == 1 for found in places.values()):
        return utterances

    def named(utterance: Utterance) -> Utterance:
        if len(places[utterance.id]) == 1:
            return utterance
        recording = utterance.audio
        name = recording.relative_to(folder) if recording.is_relative_to(folder) else recording
        offset = utterance.offset_seconds
        return replace(utterance, id=name.as_posix().lstrip("/") + (f"@{offset:g}" if offset else ""))

    return list(map(named, utterances))


def _detected(path: Path) -> str:
    """The format of a file or folder, by its name and its first line."""
    if path.is_dir():
        if (path / "metadata.csv").is_file():
            return _detected(path / "metadata.csv")
        if next(path.rglob("*.trans.txt"), None):
            return "librispeech"
        if (path / "wav.scp").is_file():
            return "kaldi"
        raise ManifestError(
            f"{path}: has neither metadata.csv (LJSpeech) nor a *.trans.txt (LibriSpeech) nor wav.scp (Kaldi) in it"
        )
    if not path.is_file():
        raise ManifestError(f"{path}: no such file or folder; expected a manifest")
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


def _with_audio(entries: Entries, folder: Path | None) -> Iterator[Utterance | ManifestError]:
    """The utterances of the entries, in their order, once their audio has been looked for.

    What is not in `folder` may be in the current one. In threads, because on a network file system each look takes a
    millisecond of waiting.
    """
    waiting = list(entries)
    pieces = [waiting[start : start + 256] for start in range(0, len(waiting), 256)]
    with ThreadPoolExecutor(max_workers=16) as threads:
        for results in threads.map(lambda piece: [_checked(entry, folder) for entry in piece], pieces):
            yield from results


def _found(recording: Path, folder: Path | None) -> Path | None:
    there = found_file(recording)
    if there is None and folder is not None and recording.is_relative_to(folder):
        return found_file(recording.relative_to(folder))
    return there


def _checked(entry: Entry | ManifestError, folder: Path | None) -> Utterance | ManifestError:
    if isinstance(entry, ManifestError):
        return entry
    recordings = [entry.audio, *(copy for _, copy in entry.speeds)]
    there = [_found(recording, folder) for recording in recordings]
    if None in there:
        return entry.error(f"no such audio file: {recordings[there.index(None)]}")
    recording, *copies = (path for path in there if path is not None)
    seconds = entry.seconds
    if seconds is None or entry.channel:
        try:
            found = audio.info(recording)
        except audio.AudioError as error:
            return entry.error(str(error))
        if entry.channel and found.channels > 1:
            return entry.error(
                f"names channel {entry.channel} of {found.channels}, which an entry cannot; write that one to a file"
            )
        seconds = found.seconds - (entry.offset_seconds or 0.0) if seconds is None else seconds
    offset = entry.offset_seconds or 0.0
    if seconds <= 0 or offset < 0:
        return entry.error(f"{seconds:g} s from {offset:g} s; expected a duration > 0 and an offset >= 0")
    return Utterance(
        id=entry.id,
        audio=recording,
        seconds=seconds,
        text=entry.text,
        has_text=entry.has_text,
        speaker=entry.speaker,
        word_ends=entry.word_ends,
        wanted=entry.wanted,
        offset_seconds=entry.offset_seconds,
        speeds=tuple((speed, copy) for (speed, _), copy in zip(entry.speeds, copies, strict=True)),
    )

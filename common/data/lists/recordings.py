"""The recordings of a list's entries: looked for, and their durations read where the list does not say them."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

from common.ahead import in_threads
from common.audio import waveform
from common.data.lists.entries import Entries, Entry, ManifestError
from common.data.utterance import Utterance
from common.files.atomic import found_file
from common.files.stores import Stored


class Checked(NamedTuple):
    """An utterance whose audio is there."""

    utterance: Utterance
    size: int
    """Bytes of its recording."""
    cwd: str
    """The current folder, where the recording was found by it."""


def with_audio(entries: Entries, folder: Path | None) -> Iterator[Checked | ManifestError]:
    """The utterances of the entries, in their order, once their audio has been looked for.

    What is not in `folder` may be in the current one. In threads, because on a network file system each look takes a
    millisecond of waiting; a few thousand entries ahead, because there may be any number.
    """
    pieces = iter(lambda: list(itertools.islice(entries, 256)), [])
    for results in in_threads(pieces, lambda piece: [checked(entry, folder) for entry in piece], threads=16):
        yield from results


def _found(recording: Path, folder: Path | None) -> Path | None:
    there = found_file(recording)
    if there is None and folder is not None and recording.is_relative_to(folder):
        return found_file(recording.relative_to(folder))
    return there


def usable(
    entry: Entry, recording: Path | Stored, speeds: tuple[tuple[float, Path], ...] = ()
) -> Utterance | ManifestError:
    """The utterance of the recording that was found, whose header tells what the entry does not."""
    said, offset = entry.utterance, entry.utterance.offset_seconds or 0.0
    seconds = said.seconds
    if math.isnan(seconds) or entry.channel:
        try:
            found = waveform.info(recording)
        except waveform.AudioError as error:
            return entry.error(str(error))
        if entry.channel and found.channels > 1:
            told = f"names channel {entry.channel} of {found.channels}, which an entry cannot"
            return entry.error(f"{told}; write that one to a file")
        seconds = found.seconds - offset if math.isnan(seconds) else seconds
    if seconds <= 0 or offset < 0:
        return entry.error(f"{seconds:g} s from {offset:g} s; expected a duration > 0 and an offset >= 0")
    if (recording, seconds, speeds) == (said.audio, said.seconds, said.speeds):
        return said
    return replace(said, audio=recording, seconds=seconds, speeds=speeds)


def checked(entry: Entry | ManifestError, folder: Path | None) -> Checked | ManifestError:
    """The utterance of one entry, or what is wrong with it."""
    if isinstance(entry, ManifestError):
        return entry
    said = entry.utterance
    recordings = [cast("Path", said.audio), *(copy for _, copy in said.speeds)]
    there = [_found(recording, folder) for recording in recordings]
    if None in there:
        return entry.error(f"no such audio file: {recordings[there.index(None)]}")
    recording, *copies = (path for path in there if path is not None)
    speeds = tuple((speed, copy) for (speed, _), copy in zip(said.speeds, copies, strict=True))
    utterance = usable(entry, recording, speeds)
    if isinstance(utterance, ManifestError):
        return utterance
    cwd = str(Path.cwd()) if folder is not None and not recording.is_relative_to(folder) else ""
    return Checked(utterance, recording.stat().st_size, cwd)

"""An entry of a manifest, what can be wrong with it, and the lines of a file: what the readers of all formats share."""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from common.data.utterance import Utterance
from common.files.atomic import decoded

T = TypeVar("T")


class ManifestError(ValueError):
    """A manifest, or one entry of it, cannot be used: "FILE:LINE: utterance ID: what was found, what is expected"."""


class Entry(NamedTuple):
    """An utterance as a manifest gives it, with `UNKNOWN` seconds where it does not say; nobody has looked for it."""

    file: Path
    line: int
    utterance: Utterance
    channel: str = ""
    """The recording's channel that is meant, as it is written; empty for none."""

    def error(self, message: str) -> ManifestError:
        """`message` with the place of this entry before it."""
        place = f"{self.file}:{self.line}" if self.line else str(self.file)
        return ManifestError(f"{place}: utterance {self.utterance.id}: {message}")


UNKNOWN = math.nan
WANTED = ("source_lang", "target_lang", "taskname", "pnc", "itn", "timestamp", "diarize", "decodercontext")
Entries = Iterator[Entry | ManifestError]


class EntryError(Exception):
    """What is wrong with the entry being parsed, without its place."""


def parsed(path: Path, items: Iterable[tuple[int, T]], parse: Callable[[int, T], Entry]) -> Entries:
    """The entries that `parse` makes of the items; for a bad one, an error with its place."""
    for line, item in items:
        try:
            yield parse(line, item)
        except EntryError as error:
            yield ManifestError(f"{path}:{line}: {error}")


def text_of(path: Path) -> str:
    """The text of a file. Raises ManifestError, which names the line of the first byte that is none."""
    try:
        return decoded(path.read_bytes())
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        byte, expected = error.object[error.start], error.encoding.upper()
        raise ManifestError(f"{path}:{line}: byte {byte:#x} is not {expected}; convert it to UTF-8") from error
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror}") from error


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file, as `numbered` gives them. Raises ManifestError."""
    return numbered(text_of(path))


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, numbered from 1. Only \\n ends a line: others may stand in a text."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")


def short(content: str) -> str:
    """`content` in quotes, as it stands in a message."""
    return f"'{content[:60]}…'" if len(content) > 60 else f"'{content}'"


def found(record: dict[str, Any], key: str) -> str:
    """The value of `key`, as it stands in a message."""
    return short(json.dumps(record[key])) if key in record else "missing"

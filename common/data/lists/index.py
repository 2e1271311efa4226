"""Lists of utterances of any size: fixed records and one blob of strings, in memory or mapped from a file.

A file has, little-endian: a header of 64 bytes; `seconds` [N] as float64; `marks` [N, 4], CRC32 of what identifies an
utterance; N records; the strings in UTF-8, of each utterance its id, text, name and what few have; what it was made
of, as JSON. Plans of an epoch touch the durations alone. A list is pickled as the path of its file and opened when it
is first used, so processes share its pages, and none has objects of its own.
"""

import hashlib
import json
import math
import mmap
import struct
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from common.data.utterance import Utterance
from common.files.atomic import written_whole
from common.files.stores import Stored

_HEADER = struct.Struct("<8sIIQQQ16s8x")
MAGIC, HEADER_BYTES = b"speechix", _HEADER.size
VERSION = 1
RECORD = np.dtype(
    [
        ("offset", "<f8"),  # seconds; NaN: the recording is no piece of a longer one
        ("strings", "<u8"),  # where id, text, name and rest begin in the blob
        ("folder", "<u8"),  # where the name of the folder, or of the file that has the recording, stands in the blob
        ("speaker", "<u8"),
        ("start", "<u8"),  # first byte of a recording that is a part of a file
        ("size", "<u4"),  # its bytes
        ("crc", "<u4"),  # CRC32 of those
        ("id", "<u4"),  # lengths in bytes
        ("text", "<u4"),
        ("name", "<u4"),
        ("rest", "<u4"),
        ("folder_size", "<u4"),
        ("speaker_size", "<u4"),
        ("flags", "<u8"),
    ]
)
_ROW = struct.Struct("<dQQQQIIIIIIIIQ")
_SECONDS = struct.Struct("<d")
_HAS_TEXT, IS_PART, _HAS_CRC, IN_STORE = 1, 2, 4, 8
_NOBODY = 1 << 63  # the place of a name that is not known
_IN_MEMORY = 1 << 22  # bytes of each kind up to which a list that is being made stays in memory
_KNOWN_HERE = 1 << 10  # of them that are kept as objects
_KNOWN_NAMES = 1 << 18  # names of folders and speakers that are written once, up to so many at a time


class IndexFileError(ValueError):
    """A file is no index of utterances, or not the one it was."""


class RecordError(IndexFileError):
    """One utterance of an index is damaged; the others are what they were."""


class Index:
    """The utterances of one file, or of the same bytes in memory."""

    def __init__(self, source: Path | bytes, called: str = ""):
        """`called`: the name in a store of what `source` is a copy of."""
        self.source = source
        self.called = called or (str(source) if isinstance(source, Path) else "an index in memory")
        self._key: bytes | None = None
        self._names: dict[tuple[int, int], str] = {}
        self._key = self.key  # so that whoever gets it by pickling opens the same, or learns of it

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source, "called": self.called, "_names": {}, "_key": self._key}

    @cached_property
    def _header(self) -> tuple[int, int, int, bytes]:
        """Utterances, bytes of strings, bytes of JSON, key."""
        if len(self._buffer) < _HEADER.size:
            raise IndexFileError(f"{self.called}: {len(self._buffer)} bytes; expected an index of utterances")
        magic, version, size, count, strings, about, key = _HEADER.unpack_from(self._buffer)
        if (magic, version, size) != (MAGIC, VERSION, RECORD.itemsize):
            raise IndexFileError(f"{self.called}: no index of utterances of version {VERSION}")
        total = _HEADER.size + count * (8 + 16 + RECORD.itemsize) + strings + about
        if len(self._buffer) != total:
            raise IndexFileError(f"{self.called}: has {len(self._buffer)} bytes; expected {total}; make it anew")
        if self._key not in (None, key):
            raise IndexFileError(f"{self.called}: was written anew while it was being used; start again")
        return count, strings, about, key

    @cached_property
    def _buffer(self) -> Any:
        if isinstance(self.source, bytes):
            return self.source
        with self.source.open("rb") as file:
            try:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:  # of an empty file
                return b""

    def __len__(self) -> int:
        """How many utterances."""
        return self._header[0]

    @property
    def key(self) -> bytes:
        """16 bytes that another list does not have."""
        return self._header[3]

    def verify(self) -> None:
        """Reads all of it. Raises IndexFileError where it is not what was written."""
        size, end = self._header[2], len(self._buffer)
        key = hashlib.blake2b(self._buffer[end - size :], digest_size=16)
        for start in range(HEADER_BYTES, end - size, 1 << 20):
            key.update(self._buffer[start : min(start + (1 << 20), end - size)])
        if key.digest() != self.key:
            raise IndexFileError(f"{self.called}: damaged: its checksum is another; write or index the data anew")

    @cached_property
    def about(self) -> dict[str, Any]:
        """What it was made of."""
        size = self._header[2]
        return json.loads(self._buffer[len(self._buffer) - size :]) if size else {}

    @cached_property
    def seconds(self) -> np.ndarray:
        """Durations [N], float64."""
        return np.frombuffer(self._buffer, "<f8", len(self), _HEADER.size)

    @cached_property
    def marks(self) -> np.ndarray:
        """CRC32 [N, 4] of what `digest` compares."""
        return np.frombuffer(self._buffer, "<u4", 4 * len(self), _HEADER.size + 8 * len(self)).reshape(-1, 4)

    @cached_property
    def records(self) -> np.ndarray:
        """RECORD [N]."""
        return np.frombuffer(self._buffer, RECORD, len(self), self._records_at)

    @cached_property
    def base(self) -> str:
        """The folder that names of shards start from, where they stand beside the index."""
        folder, slash, _ = self.called.rpartition("/")
        return folder + slash if self.about.get("relative") else ""

    @cached_property
    def _records_at(self) -> int:
        return _HEADER.size + 24 * len(self)

    @cached_property
    def _strings_at(self) -> int:
        return self._records_at + RECORD.itemsize * len(self)

    def string(self, start: int, size: int) -> str:
        """A string of the blob."""
        start += self._strings_at
        return str(self._buffer[start : start + size], "utf-8", "surrogatepass")

    def _known(self, start: int, size: int) -> str:
        """A string that many utterances have: made once, while there are few of them."""
        if (found := self._names.get((start, size))) is None:
            if len(self._names) >= _KNOWN_HERE:
                self._names.clear()
            found = self._names[start, size] = self.string(start, size)
        return found

    def __getitem__(self, row: int) -> Utterance:
        try:
            return self._utterance(row)
        except (UnicodeDecodeError, json.JSONDecodeError):
            told = f"{self.called}: damaged: number {row} in it; write or index the data anew"
            raise RecordError(told) from None

    def _utterance(self, row: int) -> Utterance:
        (
            offset, at, folder, speaker, start, size, crc, id_, text, name, rest, folder_size, speaker_size, flags,
        ) = _ROW.unpack_from(self._buffer, self._records_at + RECORD.itemsize * row)  # fmt: skip
        first = at + self._strings_at
        strings = self._buffer[first : first + id_ + text + name + rest]
        where = self._known(folder, folder_size)
        if flags & IS_PART:
            where = self.base + where if self.base and where[:1] != "/" and "://" not in where else where
            audio: Path | Stored = Stored(where, start, size, crc if flags & _HAS_CRC else None)
        else:
            audio = Path(where + str(strings[id_ + text : id_ + text + name], "utf-8", "surrogatepass"))
        return Utterance(
            id=str(strings[:id_], "utf-8", "surrogatepass"),
            audio=audio,
            seconds=_SECONDS.unpack_from(self._buffer, _HEADER.size + 8 * row)[0],
            text=str(strings[id_ : id_ + text], "utf-8", "surrogatepass"),
            speaker=self._known(speaker, speaker_size) if speaker_size else "",
            offset_seconds=None if math.isnan(offset) else offset,
            has_text=bool(flags & _HAS_TEXT),
            **(_few(strings[id_ + text + name :]) if rest else {}),
        )


def _few(content: bytes) -> dict[str, Any]:
    """What only some utterances have."""
    more = json.loads(content)
    return {
        "speeds": tuple((speed, Path(copy)) for speed, copy in more.get("speeds", ())),
        "word_ends": tuple(more.get("word_ends", ())),
        "wanted": tuple((key, value) for key, value in more.get("wanted", ())),
    }


class Builder:
    """An index that is being made, in memory while it is small, else in temporary files in `folder`."""

    def __init__(self, folder: Path | None = None):
        folder_name = None if folder is None else str(folder)
        parts = [tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=folder_name) for _ in range(4)]  # noqa: SIM115
        self._seconds, self._marks, self._records, self._strings = self._parts = parts
        self.count = 0
        self._written = 0  # bytes of strings
        self._known: dict[str, tuple[int, int]] = {}

    def add(self, utterance: Utterance, size: int = -1, *, mark: int | None = None) -> None:
        """Takes an utterance up; `size`: bytes of its recording, -1 if it is gone or nobody has looked.

        `mark`: what `marks` of another index says of that size.
        """
        u, audio = utterance, utterance.audio
        is_part = isinstance(audio, Stored)
        folder, name = (audio.file, "") if isinstance(audio, Stored) else _split(str(audio))
        folder_at, folder_size = self._once(folder)
        speaker_at, speaker_size = self._once(u.speaker) if u.speaker else (_NOBODY, 0)
        few: dict[str, Any] = {}
        if u.speeds:
            few["speeds"] = [(speed, str(copy)) for speed, copy in u.speeds]
        if u.word_ends:
            few["word_ends"] = u.word_ends
        if u.wanted:
            few["wanted"] = u.wanted
        strings = (u.id.encode("utf-8", "surrogatepass"), u.text.encode("utf-8", "surrogatepass"),
                   name.encode("utf-8", "surrogatepass"), json.dumps(few).encode() if few else b"")  # fmt: skip
        start, length, crc = audio[1:] if isinstance(audio, Stored) else (0, 0, None)
        flags = _HAS_TEXT * u.has_text | IS_PART * is_part | _HAS_CRC * (crc is not None)
        flags |= IN_STORE * (is_part and "://" in folder)
        offset = math.nan if u.offset_seconds is None else u.offset_seconds
        self._records.write(
            _ROW.pack(
                offset, self._written, folder_at, speaker_at, start, length, crc or 0, *map(len, strings),
                folder_size, speaker_size, flags,
            )
        )  # fmt: skip
        self._seconds.write(struct.pack("<d", u.seconds))
        if mark is None:
            mark = crc32(str(length if is_part else size).encode())
        self._marks.write(struct.pack("<4I", *_marks(u), mark))
        joined = b"".join(strings)
        self._strings.write(joined)
        self._written += len(joined)
        self.count += 1

    def _once(self, name: str) -> tuple[int, int]:
        """Where a name stands that many utterances have, and its bytes."""
        if (found := self._known.get(name)) is None:
            content = name.encode("utf-8", "surrogatepass")
            if len(self._known) >= _KNOWN_NAMES:
                self._known.clear()
            found = self._known[name] = self._written, len(content)
            self._strings.write(content)
            self._written += len(content)
        return found

    def finish(self, path: Path | None = None, about: dict[str, Any] | None = None) -> Index:
        """The index, in memory or as a file that appears when it is whole. Raises OSError."""
        told = json.dumps(about).encode() if about else b""
        key = hashlib.blake2b(told, digest_size=16)  # of the content: ranks that could not lock write the same list
        for block in self._blocks():
            key.update(block)
        header = _HEADER.pack(MAGIC, VERSION, RECORD.itemsize, self.count, self._written, len(told), key.digest())
        try:
            if path is None:
                return Index(b"".join([header, *self._blocks(), told]))
            with written_whole(path) as file:
                file.write(header)
                file.writelines(self._blocks())
                file.write(told)
            return Index(path)
        finally:
            for part in self._parts:
                part.close()

    def _blocks(self) -> Iterator[bytes]:
        for part in self._parts:
            part.seek(0)
            while block := part.read(1 << 20):
                yield block


def _split(path: str) -> tuple[str, str]:
    """The folder with its slash, and the name."""
    at = path.rfind("/") + 1
    return path[:at], path[at:]


def _marks(u: Utterance) -> tuple[int, int, int]:
    return (
        crc32(u.id.encode("utf-8", "surrogatepass")),
        crc32(f"{u.seconds!r} {u.offset_seconds!r}".encode()),
        crc32(f"{u.text}\0{u.speaker}".encode("utf-8", "surrogatepass")),
    )

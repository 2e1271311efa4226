"""Parts of large files, as recordings in shards are: each read by its place, on disk or in a store, and checked.

A store is named as fsspec names it: s3://, gs://, hf://, http://. What it does not give is asked for again, with
doubling pauses; a store that stays silent is an outage, which ends a run instead of leaving recordings out.
"""

import functools
import os
import random
import re
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from common.files import blocks, columns

Found = TypeVar("Found")

_OPEN = 64  # files that a process keeps open
TIMEOUT_SECONDS = 30.0  # for an answer of a store
TRIES = 6
PAUSE_SECONDS = 1.0  # before the second try; doubled before each that follows, up to a minute
_TOLD_SECONDS = 4.0  # pauses from which on waiting is told
_AT_ONCE = 32  # requests of a process
_GAP, _RUN = 1 << 16, 1 << 23  # bytes between parts that one request gets, and of all of it
_NAME = re.compile(r"([a-z][a-z0-9+]+):/+(?=[^/])")
_TRANSIENT = (408, 425, 429)  # of the statuses that blame who asks
_SETTINGS = {"NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "NoRegionError", "InvalidRegionError",
             "ParamValidationError", "DefaultCredentialsError", "HFValidationError"}  # fmt: skip
"""Errors of what is set on this machine, by the names that botocore, google.auth and huggingface_hub give them."""


class StoreError(OSError):
    """A part of a file cannot be had; the message names file and place."""


class OutageError(StoreError):
    """A store does not answer."""


class Stored(NamedTuple):
    """`size` bytes from `start` of a file; of a Parquet file `start` is a group and a row."""

    file: str
    start: int
    size: int
    crc: int | None = None
    """CRC32 of the bytes; None where nobody has computed it."""

    def __str__(self) -> str:
        if self.file.endswith(".parquet"):
            return f"{self.file}, group {self.start >> 32}, row {self.start & 0xFFFFFFFF}"
        return f"{self.file}, bytes {self.start}-{self.start + self.size}"

    def read(self) -> bytes:
        """The bytes. Raises StoreError where they are not there or not those that were written."""
        content = _fetched.parts.pop(self[:3], None) or read(self.file, self.start, self.size)
        if isinstance(content, StoreError):
            raise content
        if len(content) != self.size or (self.crc is not None and zlib.crc32(content) != self.crc):
            blocks.forget(self.file, self.start)
            content = read(self.file, self.start, self.size)  # once more: what came over a network may be damaged
            if self.crc is not None and (found := zlib.crc32(content)) != self.crc:
                raise StoreError(f"{self}: damaged: CRC32 {found:08x}; expected {self.crc:08x}")
        return content


class _Fetched(threading.local):
    """Parts that a thread has asked for together, until it reads them."""

    def __init__(self) -> None:
        self.parts: dict[tuple[str, int, int], bytes | StoreError] = {}


_fetched = _Fetched()


def read(file: str, start: int, size: int) -> bytes:
    """`size` bytes of `file` from `start`. Raises StoreError."""
    if "://" in file:
        return _asked(f"{file}, bytes {start}-{start + size}", lambda: read_range(file, start, size))
    try:
        if file.endswith(".parquet"):
            return columns.of_parquet(file, start)
        opened = _opened(file, os.getpid())  # held while it is read, so that no other thread has it closed
        content = os.pread(opened.number, size, start)
    except (OSError, ValueError, IndexError) as error:
        raise StoreError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(content) < size:
        raise StoreError(f"{file}: ends after {start + len(content)} bytes; expected {start + size}; fetch it anew")
    return content


@functools.lru_cache(1 << 12)
def _length(file: str) -> int:
    return size(file)


def named(path: Path | str) -> str:
    """The name of what lies in a store, of which a path has lost a slash; "" of anything else."""
    found = _NAME.match(str(path))
    return f"{found[1]}://{str(path)[found.end() :]}" if found and not Path(path).exists() else ""


def fetch(parts: Iterable[Stored]) -> None:
    """Asks stores for parts that are read next: for all at once, and in one request for neighbours."""
    found = _fetched.parts
    found.clear()
    runs: list[list[Stored]] = []
    for part in sorted((part for part in parts if "://" in part.file), key=lambda part: part[:3]):
        first, last = (runs[-1][0], runs[-1][-1]) if runs else (part, part)
        is_next = bool(runs) and first.file == part.file and part.start + part.size - first.start <= _RUN
        if is_next and 0 <= part.start - last.start - last.size <= _GAP:
            runs[-1].append(part)
        elif not runs or part[:3] != last[:3]:
            runs.append([part])

    def asked(run: list[Stored]) -> None:
        first, last = run[0], run[-1]
        try:
            content = blocks.read(first.file, first.start, last.start + last.size - first.start, read, _length)
        except (OSError, blocks.CacheError) as error:
            told = str(error)
            if isinstance(error, OSError):
                told = f"STORE_CACHE: {error.filename}: {error.strerror}; name a folder that can be written to"
            problem = error if isinstance(error, StoreError) else OutageError(told)
            found.update({part[:3]: problem for part in run})
            return
        for part in run:
            found[part[:3]] = content[part.start - first.start :][: part.size]

    list(_askers(os.getpid()).map(asked, runs))


def size(file: str) -> int:
    """Bytes of a file. Raises StoreError."""
    if "://" in file:
        return _asked(file, lambda: int(store_at(file, os.getpid()).size(file)))
    try:
        return Path(file).stat().st_size
    except OSError as error:
        raise StoreError(f"{file}: {error.strerror}") from error


def files(folder: str) -> list[str]:
    """The names of all files below a folder in a store, in order. Raises StoreError."""
    protocol = folder.partition("://")[0]
    found = _asked(folder, lambda: store_at(folder, os.getpid()).find(folder))
    return sorted(f"{protocol}://{name.removeprefix('/')}" if "://" not in name else name for name in found)


def whole(file: str) -> bytes:
    """All bytes of a file. Raises StoreError."""
    if "://" not in file:
        try:
            return Path(file).read_bytes()
        except OSError as error:
            raise StoreError(f"{file}: cannot be read: {error.strerror}") from error
    length = size(file)
    return b"".join(read(file, at, min(_RUN, length - at)) for at in range(0, length, _RUN))


class _Descriptor:
    """An open file, closed when nothing uses it any more."""

    def __init__(self, file: str):
        self.number = os.open(file, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


@functools.lru_cache(_OPEN)
def _opened(file: str, process: int) -> _Descriptor:
    """In this process: a forked one closes what it took over, and nothing of its parent's."""
    return _Descriptor(file)


def read_range(file: str, start: int, size: int) -> bytes:
    """Bytes of a file in a store. Raises EOFError for fewer than that, FileNotFoundError where it has no more."""
    store = store_at(file, os.getpid())
    whole = {"cache_type": "none"} if file.startswith("hf:") else {}  # which else reads 5 MB ahead
    content = bytes(store.cat_file(file, start=start, end=start + size, **whole))
    if len(content) != size:
        if (total := int(store.size(file))) < start + size:
            raise FileNotFoundError(f"ends after {total} bytes; expected {start + size}; fetch it anew")
        raise EOFError(f"{len(content)} of {size} bytes came")
    return content


def _asked(what: str, ask: Callable[[], Found]) -> Found:
    """What a store answers, asked again after errors and silence. Raises StoreError, OutageError after the last try."""
    for attempt in range(TRIES):
        try:
            return _threads(os.getpid()).submit(ask).result(TIMEOUT_SECONDS)
        except ImportError as error:
            raise StoreError(f"{what}: {error}") from None
        except Exception as error:
            told, status = " ".join(str(error).split()) or type(error).__name__, _status(error)
            if isinstance(error, FileNotFoundError) or status in (404, 410, 416):
                raise StoreError(f"{what}: {told if ' ' in told else 'no such file'}") from None  # of only its name
            if _is_final(error, status):  # for all others too, as once a key has expired
                raise OutageError(f"{what}: {told}") from None
            is_silent = isinstance(error, TimeoutError) and not str(error)
            problem = f"no answer in {TIMEOUT_SECONDS:g} s" if is_silent else told
        if attempt + 1 < TRIES:
            pause = min(60.0, PAUSE_SECONDS * 2**attempt) * random.uniform(0.75, 1.25)
            if pause >= _TOLD_SECONDS:
                print(f"{what}: {problem}; asked again in {pause:.0f} s", file=sys.stderr, flush=True)
            time.sleep(pause)
    raise OutageError(f"{what}: {problem}, {TRIES} times")


def _status(error: Exception) -> int:
    """The status of the HTTP answer that an error tells of; 0 where it tells of none."""
    answer = getattr(error, "response", None)
    found = getattr(error, "status", 0) or getattr(answer, "status_code", 0) or getattr(error, "code", 0)
    return found if isinstance(found, int) else 0


def _is_final(error: Exception, status: int) -> bool:
    """Whether asking again is of no use: who asks is not allowed to, or asks in a way that nobody answers."""
    if 400 <= status < 500:
        return status not in _TRANSIENT
    known = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, PermissionError) or bool(known & _SETTINGS)


@functools.lru_cache(1)
def _threads(process: int) -> ThreadPoolExecutor:
    """This process's: one that is waited for in vain goes on, and another answers."""
    return ThreadPoolExecutor(_AT_ONCE * TRIES, thread_name_prefix="store")


@functools.lru_cache(1)
def _askers(process: int) -> ThreadPoolExecutor:
    """This process's, which wait for those."""
    return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="fetch")


@functools.lru_cache(8)
def store_of(protocol: str, process: int) -> Any:
    """What reads the files of a protocol, one in each process."""
    try:
        import fsspec  # optional
    except ImportError:
        raise ImportError("needs fsspec; install it with: pip install fsspec, and s3fs or gcsfs") from None
    return fsspec.filesystem(protocol, **({} if protocol in ("memory", "file") else {"skip_instance_cache": True}))


def store_at(file: str, process: int) -> Any:
    """What reads this file."""
    return store_of(file.partition("://")[0], process)

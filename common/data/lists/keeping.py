"""Indexes of long lists, kept beside them: what was read once is opened the next time.

A kept index is hidden beside its list, or in the user's cache where that folder cannot be written to. It holds what it
was made of, and is made anew when that is another: the names, sizes, times and ends of the files, the way they were
read. It may be removed at any time.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from common.data.lists.index import HEADER_BYTES, MAGIC, Builder, Index, IndexFileError
from common.data.lists.utterances import Utterances
from common.files import stores
from common.files.atomic import written_whole
from ctc.native.library import alone, cache_folder

LONG_BYTES = 1 << 22  # of the files of a list, from which on its index is kept: some 20,000 lines
MANY = 1 << 16  # texts whose labels are counted once
_PART = 1 << 23  # bytes of an index that are fetched at once
_END = 1 << 16  # bytes that are compared at either end of a file


def kept(
    place: Path,
    files: Sequence[Path],
    options: tuple[object, ...],
    fill: Callable[[Builder], dict[str, Any]],
    renamed: Callable[[Index], dict[int, str]] = lambda index: {},
) -> Index:
    """The index of the list at `place`, which is read from `files` with `options`: the kept one, or one made now.

    `fill` gives a builder the utterances, and says what else is to be remembered; `renamed` those that get another id,
    by their places. Processes that want the same list wait for the one that makes it.
    """
    state = [_state(file) for file in files]
    if sum(size for _, size, *_ in state) < LONG_BYTES:
        return made(fill, renamed, None, {})
    used = repr((options, "" if place.is_absolute() else os.getcwd()))  # noqa: PTH109
    called = place.absolute().name.removeprefix(".").removesuffix(".index")
    name = f".{called}.{hashlib.blake2b(used.encode(), digest_size=4).hexdigest()}.index"
    about = {"files": [list(one) for one in state], "options": used}
    path = _writable(place.absolute().parent, used) / name
    with alone(path.with_suffix(".lock")):
        with contextlib.suppress(OSError, IndexFileError, ValueError):
            index = Index(path)
            known = index.about
            if known | about == known and known.get("cwd", "") in ("", os.getcwd()):  # noqa: PTH109
                return index
        return made(fill, renamed, path, about)


def counted(utterances: Utterances, encode: Callable[[str], Sequence[int]], labels: object) -> np.ndarray:
    """How many labels [N] `encode` makes of each text, 0 of one that it refuses; kept where there are many texts.

    `labels`: what other encodings differ in.
    """
    keys = b"".join([*(part.key for part in utterances.parts), utterances.rows.tobytes(), repr(labels).encode()])
    path = cache_folder() / f"{hashlib.blake2b(keys, digest_size=16).hexdigest()}.labels.npy"
    if len(utterances) >= MANY and path.is_file():
        with contextlib.suppress(OSError, ValueError, EOFError):  # the last of an empty file
            return np.load(path)
    found = np.zeros(len(utterances), np.int32)
    for row, utterance in enumerate(utterances):
        with contextlib.suppress(ValueError):
            found[row] = len(encode(utterance.text))
    if len(utterances) >= MANY:
        with written_whole(path) as file:
            np.save(file, found)
    return found


def fetched(name: str) -> Path:
    """A copy on this machine of an index in a store. Raises StoreError, IndexFileError."""
    size = stores.size(name)
    head = stores.read(name, 0, min(size, HEADER_BYTES)) if size else b""
    if not head.startswith(MAGIC):
        raise IndexFileError(f"{name}: {size} bytes; expected an index of utterances")
    path = cache_folder() / f"{hashlib.blake2b(head, digest_size=16).hexdigest()}.index"
    with alone(path.with_suffix(".lock")):
        if not path.is_file() or path.stat().st_size != size:
            starts = range(0, size, _PART)
            with written_whole(path) as file, ThreadPoolExecutor(8) as threads:
                file.writelines(threads.map(lambda at: stores.read(name, at, min(_PART, size - at)), starts))
    return path


def made(
    fill: Callable[[Builder], dict[str, Any]],
    renamed: Callable[[Index], dict[int, str]],
    path: Path | None,
    about: dict[str, Any],
) -> Index:
    """An index, as `kept` makes it, at `path`, or in memory."""
    builder = Builder(path and path.parent)
    about = about | fill(builder)
    index = builder.finish(path, about)
    if others := renamed(index):
        builder = Builder(path and path.parent)
        for row in range(len(index)):
            utterance = index[row]
            builder.add(replace(utterance, id=others.get(row, utterance.id)), mark=int(index.marks[row, 3]))
        index = builder.finish(path, about)
    return index


def _state(file: Path) -> tuple[str, int, int, int]:
    """Name, size, time and CRC32 of both ends; of a file that is not there nothing but its name."""
    try:
        with file.open("rb") as content:
            found = os.fstat(content.fileno())
            ends = content.read(_END)
            content.seek(max(0, found.st_size - _END))
            return str(file), found.st_size, found.st_mtime_ns, crc32(ends + content.read(_END))
    except OSError:
        return str(file), 0, 0, 0


def _writable(folder: Path, used: str) -> Path:
    if os.access(folder, os.W_OK):
        return folder
    own = cache_folder() / hashlib.blake2b(f"{folder} {used}".encode(), digest_size=8).hexdigest()
    own.mkdir(parents=True, exist_ok=True)
    return own

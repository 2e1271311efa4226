"""Blocks of files in stores, kept on a local disk while what lies in them is read: each is asked for once a machine.

The folder is what STORE_CACHE names; without it nothing is kept. An epoch's order has utterances of one block near each
other (`common.data.batching`), so the oldest blocks go when there are more than STORE_CACHE_GB (64) of them.
"""

import contextlib
import hashlib
import os
import random
from collections.abc import Callable
from pathlib import Path

from common.files.atomic import written_whole
from ctc.native.library import alone

BLOCK = 1 << 21  # bytes
_LOOKS = 32  # blocks that are written between two looks at how many there are


class CacheError(ValueError):
    """Blocks cannot be kept as the environment says."""


def read(
    file: str, start: int, size: int, ask: Callable[[str, int, int], bytes], length: Callable[[str], int]
) -> bytes:
    """`size` bytes of `file` from `start`, from a kept block where they lie in one; `ask` gets bytes from the store.

    `length` tells those of a whole file. Raises CacheError, OSError.
    """
    path, number = _kept_at(file, start), start // BLOCK
    if path is None or (start + size - 1) // BLOCK != number:
        return ask(file, start, size)
    most = _most_bytes()
    with contextlib.suppress(FileNotFoundError), path.open("rb") as kept:
        return os.pread(kept.fileno(), size, start - number * BLOCK)
    with alone(path.with_suffix(".lock")):  # others that want it wait for it
        if path.is_file():
            content = path.read_bytes()
        else:
            content = ask(file, number * BLOCK, min(BLOCK, length(file) - number * BLOCK))
            with contextlib.suppress(OSError), written_whole(path) as block:  # a full disk is no reason to stop
                block.write(content)
            if random.random() * _LOOKS < 1:
                _clear(path.parents[1], most)
    return content[start - number * BLOCK :][:size]


def forget(file: str, start: int) -> None:
    """Removes the kept block with that place, which is damaged."""
    if (path := _kept_at(file, start)) is not None:
        with contextlib.suppress(OSError):
            path.unlink()


def _kept_at(file: str, start: int) -> Path | None:
    folder = os.environ.get("STORE_CACHE", "")
    own = hashlib.blake2b(file.encode(), digest_size=8).hexdigest()
    return Path(folder, own, f"{start // BLOCK:08d}") if folder else None


def _most_bytes() -> float:
    """Bytes that all kept blocks may take together. Raises CacheError."""
    given = os.environ.get("STORE_CACHE_GB", "64")
    with contextlib.suppress(ValueError):
        if (found := float(given)) >= 0:
            return found * 1e9
    raise CacheError(f"STORE_CACHE_GB = {given}: expected a number of gigabytes")


def _clear(folder: Path, most: float) -> None:
    """Removes the oldest blocks where there are more than `most` bytes of them."""
    found = []
    for path in folder.glob("*/*"):
        with contextlib.suppress(OSError):
            found.append((path.stat().st_mtime_ns, path.stat().st_size, path))
    over = sum(size for _, size, _ in found) - most
    for _, size, path in sorted(found):
        if over <= 0:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        over -= size

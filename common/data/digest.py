"""What identifies the data of a run: of every utterance its id, place, text and the size of its file.

A checkpoint holds it, so that a run does not go on with other data unnoticed: a hash that tells whether anything is
another, and 16 bits of each value, by which the first that is can be named. A million utterances take 8 MB.
"""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal
from zlib import crc32

import numpy as np
import torch

from common.data.manifest import Utterance

Changed = Literal["refuse", "accept"]
FIELDS = ("its id", "its duration", "its text", "the size of its file")


def digest(utterances: Sequence[Utterance]) -> dict[str, Any]:
    """The digest of a list: `hash` in hexadecimal and `marks` [N, 4], 16 bits of each of `FIELDS`."""
    pieces = [utterances[start : start + 1024] for start in range(0, len(utterances), 1024)]
    with ThreadPoolExecutor(max_workers=16) as threads:  # on a network file system each look waits a millisecond
        sizes = [size for piece in threads.map(_sizes, pieces) for size in piece]
    columns = [
        [crc32(u.id.encode(errors="surrogatepass")) for u in utterances],
        [crc32(f"{u.seconds!r} {u.offset_seconds!r}".encode()) for u in utterances],
        [crc32(f"{u.text}\0{u.speaker}".encode(errors="surrogatepass")) for u in utterances],
        [crc32(str(size).encode()) for size in sizes],
    ]
    marks_N4 = np.array(columns, dtype=np.uint32).T.copy()
    marks = torch.from_numpy((marks_N4 & 0xFFFF).astype(np.uint16).view(np.int16))
    return {"hash": hashlib.sha256(marks_N4.tobytes()).hexdigest(), "marks": marks}


def difference(before: dict[str, Any], now: dict[str, Any], utterances: Sequence[Utterance]) -> str:
    """What differs between `utterances`, whose digest is `now`, and the list of `before`: one line, "" for nothing."""
    if before["hash"] == now["hash"]:
        return ""
    old, new = before["marks"], now["marks"]
    both = min(len(old), len(new))
    rows = (old[:both] != new[:both]).any(1).nonzero().flatten()
    counts = f"{len(new)} utterances where there were {len(old)}" if len(old) != len(new) else f"{len(rows)} utterances"
    if not len(rows):
        return f"{counts}, the first {both} of them the same"
    first = int(rows[0])
    others = [name for name, is_other in zip(FIELDS, (old[first] != new[first]).tolist(), strict=True) if is_other]
    is_another = "another stood there" if FIELDS[0] in others else f"{' and '.join(others)} changed"
    return f"{counts}, the first that differs is number {first + 1}, {utterances[first].id}: {is_another}"


def _sizes(utterances: Sequence[Utterance]) -> list[int]:
    """Bytes of each recording; -1 of one that is gone, which is told when it is read."""
    sizes = []
    for utterance in utterances:
        try:
            sizes.append(utterance.audio.stat().st_size)
        except OSError:
            sizes.append(-1)
    return sizes

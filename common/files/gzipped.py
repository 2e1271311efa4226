"""What gzip packed, as far as it can be had: a damaged member costs what follows in it, and no other member."""

import contextlib
import re
import zlib
from collections.abc import Iterator

_MEMBER, _PADDING = b"\x1f\x8b\x08", re.compile(rb"\0*")  # how what gzip packed begins, and what may follow it
_PACKED = 1 << 16  # bytes that are unpacked at once


def gunzipped(content: bytes) -> Iterator[bytes | str]:
    """What was packed by gzip, of each of its members all that can be had, and why what follows cannot."""
    at, is_whole = 0, True
    while at < len(content):
        end, problem, unpacked = at, "cut short", zlib.decompressobj(31)
        parts = []
        while not unpacked.eof and end < len(content):
            before = unpacked.copy()
            try:
                parts.append(unpacked.decompress(content[end : end + _PACKED]))
            except zlib.error as error:
                problem = " ".join(str(error).split())
                with contextlib.suppress(zlib.error):
                    parts += (before.decompress(content[place : place + 1]) for place in range(end, len(content)))
                break
            end += _PACKED
        if found := b"".join(parts):
            yield found
        if unpacked.eof:
            is_whole = True
            at = _PADDING.match(content, min(end, len(content)) - len(unpacked.unused_data)).end()  # type: ignore[union-attr]
            continue
        if found or is_whole:
            yield problem
        is_whole = False
        at = content.find(_MEMBER, max(at + 1, end))
        at = len(content) if at < 0 else at

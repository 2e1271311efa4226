"""Tar archives, written to the same bytes every time, and read so that a damaged header loses its own member alone.

Python's tarfile takes a bad header in a stream for the end of the archive, and what follows is gone without a word.
Here the next good header is looked for, at every 512 bytes.
"""

from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

BLOCK = 512
_ZEROS = bytes(BLOCK)
_CHECKSUM = slice(148, 156)
_AT_ONCE = 1 << 20  # bytes in which the next good header is looked for


class Member(NamedTuple):
    """A file of an archive: its name and where its bytes are."""

    name: str
    start: int
    size: int


class Damage(NamedTuple):
    """A place where a header or the end should be and none is, and where the next good one is, or the end."""

    start: int
    end: int


def write_member(file: BinaryIO, name: str, content: bytes) -> int:
    """Adds a file to an archive, as ustar; returns where its bytes begin. ValueError for a name above 100 bytes."""
    encoded = name.encode()
    if not 0 < len(encoded) <= 100:
        raise ValueError(f"{name!r}: {len(encoded)} bytes; expected a name of 1 to 100 in a tar")
    fields = (encoded.ljust(100, b"\0"), b"0000644\0", b"0000000\0" * 2, b"%011o\0" % len(content), b"0" * 11 + b"\0",
              b" " * 8, b"0", bytes(100), b"ustar\x0000", bytes(64), b"0000000\0" * 2)  # fmt: skip
    header = b"".join(fields).ljust(BLOCK, b"\0")
    file.write(header[:148] + b"%06o\0 " % sum(header) + header[156:])
    start = file.tell()
    file.write(content)
    file.write(bytes(-len(content) % BLOCK))
    return start


def write_end(file: BinaryIO) -> None:
    """The end of an archive, filled up to the 10,240 bytes in which tar reads."""
    file.write(2 * _ZEROS)
    file.write(bytes(-file.tell() % 10240))


def members(read: Callable[[int, int], bytes], total: int) -> Iterator[Member | Damage]:
    """The files of an archive of `total` bytes, of which `read` gives some from a place; and every damaged header."""
    at, name = 0, ""
    sizes: dict[str, str] = {}  # what an extended header before a member says of it
    while at + BLOCK <= total:
        header = read(at, BLOCK)
        if header == _ZEROS and not _is_more(read, at, total):
            return
        size = None if header == _ZEROS else _size(header)
        if size is None:
            end = _next_header(read, at + BLOCK, total)
            yield Damage(at, end)
            at, name, sizes = end, "", {}
            continue
        kind, start = header[156:157], at + BLOCK
        if kind in b"xg":
            found = _extended(read(start, size))
            name, sizes = found.get("path", name), sizes | found if kind == b"x" else sizes
        elif kind == b"L":
            name = _text(read(start, size))
        elif kind in (b"0", b"\0", b"7"):
            size = int(sizes.get("size", size))
            prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
            own = _text(header[:100])
            if start + size > total:
                break
            yield Member(name or (f"{prefix}/{own}" if prefix else own), start, size)
            name, sizes = "", {}
        else:
            name, sizes = "", {}
        at = start + -(-size // BLOCK) * BLOCK
    yield Damage(min(at, total), total)  # no end: the archive was cut short, be it between two members


def _is_more(read: Callable[[int, int], bytes], at: int, total: int) -> bool:
    """Whether a block of zeros is not the end but a header that was lost: anything but zeros follows."""
    while at < total:
        block = read(at, min(_AT_ONCE, total - at))
        if block.strip(b"\0"):
            return True
        at += len(block)
    return False


def _next_header(read: Callable[[int, int], bytes], at: int, total: int) -> int:
    while at + BLOCK <= total:
        content = read(at, min(_AT_ONCE, (total - at) // BLOCK * BLOCK))
        for place in range(0, len(content), BLOCK):
            header = content[place : place + BLOCK]
            if header[257:262] == b"ustar" and _size(header) is not None:
                return at + place
        at += len(content)
    return total


def _size(header: bytes) -> int | None:
    """Bytes of the member; None where the checksum is not that of the header."""
    try:
        told = int(header[_CHECKSUM].split(b"\0")[0].strip() or b"-1", 8)
    except ValueError:
        return None
    if told != sum(header) - sum(header[_CHECKSUM]) + 8 * 32:
        return None
    field = header[124:136]
    if field[0] & 0x80:  # GNU's way beyond 8 GB
        return int.from_bytes(field[1:], "big")
    try:
        return int(field.split(b"\0")[0].strip() or b"0", 8)
    except ValueError:
        return None


def _extended(content: bytes) -> dict[str, str]:
    """Records of a pax header: "LENGTH key=value\\n"."""
    found, at = {}, 0
    while (space := content.find(b" ", at)) > 0 and content[at:space].isdigit():
        record = content[space + 1 : at + int(content[at:space])]
        key, _, value = record.rstrip(b"\n").partition(b"=")
        found[_text(key)] = _text(value)
        at += int(content[at:space])
    return found


def _text(field: bytes) -> str:
    return field.split(b"\0")[0].decode("utf-8", "surrogateescape")

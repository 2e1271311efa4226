"""Small changes to files: bits, bytes, numbers, pieces; what a reader's seeds become."""

import random

NUMBERS = (
    b"0",
    b"-1",
    b"1e999",
    b"nan",
    b"inf",
    b"-inf",
    b"99999999999999999999",
    b"1e-320",
    b"0x7f",
    b"1_0",
    b"7" * 5000,
)
PIECES = (
    b"\0",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b"\xff\xfe",
    b"\xc2\xa0",
    b"\xed\xa0\x80",
    b"\\",
    b'"',
    b"[" * 3000,
    b"{" * 3000,
)
EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF)


def mutated(seed: bytes, draw: random.Random) -> bytes:
    """`seed` with one to eight changes."""
    content = bytearray(seed)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        draw.choice(CHANGES)(content, draw)
    return bytes(content)


def _place(content: bytearray, draw: random.Random) -> int:
    # Headers are where it hurts: every second change is near the start.
    return draw.randrange(min(len(content), 256) if draw.random() < 0.5 else len(content)) if content else 0


def _flip(content: bytearray, draw: random.Random) -> None:
    if content:
        content[_place(content, draw)] ^= 1 << draw.randrange(8)


def _set(content: bytearray, draw: random.Random) -> None:
    if content:
        content[_place(content, draw)] = draw.randrange(256)


def _edge(content: bytearray, draw: random.Random) -> None:
    size, order = draw.choice((1, 2, 4, 8)), draw.choice(("little", "big"))
    at = _place(content, draw)
    number = (draw.choice(EDGES) % (1 << 8 * size)).to_bytes(size, order)
    content[at : at + size] = number


def _cut(content: bytearray, draw: random.Random) -> None:
    at = _place(content, draw)
    del content[at : at + draw.choice((1, 3, 50, len(content)))]


def _repeat(content: bytearray, draw: random.Random) -> None:
    at = _place(content, draw)
    content[at:at] = content[at : at + draw.choice((1, 8, 200))] * draw.choice((1, 2, 50))


def _insert(content: bytearray, draw: random.Random) -> None:
    at = _place(content, draw)
    content[at:at] = draw.choice(PIECES + NUMBERS)


def _number(content: bytearray, draw: random.Random) -> None:
    at = _place(content, draw)
    first = next((i for i in range(at, min(at + 500, len(content))) if chr(content[i]).isdigit()), None)
    if first is not None:
        end = first
        while end < len(content) and chr(content[end]) in "0123456789.eE+-":
            end += 1
        content[first:end] = draw.choice(NUMBERS)


def _line(content: bytearray, draw: random.Random) -> None:
    lines = bytes(content).split(b"\n")
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    content[:] = b"\n".join(lines)


CHANGES = (_flip, _set, _edge, _cut, _repeat, _insert, _number, _line)

"""What clients do to a server that mean ill, or know no better; each in a second or two, everything on 127.0.0.1."""

import contextlib
import functools
import http.client
import io
import logging
import os
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import soundfile
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

PIECE = bytes(1 << 18)
FORM = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
FLOOD_SECONDS = 0.7
# The reader of websockets' clients logs an error where frames come while its client closes.
SILENT = logging.Logger("attacks", logging.CRITICAL + 1)


def _head(
    length: int | None, path: str = "/v1/audio/transcriptions", kind: str = "multipart/form-data; boundary=b"
) -> bytes:
    size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"POST {path} HTTP/1.1\r\nHost: a\r\n{size}\r\nContent-Type: {kind}\r\n\r\n".encode()


def _answer(connection: socket.socket) -> int:
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    answer.read()
    return answer.status


def _sent(port: int, *parts: bytes, answers: bool = True) -> int:
    """The status that a connection which sends `parts` gets; 0 where it is cut off while it sends, or vanishes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            return 0
        if not answers:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return 0
        try:
            return _answer(connection)
        except (OSError, http.client.HTTPException):
            return 0


def _posted(port: int, content: bytes) -> int:
    body = FORM + content + b"\r\n--b--\r\n"
    return _sent(port, _head(len(body)), body)


@functools.cache
def recording(seconds: float, style: str = "WAV", rate: int = 16_000, seed: int = 0) -> bytes:
    """A file of noise; of 0 samples that are alike where it is long, so that FLAC is small."""
    file = io.BytesIO()
    count = round(seconds * rate)
    draw = np.random.default_rng(seed)
    samples_N = 0.1 * draw.standard_normal(count).astype(np.float32) if seconds < 600 else np.zeros(count, np.int16)
    soundfile.write(file, samples_N, rate, format=style)
    return file.getvalue()


def vanish(port: int, huge_mb: int) -> int:
    """Resets the connection once its request is sent, or half of it."""
    body = FORM + recording(20.0) + b"\r\n--b--\r\n"
    cut = random.choice([10, len(body) // 2, len(body)])
    return _sent(port, _head(len(body)), body[:cut], answers=False)


def too_large_declared(port: int, huge_mb: int) -> int:
    """A body that says how large it is, and is sent whole."""
    return _sent(port, _head(huge_mb * 10**6), FORM, *[PIECE] * (huge_mb * 10**6 // len(PIECE)))


def too_large_chunked(port: int, huge_mb: int) -> int:
    """A body that does not say so."""
    chunk = f"{len(PIECE):x}\r\n".encode() + PIECE + b"\r\n"
    first = f"{len(FORM):x}\r\n".encode() + FORM + b"\r\n"
    return _sent(port, _head(None), first, *[chunk] * (huge_mb * 10**6 // len(PIECE)), b"0\r\n\r\n")


def garbage(port: int, huge_mb: int) -> int:
    """Bytes that are no HTTP."""
    return _sent(port, os.urandom(5000), b"\r\n\r\n")


def no_recording(port: int, huge_mb: int) -> int:
    """A file that is no recording, or one that ends in its middle."""
    return _posted(port, random.choice([os.urandom(100_000), b"", b"RIFF" + bytes(1000), recording(3.0, "FLAC")[:999]]))


def wrong_type(port: int, huge_mb: int) -> int:
    """A text to speak where numbers and lists are, and JSON that nests too deep."""
    content = random.choice([b'{"input": 5}', b'{"input": ["a"]}', b"[" * 100_000, b"\xff\xfe"])
    return _sent(port, _head(len(content), "/v1/audio/speech", "application/json"), content)


def two_hours(port: int, huge_mb: int) -> int:
    """A recording of two hours in a small file."""
    return _posted(port, recording(7200.0, "FLAC"))


def many_parts(port: int, huge_mb: int) -> int:
    """A form of very many fields."""
    body = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n' * 10_000 + b"--b--\r\n"
    return _sent(port, _head(len(body)), body)


def half_a_head(port: int, huge_mb: int) -> int:
    """A request whose head does not end."""
    return _sent(port, b"GET /health HTTP/1.1\r\nHost:")


def slow_sender(port: int, huge_mb: int) -> int:
    """A body that stops coming."""
    return _sent(port, _head(100_000), FORM)


def dripping(port: int, huge_mb: int) -> int:
    """A body that comes a byte at a time, and never stops."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(_head(100_000) + FORM)
        try:
            while True:
                connection.sendall(b"-")
                time.sleep(0.05)
        except OSError:
            return 0


def huge_json(port: int, huge_mb: int) -> int:
    """Lists in lists without an end, where a text to speak should be."""
    return _sent(port, _head(huge_mb * 10**6, "/v1/audio/speech", "application/json"), b"[]," * 20_000)


def another_host(port: int, huge_mb: int) -> int:
    """A request that a page of another name makes a browser send."""
    return _sent(port, b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n")


def captions_for_nobody(port: int, huge_mb: int) -> int:
    """Sound to caption, much faster than it is spoken, of a client that goes at once."""
    address = f"ws://127.0.0.1:{port}{CAPTIONS}"
    with connect(address, logger=SILENT) as client, contextlib.suppress(ConnectionClosed):
        client.send(random.choice([recording(30.0)[44:], bytes(3_000_000)]))  # the latter is refused, maybe meanwhile
    return 0


def flood(attacker: socket.socket, content: bytes, most: int = 1 << 40) -> int:
    """Sends it again and again, and reads nothing, until the time is over or it is cut off."""
    ends = time.monotonic() + FLOOD_SECONDS
    attacker.settimeout(FLOOD_SECONDS)
    with contextlib.suppress(OSError):
        while time.monotonic() < ends and most > 0:
            attacker.sendall(content[:most])
            most -= len(content)
    return 0


def flooded(port: int, head: bytes, content: bytes, most: int = 1 << 40) -> int:
    """A body of this, after its head."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as attacker:
        attacker.sendall(head)
        return flood(attacker, content, most)


def flooded_frames(port: int, path: str, code: int, content: bytes, first: bytes = b"") -> int:
    """A websocket that is sent frames of this."""
    lines = f"GET {path} HTTP/1.1", "Host: a", "Upgrade: websocket", "Connection: Upgrade"
    lines += "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13\r\n\r\n"
    length = bytes([128 + len(content)]) if len(content) < 126 else b"\xfe" + len(content).to_bytes(2, "big")
    frame = bytes([(0x80 if code else 0) + code]) + length + bytes(4) + content
    with socket.create_connection(("127.0.0.1", port), timeout=60) as attacker:
        attacker.sendall("\r\n".join(lines).encode())
        if b" 101 " not in attacker.recv(1000):  # no place for it
            return 503
        return flood(attacker, first + frame * max(1, 60_000 // len(frame)))


CAPTIONS, SESSION = "/v1/audio/stream", "/v1/realtime?intent=transcription"


def crumbs_of_a_body(port: int, huge_mb: int) -> int:
    """Chunks of one byte."""
    return flooded(port, _head(None), b"1\r\n-\r\n" * 10_000)


def what_looks_like_boundaries(port: int, huge_mb: int) -> int:
    """A file of the beginnings of a form's boundary."""
    return flooded(port, _head(90_000_000) + FORM, b"\r\n--\r-" * 10_000)


def json_that_is_called_a_form(port: int, huge_mb: int) -> int:
    """Lists without an end, of a type whose bodies may be large."""
    return flooded(port, _head(60_000_002, "/v1/audio/speech"), b"[[]" + b",[]" * 10_000, 60_000_000)


def empty_messages(port: int, huge_mb: int) -> int:
    """Sound of no samples, at once."""
    return flooded_frames(port, CAPTIONS, 2, b"")


def single_samples(port: int, huge_mb: int) -> int:
    """Sound sample by sample."""
    return flooded_frames(port, CAPTIONS, 2, b"\0\0")


def pings_that_are_not_read(port: int, huge_mb: int) -> int:
    """Pings, whose answers pile up."""
    return flooded_frames(port, CAPTIONS, 9, bytes(125))


def fragments_without_an_end(port: int, huge_mb: int) -> int:
    """A message in parts of nothing."""
    return flooded_frames(port, CAPTIONS, 0, b"", first=b"\x02\x80\0\0\0\0")


def events_that_are_none(port: int, huge_mb: int) -> int:
    """Events that are refused one by one."""
    return flooded_frames(port, SESSION, 1, b"{}")


def events_of_lists(port: int, huge_mb: int) -> int:
    """Events that take long to parse."""
    return flooded_frames(port, SESSION, 1, b"[[]" + b",[]" * 20_000 + b"]")


def samples_that_grow(port: int, huge_mb: int) -> int:
    """Sound of so low a rate that it becomes much more."""
    return flooded_frames(port, f"{CAPTIONS}?sample_rate=1000", 2, bytes(60_000))


def a_page_of_pauses(port: int, huge_mb: int) -> int:
    """Half an hour of silence, slowly."""
    content = b'{"input": "<speak>a' + b'<break time=\\"60s\\"/>' * 40 + b'<prosody rate=\\"5%\\">a</prosody></speak>"}'
    return _sent(port, _head(len(content), "/v1/audio/speech", "application/json"), content)


CRUMBS = (
    crumbs_of_a_body, what_looks_like_boundaries, json_that_is_called_a_form, empty_messages, single_samples,
    pings_that_are_not_read, fragments_without_an_end, events_that_are_none, events_of_lists, samples_that_grow,
)  # fmt: skip
"""What comes in small parts, each of which takes time."""

ATTACKS: dict[Callable[[int, int], int], tuple[int, ...]] = {
    vanish: (0,),
    too_large_declared: (413, 408, 0),  # 408 on a machine so busy that it does not come in time
    too_large_chunked: (413, 408, 0),
    garbage: (400, 0),
    no_recording: (400,),
    wrong_type: (400, 404, 413),
    two_hours: (413,),
    many_parts: (400,),
    half_a_head: (0,),
    slow_sender: (408,),
    dripping: (0,),
    huge_json: (413, 0),
    another_host: (421,),
    captions_for_nobody: (0,),
    a_page_of_pauses: (413, 404),
    **dict.fromkeys(CRUMBS, (0, 503)),
}
"""What clients do that mean ill, and the statuses that may come of it: 0 for a connection that is closed."""


def attack(port: int, *, until: float, huge_mb: int, draw: random.Random) -> Counter[str]:
    """One attack after the other; the counts by name and status, those that must not be with a !."""
    found: Counter[str] = Counter()
    while time.monotonic() < until:
        kind = draw.choice(list(ATTACKS))
        if kind in (too_large_declared, too_large_chunked) and draw.random() < 0.7:
            continue  # a gigabyte takes a while
        try:
            status = kind(port, huge_mb)
        except OSError as error:
            found[f"{kind.__name__} {type(error).__name__}!"] += 1
            continue
        found[f"{kind.__name__} {status}{'' if status in ATTACKS[kind] else '!'}"] += 1
    return found

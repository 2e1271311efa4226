"""A client of live captions: sound goes out as fast as it is spoken, words come back. Needs no torch."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from common.audio import waveform
from common.files.json_text import parsed
from common.recognition.output.transcripts import Word
from trt.client.asking import ServerError

RATE = 16_000
PIECE_SECONDS = 0.1


class Told(NamedTuple):
    """What a stream gave: its text, its words, its length, and how long after its end each word was final."""

    text: str
    words: list[Word]
    seconds: float
    delays: list[float]


def in_real_time(path: Path, *, speed: float = 1.0) -> Iterator[bytes]:
    """A recording's samples, 16 bits at RATE, each piece when it would have been spoken.

    Reads the file at once: raises AudioError here, not in the thread that sends.
    """
    samples_N = waveform.read(path, sample_rate=RATE).samples
    return _paced(np.clip(np.rint(samples_N * 32768), -32768, 32767).astype("<i2").tobytes(), speed)


def _paced(content: bytes, speed: float) -> Iterator[bytes]:
    size, began = 2 * round(PIECE_SECONDS * RATE), time.monotonic()
    for first in range(0, len(content), size):
        time.sleep(max(0.0, began + first / (2 * RATE * speed) - time.monotonic()))
        yield content[first : first + size]


def from_pipe(pipe: BinaryIO) -> Iterator[bytes]:
    """Samples as another program gives them."""
    while piece := pipe.read(2 * round(PIECE_SECONDS * RATE)):
        yield piece


def captions(
    url: str, pieces: Iterable[bytes], *, key: str = "", show: Callable[[str], None] = lambda text: None
) -> Told:
    """Sends the pieces; `show` gets final words as they come. Raises ServerError."""
    try:
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect
    except ImportError as error:
        raise ServerError(f"{error}; live captions need the extra serve: pip install -e '.[serve]'") from None
    address = (
        url.removesuffix("/").removesuffix("/v1").replace("http", "ws", 1) + f"/v1/audio/stream?sample_rate={RATE}"
    )
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with connect(address, additional_headers=headers, max_size=None) as socket:
            began = time.monotonic()
            sender = threading.Thread(target=_send, args=(socket, pieces), daemon=True)
            sender.start()
            delays: list[float] = []
            for message in socket:
                told = parsed(message)
                if told["type"] == "error":
                    raise ServerError(f"{url}: {told['message']}")
                if told["type"] == "final":
                    delays += [time.monotonic() - began - word["end"] for word in told["words"]]
                    show(told["text"])
                if told["type"] == "done":
                    return Told(told["text"], [Word(**word) for word in told["words"]], told["duration"], delays)
    except (WebSocketException, OSError) as error:
        raise ServerError(f"{url}: {error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ServerError(f"{url}: a message that is none of live captions ({error!r})") from None
    raise ServerError(f"{url}: the stream ended without its last words")


def _send(socket: "object", pieces: Iterable[bytes]) -> None:
    from websockets.exceptions import ConnectionClosed

    try:
        for piece in pieces:
            socket.send(piece)  # type: ignore[attr-defined]
        socket.send(json.dumps({"type": "end"}))  # type: ignore[attr-defined]
    except ConnectionClosed:  # the receiving side says why
        return

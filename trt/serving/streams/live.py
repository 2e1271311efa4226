"""Live captions: sound comes in over a websocket, words go out while they are spoken; those that are final stay.

Every `every_seconds` the last seconds of sound are recognised. A word is final when so much sound followed it that the
recogniser no longer changes its mind for want of it; those after it are partial. Pauses that are cut are no such sound,
so that they change no word, unless they are long.

Legend: N samples.
"""

import asyncio
import contextlib
import functools
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from fastapi import WebSocket, WebSocketDisconnect
from starlette.websockets import WebSocketState

from common.audio.silence import Keep, Pauses, StreamPauses
from common.audio.waveform import RATES
from common.files.json_text import parsed
from common.recognition.output.transcripts import Transcript, Word, text_of
from trt.serving.admission.limits import Limits, RequestError, Taken
from trt.serving.models import Favoured, WantedText
from trt.serving.streams.samples import AT_ONCE, KINDS, SampleStream
from trt.serving.streams.turns import NewWords, StreamedTurn
from trt.serving.transcribing.hearing import Hearing, timed

FEWEST_SECONDS = 0.1  # of sound that are worth a look
Content = TypeVar("Content", bytes, str | bytes)
_log = logging.getLogger("trt.serve")
ON_ITS_WAY_SECONDS = 0.25
MESSAGE_BYTES = 200  # that a message holds besides its content
FORMATS = ("s16le", "f32le")


@dataclass(frozen=True, kw_only=True)
class LiveOptions:
    """When words are looked for, and when they are final."""

    every_seconds: float = 0.3
    """Sound between two looks."""
    lookahead_seconds: float = 0.6
    """Sound that must follow a word before it is final, pauses that are cut apart."""
    pause_seconds: float = 3.0
    """Pause that is cut, after which the words before it are final."""
    left_seconds: float = 4.0
    """Sound before the last final word that is heard again."""
    longest_seconds: float = 15.0
    """Most sound that is heard at a look."""


class Captions:
    """The words of a stream of samples at `sample_rate`, recognised by `hear`."""

    def __init__(
        self,
        hear: Callable[[np.ndarray], Awaitable[Transcript]],
        sample_rate: int,
        options: LiveOptions | None = None,
        keep: Keep | None = None,
    ):
        """`keep`: of the recogniser; where it cuts pauses, the stream has none, and words keep their times."""
        self._hear, self._rate, self.options = hear, sample_rate, options or LiveOptions()
        self._pauses = StreamPauses(keep) if isinstance(keep, Pauses) else None
        self._fed = 0  # samples
        self._kept_N = np.zeros(0, np.float32)
        self._first = 0  # sample of the stream without its pauses that is the first kept
        self._new = 0  # samples since the last look
        self._seen = (0.0, False)  # sound without its pauses, and whether a pause had ended it, at the last look
        self._final_until = 0.0

    @property
    def seconds(self) -> float:
        """Sound so far."""
        return self._fed / self._rate

    @property
    def _kept_seconds(self) -> float:
        """Sound so far without its pauses, in which all times are but those of words that are given out."""
        return (self._first + len(self._kept_N)) / self._rate

    def _take(self, samples_N: np.ndarray, *, last: bool = False) -> None:
        self._fed += len(samples_N)
        if self._pauses:
            samples_N = self._pauses.feed(samples_N, last=last)
        self._kept_N = np.concatenate([self._kept_N, samples_N])

    async def add(self, samples_N: np.ndarray) -> NewWords | None:
        """More sound; what a look finds, if it is time for one."""
        found, step = None, round(self.options.every_seconds * self._rate)
        for first in range(0, len(samples_N), step):  # what comes faster than it is spoken is heard in the same steps
            part_N = samples_N[first : first + step]
            self._take(part_N)
            self._new += len(part_N)
            kept, pause = self._kept_seconds, self._pauses.pause / self._rate if self._pauses else 0.0
            now = (kept, pause >= self.options.pause_seconds)
            if self._new >= step and now > self._seen:
                looked = await self._look(float("inf") if now[1] else kept - self.options.lookahead_seconds)
                self._seen = now
                found = looked._replace(words=[*(found.words if found else []), *looked.words])
        return found

    def close(self) -> None:
        """Nothing: it holds no more than itself."""

    async def end(self) -> NewWords:
        """The words that are left: all of them are final."""
        self._take(np.zeros(0, np.float32), last=True)
        return await self._look(float("inf"))

    async def _look(self, final_before: float) -> NewWords:
        self._new = 0
        kept = self._kept_seconds
        earliest = max(self._final_until - self.options.left_seconds, kept - self.options.longest_seconds)
        drop = max(0, round(earliest * self._rate) - self._first)
        self._kept_N, self._first = self._kept_N[drop:], self._first + drop
        if len(self._kept_N) < FEWEST_SECONDS * self._rate:
            return NewWords("", [])
        begins = self._first / self._rate
        heard = (await self._hear(self._kept_N)).words
        moved = [w._replace(start=w.start + begins, end=w.end + begins) for w in heard]
        new = [word for word in moved if (word.start + word.end) / 2 > self._final_until]
        leaving = kept - self.options.longest_seconds + self.options.left_seconds
        count = 0
        while count < len(new) and (new[count].end <= final_before or new[count].start < leaving):
            count += 1
        if count:
            self._final_until = new[count - 1].end
        cuts = self._pauses.cuts if self._pauses else ()
        return NewWords("", [timed(word, cuts) for word in new[:count]], text_of(new[count:]))


async def serve_captions(socket: WebSocket, hearing: Hearing, limits: Limits, ending: asyncio.Event) -> None:
    """Captions over a websocket: binary messages are samples; {"type": "end"} asks for what is left, as `ending` does.

    The answers are JSON: ready, partial, final, done and error.
    """
    offered = socket.headers.get("sec-websocket-protocol", "").split(",")[0].strip()
    await socket.accept(subprotocol=offered or None)
    taken = socket.state.taken
    try:
        async with said_to(socket):
            rate, kind = _asked(socket)
            began = time.monotonic()  # what comes faster than it is spoken is heard when there is nothing else
            captions: Captions | StreamedTurn
            favoured = Favoured(language_model=socket.query_params.get("language_model", ""))
            hearing.check(favoured)
            session = hearing.session(favoured) if hearing.pool is not None else None
            if session is not None:
                captions, lookahead = StreamedTurn(session), 0.0
            else:
                wanted = WantedText(decoder=hearing.ears.decoder_of(favoured.language_model))
                captions = own = Captions(
                    lambda samples_N: hearing.hear(samples_N, "stream", began + own.seconds, wanted),
                    hearing.ears.sample_rate,
                    keep=hearing.ears.keep,
                )
                lookahead = own.options.lookahead_seconds
            await _tell(socket, "ready", sample_rate=rate, model=hearing.ears.name, lookahead_seconds=lookahead)
            incoming = Incoming[bytes](
                socket,
                taken,
                most=limits.max_ahead_seconds * rate * np.dtype(KINDS[kind][0]).itemsize,
                idle_seconds=limits.client_seconds,
                content_of=_content,
            )
            samples = SampleStream(kind, rate, hearing.ears.sample_rate)
            with contextlib.closing(captions):
                await incoming.serve(_converse(socket, captions, samples, incoming, hearing, limits), ending)
    except RequestError as error:
        await _tell(socket, "error", message=error.message)
        await socket.close(1008, error.message.encode()[:120].decode("utf-8", "ignore"))  # 123 bytes are the most


@contextlib.asynccontextmanager
async def said_to(socket: WebSocket) -> AsyncIterator[None]:
    """Closes the websocket at the end; what breaks off in between, if it is no RequestError, is logged."""
    try:
        yield
        await socket.close()
    except WebSocketDisconnect:
        return
    except RequestError:
        raise
    except Exception:
        if WebSocketState.DISCONNECTED in (socket.client_state, socket.application_state):
            return  # sent after the client has gone
        _log.exception("error in a stream")
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await _tell(socket, "error", message="internal error; the server's log has the details")
            await socket.close(1011)


class Incoming(Generic[Content]):
    """Messages of a stream, which are read while others are worked on: so it is seen at once when the client goes."""

    def __init__(
        self,
        socket: WebSocket,
        taken: Taken,
        *,
        most: float,
        idle_seconds: float,
        content_of: Callable[[Any], Content | None],
    ):
        """`most`: bytes that may wait. `idle_seconds`: between two messages. `content_of` a message: None for the
        end."""
        self._socket, self._taken, self._most, self._idle_seconds = socket, taken, most, idle_seconds
        self._content_of: Callable[[Any], Content | None] = content_of
        self._waiting: asyncio.Queue[Content | None] = asyncio.Queue()
        self._held = 0

    async def next(self) -> Content | None:
        """The next message; None at the end. Others have their turn between two of them."""
        await asyncio.sleep(0)
        content = await self._waiting.get()
        if content is not None:
            self._held -= len(content)
            self._taken.give_back(len(content) + MESSAGE_BYTES)
        return content

    async def serve(self, work: Coroutine[Any, Any, None], ending: asyncio.Event) -> None:
        """Does the work, which takes messages by `next`; it is cancelled when the client goes or does what it must not.

        Raises RequestError and WebSocketDisconnect.
        """
        working, reading = asyncio.create_task(work), asyncio.create_task(self._read())
        ended = asyncio.create_task(_heard_out(ending))
        try:
            tasks: set[asyncio.Task[Any]] = {working, reading, ended}
            while not working.done():
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if reading in done and not working.done():
                    reading.result()
                if ended in done:
                    self._waiting.put_nowait(None)
                    tasks.discard(ended)
            working.result()
        finally:
            for task in (working, reading, ended):
                task.cancel()
            await asyncio.gather(working, reading, ended, return_exceptions=True)

    async def _read(self) -> None:
        """Until the client goes. Raises RequestError and WebSocketDisconnect."""
        wait: float | None = self._idle_seconds
        while True:
            try:
                async with asyncio.timeout(wait):
                    message = await self._socket.receive()
            except TimeoutError:
                raise RequestError(408, f"nothing came for {self._idle_seconds:g} s") from None
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect
            content = self._content_of(message)
            if content is None:
                wait = None
            else:
                self._taken.take(len(content) + MESSAGE_BYTES)
                self._held += len(content)
                if self._held > self._most:
                    found = f"more than {self._most:.0f} bytes of sound wait"
                    raise RequestError(429, f"{found}; send it as it is spoken", code="rate_limit")
            self._waiting.put_nowait(content)
            await asyncio.sleep(0)


async def _heard_out(ending: asyncio.Event) -> None:
    """Until what was on its way when the server was asked to end has come."""
    await ending.wait()
    await asyncio.sleep(ON_ITS_WAY_SECONDS)


async def _converse(
    socket: WebSocket,
    captions: "Captions | StreamedTurn",
    samples: SampleStream,
    incoming: "Incoming[bytes]",
    hearing: Hearing,
    limits: Limits,
) -> None:
    said, words, fed, rate = "", list[Word](), 0, hearing.ears.sample_rate
    while (content := await incoming.next()) is not None:
        made = functools.partial(samples.add, content)
        samples_N = await hearing.workers.soon(made, len(content), AT_ONCE)
        found = await captions.add(samples_N)
        fed += len(samples_N)
        if fed > limits.max_seconds * rate:
            raise RequestError(413, f"more than {limits.max_seconds:g} s of audio; begin again")
        if found is not None:
            words += await _tell_words(socket, found.words)
            if found.partial != said:
                said = found.partial
                await _tell(socket, "partial", text=said)
    samples_N = samples.end()
    rest = [await captions.add(samples_N), await captions.end()]
    words += await _tell_words(socket, [word for found in rest if found is not None for word in found.words])
    fed += len(samples_N)

    def done() -> str:
        told = [word._asdict() for word in words]
        return _event("done", text=text_of(words), words=told, duration=round(fed / rate, 3))

    await socket.send_text(await hearing.workers(done))


def _asked(socket: WebSocket) -> tuple[int, str]:
    rate, kind = socket.query_params.get("sample_rate", "16000"), socket.query_params.get("format", "s16le")
    if not rate.isdecimal() or len(rate) > 6 or not RATES[0] <= int(rate) <= RATES[1]:
        raise RequestError(400, f"sample_rate {rate[:20]!r}: expected {RATES[0]} to {RATES[1]}")
    if kind not in FORMATS:
        raise RequestError(400, f"format {kind[:20]!r}: expected one of {', '.join(FORMATS)}")
    return int(rate), kind


def _content(message: Any) -> bytes | None:
    """The bytes of a message; None for the end. Raises RequestError."""
    if message.get("bytes") is not None:
        return bytes(message["bytes"])
    try:
        asked = parsed(message.get("text") or "")
    except ValueError:
        asked = None
    if not isinstance(asked, dict) or asked.get("type") != "end":
        raise RequestError(400, 'expected samples as binary messages, or {"type": "end"}')
    return None


async def _tell_words(socket: WebSocket, words: list[Word]) -> list[Word]:
    if words:
        await _tell(socket, "final", text=text_of(words), words=[word._asdict() for word in words])
    return words


async def _tell(socket: WebSocket, kind: str, **content: Any) -> None:
    await socket.send_text(_event(kind, **content))


def _event(kind: str, **content: Any) -> str:
    return json.dumps({"type": kind, **content}, ensure_ascii=False)

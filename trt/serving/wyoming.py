"""Wyoming's protocol, by which Home Assistant and its satellites ask for transcripts and speech.

A TCP connection carries events: a line of JSON with type, data_length and payload_length, then so many bytes of JSON
and of sound. See https://github.com/rhasspy/wyoming.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Coroutine, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from common.audio import waveform
from trt.serving import speech
from trt.serving.hearing import Hearing
from trt.serving.limits import Budget, Limits, Places, RequestError, Taken

LONGEST_LINE = 1 << 16
MOST_BYTES = 1 << 22  # of one event
LOOK_SECONDS = 0.05  # between two looks whether a client that waits is still there
IDLE_SECONDS = 300.0  # between two events of a client: satellites keep their connection
PART = 1 << 18  # samples of all channels that are resampled at a time
WIDTHS = {1: "u1", 2: "<i2", 4: "<i4"}
Answer = TypeVar("Answer")
_log = logging.getLogger("trt.serve")


class WyomingEvent(NamedTuple):
    """One message."""

    type: str
    data: dict[str, Any]
    payload: bytes = b""


class Wyoming:
    """Answers Wyoming's clients with the models of the gateway; see `start`."""

    def __init__(
        self,
        hearing: Hearing | None,
        speaking: speech.Speaking | None,
        *,
        limits: Limits,
        budget: Budget,
        language: str = "en",
    ):
        self._hearing, self._speaking, self._limits, self._budget = hearing, speaking, limits, budget
        self._language = language
        self._clients = Places(limits.max_queue, limits.client_share, "clients are connected")

    async def start(self, host: str, port: int) -> asyncio.Server:
        """Listens. Raises OSError."""
        return await asyncio.start_server(self._talk, host, port, limit=LONGEST_LINE)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(self, reader, writer)
        try:
            with self._clients.taken(client.address):
                await client.serve()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass
        except RequestError as error:
            with contextlib.suppress(OSError, TimeoutError):
                await client.send("error", {"text": error.message, "code": error.code})
        except Exception:
            _log.exception("error while answering a client of Wyoming")
        finally:
            client.forget()
            writer.close()

    def info(self) -> dict[str, Any]:
        """What there is, as describe asks for it."""
        ours = {"attribution": {"name": "Speech models", "url": ""}, "installed": True, "version": None}

        def described(name: str, **more: Any) -> dict[str, Any]:
            return {"name": name, "description": name, **ours, **more}

        asr, tts = [], []
        if self._hearing is not None:
            model = described(self._hearing.ears.name, languages=[self._language])
            asr = [described("speech-models", models=[model], supports_transcript_streaming=False)]
        if self._speaking is not None:
            names = [{"name": str(i)} for i in range(self._speaking.voice.speakers)]
            voice = described(self._speaking.voice.name, languages=[self._language], speakers=names)
            tts = [described("speech-models", voices=[voice], supports_synthesize_streaming=False)]
        return {"asr": asr, "tts": tts, "handle": [], "intent": [], "wake": [], "mic": [], "snd": []}


class _Client:
    """One connection, with the sound that it has sent."""

    def __init__(self, server: Wyoming, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._server, self._reader, self._writer = server, reader, writer
        self._parts: list[bytes] = []
        self._format: tuple[int, int, int] | None = None
        self._held = 0
        self.address = str((writer.get_extra_info("peername") or ["unknown"])[0]) if writer else "unknown"
        self._taken = Taken(server._budget, self.address)

    async def serve(self) -> None:
        """Answers its events until it goes. Raises RequestError for what is none, OSError and TimeoutError."""
        while event := await self.read():
            try:
                await self.answer(event)
            except RequestError as error:
                self.forget()
                await self.send("error", {"text": error.message, "code": error.code})

    async def read(self) -> WyomingEvent | None:
        """The next event; None at the end. Raises RequestError for what is none."""
        line = b"a line without end"
        await asyncio.sleep(0)  # others have their turn
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                line = await self._reader.readline()
            if not line:
                return None
            told = json.loads(line)
            kind, data = told["type"], dict(told.get("data") or {})
            sizes = [int(told.get(name) or 0) for name in ("data_length", "payload_length")]
            if not isinstance(kind, str) or min(sizes) < 0 or sizes[0] > LONGEST_LINE or sizes[1] > MOST_BYTES:
                raise ValueError(sizes)
            async with asyncio.timeout(self._server._limits.client_seconds):
                line, payload = [await self._reader.readexactly(size) for size in sizes]
            return WyomingEvent(kind, data | dict(json.loads(line or b"{}")), payload)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            found, expected = line[:60].decode("utf-8", "replace").strip(), "expected an object of JSON with a type"
            raise RequestError(
                400, f"no event of Wyoming's protocol: {found!r}; {expected}, and lengths up to {MOST_BYTES}"
            ) from None

    async def answer(self, event: WyomingEvent) -> None:
        """What an event asks for; types that are not known are passed over. Raises RequestError."""
        match event.type:
            case "describe":
                await self.send("info", self._server.info())
            case "ping":
                await self.send("pong", {"text": event.data.get("text")})
            case "audio-start" | "transcribe":
                self.forget()
            case "audio-chunk":
                self._keep(event)
            case "audio-stop":
                await self._transcribe()
            case "synthesize":
                await self._speak(event.data)

    def _keep(self, event: WyomingEvent) -> None:
        found = tuple(event.data.get(name) for name in ("rate", "width", "channels"))
        rate, width, channels = found
        if not isinstance(rate, int) or width not in WIDTHS or not isinstance(channels, int):
            raise RequestError(400, f"audio of rate, width, channels {found}: expected numbers, widths 1, 2 or 4")
        if not waveform.RATES[0] <= rate <= waveform.RATES[1] or not 1 <= channels <= 16:
            raise RequestError(400, f"audio of {rate} Hz in {channels} channels: expected a rate that recordings have")
        if self._format not in (None, (rate, width, channels)):
            raise RequestError(400, f"audio of rate, width, channels {found} after {self._format}")
        self._taken.take(len(event.payload))
        self._held += len(event.payload)
        self._parts.append(event.payload)
        self._format = (rate, width, channels)
        if self._held > self._server._limits.max_seconds * rate * width * channels:
            raise RequestError(413, f"more than {self._server._limits.max_seconds:g} s of audio")

    async def _transcribe(self) -> None:
        hearing = self._server._hearing
        if hearing is None:
            raise RequestError(404, "this server has no recogniser; start it with --asr")
        if self._format is None:
            raise RequestError(400, "audio-stop without audio before it")
        rate, width, channels = self._format
        seconds = self._held / (rate * width * channels)
        self._taken.take(4 * round(seconds * hearing.ears.sample_rate), seconds)
        samples_N = await self._unless_gone(self._samples(hearing))
        transcript = None
        if len(samples_N):
            wanted = hearing.wanted("", "", self._server._language)
            transcript = await self._unless_gone(hearing.hear(samples_N, "audio", wanted=wanted))
        self.forget()
        text = transcript.text if transcript else ""
        await self.send("transcript", {"text": text, "language": self._server._language})

    async def _samples(self, hearing: Hearing) -> np.ndarray:
        """What came, at the model's rate, made part by part."""
        assert self._format is not None
        rate, width, channels = self._format
        content = b"".join(self._parts)
        size = width * channels

        def parts() -> Iterator[np.ndarray]:
            for start in range(0, len(content) // size * size, PART * size):
                part = content[start : start + PART * size]
                whole = np.frombuffer(part[: len(part) // size * size], WIDTHS[width])
                values = whole.astype(np.float32) / np.float32(2 ** (8 * width - 1))
                yield (values - 1 if width == 1 else values).reshape(-1, channels).mean(1, dtype=np.float32)

        made, found = waveform.resampled(parts(), rate, hearing.ears.sample_rate), [np.zeros(0, np.float32)]
        while (part_N := await hearing.workers(lambda: next(made, None), self._taken.due)) is not None:
            found.append(part_N)
        return np.concatenate(found)

    async def _unless_gone(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """What `work` gives; it is cancelled, and ConnectionResetError raised, once the client is seen to have gone."""
        job = asyncio.create_task(work)
        try:
            while not (await asyncio.wait({job}, timeout=LOOK_SECONDS))[0]:
                if self._reader.at_eof():
                    raise ConnectionResetError
            return job.result()
        finally:
            job.cancel()

    async def _speak(self, data: dict[str, Any]) -> None:
        speaking = self._server._speaking
        if speaking is None:
            raise RequestError(404, "this server has no voice; start it with --tts and --vocoder")
        voice = data.get("voice")
        speaker = voice.get("speaker") if isinstance(voice, dict) else None
        try:
            asked = speech.SpeechRequest(
                input=data.get("text") or "", voice=speaker or "default", response_format="pcm"
            )
        except ValueError:
            raise RequestError(400, "synthesize: nothing to say; expected a text") from None
        asked.sample_rate = speaking.voice.sample_rate
        sound = await self._unless_gone(speaking.speak(asked, self._taken))
        described = {"rate": sound.rate, "width": 2, "channels": 1}
        await self.send("audio-start", described)
        async for content in sound.chunks:
            await self.send("audio-chunk", described, content)
        await self.send("audio-stop", {})
        self.forget()

    async def send(self, kind: str, data: dict[str, Any], payload: bytes = b"") -> None:
        """Writes an event. Raises OSError and TimeoutError for a client that does not take it."""
        content = json.dumps(data, ensure_ascii=False).encode()
        head = {"type": kind, "version": "1.8.0", "data_length": len(content), "payload_length": len(payload)}
        self._writer.write(json.dumps(head).encode() + b"\n" + content + payload)
        async with asyncio.timeout(self._server._limits.client_seconds):
            await self._writer.drain()

    def forget(self) -> None:
        """The sound that came so far."""
        self._taken.end()
        self._taken = Taken(self._server._budget, self.address)
        self._parts, self._format, self._held = [], None, 0

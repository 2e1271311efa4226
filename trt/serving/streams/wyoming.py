"""Wyoming's protocol, by which Home Assistant and its satellites ask for transcripts and speech.

A TCP connection carries events: a line of JSON with type, data_length and payload_length, then so many bytes of JSON
and of sound. See https://github.com/rhasspy/wyoming.
"""

import asyncio
import contextlib
import functools
import json
import logging
import math
import re
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from common.audio import waveform
from fastpitch.front.sentences import sentences
from fastpitch.front.ssml import MarkedSpan
from trt.serving.admission.limits import Budget, Limits, Places, RequestError, Taken
from trt.serving.speaking import speech
from trt.serving.streams.samples import AT_ONCE, SampleStream
from trt.serving.streams.turns import NewWords, Turn, begun
from trt.serving.transcribing.favoured import favoured_in
from trt.serving.transcribing.hearing import Hearing
from trt.serving.transcribing.languages import check_languages, code_of

LONGEST_LINE = 1 << 16
MOST_BYTES = 1 << 22  # of one event
LOOK_SECONDS = 0.05  # between two looks whether a client that waits is still there
IDLE_SECONDS = 300.0  # between two events of a client: satellites keep their connection
WIDTHS = {1: "u8", 2: "s16le", 4: "s32le"}
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
        hearings: Mapping[str, Hearing],
        speakings: Mapping[str, speech.Speaking],
        *,
        limits: Limits,
        budget: Budget,
        language: str = "en",
    ):
        """`language`: code of the voices', and of recognisers that do not say theirs."""
        self._hearings, self._speakings, self._limits, self._budget = hearings, speakings, limits, budget
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

        own = [self._language]
        models = [
            described(name, languages=[code_of(each) for each in hearing.ears.languages] or own)
            for name, hearing in self._hearings.items()
        ]
        streams = any(hearing.pool is not None for hearing in self._hearings.values())
        speakers = {name: range(each.voice.speakers) for name, each in self._speakings.items()}
        voices = [
            described(name, languages=own, speakers=[{"name": str(i)} for i in numbers])
            for name, numbers in speakers.items()
        ]
        asr = [described("speech-models", models=models, supports_transcript_streaming=streams)] if models else []
        tts = [described("speech-models", voices=voices, supports_synthesize_streaming=True)] if voices else []
        return {"asr": asr, "tts": tts, "handle": [], "intent": [], "wake": [], "mic": [], "snd": []}


class _Client:
    """One connection, with the sound that it has sent."""

    def __init__(self, server: Wyoming, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._server, self._reader, self._writer = server, reader, writer
        self.address = str((writer.get_extra_info("peername") or ["unknown"])[0]) if writer else "unknown"
        self._asked: dict[str, Any] = {}  # of the transcript
        self._sound: IncomingSound | None = None
        self._speech: StreamedText | None = None
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
            case "transcribe":
                self.forget()
                self._asked = event.data
            case "audio-start":
                asked = self._asked
                self.forget()
                self._asked = asked
            case "audio-chunk":
                await self._hear(event)
            case "audio-stop":
                await self._transcribe()
            case "synthesize-start":
                self.forget()
                self._speech = StreamedText(event.data.get("voice"))
            case "synthesize-chunk" if self._speech is not None:
                await self._speak_on(str(event.data.get("text") or ""))
            case "synthesize-stop" if self._speech is not None:
                await self._speak_on("", last=True)
                self.forget()
                await self.send("synthesize-stopped", {})
            case "synthesize" if self._speech is None:  # which repeats what comes in chunks
                voice, text = event.data.get("voice"), event.data.get("text") or ""
                described = await self._speak(text, voice, {})
                await self.send("audio-stop", {"rate": described["rate"]} if described else {})
                self.forget()

    async def _hear(self, event: WyomingEvent) -> None:
        """More sound, at the model's rate and in one channel as soon as it comes. Raises RequestError."""
        found = tuple(event.data.get(name) for name in ("rate", "width", "channels"))
        if self._sound is None:
            self._sound = await self._begun(found)
        elif self._sound.format != found:
            raise RequestError(400, f"audio of rate, width, channels {found} after {self._sound.format}")
        sound, most = self._sound, self._server._limits.max_seconds
        sound.bytes += len(event.payload)
        if sound.seconds > most:
            raise RequestError(413, f"more than {most:g} s of audio")
        made = functools.partial(sound.coming.add, event.payload)
        samples_N = await sound.hearing.workers.soon(made, len(event.payload), AT_ONCE)
        await self._say(await sound.turn.add(samples_N))

    async def _begun(self, found: tuple[Any, ...]) -> "IncomingSound":
        """What hears sound of this rate, width and number of channels. Raises RequestError."""
        rate, width, channels = found
        if not all(isinstance(each, int) for each in found) or width not in WIDTHS:
            raise RequestError(400, f"audio of rate, width, channels {found}: expected numbers, widths 1, 2 or 4")
        if not waveform.RATES[0] <= rate <= waveform.RATES[1] or not 1 <= channels <= 16:
            raise RequestError(400, f"audio of {rate} Hz in {channels} channels: expected a rate that recordings have")
        server, hearings = self._server, self._server._hearings
        if not hearings:
            raise RequestError(404, "this server has no recogniser; start it with --asr")
        hearing = hearings.get(str(self._asked.get("name"))) or next(iter(hearings.values()))
        language = str(self._asked.get("language") or "")
        lists = [self._asked.get(f"transcript_{kind}") or [] for kind in ("names", "terms")]
        if not all(isinstance(each, list) for each in lists):
            raise RequestError(400, "transcript_terms and transcript_names: expected lists")
        favoured = favoured_in((), "\n".join(map(str, [*lists[0], *lists[1]])))
        check_languages((language,) if language else (), hearing.ears.languages or (server._language,))
        self._taken.take(hearing.stream_bytes)
        turn = await begun(hearing, self._taken, language, server._language, favoured)
        coming = SampleStream(WIDTHS[width], rate, hearing.ears.sample_rate, channels)
        return IncomingSound(hearing, turn, (rate, width, channels), coming)

    async def _transcribe(self) -> None:
        if self._sound is None:
            raise RequestError(400, "audio-stop without audio before it")
        sound, self._asked = self._sound, {}
        if sound.hearing.pool is None:
            self._taken.take(0, sound.seconds)
        rest_N = await sound.hearing.workers(sound.coming.end)
        await self._say(await self._unless_gone(sound.turn.add(rest_N)))
        await self._say(await self._unless_gone(sound.turn.end()))
        text, language = sound.text.strip(), self._server._language
        await self.send("transcript", {"text": text, "language": language})
        if sound.is_streamed:
            await self.send("transcript-stop", {})
        self.forget()

    async def _say(self, heard: NewWords) -> None:
        """Tells what is new, of recognisers that hear streams."""
        sound = self._sound
        assert sound is not None
        sound.text += heard.delta
        if heard.delta and sound.hearing.pool is not None:
            if not sound.is_streamed:
                await self.send("transcript-start", {"language": self._server._language})
            sound.is_streamed = True
            await self.send("transcript-chunk", {"text": heard.delta})

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

    async def _speak_on(self, text: str, *, last: bool = False) -> None:
        """What has come in whole sentences; at the end all of it. Raises RequestError."""
        speech_now = self._speech
        assert speech_now is not None
        said = speech_now.add(text, self._server._limits.max_characters, last=last)
        if any(character.isalnum() for character in said):
            speech_now.described = await self._speak(said, speech_now.voice, speech_now.described)
        if last and speech_now.described:
            await self.send("audio-stop", {})

    async def _speak(self, text: str, voice: Any, described: dict[str, Any]) -> dict[str, Any]:
        """Says a text, after an audio-start unless the sound was `described` by one. Raises RequestError."""
        if not self._server._speakings:
            raise RequestError(404, "this server has no voice; start it with --tts and --vocoder")
        given = voice if isinstance(voice, dict) else {}
        speakings = self._server._speakings
        speaking = speakings.get(str(given.get("name"))) or next(iter(speakings.values()))
        try:
            asked = speech.SpeechRequest(input=text, voice=given.get("speaker") or "default", response_format="pcm")
        except ValueError:
            raise RequestError(400, "synthesize: nothing to say; expected a text") from None
        asked.sample_rate = speaking.voice.sample_rate
        with Taken(self._server._budget, self.address) as taken:
            sound = await self._unless_gone(speaking.speak(asked, taken))
            if not described:
                described = {"rate": sound.rate, "width": 2, "channels": 1}
                await self.send("audio-start", described)
            async for content in sound.chunks:
                if not content:
                    continue
                await self.send("audio-chunk", described, content)
        return described

    async def send(self, kind: str, data: dict[str, Any], payload: bytes = b"") -> None:
        """Writes an event. Raises OSError and TimeoutError for a client that does not take it."""
        content = json.dumps(data).encode()  # all of it ASCII: what a client has sent may hold half a character
        head = {"type": kind, "version": "1.8.0", "data_length": len(content), "payload_length": len(payload)}
        self._writer.write(json.dumps(head).encode() + b"\n" + content + payload)
        async with asyncio.timeout(self._server._limits.client_seconds):
            await self._writer.drain()

    def forget(self) -> None:
        """What came so far."""
        if self._sound is not None:
            self._sound.turn.close()
        self._taken.end()
        self._taken = Taken(self._server._budget, self.address)
        self._asked, self._sound, self._speech = {}, None, None


@dataclass(slots=True)
class IncomingSound:
    """Sound that comes in, and what hears it."""

    hearing: Hearing
    turn: Turn
    format: tuple[int, int, int]
    """Rate, width and channels."""
    coming: SampleStream
    bytes: int = 0
    text: str = ""
    is_streamed: bool = False

    @property
    def seconds(self) -> float:
        """How long all that came lasts."""
        return self.bytes / math.prod(self.format)


class StreamedText:
    """A text that comes in pieces, which is said in whole sentences."""

    def __init__(self, voice: Any):
        self.voice, self.described, self._waiting = voice, dict[str, Any](), ""

    def add(self, text: str, most: int, *, last: bool) -> str:
        """What may be said now. Raises RequestError for a sentence of more than `most` characters."""
        self._waiting += text
        parts = [self._waiting]
        if not last and re.search(r"[.!?\u2026\n]\s", self._waiting):
            parts = [each.text for each in sentences([MarkedSpan(self._waiting)])]
        if not last and len(parts) == 1:
            if len(self._waiting) > most:
                raise RequestError(400, f"a sentence of more than {most} characters", param="text")
            return ""
        said, self._waiting = (self._waiting, "") if last else (" ".join(parts[:-1]), parts[-1])
        return said

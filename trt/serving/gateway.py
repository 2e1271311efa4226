"""The gateway: routes of OpenAI's audio API, health and metrics, in front of the models."""

import asyncio
import contextlib
import functools
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.exceptions import HTTPException

from trt.serving.admission import forms
from trt.serving.admission.guard import Guard, Message, Receive, Refusal, Send, while_connected
from trt.serving.admission.limits import Budget, ClientGoneError, Limits, Places, RequestError
from trt.serving.batching import Workers
from trt.serving.metrics import Metrics
from trt.serving.models import Ears, ServedVoice
from trt.serving.speaking import speech
from trt.serving.streams.live import serve_captions
from trt.serving.streams.realtime import serve_realtime
from trt.serving.transcribing import transcriptions
from trt.serving.transcribing.hearing import Hearing, self_test
from trt.serving.transcribing.languages import LANGUAGES, check_languages
from trt.serving.triton.asking import Infer, Remote, RemoteVoice
from trt.serving.triton.program import HOST, Triton

TRANSCRIPTIONS, TRANSLATIONS = "/v1/audio/transcriptions", "/v1/audio/translations"
ALIASES = ("", "default")
Model = TypeVar("Model")
WORDS_AT_ONCE = 1000  # whose transcript is written on the event loop
# OpenAI's names, with dates and without.
HEARING_NAMES = re.compile(
    r"whisper-1|gpt-(4o-|live-|realtime-)?(mini-)?(transcribe|whisper)(-diarize)?(-\d{4}-\d\d-\d\d)?"
)
SPEAKING_NAMES = re.compile(r"tts-1(-hd)?(-\d{4})?|gpt-4o-mini-tts(-\d{4}-\d\d-\d\d)?")


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """How the gateway answers."""

    limits: Limits = field(default_factory=Limits)
    keys: tuple[str, ...] = ()
    """One of these must come with every request; none: open to all who reach it."""
    hosts: tuple[str, ...] | None = None
    """Names that requests may call the server by, besides addresses and names without a dot; None: any name."""
    language: str = "english"
    """What verbose_json calls the language."""
    batch_delay_ms: float = 20.0
    max_batch: int = 32


class Gateway:
    """The models, what they share, and the routes to them."""

    def __init__(
        self,
        ears: Sequence[Ears],
        voices: Sequence[ServedVoice],
        settings: GatewaySettings,
        tell: Callable[[str], None] = print,
        *,
        triton: Triton | None = None,
    ):
        """`triton`: what runs the only recogniser, of which `ears` only says what it is to answer when tested, and
        the voice, where it has one."""
        self.settings, self.metrics, self._tell, self.triton = settings, Metrics(), tell, triton
        limits, self._started, self.workers = settings.limits, False, Workers()
        self.budget = Budget(limits.max_memory_mb * 1e6, limits.max_backlog_seconds, limits.client_share)
        self.ending = asyncio.Event()
        """Set once streams should end, because the server does."""
        self.metrics.gauge("process_cpu_seconds", "Processor time of this process.", time.process_time)
        self.metrics.gauge("speech_held_bytes", "Bytes that requests hold.", lambda: self.budget.held)
        self.metrics.gauge("speech_backlog_seconds", "Sound that is asked for.", lambda: self.budget.seconds)
        common: dict[str, Any] = {"limits": limits, "metrics": self.metrics}
        models: dict[str, Any] = {**common, "workers": self.workers}
        batching: dict[str, Any] = {"delay_seconds": settings.batch_delay_ms / 1000, "most": settings.max_batch}
        if triton is not None:
            batching["engine"] = Remote(Infer(HOST, triton.http_port), most=2 * settings.max_batch)
        self.hearings = {each.name: Hearing(each, **models, **batching) for each in ears}
        self.speakings: dict[str, speech.Speaking] = {}
        for voice in voices:
            said = None
            if triton is not None and triton.speaks:
                most = 2 * speech.AT_ONCE
                said = RemoteVoice(Infer(HOST, triton.http_port), sample_rate=voice.sample_rate, most=most)
            self.speakings[voice.name] = speech.Speaking(voice, engine=said, **models)
        waiting = "Recordings, or pieces of long ones, that wait for a batch."
        self.metrics.gauge("speech_waiting", waiting, lambda: sum(each.waiting for each in self.hearings.values()))
        self.live = Places(limits.max_queue, limits.client_share, "streams are open")
        self.metrics.gauge("speech_live_streams", "Streams with live captions.", lambda: len(self.live))
        # Its pages of documentation would load scripts from elsewhere; the description stays at /openapi.json.
        self.routes = FastAPI(title="Speech models", docs_url=None, redoc_url=None, redirect_slashes=False)
        _add_routes(self)
        self._transcriptions = next(
            route for route in self.routes.routes if getattr(route, "path", "") == TRANSCRIPTIONS
        )
        self.app = Guard(self._answered, budget=self.budget, keys=settings.keys, hosts=settings.hosts, **common)

    async def start(self) -> None:
        """Within a running event loop: tests the models. Raises SelfTestError where they are wrong."""
        if self.triton is not None:
            await asyncio.to_thread(self.triton.start, self._tell)
        for hearing in self.hearings.values():
            hearing.start()
            await self_test(hearing, self._tell)
            if self.triton is not None:  # which has its own
                hearing.ears = hearing.ears._replace(asr=None)
        for speaking in self.speakings.values():
            speaking.start()
            await speaking.self_test(self._tell)
        self._started = True

    @property
    def ready(self) -> bool:
        """Whether it can answer."""
        return self._started and (self.triton is None or self.triton.runs())

    async def stop(self) -> None:
        """Leaves what waits unanswered."""
        self._started = False
        self.workers.stop()
        for hearing in self.hearings.values():
            hearing.stop()
        for speaking in self.speakings.values():
            speaking.stop()
        if self.triton is not None:
            await asyncio.to_thread(self.triton.stop)

    async def _answered(self, scope: Message, receive: Receive, send: Send) -> None:
        """By the routes; what is asked most goes past the layers around them, which take their time."""
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == TRANSCRIPTIONS:
            scope["route"] = self._transcriptions
            answer = await self.transcribe(Request(scope, receive))
            await answer(scope, receive, send)
        else:
            await self.routes(scope, receive, send)

    async def transcribe(self, request: Request) -> Response:
        """The transcript of a recording, or its translation. Raises RequestError, and ClientGoneError."""
        asked = transcriptions.asked(await forms.read_form(request), is_translation=request.url.path == TRANSLATIONS)
        hearing = self.ears(asked.model)
        check_languages(asked.languages, hearing.ears.languages or (self.settings.language,))
        source = asked.languages[0] if len(asked.languages) == 1 else ""
        wanted = await hearing.wanted(source, asked.target, self.settings.language, asked.favoured)
        if asked.streams:
            parts = hearing.parts(asked.file, request.state.taken, wanted)
            first = await while_connected(request, anext(parts, None))  # what cannot be heard is refused before it
            told = transcriptions.events(_preceded(first, parts), asked, self.workers)
            return StreamingResponse(told, media_type="text/event-stream")
        transcript = await while_connected(request, hearing.transcribe(asked.file, request.state.taken, wanted))
        language = LANGUAGES.get(transcript.language, transcript.language) or self.settings.language
        write = functools.partial(transcriptions.written, transcript, asked, language)
        content = await self.workers.soon(write, len(transcript.words), WORDS_AT_ONCE)
        return Response(content, media_type=transcriptions.MEDIA[asked.format])

    @contextlib.asynccontextmanager
    async def stream(self, socket: WebSocket) -> AsyncIterator[Hearing | None]:
        """A place for a stream, with its recogniser; without one, or without a place, it is closed, and gets None."""
        with contextlib.ExitStack() as place:
            hearing, code = None, 1013
            try:
                hearing = self.ears(socket.query_params.get("model", ""))
                taken = place.enter_context(socket.state.taken)
                place.enter_context(self.live.taken(taken.client))
                taken.take(hearing.stream_bytes)
            except RequestError as error:
                hearing, code = None, 1008 if error.code == "model_not_found" else 1013
            if self.ending.is_set() or hearing is None:
                await socket.close(code)
            yield None if self.ending.is_set() else hearing

    @property
    def hearing(self) -> Hearing | None:
        """The recogniser of requests that name none."""
        return next(iter(self.hearings.values()), None)

    @property
    def speaking(self) -> speech.Speaking | None:
        """The voice of requests that name none."""
        return next(iter(self.speakings.values()), None)

    def models(self) -> list[str]:
        """Names of the models."""
        return [*self.hearings, *self.speakings]

    def ears(self, model: str) -> Hearing:
        """The recogniser that a request's `model` means. Raises RequestError."""
        missing = "this server has no recogniser; start it with --asr"
        return _meant(model, self.hearings, HEARING_NAMES, "whisper-1, gpt-4o-transcribe", missing)

    def voice(self, asked: speech.SpeechRequest) -> speech.Speaking:
        """The voice that a request means, by its `voice` or by its `model`. Raises RequestError."""
        missing = "this server has no voice; start it with --tts and --vocoder"
        found = _meant(asked.model, self.speakings, SPEAKING_NAMES, "tts-1, tts-1-hd, gpt-4o-mini-tts", missing)
        return self.speakings.get(speech.name_of(asked.voice).partition("/")[0], found)


def _meant(model: str, named: Mapping[str, Model], others: re.Pattern[str], known: str, missing: str) -> Model:
    """The one that a request's `model` names, or the first. Raises RequestError where it names something else."""
    if not named:
        raise RequestError(404, missing, code="model_not_found")
    if model not in named and model not in ALIASES and not others.fullmatch(model):
        message = f"model {model[:100]!r}: expected one of {', '.join(named)}, {known}"
        raise RequestError(404, message, param="model", code="model_not_found")
    return named.get(model) or next(iter(named.values()))


async def _preceded(first: Any, others: AsyncIterator[Any]) -> AsyncIterator[Any]:
    if first is not None:
        yield first
        async for other in others:
            yield other


def _add_routes(gateway: Gateway) -> None:
    routes = gateway.routes

    @routes.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        paths = "GET /v1/models, POST /v1/audio/transcriptions, POST /v1/audio/translations, POST /v1/audio/speech"
        message = f"{request.method} {request.url.path[:100]}: {error.detail}; known: {paths}"
        return JSONResponse(RequestError(error.status_code, message).body(), error.status_code)

    @routes.exception_handler(RequestError)
    async def cannot(request: Request, error: RequestError) -> Response:
        return Refusal(error)

    @routes.exception_handler(ClientGoneError)
    async def gone(request: Request, error: ClientGoneError) -> Response:
        return Refusal(None)

    @routes.api_route("/health", methods=["GET", "HEAD"])
    @routes.api_route("/health/ready", methods=["GET", "HEAD"])
    async def health() -> Response:
        """Whether requests are answered."""
        status = 200 if gateway.ready else 503
        return JSONResponse({"status": "ok" if gateway.ready else "not ready", "models": gateway.models()}, status)

    @routes.api_route("/health/live", methods=["GET", "HEAD"])
    async def live() -> dict[str, str]:
        """Whether the process runs."""
        return {"status": "ok"}

    @routes.get("/metrics")
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return PlainTextResponse(gateway.metrics.render(), media_type="text/plain; version=0.0.4")

    @routes.get("/v1/models")
    async def models() -> dict[str, Any]:
        """The models, as OpenAI lists its own."""
        return {"object": "list", "data": [_described(name) for name in gateway.models()]}

    @routes.get("/v1/models/{name}")
    async def model(name: str) -> dict[str, Any]:
        """One of them."""
        if name not in gateway.models():
            known = ", ".join(gateway.models())
            message = f"model {name[:100]!r}: expected one of {known}"
            raise RequestError(404, message, param="model", code="model_not_found")
        return _described(name)

    @routes.get("/v1/audio/voices")
    async def voices() -> dict[str, Any]:
        """The voices, of which a request to speak names one: speakers of the first, and NAME or NAME/SPEAKER."""
        found: list[str] = []
        for name, speaking in gateway.speakings.items():
            numbers = range(speaking.voice.speakers)
            found += map(str, numbers) if not found else [f"{name}/{i}" if i else name for i in numbers]
        return {"object": "list", "data": [{"id": each, "object": "audio.voice", "name": each} for each in found]}

    @routes.post(TRANSCRIPTIONS)
    @routes.post(TRANSLATIONS)
    async def transcribe(request: Request) -> Response:
        """The transcript of a recording, or its translation."""
        return await gateway.transcribe(request)

    @routes.websocket("/v1/audio/stream")
    async def captions(socket: WebSocket) -> None:
        """Captions of sound while it comes."""
        async with gateway.stream(socket) as hearing:
            if hearing is not None:
                await serve_captions(socket, hearing, gateway.settings.limits, gateway.ending)

    @routes.websocket("/v1/realtime")
    async def realtime(socket: WebSocket) -> None:
        """Transcription by OpenAI's protocol."""
        async with gateway.stream(socket) as hearing:
            if hearing is not None:
                language, check = gateway.settings.language, gateway.ears
                more: dict[str, Any] = {"language": language, "find": check}
                await serve_realtime(socket, hearing, gateway.settings.limits, gateway.ending, **more)

    @routes.post("/v1/audio/speech")
    async def speak(request: Request) -> Response:
        """The sound of a text, while it is synthesised."""
        asked = await forms.read_json(request, speech.SpeechRequest)
        sound = await while_connected(request, gateway.voice(asked).speak(asked, request.state.taken))
        headers = {"X-Sample-Rate": str(sound.rate)}
        if asked.stream_format == "sse":
            return StreamingResponse(speech.events(sound.chunks), media_type="text/event-stream", headers=headers)
        return StreamingResponse(sound.chunks, media_type=sound.media, headers=headers)

    @routes.post("/v1/audio/speech/words")
    async def words(request: Request) -> dict[str, Any]:
        """When each word of a text will be said, how high and how loud: what its editor draws."""
        asked = await forms.read_json(request, speech.SpeechRequest)
        return {"words": await while_connected(request, gateway.voice(asked).words(asked))}


def _described(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "this server"}

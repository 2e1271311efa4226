"""A server in this process, and the raw HTTP that clients of all kinds send."""

import asyncio
import contextlib
import http.client
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import uvicorn

from common.config import ConfigError
from common.recognition.decoding import DecodingOptions
from common.recognition.output.transcripts import Transcript, Word
from fastpitch.speaking.sentences import say_together
from tests.timing import until
from trt.serve import ServeConfig, build, serve
from trt.serving.admission import limits
from trt.serving.gateway import Gateway, GatewaySettings
from trt.serving.models import Ears, ServedVoice

limits.TRIM_SECONDS = 3600.0  # what is collected and given back would be that of all tests of this process
# It looks every tenth of a second whether it should end, and then whether it may.
uvicorn.server.asyncio = SimpleNamespace(**vars(asyncio) | {"sleep": lambda seconds: asyncio.sleep(seconds / 10)})


class Served(NamedTuple):
    """A gateway that listens."""

    port: int
    gateway: Gateway

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=200)
        with contextlib.closing(connection):
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read()

    def transcribe(self, content: bytes, name: str = "a.wav", **fields: str) -> tuple[int, bytes]:
        body, kind = form(content, name, **fields)
        return self.ask("POST", "/v1/audio/transcriptions", body, {"Content-Type": kind})

    def speak(self, **asked: Any) -> tuple[int, bytes]:
        return self.ask("POST", "/v1/audio/speech", json.dumps(asked).encode(), {"Content-Type": "application/json"})

    def comes_to_rest(self) -> None:
        """Waits until no request is under way, and no memory is held."""
        until(lambda: not len(self.gateway.app.under_way) and not self.gateway.budget.held)


@contextlib.contextmanager
def impatient(limits: limits.Limits, seconds: float) -> Iterator[None]:
    """A server with these limits waits no longer for its clients in here."""
    usual = limits.client_seconds
    object.__setattr__(limits, "client_seconds", seconds)
    try:
        yield
    finally:
        object.__setattr__(limits, "client_seconds", usual)


def form(content: bytes, name: str = "a.wav", **fields: str) -> tuple[bytes, str]:
    lines = [f'--b\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items()]
    head = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    return "".join([*lines, head]).encode() + content + b"\r\n--b--\r\n", "multipart/form-data; boundary=b"


class Choice(NamedTuple):
    """What `Counting` decodes with."""

    options: DecodingOptions

    @staticmethod
    def spelled(words: Sequence[str]) -> tuple[str, ...]:
        return tuple(word for word in words if not any(map(str.isdigit, word)))


class Counting:
    """A recogniser that takes `cost` seconds for a second of sound, once it may, and says how loud its tenths are."""

    languages = ("english",)

    def __init__(self, cost: float = 0.001):
        self.cost, self.decoders, self.may = cost, list[DecodingOptions](), threading.Event()
        self.may.set()

    def decoder(self, options: DecodingOptions, like: Choice | None = None) -> Choice:
        """Words with a number cannot be spelled, and models without a name are none."""
        if wrong := [word for word in options.hot_words if word not in Choice.spelled([word])]:
            raise ConfigError(f"decoding: {wrong[0]!r} cannot be spelled")
        if options.language_model == Path("bad.arpa"):
            raise ConfigError("decoding: bad.arpa: no such file; expected a language model")
        self.decoders.append(options)
        return Choice(options)

    def stream(self, recordings: Sequence[np.ndarray], **options: Any) -> Iterator[Transcript]:
        for samples_N in recordings:
            self.may.wait()
            time.sleep(self.cost * len(samples_N) / 16_000)
            words = []
            for start in range(0, len(samples_N) - 1_599, 1_600):
                loud = float(np.abs(samples_N[start : start + 1_600]).mean())
                if loud > 0.01:
                    words.append(Word(f"w{loud:.3f}", round(start / 16_000, 3), round(start / 16_000 + 0.1, 3), 0.5))
            yield Transcript("array", " ".join(word.text for word in words), words, len(samples_N) / 16_000)


def pretended(cfg: ServeConfig, cost: float = 0.001, others: Sequence[str] = (), **settings: Any) -> Gateway:
    """A gateway whose recogniser and voice need no network: a letter is 0.05 s of a tone, and SSML has breaks.

    `others`: names of recognisers and voices besides, alike.
    """

    def planned(text: str, **options: Any) -> list[Any]:
        pace = 0.1 if 'rate="10%"' in text else 1.0
        parts = re.split(r'<break time="([0-9.]+)s"/>', re.sub(r"</?(speak|prosody[^>]*)>", "", text))
        breaks = [1000 * float(each) for each in parts[1::2]] + [0.0]
        return [
            SimpleNamespace(
                encoded=SimpleNamespace(tokens=list(said), words=[]),
                pause_ms=pause,
                edits=SimpleNamespace(pace_L=np.full(len(said), pace, np.float32)),
            )
            for said, pause in zip(parts[::2], breaks, strict=True)
        ]

    def tone(samples: int) -> np.ndarray:
        return np.sin(np.arange(samples, dtype=np.float32) / 10)

    def said(pieces: list[Any]) -> list[tuple[Any, int]]:
        return [(piece, 5 * len(piece.encoded.tokens)) for piece in pieces]

    voice = ServedVoice(
        name="voice",
        sample_rate=22_050,
        hop_samples=220,
        speakers=1,
        planned=planned,
        chunk_frames=50,
        next_sounds=lambda sayings: say_together(
            sayings,
            sentences=said,
            sounds=lambda speaking: [tone(220 * (one.until_frame - one.frames_said)) for one in speaking],
            sample_rate=22_050,
        ),
        sentence=lambda piece: SimpleNamespace(frames_L=np.full(len(piece.encoded.tokens), 5)),
    )
    ears = [Ears(name, 16_000, 20.0, Counting(cost), 8) for name in ("ears", *(f"{name}-ears" for name in others))]
    voices = [voice._replace(speakers=2), *(voice._replace(name=f"{name}-voice", speakers=2) for name in others)]
    hosts = () if cfg.host == "127.0.0.1" else None
    return Gateway(ears, voices if others else [voice], GatewaySettings(limits=cfg.limits, hosts=hosts, **settings))


@contextlib.contextmanager
def served(cfg: ServeConfig, gateway: Gateway | None = None) -> Iterator[Served]:
    gateway = gateway or build(cfg)
    loop = asyncio.new_event_loop()
    ends, listening = asyncio.Event(), threading.Event()
    port, problems = [0], []

    def listens(at: int) -> None:
        port[0] = at
        listening.set()

    def run() -> None:
        try:
            loop.run_until_complete(serve(gateway, cfg, ends, listens))
        except BaseException as error:
            problems.append(error)
        finally:
            listening.set()
            loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert listening.wait(500)
    if problems:
        raise problems[0]
    try:
        yield Served(port[0], gateway)
    finally:
        loop.call_soon_threadsafe(ends.set)
        thread.join(60)
        assert not thread.is_alive(), "the server does not end"


def noise(seconds: float, seed: int = 0, rate: int = 16_000) -> np.ndarray:
    random = np.random.default_rng(seed)
    loudness = np.repeat(random.uniform(0.01, 0.3, int(seconds * 10) + 1), rate // 10)[: round(seconds * rate)]
    return (loudness * random.standard_normal(len(loudness))).astype(np.float32)

"""Serves recognition and speech over HTTP: `python -m trt.serve --asr MODEL [--tts MODEL --vocoder MODEL]`.

    python -m trt.serve --asr m.onnx
    python -m trt.serve --asr m.onnx --tts fastpitch.onnx --vocoder v.onnx --port 8000 --web
    curl -F file=@talk.flac http://127.0.0.1:8000/v1/audio/transcriptions

Clients of OpenAI's audio API work against it. Models are files of trt.export or checkpoints. Before it listens, it
compares answers in batches with answers alone. SIGTERM and Ctrl-C end it when requests under way have been answered.
Needs the extra serve: pip install -e '.[serve]'
"""

import asyncio
import contextlib
import errno
import gc
import ipaddress
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import uvicorn
from tyro.conf import arg

from common import config
from common.config import ConfigError
from common.devices import memory
from common.recognition.decoding import DecodingOptions
from common.recognition.output.writing import tell
from common.runs.checkpoint import CheckpointError
from fastpitch import voices
from trt.facts import ModelError
from trt.runtime import loading
from trt.serving import models
from trt.serving.admission.connections import impatient, sockets
from trt.serving.admission.limits import Limits, SelfTestError, give_memory_back
from trt.serving.gateway import Gateway, GatewaySettings
from trt.serving.streams.wyoming import Wyoming
from trt.serving.transcribing.languages import code_of
from trt.serving.triton.program import Served, Triton
from trt.serving.web import add_page

# How long the thread that speaks HTTP waits for one that computes in Python: it does so several times for an answer.
SWITCH_SECONDS = 5e-4


@dataclass(frozen=True, kw_only=True)
class ServeConfig:
    """Which models answer, where, and what is too much."""

    USUAL: ClassVar = {
        "Models": ("asr", "tts", "vocoder", "language", "decoding.language_model", "decoding.hot_words"),
        "Where": ("host", "port", "api_keys", "web"),
        "Machine": ("device", "threads", "batch_size", "max_memory_mb"),
    }
    asr: tuple[Path, ...] = ()
    """Recognisers, the first by default: ONNX files of trt.export, checkpoints, or directories of a training, whose
    best is taken. NAME=PATH gives one a name, by default that of the file."""
    tts: tuple[Path, ...] = ()
    """Acoustic models of the voices, the first by default: each a FastPitch as an ONNX file of trt.export, or its
    checkpoint; or a folder of fastpitch.pack with both of its models, or that of the quickstart's voice. NAME=PATH
    gives one a name."""
    vocoder: tuple[Path, ...] = ()
    """Vocoders, in the order of the voices: ONNX files or checkpoints, as the acoustic models; of all voices, or of
    those alone that are no folders."""
    engine: Literal["local", "triton"] = "local"
    """Runtime of the recogniser: local, this process; triton, NVIDIA's server from the wheel nvidia-pytriton, which
    this process starts and ends."""
    voice_engine: Literal["local", "triton"] = "local"
    """Runtime of the voice: local, this process, whose sound leaves piece by piece; triton, the recogniser's Triton,
    whose sound leaves sentence by sentence."""
    triton_ports: tuple[int, int, int] = (0, 0, 0)
    """Ports of Triton's HTTP, gRPC and metrics, open to this machine alone; 0 for one that is free."""
    host: str = "127.0.0.1"
    """Address to listen at; 0.0.0.0 for all of this machine."""
    port: int = 8000
    """Port to listen at; 0 for one that is free."""
    wyoming_port: int | None = None
    """Port for clients of Wyoming's protocol, such as Home Assistant; by default none. The protocol has no keys."""
    api_keys: Path | None = None
    """File of keys, one per line: requests must come with one of them. Keys in the variable SPEECH_API_KEYS, separated
    by commas, count too."""
    hosts: tuple[str, ...] = ()
    """Names with a dot that requests may call the server by, such as speech.example.org, and whose pages may use it. By
    default none at 127.0.0.1, any name elsewhere; addresses and names without a dot are always taken."""
    batch_delay_ms: float = 20.0
    """Longest wait of a request for others that share its batch, in milliseconds."""
    max_batch: int = 32
    """Most recordings that Triton batches; with engine local, batch_size is the limit where it is less."""
    batch_size: int = 8
    """Recordings of similar length, or chunks of long ones, that go through the network at once."""
    decoding: DecodingOptions = field(default_factory=DecodingOptions)
    language_models: tuple[Path, ...] = ()
    """Language models that requests may name: files as for decoding.language_model, each with the name before its first
    dot, or NAME=PATH; of every recogniser whose labels spell one."""
    threads: int = 0
    """Threads of an ONNX network; 0 for one per core."""
    runtime: loading.Runtime = "onnxruntime"
    """Runtime of a recogniser's ONNX file: onnxruntime, or openvino or openvino_bf16 with the extra openvino; with
    engine local."""
    device: str = "auto"
    """Device of checkpoints: auto, cpu, cuda or cuda:N."""
    precision: Literal["fp32", "tf32", "bf16", "fp16", "int8", "auto"] = "fp32"
    """Arithmetic of the networks of recognisers that are checkpoints; int8 for Jasper, QuartzNet and FastConformers."""
    web: bool = False
    """Whether the page is served at /: recordings to words, live captions, sentences to sound."""
    language: str = "english"
    """Language in verbose_json where a model does not say, and of recordings where a model must be told, by its English
    name."""
    limits: Annotated[Limits, arg(name="")] = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for name in ("asr", "tts", "vocoder", "language_models"):
            if isinstance(one := getattr(self, name), Path):
                object.__setattr__(self, name, (one,))
        if not self.asr and not self.tts:
            raise ValueError("nothing to serve; name a recogniser with --asr, or a voice with --tts and --vocoder")
        list(self.voices())
        if self.engine == "triton" and (self.decoding != DecodingOptions() or self.language_models):
            raise ValueError("decoding: expected engine local; Triton's back end decodes greedily")
        if self.engine == "triton" and self.runtime != "onnxruntime":
            raise ValueError(f"runtime {self.runtime}: expected engine local; Triton's back end runs onnxruntime")
        if self.engine == "triton" and (len(self.asr) != 1 or len(self.tts) > 1):
            raise ValueError("engine triton runs a recogniser; name one with --asr, and at most one voice")
        if self.voice_engine == "triton" and (self.engine != "triton" or not self.tts):
            raise ValueError("voice_engine triton: expected --engine triton, and a voice with --tts and --vocoder")
        if self.batch_delay_ms < 0 or self.max_batch < 1 or self.batch_size < 1:
            found = f"batch_delay_ms = {self.batch_delay_ms:g}, max_batch = {self.max_batch}"
            raise ValueError(f"{found}, batch_size = {self.batch_size}: expected a delay of 0 or more, sizes above 0")
        ports = [port for port in (self.port, self.wyoming_port, *self.triton_ports) if port]
        if wrong := [port for port in ports if not 0 < port < 65536 or ports.count(port) > 1]:
            raise ValueError(f"port {wrong[0]}: expected ports from 1 to 65535, or 0, each for one purpose")

    def voices(self) -> Iterator[tuple[Path, Path]]:
        """Acoustic model and vocoder of each voice. Raises ValueError where one is missing, or nobody's."""
        vocoders, are_paired = list(self.vocoder), len(self.vocoder) == len(self.tts)
        for tts in self.tts:
            name, path = models.named(tts)
            folder = next((each for each in (path / "packed", path) if (each / voices.VOCODER).is_file()), None)
            if folder is None and not vocoders:
                raise ValueError("a voice needs both --tts and --vocoder")
            own = Path(f"{name}={folder}") if folder and name else folder
            yield own or tts, folder if folder and not are_paired else vocoders.pop(0)
        if vocoders:
            raise ValueError("a voice needs both --tts and --vocoder")


def main(cfg: ServeConfig) -> int:
    """Serves until a signal ends it; returns the exit status. Raises what models raise that cannot be loaded."""
    memory.in_one_heap()
    gateway = build(cfg)
    gc.collect()
    gc.freeze()  # what stays is not looked through again and again, which stops all threads
    sys.setswitchinterval(SWITCH_SECONDS)
    return asyncio.run(until_signal(gateway, cfg))


async def until_signal(gateway: Gateway, cfg: ServeConfig) -> int:
    """Serves until a signal asks for an end; returns the exit status."""
    ends, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has SIGHUP
            loop.add_signal_handler(number, ends.set)
    names = ", ".join(gateway.models())
    return await serve(gateway, cfg, ends, lambda port: _say(f"serving {names} at http://{cfg.host}:{port}"))


def build(cfg: ServeConfig) -> Gateway:
    """The gateway with its models. Raises ModelError, CheckpointError, ConfigError, and VocoderError (a ValueError)."""
    triton, voices_of = None, list(cfg.voices())
    if cfg.engine == "triton":
        path = models.named(cfg.asr[0])[1]
        own = Served(path, cfg.batch_size, cfg.threads, cfg.device, cfg.batch_delay_ms, cfg.max_batch)
        if cfg.voice_engine == "triton":
            tts, vocoder = voices_of[0]
            own = own._replace(voice=(models.named(tts)[1], vocoder))
        elif voices_of:
            _say("the voice runs in this process: Triton answers a request whole, and sound leaves piece by piece")
        triton = Triton(own, ports=cfg.triton_ports)
    ears = [
        models.load_ears(
            path,
            batch_size=cfg.batch_size,
            threads=cfg.threads,
            device=cfg.device,
            runtime=cfg.runtime,
            precision=cfg.precision,
            decoding=cfg.decoding,
        )
        for path in cfg.asr
    ]
    ears = models.know_language_models(ears, cfg.language_models)
    voice = [models.load_voice(*paths, threads=cfg.threads, device=cfg.device) for paths in voices_of]
    names = [*(each.name for each in ears), *(each.name for each in voice)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two models are called {twice[0]!r}; give one a name of its own with NAME=PATH")
    settings = GatewaySettings(
        limits=cfg.limits,
        keys=read_keys(cfg.api_keys),
        hosts=cfg.hosts if cfg.hosts or _is_loopback(cfg.host) else None,
        language=cfg.language,
        batch_delay_ms=cfg.batch_delay_ms,
        max_batch=cfg.max_batch,
    )
    gateway = Gateway(ears, voice, settings, _say, triton=triton)
    if cfg.web:
        add_page(gateway.routes)
    return gateway


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _say(message: str) -> None:
    with contextlib.suppress(OSError):  # where there is no room for it: the server goes on
        tell(message)


def read_keys(path: Path | None) -> tuple[str, ...]:
    """The keys of a file and of SPEECH_API_KEYS. Raises ConfigError for a file that cannot be read, or has none."""
    keys = [key.strip() for key in os.environ.get("SPEECH_API_KEYS", "").split(",") if key.strip()]
    if path is None:
        return tuple(keys)
    try:
        own = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not own:
        raise ConfigError(f"{path}: holds no keys; expected one a line")
    return (*keys, *own)


async def serve(gateway: Gateway, cfg: ServeConfig, ends: asyncio.Event, listens: Callable[[int], None]) -> int:
    """Tells `listens` the port, and answers until `ends`; requests under way are answered then.

    Raises OSError where nothing can listen there, before the models are tested: uvicorn would end without a word.
    """
    for port, flag in ((cfg.port, "--port"), (cfg.wyoming_port, "--wyoming_port")):
        if port is not None:
            await _try_to_listen(cfg.host, port, flag)
    try:
        starts, ended = asyncio.create_task(gateway.start()), asyncio.create_task(ends.wait())
        await asyncio.wait((starts, ended), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not starts.done():
            starts.cancel()
            return 0
        await starts
        return await _listen(gateway, cfg, ends, listens)
    finally:
        await gateway.stop()


async def _try_to_listen(host: str, port: int, flag: str) -> None:
    try:
        (await asyncio.start_server(lambda *_: None, host, port, start_serving=False)).close()
    except OSError as error:
        number = error.errno or 0  # of a host without an address below 0
        why = (os.strerror(number) if number > 0 else error.strerror or str(error)).lower()
        advice = "expected an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all that it has"
        if number in (errno.EADDRINUSE, errno.EACCES):
            advice = f"name another port with {flag}, or 0 for one that is free"
        raise OSError(f"cannot listen at {host}:{port}: {why}; {advice}") from None


async def _listen(gateway: Gateway, cfg: ServeConfig, ends: asyncio.Event, listens: Callable[[int], None]) -> int:
    server = uvicorn.Server(
        uvicorn.Config(
            gateway.app,
            host=cfg.host,
            port=cfg.port,
            http=impatient(cfg.limits.client_seconds, 4 * cfg.limits.max_queue),
            ws=sockets(cfg.limits.client_seconds),
            lifespan="off",
            log_config=None,
            log_level="critical",
            server_header=False,
            ws_max_size=1 << 20,
            ws_per_message_deflate=False,  # a message of zeros is a thousand times as large as what comes
            timeout_graceful_shutdown=max(1, round(cfg.limits.drain_seconds)),
        )
    )
    # `Server.serve` would raise SIGTERM again at the end, and a shell report a process that was killed.
    running = asyncio.create_task(server._serve())
    while not server.started and not running.done():
        await asyncio.sleep(0.01)
    trimming = asyncio.create_task(give_memory_back())
    wyoming = None
    if server.started and cfg.wyoming_port is not None:
        protocol = Wyoming(
            gateway.hearings,
            gateway.speakings,
            limits=cfg.limits,
            budget=gateway.budget,
            language=code_of(cfg.language),
        )
        wyoming = await protocol.start(cfg.host, cfg.wyoming_port)
        _say(f"Wyoming's protocol at port {wyoming.sockets[0].getsockname()[1]}")
    if server.started:
        listens(server.servers[0].sockets[0].getsockname()[1])
        await ends.wait()
        for listening in server.servers:
            listening.close()
        if wyoming is not None:
            wyoming.close()
        gateway.ending.set()  # streams say their last words; uvicorn would break them off
        until = time.monotonic() + cfg.limits.drain_seconds
        while gateway.live and time.monotonic() < until:
            await asyncio.sleep(0.02)
        server.should_exit = True
    await running
    trimming.cancel()
    return 0


if __name__ == "__main__":
    with config.reported(ModelError, CheckpointError, ConfigError, SelfTestError, ValueError, OSError):
        status = main(config.parse_flags(ServeConfig, None, sys.argv[1:], description=__doc__ or ""))
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(status)  # threads that are in a network cannot be ended, and would not survive the end of their libraries

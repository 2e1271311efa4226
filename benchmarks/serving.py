"""How long a client waits.

    python -m benchmarks.serving m.onnx recordings/ --name quickstart --tts tts.onnx --vocoder v.onnx --save

Starts servers with the models and asks them: one client, with the batching delay and without; many clients for a
minute, in turns with the same work without a server; captions of a recording as it would be spoken; the first sound of
a sentence. Everything stays on 127.0.0.1, on one thread of the network.
"""

import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import torch
from tyro.conf import Positional, arg

from benchmarks.serving_soak import clips_of, running
from common import config
from common.audio.waveform import Held, read
from common.benchmark import append_row
from common.data.manifest import Utterance
from common.recognition.sources.inputs import find_recordings
from trt.client.asking import ServerError, percentile
from trt.client.measuring import ClientClip, ClientMeasurement, measure, measure_live, measure_speech
from trt.runtime import loading

What = Literal["one", "many", "captions", "speech"]
TURNS = 4  # of a server's clients and of the same work without a server
CAPTIONED = 8  # recordings, each as long as it is spoken
SENTENCE = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."


@dataclass(frozen=True, kw_only=True)
class ServingConfig:
    """Which models answer, and what is measured."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """ONNX file of a recogniser."""
    inputs: Annotated[tuple[Path, ...], Positional, arg(metavar="INPUT")]
    """Recordings that are asked for: files, folders, manifests."""
    name: str
    """Name of the models in the rows."""
    what: tuple[What, ...] = ("one", "many", "captions", "speech")
    """Measurements to make."""
    tts: Path | None = None
    """Acoustic model of the voice, an ONNX file."""
    vocoder: Path | None = None
    """Vocoder of the voice, an ONNX file."""
    engine: Literal["local", "triton"] = "local"
    """Runtime of the recogniser."""
    clients: int = 32
    """Clients of `many`."""
    seconds: float = 60.0
    """Seconds that many clients ask; one client asks for a quarter of it, at most 15 s."""
    save: bool = False
    """Whether the rows are appended to benchmarks/results/serving.jsonl."""


def main(cfg: ServingConfig) -> int:
    """Prints a row for everything that is measured; returns the exit status."""
    clips, short = clips_of(cfg.inputs), min(15.0, cfg.seconds / 4)
    flags = ["--asr", str(cfg.model), "--threads", "1", "--engine", cfg.engine]
    wrong = 0
    if "one" in cfg.what:
        for delay in (0.0, 20.0):
            with running(*flags, "--batch_delay_ms", str(delay)) as server:
                found = measure(server.url, clips, key="", clients=1, seconds=short)
            _row(cfg, f"1 client, delay {delay:g} ms", found.latencies, answers=found.answers, cpu_ms=found.cpu_ms)
            wrong += found.wrong + len(found.errors)
    if "many" in cfg.what:
        with running(*flags) as server:
            found, without = _in_turns(cfg, server.url, clips)
        row = {
            "throughput": found.throughput,
            "offline": without.throughput,
            "of_offline": found.throughput / without.throughput,
            "offline_cpu_ms": without.cpu_ms,
            "client_cpu_ms": found.client_cpu_ms,
            "of_offline_cpu": without.cpu_ms / found.cpu_ms,
        }
        _row(cfg, f"{cfg.clients} clients", found.latencies, answers=found.answers, cpu_ms=found.cpu_ms, **row)
        wrong += found.wrong + len(found.errors)
        print(f"{len(found.errors)} errors, {found.wrong} wrong")
    if "captions" in cfg.what:
        with running(*flags) as server:
            sources = [item.source for item in find_recordings(list(cfg.inputs)).items][:CAPTIONED]
            files = [source.audio if isinstance(source, Utterance) else source for source in sources]
            delays = [
                delay
                for file in files
                if isinstance(file, Path)
                for delay in measure_live(server.url, [file], key="", clients=1)
            ]
        _row(cfg, "captions, word final", delays, answers=len(delays))
    if "speech" in cfg.what and cfg.tts is not None and cfg.vocoder is not None:
        with running("--tts", str(cfg.tts), "--vocoder", str(cfg.vocoder), "--threads", "1") as server:
            measure_speech(server.url, SENTENCE, key="", clients=1, seconds=1)
            firsts, lasts = measure_speech(server.url, SENTENCE, key="", clients=1, seconds=short)
        _row(cfg, "first sound of a sentence", firsts, answers=len(firsts))
        _row(cfg, "last sound of a sentence", lasts, answers=len(lasts))
    return 1 if wrong else 0


class Offline(NamedTuple):
    """What a recogniser does without a server: seconds of audio a second, processor time of a recording."""

    throughput: float
    cpu_ms: float


def offline(model: Path, clips: Sequence[ClientClip], *, batch_size: int, seconds: float, threads: int = 0) -> Offline:
    """What `trt.run` does in this process with the same clips, from their bytes on."""
    asr = loading.load(model, threads=threads)
    heard, count, began, cpu = 0.0, 0, time.monotonic(), time.process_time()
    while not count or time.monotonic() - began < seconds:  # a busy machine may have passed it already
        several = [clip for clip in clips for _ in range(max(1, 32 // len(clips)))]
        samples = [read(Held(clip.content, clip.name), sample_rate=asr.sample_rate).samples for clip in several]
        list(asr.stream(samples, batch_size=batch_size))
        heard += sum(clip.seconds for clip in several)
        count += len(several)
    return Offline(heard / (time.monotonic() - began), 1000 * (time.process_time() - cpu) / count)


def merged(parts: Sequence[ClientMeasurement]) -> ClientMeasurement:
    """Several results as one."""
    return ClientMeasurement(
        answers=sum(part.answers for part in parts),
        errors=[error for part in parts for error in part.errors],
        wrong=sum(part.wrong for part in parts),
        latencies=[latency for part in parts for latency in part.latencies],
        audio_seconds=sum(part.audio_seconds for part in parts),
        took=sum(part.took for part in parts),
        cpu_seconds=sum(part.cpu_seconds for part in parts),
        client_cpu_seconds=sum(part.client_cpu_seconds for part in parts),
    )


def _in_turns(cfg: ServingConfig, url: str, clips: list[ClientClip]) -> tuple[ClientMeasurement, Offline]:
    """What many clients get, and what the same recordings take without a server, in turns: what disturbs the machine
    disturbs both. Of the latter the medians."""
    short, loads, others = cfg.seconds / TURNS, [], []
    for _ in range(TURNS):
        others.append(offline(cfg.model, clips, batch_size=8, seconds=short / 2, threads=1))
        loads.append(measure(url, clips, key="", clients=cfg.clients, seconds=short))
        others.append(offline(cfg.model, clips, batch_size=8, seconds=short / 2, threads=1))
    return merged(loads), Offline(*(statistics.median(values) for values in zip(*others, strict=True)))


def _row(cfg: ServingConfig, what: str, seconds: list[float], **more: Any) -> None:
    waits = {f"p{p}_ms": round(1000 * percentile(seconds, p), 1) for p in (50, 90, 95, 99)}
    rounded = {key: round(value, 2) for key, value in more.items()}
    row = {"models": cfg.name, "engine": cfg.engine, "what": what, **waits, **rounded}
    print(json.dumps(row))
    if cfg.save:
        append_row("serving", row, device=torch.device("cpu"))


if __name__ == "__main__":
    with config.reported(ServerError, OSError):
        sys.exit(main(config.parse_flags(ServingConfig, None, sys.argv[1:], description=__doc__ or "")))

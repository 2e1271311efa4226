"""How many streams a server carries at a time, and how long their words take.

    python -m benchmarks.serving_streams random recordings/ --precision bf16 --streams 12
    python -m benchmarks.serving_streams m.onnx recordings/ --of turns --streams 40
    python -m benchmarks.serving_streams jasper_best.pt LibriSpeech/test-clean --clips 200

Starts `trt.serve` with one thread of the network, and sends it the recordings from many clients as they are spoken, one
after the other, in pieces of 0.1 s. `captions` are words of `/v1/audio/stream`, `turns` the transcripts of OpenAI's
transcription sessions, with silence after each recording. How many streams a core carries is the seconds of sound of
all of them for a second of the server's processor time, from the first sound to the last word, whatever else the
machine does; delays are by the clock. With `--clips` each recording is said once, as fast as it is heard, and its text
compared with that of the file, and both with what was said, where that is known. `random` is a FastConformer of 115 M
parameters that is made for streams, with random weights.
"""

import asyncio
import base64
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from tyro.conf import Positional, arg
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from benchmarks.serving_soak import clips_of, running
from common import config
from common.audio import waveform
from common.benchmark import append_row
from common.recognition.metrics import word_errors
from trt.client.asking import Server, ServerError, percentile

PIECE_SECONDS = 0.1
SILENCE_MS = 500  # after which a turn is over
LAST_SECONDS = 1.0  # before the end of the last recording, in which its last turn ends
MOST_TIMES = 6  # as long as it is spoken, a stream may take
LOUD = 0.02  # of the peak: what is quieter at the end of a recording is no speech
PATHS = {"captions": "/v1/audio/stream?sample_rate={}", "turns": "/v1/realtime?intent=transcription"}


@dataclass(frozen=True, kw_only=True)
class StreamsConfig:
    """Which model hears what, and how much of it."""

    model: Annotated[str, Positional, arg(metavar="MODEL")]
    """Recogniser, as for `trt.serve`; random: a FastConformer of 115 M parameters."""
    inputs: Annotated[tuple[Path, ...], Positional, arg(metavar="INPUT")]
    """Recordings that are spoken: files, folders, manifests."""
    of: Literal["captions", "turns"] = "captions"
    """Protocol of the streams."""
    streams: int = 8
    """Streams at a time."""
    seconds: float = 30.0
    """Seconds of sound of each stream, at least."""
    clips: int = 0
    """Recordings that are said once each, as fast as they are heard, in `streams` at a time; 0: all of them, again and
    again, as they are spoken."""
    silence: float = 1.0
    """Seconds of silence after each recording of turns."""
    precision: str = "fp32"
    """Precision of a checkpoint."""
    blank: float = 0.0
    """What is added to the logit of the blank of the random model, so that it writes less."""
    save: bool = False
    """Whether the row is appended to benchmarks/results/serving_streams.jsonl."""


class SpokenStream:
    """What one stream says: a recording after the other, at `rate`, with silence after each, for some seconds."""

    def __init__(self, sounds: list[np.ndarray], first: int, cfg: StreamsConfig, rate: int):
        silence_N = np.zeros(round(cfg.silence * rate) if cfg.of == "turns" else 0, np.int16)
        self.rate, self.numbers, self.ends = rate, list[int](), list[float]()
        parts, count = list[np.ndarray](), 0
        while count < (1 if cfg.clips else cfg.seconds * rate):
            self.numbers.append((first + len(self.numbers)) % len(sounds))
            sound_N = sounds[self.numbers[-1]]
            loud = np.flatnonzero(np.abs(sound_N) > LOUD * np.abs(sound_N).max())
            self.ends.append((count + int(loud[-1])) / rate)
            parts += [sound_N, silence_N]
            count += len(sound_N) + len(silence_N)
        self.samples_N = np.concatenate(parts)
        self.seconds = len(self.samples_N) / rate

    def pieces(self) -> Iterator[bytes]:
        """Pieces of it."""
        size = round(PIECE_SECONDS * self.rate)
        for first in range(0, len(self.samples_N), size):
            yield self.samples_N[first : first + size].tobytes()


class StreamsMeasured:
    """What all streams found."""

    def __init__(self) -> None:
        self.seconds, self.errors = 0.0, list[str]()
        self.delays, self.texts = list[float](), list[tuple[list[int], str]]()


async def stream(url: str, cfg: StreamsConfig, spoken: SpokenStream, found: StreamsMeasured) -> None:
    """One client, until its last word."""
    address = url.replace("http", "ws", 1) + PATHS[cfg.of].format(spoken.rate)
    async with connect(address, max_size=None) as socket:
        await socket.recv()
        if cfg.of == "turns":
            detection = {"type": "server_vad", "silence_duration_ms": SILENCE_MS}
            session = {"type": "transcription", "audio": {"input": {"turn_detection": detection}}}
            await socket.send(json.dumps({"type": "session.update", "session": session}))
        began = time.monotonic()
        speaking = asyncio.create_task(speak(socket, cfg, spoken, began))
        try:
            await listen(socket, spoken, found, began)
        finally:
            speaking.cancel()
    found.seconds += spoken.seconds


async def speak(socket: ClientConnection, cfg: StreamsConfig, spoken: SpokenStream, began: float) -> None:
    """Sends the sound as it is spoken."""
    for number, piece in enumerate(spoken.pieces()):
        await asyncio.sleep(0 if cfg.clips else max(0.0, began + (number + 1) * PIECE_SECONDS - time.monotonic()))
        if cfg.of == "captions":
            await socket.send(piece)
        else:
            audio = base64.b64encode(piece).decode()
            await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
    if cfg.of == "captions":
        await socket.send(json.dumps({"type": "end"}))


async def listen(socket: ClientConnection, spoken: SpokenStream, found: StreamsMeasured, began: float) -> None:
    """What the server tells, until the words of the last recording, or an error."""
    ends, said = dict[str, float](), list[str]()
    async for message in socket:
        told, now = json.loads(message), time.monotonic() - began
        match told["type"].removeprefix("conversation.item.input_audio_transcription."):
            case "error" | "failed":
                found.errors.append(str(told.get("message") or told["error"]["message"]))
                return
            case "final":
                found.delays += [now - word["end"] for word in told["words"]]
            case "done":
                found.texts.append((spoken.numbers, told["text"]))
                return
            case "input_audio_buffer.speech_stopped":
                ends[told["item_id"]] = told["audio_end_ms"] / 1000
            case "completed":
                said.append(told["transcript"])
                found.delays.append(now - ends[told["item_id"]] - SILENCE_MS / 1000)
                if ends[told["item_id"]] > spoken.ends[-1] - LAST_SECONDS:
                    found.texts.append((spoken.numbers, " ".join(said)))
                    return


async def measured(url: str, cfg: StreamsConfig, sounds: list[np.ndarray], rate: int) -> StreamsMeasured:
    """What the streams found."""
    found, places = StreamsMeasured(), asyncio.Semaphore(cfg.streams)

    async def one(number: int) -> None:
        async with places:
            spoken = SpokenStream(sounds, number, cfg, rate)
            try:
                await asyncio.wait_for(stream(url, cfg, spoken, found), MOST_TIMES * spoken.seconds + 60)
            except (TimeoutError, OSError, ConnectionClosed) as error:
                found.errors.append(repr(error))

    clients = []
    for number in range(cfg.clips or cfg.streams):
        clients.append(asyncio.create_task(one(number)))
        await asyncio.sleep(PIECE_SECONDS / cfg.streams)
    await asyncio.gather(*clients)
    return found


def save_random(path: Path, blank: float = 0.0) -> Path:
    """Writes a FastConformer of 115 M parameters that hears streams, with random weights, as NeMo's streaming models
    are made: causal convolutions, chunks of 14 frames of 80 ms that see 70 before them, RNN-T and CTC. `blank` is added
    to its logit: 0 gives some 400 letters a second, more than anybody speaks."""
    from common.features import NEMO, LogMelConfig
    from common.runs import checkpoint
    from common.text.pieces import train_pieces
    from fastconformer.checkpoints import own
    from fastconformer.config import Config, EncoderConfig, ModelConfig
    from fastconformer.network.model import Model

    encoder = EncoderConfig(
        causal_subsampling=True, causal_convolution=True, norm="layer", attention="chunked", left_frames=70,
        right_frames=13,
    )  # fmt: skip
    features: LogMelConfig = replace(NEMO, normalize="none", edges="zeros", mel_bins=80)
    draw = np.random.default_rng(0)
    words = ["".join(map(chr, 97 + draw.integers(0, 26, draw.integers(2, 9)))) for _ in range(3000)]
    cfg = Config(model=ModelConfig(encoder=encoder, transducer="rnnt"), features=features)
    torch.manual_seed(0)
    weights = Model(cfg.model, features.mel_bins).state_dict()
    weights["joint.output.bias"][cfg.model.pieces] += blank
    state = {
        "format": own.FORMAT,
        "config": config.to_dict(cfg),
        "weights": weights,
        "ema": None,
        "pieces": own.encoded_pieces(train_pieces(words, size=cfg.model.pieces)),
    }
    checkpoint.save(path, state)
    return path


def main(cfg: StreamsConfig) -> int:
    """Prints what came of it; returns the exit status."""
    rate = 24_000 if cfg.of == "turns" else 16_000
    clips = clips_of(cfg.inputs, cfg.clips or None)
    sounds = []
    for clip in clips:
        samples_N = waveform.read(waveform.Held(clip.content, clip.name), sample_rate=rate).samples
        sounds.append(np.clip(np.rint(samples_N * 32767), -32768, 32767).astype(np.int16))
    with tempfile.TemporaryDirectory() as folder:
        model = str(save_random(Path(folder) / "random.pt", cfg.blank)) if cfg.model == "random" else cfg.model
        flags = ["--asr", model, "--threads", "1", "--client_share", "1"]
        if not model.endswith(".onnx"):
            flags += ["--precision", cfg.precision]
        os.environ["OMP_NUM_THREADS"] = "1"
        with running(*flags) as server:
            alone = Server(server.url)
            texts = [alone.transcribe(clip.content, clip.name, style="text").strip() for clip in clips]
            spoken = [(clip.reference or "").lower() for clip in clips]
            before = alone.metric("process_cpu_seconds")
            found = asyncio.run(measured(server.url, cfg, sounds, rate))
            took, memory = alone.metric("process_cpu_seconds") - before, server.memory_mb()
    row = {
        "model": Path(cfg.model).stem,
        "of": cfg.of,
        "precision": cfg.precision,
        "blank": cfg.blank,
        "streams": cfg.streams,
        "clips": cfg.clips,
        "silence": cfg.silence if cfg.of == "turns" else 0.0,
        "sound": round(found.seconds, 1),
        "processor": round(took, 2),
        "streams_a_core": round(found.seconds / took, 1),
        "errors": len(found.errors),
        "memory_mb": round(memory, 1),
    }
    if found.delays:
        row |= {f"p{p}_ms": round(1000 * percentile(found.delays, p)) for p in (50, 95)}
    if found.texts and cfg.model != "random":
        files, said = ([" ".join(own[i] for i in numbers) for numbers, _ in found.texts] for own in (texts, spoken))
        streamed = [text for _, text in found.texts]
        errors = word_errors(files, streamed)
        row |= {"words": errors.length, "other_words": round(errors.rate * errors.length)}
        if all(spoken):
            of_files, of_streams = (round(100 * word_errors(said, own).rate, 2) for own in (files, streamed))
            row |= {"wer_files": of_files, "wer_streams": of_streams}
    print(json.dumps(row))
    print("\n".join(sorted(set(found.errors))[:5]))
    if cfg.save:
        append_row("serving_streams", row, device=torch.device("cpu"))
    return 1 if found.errors else 0


if __name__ == "__main__":
    with config.reported(ServerError, OSError):
        sys.exit(main(config.parse_flags(StreamsConfig, None, sys.argv[1:], description=__doc__ or "")))

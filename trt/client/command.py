"""Asks a server of trt.serve: `python -m trt.client transcribe|speak|measure|live INPUT …`.

    python -m trt.client transcribe talk.flac recordings/ --format srt --output_dir subtitles
    python -m trt.client speak "Good morning." --output morning.wav
    python -m trt.client measure recordings/ --clients 32 --seconds 60
    python -m trt.client live talk.flac
    arecord -t raw -f S16_LE -r 16000 | python -m trt.client live -

transcribe takes and writes what inference does, the word error rate of manifests too; a server that is busy is asked
again. measure asks from many clients at once, compares every answer with the one that its recording got alone, and
gives percentiles. Needs no torch.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from common.ahead import in_threads
from common.audio import waveform
from common.audio.waveform import AudioError
from common.files.atomic import written_whole
from common.recognition.output import writing
from common.recognition.output.transcripts import Transcript
from common.recognition.output.writing import tell
from common.recognition.sources.inputs import InputRecording, find_recordings
from common.recognition.transcribing import OutputConfig, status, write_all
from common.text.vocabulary import Language
from trt.client.asking import Server, ServerError, content_of, percentile, transcript_from
from trt.client.measuring import ClientClip, measure, measure_live, measure_speech
from trt.client.streaming import captions, from_pipe, in_real_time


@dataclass(frozen=True, kw_only=True)
class ClientConfig(OutputConfig):
    """What to ask, of which server, and where the answer goes."""

    action: Annotated[Literal["transcribe", "speak", "measure", "live"], Positional]
    """transcribe: recordings to text; speak: a text to sound; measure: recordings from many clients at once; live: a
    recording as it would be spoken."""
    inputs: Annotated[tuple[str, ...], Positional, arg(metavar="INPUT")]
    """Recordings, folders, manifests; to speak: a text in quotes; live: a recording, or - for raw samples (16 bits,
    mono, 16 kHz) on the standard input, as arecord gives them."""
    url: str = "http://127.0.0.1:8000"
    """Address of the server."""
    api_key: str = ""
    """Key to send; by default that of the variable SPEECH_API_KEY."""
    output: Path | None = None
    """File for the whole output; by default the terminal. To speak needs one: .wav, .flac, .mp3, .opus or .pcm."""
    language: Language = "auto"
    """Language of the texts that are compared where manifests have references. auto, english: numbers and symbols are
    spelled out; mandarin: numbers; none: letters stay."""
    voice: str = "default"
    """Number of the speaker."""
    speed: float = 1.0
    """Pace of the speech as a factor."""
    clients: int = 4
    """Requests at the same time."""
    seconds: float = 60.0
    """Seconds of a measurement."""
    of: Literal["transcripts", "captions", "speech"] = "transcripts"
    """Subject of a measurement: transcripts of recordings; captions of recordings streamed as they would be spoken, one
    per client; speech, the first sound of a text in quotes."""

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("nothing to ask; name recordings, or a text to speak")
        if self.action == "speak" and (self.output is None or len(self.inputs) != 1):
            raise ValueError("speak: expected one text in quotes, and --output FILE.wav")
        if self.action == "live" and len(self.inputs) != 1:
            raise ValueError("live: expected one recording, or -")
        if self.action == "measure" and self.of == "speech" and len(self.inputs) != 1:
            raise ValueError("measure --of speech: expected one text in quotes")
        if self.clients < 1 or self.seconds <= 0:
            raise ValueError(f"clients = {self.clients}, seconds = {self.seconds:g}: expected above 0")

    @property
    def key(self) -> str:
        """The key to send."""
        return self.api_key or os.environ.get("SPEECH_API_KEY", "")


def main(cfg: ClientConfig) -> int:
    """Does it; returns the exit status. Raises ServerError, ConfigError, OSError."""
    match cfg.action:
        case "transcribe":
            return transcribe(cfg)
        case "speak":
            return speak(cfg)
        case "live":
            return live(cfg)
        case _:
            return measured(cfg)


def transcribe(cfg: ClientConfig) -> int:
    """Writes transcripts in order; what fails is one line each. Of references the word error rate is the last line."""
    inputs = [Path(name) for name in cfg.inputs]
    found = find_recordings(inputs)
    writing.check(inputs, found.items, cfg.format, cfg.output, cfg.output_dir)
    writing.make_folder(cfg.output_dir)
    compared = _spelling(cfg.language) if found.has_references else str
    return status(found, write_all(found, _transcripts(found.items, cfg), cfg, spelled=compared, heard=compared))


def _spelling(language: Language) -> Callable[[str], str]:
    from common.text.language import Spelling  # which takes as long to import as all else

    return Spelling(None, language=language, unknown_letters="latin")


def _transcripts(items: list[InputRecording], cfg: ClientConfig) -> Iterator[Transcript]:
    own = threading.local()

    def ask(item: InputRecording) -> Transcript:
        if not hasattr(own, "server"):
            own.server = Server(cfg.url, key=cfg.key)
        try:
            content, name = content_of(item.source)
            return transcript_from(own.server.transcribe(content, name), str(item.name))
        except (ServerError, AudioError, OSError) as error:
            return Transcript(item.name, "", [], 0.0, error=f"{item.name}: {error}")

    return in_threads(items, ask, threads=cfg.clients)


def speak(cfg: ClientConfig) -> int:
    """Writes the sound of a text as it comes, and says when its first piece was there."""
    assert cfg.output is not None
    style, began, first, size = cfg.output.suffix.removeprefix("."), time.monotonic(), 0.0, 0
    server = Server(cfg.url, key=cfg.key)
    with written_whole(cfg.output) as file:
        for piece in server.speak(cfg.inputs[0], response_format=style, voice=cfg.voice, speed=cfg.speed):
            first = first or time.monotonic() - began
            size += file.write(piece)
    tell(
        f"{cfg.output}: {size} bytes, the first after {1000 * first:.0f} ms, all after {time.monotonic() - began:.2f} s"
    )
    return 0


def live(cfg: ClientConfig) -> int:
    """Prints final words as they come, and how long after they were spoken."""
    (name,) = cfg.inputs
    pieces = from_pipe(sys.stdin.buffer) if name == "-" else in_real_time(Path(name))
    told = captions(cfg.url, pieces, key=cfg.key, show=lambda text: print(text, flush=True))
    if told.delays:
        waits = ", ".join(f"p{p} {percentile(told.delays, p):.2f} s" for p in (50, 95, 100))
        tell(f"{told.seconds:.1f} s; words were final {waits} after they ended")
    return 0


def measured(cfg: ClientConfig) -> int:
    """Prints percentiles; the status is 1 where an answer was wrong or missing."""
    if cfg.of == "speech":
        firsts, lasts = measure_speech(cfg.url, cfg.inputs[0], key=cfg.key, clients=cfg.clients, seconds=cfg.seconds)
        print(f"{len(firsts)} answers; ms to the first sound: {_waits(firsts)}; to the last: {_waits(lasts)}")
        return 0
    if cfg.of == "captions":
        delays = measure_live(cfg.url, [Path(name) for name in cfg.inputs], key=cfg.key, clients=cfg.clients)
        print(f"{len(delays)} words; ms from the end of a word to its being final: {_waits(delays)}")
        return 0
    items, problems = find_recordings([Path(name) for name in cfg.inputs])
    clips = []
    for item in items:
        content, name = content_of(item.source)
        clips.append(ClientClip(content, name, waveform.info(waveform.Held(content, name)).seconds))
    if problems or not clips:
        raise ServerError("; ".join(problems) or "no recordings to ask for")
    result = measure(cfg.url, clips, key=cfg.key, clients=cfg.clients, seconds=cfg.seconds)
    print("\n".join(result.lines()))
    return 1 if result.errors or result.wrong else 0


def _waits(seconds: list[float]) -> str:
    if not seconds:
        raise ServerError("nothing was answered in that time")
    return ", ".join(f"p{p} {1000 * percentile(seconds, p):.0f}" for p in (50, 90, 95, 99))

"""Transcribes recordings: `python -m transducer.inference MODEL a.flac b.wav folder/ manifest.jsonl …`.

Takes files of any format that libsndfile reads, at any sample rate, mono or stereo; folders, with all that is in them;
manifests and corpora, whose word error rate is the last line. What cannot be transcribed is one line each and makes the
exit status 1; all else is transcribed nevertheless. Run by torchrun, the processes share the recordings.
"""

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from common import config, distributed
from common.checkpoint import CheckpointError
from common.precision import Precision
from common.recognition.inputs import find_recordings
from common.recognition.transcribing import Output, share, status, write_all
from common.recognition.writing import Format
from common.text.language import Language, Spelling
from transducer.recognizer import CHUNK_SECONDS, Head, load


@dataclass(frozen=True, kw_only=True)
class InferenceConfig:
    """What to transcribe, with which model, and where the result goes."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """A .nemo archive, a folder of transformers, or a checkpoint of this repository."""
    inputs: Annotated[tuple[Path, ...], Positional, arg(metavar="INPUT")]
    """Audio files, folders of them, manifests, corpus folders, or text files with one path per line."""
    root: Path | None = None
    """Folder that relative paths in manifests start from; by default that of the manifest."""
    max_seconds: float = math.inf
    """Longer utterances of manifests are left out."""
    format: Format = "text"
    """text: name, tab, transcript; json: a JSON object per line with word times and confidence; srt, vtt: subtitles."""
    output: Path | None = None
    """A file to write all of it to; by default the terminal."""
    output_dir: Path | None = None
    """A folder to write one file per recording to, instead."""
    head: Head = "auto"
    """What decodes in hybrid models: transducer or ctc; by default the transducer."""
    max_symbols: int = 10
    """Most pieces that a transducer emits at one frame."""
    language: Language = "english"
    """Language of the texts that are compared. english: numbers and symbols are spelled out; none: letters stay."""
    ema: bool | None = None
    """Whether the averaged weights of our checkpoints are used; by default where there are any."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    precision: Precision = "fp32"
    """Arithmetic of the encoder; features and heads are always fp32."""
    batch_size: int = 8
    """Recordings, or chunks of long ones, recognised at once."""
    chunk_seconds: float = CHUNK_SECONDS
    """Longer recordings are encoded in overlapping chunks of this length, and decoded in one go."""

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("nothing to transcribe; name audio files, folders or manifests after the model")
        if self.batch_size < 1 or self.chunk_seconds <= 0 or self.max_symbols < 1:
            raise ValueError(
                f"batch_size = {self.batch_size}, chunk_seconds = {self.chunk_seconds}, max_symbols = "
                f"{self.max_symbols}: expected above 0"
            )
        if self.output is not None and self.output_dir is not None:
            raise ValueError("output and output_dir: expected one of them, found both")


def main(cfg: InferenceConfig) -> int:
    """Transcribes as `cfg` says; returns the exit status. Raises CheckpointError and ConfigError."""
    with distributed.start(cfg.device) as world:
        found = find_recordings(cfg.inputs, root=cfg.root, max_seconds=cfg.max_seconds)
        to = Output(cfg.format, cfg.output, cfg.output_dir)
        to.check(len(found.items))
        asr = load(cfg.model, device=str(world.device), precision=cfg.precision, ema=cfg.ema, head=cfg.head)
        heard = asr.stream(
            [item.source for item in share(found.items, world)],
            batch_size=cfg.batch_size,
            chunk_seconds=cfg.chunk_seconds,
            max_symbols=cfg.max_symbols,
            on_error="skip",
        )
        compared = Spelling(None, language=cfg.language, unknown_letters="latin")
        written = write_all(found, heard, world, to, spelled=compared, heard=compared)
        return status(found, sum(bool(transcript.error) for transcript in written), world)


if __name__ == "__main__":
    with config.reported(CheckpointError):
        sys.exit(main(config.parse_flags(InferenceConfig, None, sys.argv[1:], description=__doc__ or "")))

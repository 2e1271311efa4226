"""Transcribes recordings: `python -m jasper.inference CHECKPOINT a.flac b.wav folder/ manifest.jsonl …`.

    python -m jasper.inference jasper_best.pt talk.flac --format srt
    python -m jasper.inference jasper_best.pt test.jsonl --decoding.language_model 4-gram.arpa.gz
    python -m jasper.inference jasper_best.pt a.flac --decoding.hot_words "new york" --decoding.n_best 5 --format json

Takes files of any format that libsndfile reads, at any sample rate, mono or stereo; folders, with all that is in them;
manifests and corpora, whose word error rate is the last line. What cannot be transcribed is one line each and makes the
exit status 1; all else is transcribed nevertheless. Run by torchrun, the processes share the recordings.
"""

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from common import config
from common.devices import distributed
from common.devices.fastest import Choice
from common.recognition import sharding
from common.recognition.decoding import DecodingOptions
from common.recognition.inputs import find_recordings
from common.recognition.recordings import channel_number, of_channel
from common.recognition.transcribing import Output, share, status, write_all
from common.recognition.writing import Format, tell
from common.runs.checkpoint import CheckpointError
from jasper import data
from jasper.config import Config
from jasper.recognizer import CHUNK_SECONDS, load


@dataclass(frozen=True, kw_only=True)
class InferenceConfig:
    """What to transcribe, with which model, and where the result goes."""

    checkpoint: Annotated[Path, Positional, arg(metavar="CHECKPOINT")]
    """Model: a checkpoint of this repository or of DeepLearningExamples' Jasper or QuartzNet, NeMo's .nemo, or a name
    of the Hugging Face hub."""
    inputs: Annotated[tuple[Path, ...], Positional, arg(metavar="INPUT")]
    """Audio files, folders of them, manifests, corpus folders, text files with one path per line, or - for an audio
    file on standard input."""
    root: Path | None = None
    """Folder that relative paths in manifests start from; by default that of the manifest."""
    max_seconds: float = math.inf
    """Longest utterance of manifests, in seconds; longer ones are left out."""
    channel: str = "mean"
    """Channel that is heard of recordings with several, such as telephone calls: their mean, left, right, or a number
    from 1."""
    decoding: DecodingOptions = field(default_factory=DecodingOptions)
    format: Format = "text"
    """Output format. text: name, tab, transcript; json: a JSON object per line with word times and confidence; srt,
    vtt: subtitles."""
    output: Path | None = None
    """File for the whole output; by default the terminal."""
    output_dir: Path | None = None
    """Folder for one output file per recording, in place of `output`."""
    shard: str | None = None
    """Part of the recordings that is transcribed, as i/n: the i-th of n equal parts, written to a file of its own
    beside the output; --merge joins these files. A part whose file is there is not done again."""
    merge: bool = False
    """Whether the parts that jobs with --shard wrote are joined to the output; nothing is transcribed."""
    save_logits: Path | None = None
    """Folder for one .npz per recording: log_probs [frames, labels + blank], times [frames] in seconds, labels."""
    config: Path | None = None
    """Configuration (TOML) in place of the one in the checkpoint, or of what its weights show."""
    ema: bool | None = None
    """Whether averaged weights are used; by default where there are any."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    precision: Choice | Literal["int8"] = "fp32"
    """Arithmetic of the network; features are always fp32. auto: the fastest on this machine within 2 % of fp32, never
    int8. int8: on a CPU alone, fastest with AVX-512 VNNI."""
    batch_size: int = 8
    """Recordings, or chunks of long ones, recognised at once; on a CPU half a minute of sound at most."""
    chunk_seconds: float = CHUNK_SECONDS
    """Seconds of a chunk; longer recordings are recognised in overlapping chunks."""

    def __post_init__(self) -> None:
        channel_number(self.channel)
        if not self.inputs:
            raise ValueError("nothing to transcribe; name audio files, folders or manifests after the checkpoint")
        if self.batch_size < 1 or self.chunk_seconds <= 0:
            raise ValueError(f"batch_size = {self.batch_size}, chunk_seconds = {self.chunk_seconds}: expected above 0")
        sharding.check(self.shard, self.merge, self.output, self.output_dir)


def main(cfg: InferenceConfig) -> int:
    """Transcribes as `cfg` says; returns the exit status. Raises CheckpointError and ConfigError."""
    if cfg.merge:
        return sharding.merge_parts(cfg.output)
    with distributed.start(cfg.device) as world:
        found = find_recordings(cfg.inputs, root=cfg.root, max_seconds=cfg.max_seconds)
        to = Output(cfg.format, cfg.output, cfg.output_dir, cfg.save_logits, shard=cfg.shard)
        to.check((cfg.checkpoint, cfg.config, *cfg.decoding.files, *cfg.inputs), found)
        left = to.left_of(found)
        if left is None:
            return 0
        found = left
        own = config.load(Config, cfg.config) if cfg.config is not None else None
        asr = load(cfg.checkpoint, device=str(world.device), precision=cfg.precision, ema=cfg.ema, configuration=own)
        to = to._replace(labels=asr.vocabulary.labels)
        for assumption in asr.assumed if world.is_main else ():
            tell(assumption)
        heard = asr.stream(
            of_channel((item.source for item in share(found.items, world)), cfg.channel),
            batch_size=cfg.batch_size,
            chunk_seconds=cfg.chunk_seconds,
            decoder=asr.decoder(cfg.decoding),
            on_error="skip",
            keep_log_probs=cfg.save_logits is not None,
        )
        written = write_all(found, heard, world, to, spelled=data.spelling_of(asr.config))
        return status(found, sum(bool(transcript.error) for transcript in written), world)


if __name__ == "__main__":
    with config.reported(CheckpointError):
        sys.exit(main(config.parse_flags(InferenceConfig, None, sys.argv[1:], description=__doc__ or "")))

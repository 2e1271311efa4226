"""Transcribes recordings: `python -m wav2vec2.inference CHECKPOINT a.flac b.wav folder/ manifest.jsonl test.tsv …`.

    python -m wav2vec2.inference wav2vec2_finetuned.pt talk.flac --format srt
    python -m wav2vec2.inference wav2vec2_finetuned.pt test-other.tsv --decoding.language_model 4-gram.arpa.gz
    python -m wav2vec2.inference wav2vec2_pretrained.pt folder/ --features out/ --layer 6

Takes files of any format that libsndfile reads, at any sample rate, mono or stereo; folders, with all that is in them;
manifests and corpora, Fairseq's .tsv with its .ltr too, whose word error rate is the last line. What cannot be
transcribed is one line each and makes the exit status 1; all else is transcribed nevertheless. Run by torchrun,
the processes share the recordings.

Shapes: S frames, C width of the representation.
"""

import math
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tyro.conf import Positional, arg

from common import config
from common.config import ConfigError
from common.devices import distributed
from common.devices.distributed import World
from common.devices.fastest import Choice
from common.recognition import sharding, writing
from common.recognition.decoding import DecodingOptions
from common.recognition.inputs import FoundRecordings, InputRecording, find_recordings
from common.recognition.recordings import channel_number, of_channel
from common.recognition.transcribing import Output, in_order, share, status, write_all
from common.recognition.transcripts import Transcript
from common.recognition.writing import Format, tell
from common.runs.checkpoint import CheckpointError
from common.text.language import Language
from wav2vec2.corpus.letters import Letters, read_dictionary
from wav2vec2.recognizer import CHUNK_SECONDS, STRIDE_SECONDS, Recognizer, Represented, load


@dataclass(frozen=True, kw_only=True)
class InferenceConfig:
    """Recordings, the model that transcribes them, and where the result goes."""

    checkpoint: Annotated[Path, Positional, arg(metavar="CHECKPOINT")]
    """Model: a checkpoint of this repository, Fairseq or DeepLearningExamples, a Hugging Face folder or hub name."""
    inputs: Annotated[tuple[Path, ...], Positional, arg(metavar="INPUT")]
    """Audio files, folders of them, manifests, corpus folders, text files with one path per line, or - for an audio
    file on standard input."""
    root: Path | None = None
    """Folder that relative paths in manifests start from; by default that of the manifest, or what a .tsv says."""
    max_seconds: float = math.inf
    """Longest utterance of manifests, in seconds; longer ones are left out."""
    channel: str = "mean"
    """Channel that is heard of recordings with several, such as telephone calls: their mean, left, right, or a number
    from 1."""
    labels: Path | None = None
    """Fairseq's dict.ltr.txt, for a checkpoint that does not name its labels."""
    target_lang: str = ""
    """Language of a Hugging Face model with adapters (MMS), such as fra; by default that of its weights."""
    language: Language | None = None
    """Language of the reference texts for the word error rate, as data.language of fine-tuning; by default what the
    checkpoint says."""
    decoding: DecodingOptions = field(default_factory=DecodingOptions)
    format: Format = "text"
    """Output format. text: name, tab, transcript; json: a JSON object per line with word times and
    confidence; srt, vtt: subtitles."""
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
    """Folder for one .npz per recording: log_probs [frames, labels], times [frames] in seconds, labels."""
    features: Path | None = None
    """Folder for one .npy per recording, [frames, width] in float32, 50 frames a second; nothing is transcribed."""
    layer: int | None = None
    """Transformer layer whose output the features are, 0 for the input of the first; by default the whole model."""
    ema: bool | None = None
    """Whether averaged weights are used; by default where there are any."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    precision: Choice = "fp32"
    """Arithmetic of the network. auto: the fastest on this machine within 2 % of fp32."""
    batch_size: int = 8
    """Recordings, or chunks of long ones, recognised at once; on a CPU half a minute of sound at most."""
    chunk_seconds: float = CHUNK_SECONDS
    """Seconds of a chunk; longer recordings are recognised in overlapping chunks. inf: all are recognised whole."""
    stride_seconds: float = STRIDE_SECONDS
    """Seconds on each side of a chunk that serve as context only; at most a third of the chunk."""
    timings: bool = False
    """Whether the time that the transcription took is printed."""

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("nothing to transcribe; name audio files, folders or manifests after the checkpoint")
        if not (self.batch_size >= 1 and self.chunk_seconds > 0 and self.stride_seconds >= 0):
            raise ValueError(
                f"batch_size = {self.batch_size}, chunk_seconds = {self.chunk_seconds}, stride_seconds = "
                f"{self.stride_seconds}: expected above 0, above 0, and at least 0"
            )
        channel_number(self.channel)
        sharding.check(self.shard, self.merge, self.output, self.output_dir)
        if self.features is not None and (self.output or self.output_dir or self.save_logits):
            raise ValueError("features: nothing is transcribed then; leave out output, output_dir and save_logits")
        if self.layer is not None and self.features is None:
            raise ValueError(f"layer = {self.layer} says which features are written: name a folder with --features")


def main(cfg: InferenceConfig) -> int:
    """Transcribes as `cfg` says; returns the exit status. Raises CheckpointError and ConfigError."""
    if cfg.merge:
        return sharding.merge_parts(cfg.output)
    with distributed.start(cfg.device) as world:
        found = find_recordings(cfg.inputs, root=cfg.root, max_seconds=cfg.max_seconds)
        to = Output(cfg.format, cfg.output, cfg.output_dir, cfg.save_logits, shard=cfg.shard)
        if cfg.features is None:
            to.check((cfg.checkpoint, cfg.labels, *cfg.decoding.files, *cfg.inputs), found)
        else:
            writing.make_folder(cfg.features)
        left = to.left_of(found)
        if left is None:
            return 0
        found = left
        labels = read_dictionary(cfg.labels) if cfg.labels is not None else ()
        w = load(
            cfg.checkpoint,
            device=str(world.device),
            precision=cfg.precision,
            labels=labels,
            ema=cfg.ema,
            target_lang=cfg.target_lang,
        )
        for assumption in w.assumed if world.is_main else ():
            tell(assumption)
        if cfg.layer is not None and not 0 <= cfg.layer <= w.config.layers:
            raise ConfigError(
                f"layer = {cfg.layer}: the model has layers 0 (the input of the first one) to {w.config.layers}"
            )
        start, seconds, failed = time.perf_counter(), 0.0, 0
        to = to._replace(labels=w.config.labels)
        for result in _features(w, found, cfg, world) if cfg.features else _transcripts(w, found, cfg, world, to):
            seconds += result.seconds
            failed += bool(result.error)
        if cfg.timings and world.is_main:
            spent = time.perf_counter() - start
            tell(f"{seconds:.2f} s of audio in {spent:.2f} s: {seconds / spent:.1f} times real time, reading included")
        return status(found, failed, world, done="read" if cfg.features else "transcribed")


def _transcripts(
    w: Recognizer, found: FoundRecordings, cfg: InferenceConfig, world: World, to: Output
) -> Iterator[Transcript]:
    """Every transcript, once the first process has written it."""
    own = w.stream(
        of_channel((item.source for item in share(found.items, world)), cfg.channel),
        decoder=w.decoder(cfg.decoding),
        keep_log_probs=cfg.save_logits is not None,
        **_shared(cfg),
    )
    return write_all(
        found, own, world, to, spelled=Letters(w.config.labels).spelling(language=cfg.language or w.language)
    )


def _features(w: Recognizer, found: FoundRecordings, cfg: InferenceConfig, world: World) -> Iterator[Represented]:
    """What became of every recording; each process writes the features of its own."""
    for problem in found.problems if world.is_main else ():
        tell(problem)
    own = share(found.items, world)
    represented = w.represent(of_channel((item.source for item in own), cfg.channel), layers=cfg.layer, **_shared(cfg))
    for result in in_order(_saved(own, represented, cfg), len(found.items), world):
        if result.error and world.is_main:
            tell(result.error)
        yield result


def _saved(items: list[InputRecording], found: Iterable[Represented], cfg: InferenceConfig) -> Iterator[Represented]:
    assert cfg.features is not None
    for item, represented in zip(items, found, strict=True):
        if not represented.error:
            with writing.file_in(cfg.features, item.name, ".npy") as path:
                np.save(path, represented.x_SC.numpy())
        yield represented._replace(x_SC=represented.x_SC[:0])


def _shared(cfg: InferenceConfig) -> dict[str, Any]:
    options = {"batch_size": cfg.batch_size, "chunk_seconds": cfg.chunk_seconds}
    return options | {"stride_seconds": cfg.stride_seconds, "on_error": "skip"}


if __name__ == "__main__":
    with config.reported(CheckpointError):
        sys.exit(main(config.parse_flags(InferenceConfig, None, sys.argv[1:], description=__doc__ or "")))

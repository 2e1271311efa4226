"""Transcribes recordings: `python -m wav2vec2.inference CHECKPOINT a.flac b.wav folder/ manifest.jsonl test.tsv …`.

    python -m wav2vec2.inference wav2vec2_finetuned.pt talk.flac --format srt
    python -m wav2vec2.inference wav2vec2_finetuned.pt test-other.tsv --decoding.language_model 4-gram.arpa.gz
    python -m wav2vec2.inference wav2vec2_pretrained.pt folder/ --features out/ --layer 6

Takes files of any format that libsndfile reads, at any sample rate, mono or stereo; folders, with all that is in them;
manifests and corpora, Fairseq's .tsv with its .ltr too, of which the word error rate is told at the end. What cannot be
transcribed is told in one line each and makes the exit status 1; all else is transcribed nevertheless. Run by torchrun,
the processes share the recordings.

Shapes: S frames, C width of the representation.
"""

import math
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from tyro.conf import Positional, arg

from common import config, distributed
from common.checkpoint import CheckpointError
from common.config import ConfigError
from common.distributed import World
from common.metrics import word_errors
from common.precision import Precision
from common.recognition import writing
from common.recognition.decoding import DecodingOptions
from common.recognition.inputs import Item, find_recordings
from common.recognition.transcripts import Transcript
from common.recognition.writing import Format, tell
from wav2vec2.corpus.letters import Letters, read_dictionary
from wav2vec2.recognizer import CHUNK_SECONDS, STRIDE_SECONDS, Recognizer, Represented, load

Result = TypeVar("Result", Transcript, Represented)


@dataclass(frozen=True, kw_only=True)
class InferenceConfig:
    """Recordings, the model that transcribes them, and where the result goes."""

    checkpoint: Annotated[Path, Positional, arg(metavar="CHECKPOINT")]
    """Model: a checkpoint of this repository, Fairseq or DeepLearningExamples, or a Hugging Face folder."""
    inputs: Annotated[tuple[Path, ...], Positional, arg(metavar="INPUT")]
    """Audio files, folders of them, manifests, corpus folders, or text files with one path per line."""
    root: Path | None = None
    """Folder that relative paths in manifests start from; by default that of the manifest, or what a .tsv says."""
    max_seconds: float = math.inf
    """Longest utterance of manifests; longer ones are left out."""
    labels: Path | None = None
    """Fairseq's dict.ltr.txt, for a checkpoint that does not name its labels."""
    decoding: DecodingOptions = field(default_factory=DecodingOptions)
    format: Format = "text"
    """Output format. text: name, tab, transcript; json: a JSON object per line with word times and
    confidence; srt, vtt: subtitles."""
    output: Path | None = None
    """File for the whole output; by default the terminal."""
    output_dir: Path | None = None
    """Folder for one output file per recording, in place of `output`."""
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
    precision: Precision = "fp32"
    """Arithmetic of the network."""
    batch_size: int = 8
    """Recordings of similar length, or chunks of long ones, per call of the network."""
    chunk_seconds: float = CHUNK_SECONDS
    """Seconds of a chunk; longer recordings are recognised in overlapping chunks. inf: all are recognised whole."""
    stride_seconds: float = STRIDE_SECONDS
    """Seconds on each side of a chunk that serve as context only; at most a third of the chunk."""
    timings: bool = False
    """Whether the time it took is printed."""

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("nothing to transcribe; name audio files, folders or manifests after the checkpoint")
        if not (self.batch_size >= 1 and self.chunk_seconds > 0 and self.stride_seconds >= 0):
            raise ValueError(
                f"batch_size = {self.batch_size}, chunk_seconds = {self.chunk_seconds}, stride_seconds = "
                f"{self.stride_seconds}: expected above 0, above 0, and at least 0"
            )
        if self.output is not None and self.output_dir is not None:
            raise ValueError("output and output_dir: expected one of them, found both")
        if self.features is not None and (self.output or self.output_dir or self.save_logits):
            raise ValueError("features: nothing is transcribed then; leave out output, output_dir and save_logits")
        if self.layer is not None and self.features is None:
            raise ValueError(f"layer = {self.layer} says which features are written: name a folder with --features")


def main(cfg: InferenceConfig) -> int:
    """Transcribes as `cfg` says; returns the exit status. Raises CheckpointError and ConfigError."""
    with distributed.start(cfg.device) as world:
        items, problems = find_recordings(cfg.inputs, root=cfg.root, max_seconds=cfg.max_seconds)
        if cfg.features is None:
            writing.check_format(cfg.format, len(items), cfg.output_dir)
        for folder in (cfg.output_dir, cfg.save_logits, cfg.features):
            writing.make_folder(folder)
        labels = read_dictionary(cfg.labels) if cfg.labels is not None else ()
        w = load(cfg.checkpoint, device=str(world.device), precision=cfg.precision, labels=labels, ema=cfg.ema)
        if cfg.layer is not None and not 0 <= cfg.layer <= w.config.layers:
            raise ConfigError(
                f"layer = {cfg.layer}: the model has layers 0 (the input of the first one) to {w.config.layers}"
            )
        told = tell if world.is_main else _nothing
        for problem in problems:
            told(problem)
        start = time.perf_counter()
        results = _write_features(w, items, cfg, world) if cfg.features else _transcribed(w, items, cfg, world)
        failed, seconds = len(problems), 0.0
        for result in results:
            seconds += result.seconds
            if result.error:
                told(result.error)
                failed += 1
        if cfg.timings:
            spent = time.perf_counter() - start
            told(f"{seconds:.2f} s of audio in {spent:.2f} s: {seconds / spent:.1f} times real time, reading included")
        if failed:
            done = "read" if cfg.features else "transcribed"
            told(f"error: {failed} of {len(items) + len(problems)} could not be {done}")
        return 1 if failed else 0


def _transcribed(w: Recognizer, items: list[Item], cfg: InferenceConfig, world: World) -> Iterator[Transcript]:
    """Every transcript, once the first process has written it; then it tells the word error rate."""
    own = w.stream(
        [item.source for item in items[world.rank :: world.size]],
        decoder=w.decoder(cfg.decoding),
        keep_log_probs=cfg.save_logits is not None,
        **_shared(cfg),
    )
    letters, references, hypotheses = Letters(w.config.labels), [], []
    with writing.output(cfg.output if world.is_main else None) as stream:
        for item, transcript in zip(items, _in_order(own, len(items), world), strict=True):
            if world.is_main and not transcript.error:
                if not transcript.words:
                    tell(f"{transcript.audio}: no speech in its {transcript.seconds:.2f} s")
                if cfg.save_logits is not None:
                    writing.save_log_probs(cfg.save_logits, item.name, transcript, w.config.labels)
                writing.write_transcript(transcript, item.name, cfg.format, stream, cfg.output_dir)
            if item.reference and not transcript.error:
                references.append(letters.normalized(item.reference))
                hypotheses.append(transcript.text)
            yield transcript
    if references and world.is_main:
        errors = word_errors(references, hypotheses)
        count = f"{errors.errors} errors in {errors.length} words of {len(references)} utterances"
        tell(f"WER {errors.rate:.2%}: {count}")


def _write_features(w: Recognizer, items: list[Item], cfg: InferenceConfig, world: World) -> Iterator[Represented]:
    """What became of every recording; each process writes the features of its own."""
    own = items[world.rank :: world.size]
    found = w.represent([item.source for item in own], layers=cfg.layer, **_shared(cfg))
    return _in_order(_saved(own, found, cfg), len(items), world)


def _saved(items: list[Item], found: Iterable[Represented], cfg: InferenceConfig) -> Iterator[Represented]:
    assert cfg.features is not None
    for item, represented in zip(items, found, strict=True):
        if not represented.error:
            with writing.file_in(cfg.features, item.name, ".npy") as path:
                np.save(path, represented.x_SC.numpy())
        yield represented._replace(x_SC=represented.x_SC[:0])


def _shared(cfg: InferenceConfig) -> dict[str, Any]:
    options = {"batch_size": cfg.batch_size, "chunk_seconds": cfg.chunk_seconds}
    return options | {"stride_seconds": cfg.stride_seconds, "on_error": "skip"}


def _in_order(own: Iterable[Result], n_items: int, world: World) -> Iterator[Result]:
    """The results of all processes, each of which has every world.size-th; of one process as they come."""
    if world.size == 1:
        yield from own
        return
    parts = world.gather(list(own))
    for i in range(n_items):
        yield parts[i % world.size][i // world.size]


def _nothing(message: str) -> None:
    """What processes other than the first tell."""


if __name__ == "__main__":
    with config.reported(CheckpointError):
        sys.exit(main(config.parse_flags(InferenceConfig, None, sys.argv[1:], description=__doc__ or "")))

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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tyro.conf import Positional, arg

from common import config
from common.config import ConfigError, check_not_negative, check_positive
from common.devices import distributed
from common.devices.distributed import World
from common.devices.fastest import Choice
from common.recognition.output import writing
from common.recognition.output.writing import tell
from common.recognition.sources.inputs import FoundRecordings, InputRecording
from common.recognition.transcribing import TranscriptionConfig, in_order, share, status, write_all
from common.runs.checkpoint import CheckpointError
from common.text.language import Language
from wav2vec2.corpus.letters import read_dictionary
from wav2vec2.recognizer import CHUNK_SECONDS, STRIDE_SECONDS, Recognizer, Represented, load


@dataclass(frozen=True, kw_only=True)
class InferenceConfig(TranscriptionConfig):
    """Recordings, the model that transcribes them, and where the result goes."""

    model: Annotated[Path, Positional, arg(metavar="CHECKPOINT")]
    """Model: a checkpoint of this repository, Fairseq or DeepLearningExamples, a Hugging Face folder or hub name."""
    labels: Path | None = None
    """Fairseq's dict.ltr.txt, for a checkpoint that does not name its labels."""
    target_lang: str = ""
    """Language of a Hugging Face model with adapters (MMS), such as fra; by default that of its weights."""
    language: Language | None = None
    """Language of the reference texts for the word error rate, as data.language of fine-tuning; by default what the
    checkpoint says."""
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
    chunk_seconds: float = CHUNK_SECONDS
    """Seconds of a chunk; longer recordings are recognised in overlapping chunks. inf: all are recognised whole."""
    stride_seconds: float = STRIDE_SECONDS
    """Seconds on each side of a chunk that serve as context only; at most a third of the chunk."""
    timings: bool = False
    """Whether the time that the transcription took is printed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "chunk_seconds", or_infinite=True)
        check_not_negative(self, "stride_seconds")
        if self.features is not None and (self.output or self.output_dir or self.save_logits):
            raise ValueError("features: nothing is transcribed then; leave out output, output_dir and save_logits")
        if self.layer is not None and self.features is None:
            raise ValueError(f"layer = {self.layer} says which features are written: name a folder with --features")


def main(cfg: InferenceConfig) -> int:
    """Transcribes as `cfg` says; returns the exit status. Raises CheckpointError and ConfigError."""
    with distributed.start(cfg.device) as world:
        found = cfg.find(cfg.labels, folder=cfg.features or cfg.save_logits)
        if found is None:
            return 0
        labels = read_dictionary(cfg.labels) if cfg.labels is not None else ()
        w = load(
            cfg.model,
            device=str(world.device),
            precision=cfg.precision,
            labels=labels,
            ema=cfg.ema,
            target_lang=cfg.target_lang,
        )
        if cfg.layer is not None and not 0 <= cfg.layer <= w.config.layers:
            raise ConfigError(
                f"layer = {cfg.layer}: the model has layers 0 (the input of the first one) to {w.config.layers}"
            )
        if cfg.features:
            return status(found, _features(w, found, cfg, world), world, done="read", timings=cfg.timings)
        heard = w.stream(
            cfg.sources(found, world),
            decoder=w.decoder(cfg.decoding),
            keep_log_probs=cfg.save_logits is not None,
            **_shared(cfg),
        )
        written = write_all(
            found, heard, cfg, world, spelled=w.spelling(cfg.language), assumed=w.assumed, save_logits=cfg.save_logits,
            labels=w.config.labels,
        )  # fmt: skip
        return status(found, written, world, timings=cfg.timings)


def _features(w: Recognizer, found: FoundRecordings, cfg: InferenceConfig, world: World) -> Iterator[Represented]:
    """What became of every recording; each process writes the features of its own."""
    for message in (*w.assumed, *found.problems) if world.is_main else ():
        tell(message)
    own = share(found.items, world)
    represented = w.represent(cfg.sources(found, world), layers=cfg.layer, **_shared(cfg))
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
    config.run(main, InferenceConfig, __doc__, CheckpointError)

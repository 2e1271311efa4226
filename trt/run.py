"""Transcribes recordings with an exported model, without torch: `python -m trt.run MODEL.onnx a.flac folder/ …`.

    python -m trt.run jasper.onnx talk.flac --format srt
    python -m trt.run jasper.onnx recordings/ --format json --output all.jsonl
    python -m trt.run jasper.onnx a.flac --decoding.language_model 4-gram.arpa.gz --decoding.hot_words "new york"

Takes what `inference` takes: files of any format that libsndfile reads, folders, manifests, corpora. It needs
onnxruntime, numpy, soundfile, soxr and tyro. What cannot be transcribed is one line each and makes the exit status 1;
all else is transcribed nevertheless.
"""

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from common import config
from common.recognition import sharding, writing
from common.recognition.decoding import DecodingOptions
from common.recognition.inputs import find_recordings
from common.recognition.recordings import channel_number, of_channel
from common.recognition.writing import Format, tell
from trt.facts import ModelError
from trt.runtime import loading
from trt.runtime.recognizer import Recognizer


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What to transcribe, with which exported model, and where the result goes."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """Model: a file of trt.export that takes samples, or, on a GPU, an engine that trt.build made of it."""
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
    """Folder for one .npz per recording: log_probs [frames, labels], times [frames] in seconds, labels, the blank among
    them. Only for models that write characters."""
    batch_size: int = 8
    """Recordings, or chunks of long ones, recognised at once."""
    chunk_seconds: float | None = None
    """Seconds of a chunk; longer recordings are recognised in overlapping chunks. By default those of the model."""
    threads: int = 0
    """Threads of the network; 0 for one per core."""
    runtime: loading.Runtime = "onnxruntime"
    """Runtime of an ONNX file: onnxruntime, or openvino with the extra of that name, on some processors faster;
    openvino_bf16 computes the network, not its features, in bfloat16, where the processor has it."""

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("nothing to transcribe; name audio files, folders or manifests after the model")
        if self.batch_size < 1 or (self.chunk_seconds is not None and self.chunk_seconds <= 0):
            raise ValueError(f"batch_size = {self.batch_size}, chunk_seconds = {self.chunk_seconds}: expected above 0")
        channel_number(self.channel)
        sharding.check(self.shard, self.merge, self.output, self.output_dir)


def main(cfg: RunConfig) -> int:
    """Transcribes as `cfg` says; returns the exit status. Raises ModelError and ConfigError."""
    if cfg.merge:
        return sharding.merge_parts(cfg.output)
    named = find_recordings(cfg.inputs, root=cfg.root, max_seconds=cfg.max_seconds)
    writing.check((cfg.model, *cfg.decoding.files, *cfg.inputs), named.items, cfg.format, cfg.output, cfg.output_dir)
    for folder in (cfg.output_dir, cfg.save_logits):
        writing.make_folder(folder)
    left = sharding.left_to_do(named, cfg.shard, cfg.format, cfg.output, cfg.output_dir)
    if left is None:
        return 0
    items, problems = left
    asr = loading.load(cfg.model, threads=cfg.threads, runtime=cfg.runtime)
    options: dict[str, Any] = {"decoder": asr.decoder(cfg.decoding)}
    labels: list[str] = []
    if cfg.save_logits is not None:
        if not isinstance(asr, Recognizer):
            raise config.ConfigError(f"save_logits: {cfg.model} writes pieces; expected a model of characters")
        options["keep_log_probs"], labels = True, asr.labels
    for problem in problems:
        tell(problem)
    failed = len(problems)
    sources = of_channel((item.source for item in items), cfg.channel)
    found = asr.stream(sources, batch_size=cfg.batch_size, chunk_seconds=cfg.chunk_seconds, on_error="skip", **options)
    path = sharding.part_of(cfg.output, cfg.shard)
    with writing.output(path, whole=cfg.shard is not None) as stream:
        for item, transcript in zip(items, found, strict=True):
            if transcript.error:
                tell(transcript.error)
                failed += 1
                continue
            if not transcript.words:
                tell(f"{transcript.audio}: no speech in its {transcript.seconds:.2f} s")
            if cfg.save_logits is not None:
                writing.save_log_probs(cfg.save_logits, item.name, transcript, labels)
            writing.write_transcript(transcript, item.name, cfg.format, stream, cfg.output_dir)
    if failed:
        tell(f"error: {failed} of {len(items) + len(problems)} could not be transcribed")
    return 1 if failed else 0


if __name__ == "__main__":
    with config.reported(ModelError):
        sys.exit(main(config.parse_flags(RunConfig, None, sys.argv[1:], description=__doc__ or "")))

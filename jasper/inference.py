"""Transcribes recordings: `python -m jasper.inference CHECKPOINT a.flac b.wav folder/ manifest.jsonl …`.

Takes files of any format that libsndfile reads, at any sample rate, mono or stereo; folders, with all that is in them;
manifests and corpora, of which the word error rate is told at the end. What cannot be transcribed is told in one line
each and makes the exit status 1; all else is transcribed nevertheless.
"""

import contextlib
import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TextIO

import numpy as np
from tyro.conf import Positional, arg

from common import config
from common.checkpoint import CheckpointError
from common.config import ConfigError
from common.data.manifest import ManifestError, Utterance, read_manifest
from common.metrics import ErrorCount, word_errors
from common.precision import Precision
from jasper import data, subtitles
from jasper.config import Config
from jasper.recognizer import CHUNK_SECONDS, Recognizer, Transcript, load

AUDIO_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".aif", ".aiff", ".au", ".caf", ".w64", ".sph")
MANIFEST_SUFFIXES = (".jsonl", ".json", ".tsv", ".csv", ".psv", ".txt")


@dataclass(frozen=True, kw_only=True)
class InferenceConfig:
    """What to transcribe, with which model, and where the result goes."""

    checkpoint: Annotated[Path, Positional, arg(metavar="CHECKPOINT")]
    """The model: a checkpoint of this repository or of DeepLearningExamples' Jasper or QuartzNet."""
    inputs: Annotated[tuple[Path, ...], Positional, arg(metavar="INPUT")]
    """Audio files, folders of them, manifests, corpus folders, or text files with one path per line."""
    root: Path | None = None
    """Folder that relative paths in manifests start from; by default that of the manifest."""
    max_seconds: float = math.inf
    """Longer utterances of manifests are left out."""
    format: Literal["text", "json", "srt", "vtt"] = "text"
    """text: name, tab, transcript; json: a JSON object per line with word times and confidence; srt, vtt: subtitles."""
    output: Path | None = None
    """A file to write all of it to; by default the terminal."""
    output_dir: Path | None = None
    """A folder to write one file per recording to, instead."""
    save_logits: Path | None = None
    """A folder for one .npz per recording: log_probs [frames, labels + blank], times [frames] in seconds, labels."""
    config: Path | None = None
    """A configuration (TOML) to take in place of what the checkpoint says, or of what can be read off its weights."""
    ema: bool | None = None
    """Take the averaged weights or not; by default where there are any."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    precision: Precision = "fp32"
    """Arithmetic of the network; features are always fp32."""
    batch_size: int = 8
    """Recordings, or chunks of long ones, recognised at once."""
    chunk_seconds: float = CHUNK_SECONDS
    """Longer recordings are recognised in overlapping chunks of this length."""

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("nothing to transcribe; name audio files, folders or manifests after the checkpoint")
        if self.batch_size < 1 or self.chunk_seconds <= 0:
            raise ValueError(f"batch_size = {self.batch_size}, chunk_seconds = {self.chunk_seconds}: expected above 0")
        if self.output is not None and self.output_dir is not None:
            raise ValueError("output and output_dir: expected one of them, found both")


class Item(NamedTuple):
    """A recording to transcribe: where it is, the name of files about it, and what was said ("" if not known)."""

    source: Path | Utterance
    name: str
    reference: str


class Found(NamedTuple):
    """The recordings of all inputs, in order, and a message for everything that cannot be one."""

    items: list[Item]
    problems: list[str]


def main(cfg: InferenceConfig) -> int:
    """Transcribes as `cfg` says; returns the exit status. Raises CheckpointError and ConfigError."""
    items, problems = find_recordings(cfg)
    if cfg.format in ("srt", "vtt") and cfg.output_dir is None and len(items) > 1:
        raise ConfigError(f"format {cfg.format}: {len(items)} recordings do not go into one file; set --output_dir")
    for folder in (cfg.output_dir, cfg.save_logits):
        _make_folder(folder)
    own = config.load(Config, cfg.config) if cfg.config is not None else None
    asr = load(cfg.checkpoint, device=cfg.device, precision=cfg.precision, ema=cfg.ema, configuration=own)
    for problem in problems:
        _tell(problem)
    failed, counts = len(problems), []
    with _output(cfg.output) as stream:
        for item, transcript in zip(items, _transcripts(asr, items, cfg), strict=True):
            if transcript.error:
                _tell(transcript.error)
                failed += 1
                continue
            _write(item, transcript, asr, cfg, stream)
            if item.reference:
                counts.append(_errors(item, transcript, asr))
    if counts:
        errors = sum(counts[1:], counts[0])
        _tell(f"WER {errors.rate:.2%}: {errors.errors} errors in {errors.length} words of {len(counts)} utterances")
    if failed:
        _tell(f"error: {failed} of {len(items) + len(problems)} could not be transcribed")
    return 1 if failed else 0


def find_recordings(cfg: InferenceConfig) -> Found:
    """All recordings that the inputs name; nothing but manifests is opened."""
    sources: list[tuple[str, Path | Utterance]] = []
    problems: list[str] = []
    for path in cfg.inputs:
        try:
            if path.is_dir() and not _is_corpus(path):
                files = sorted(p for p in path.rglob("*") if p.suffix.lower() in AUDIO_SUFFIXES and p.is_file())
                sources += [(str(file.relative_to(path).with_suffix("")), file) for file in files]
                problems += [] if files else [f"{path}: no audio in this folder"]
            elif path.suffix == ".txt" and path.is_file() and "|" not in (text := path.read_text(encoding="utf-8")):
                listed = [(cfg.root or path.parent) / line for line in text.splitlines() if line.strip()]
                sources += [(file.stem, file) for file in listed]
            elif path.is_dir() or path.suffix.lower() in MANIFEST_SUFFIXES:
                manifest = read_manifest(path, root=cfg.root, on_error="skip")
                sources += [(u.id, u) for u in manifest.utterances if u.seconds <= cfg.max_seconds]
                problems += manifest.skipped
            else:
                sources.append((path.stem, path))
        except ManifestError as error:
            problems.append(str(error))
        except UnicodeDecodeError:
            problems.append(f"{path}: is not text in UTF-8; expected a list of recordings")
    return Found(list(_named(sources)), problems)


def _is_corpus(folder: Path) -> bool:
    return (folder / "metadata.csv").is_file() or next(folder.rglob("*.trans.txt"), None) is not None


def _named(sources: Sequence[tuple[str, Path | Utterance]]) -> Iterator[Item]:
    """Items whose names are different and stay inside the folder that they are joined to."""
    seen: dict[str, int] = {}
    for name, source in sources:
        name = "/".join(re.sub(r"[^\w .@-]", "_", part) for part in name.split("/") if part.strip("."))
        seen[name] = seen.get(name, 0) + 1
        reference = source.text if isinstance(source, Utterance) else ""
        yield Item(source, name if seen[name] == 1 else f"{name}-{seen[name]}", reference)


def _transcripts(asr: Recognizer, items: list[Item], cfg: InferenceConfig) -> Iterator[Transcript]:
    return asr.stream(
        [item.source for item in items],
        batch_size=cfg.batch_size,
        chunk_seconds=cfg.chunk_seconds,
        on_error="skip",
        keep_log_probs=cfg.save_logits is not None,
    )


def _write(item: Item, transcript: Transcript, asr: Recognizer, cfg: InferenceConfig, stream: TextIO) -> None:
    if not transcript.words:
        _tell(f"{transcript.audio}: no speech in its {transcript.seconds:.2f} s")
    if cfg.save_logits is not None:
        _save_logits(_file(cfg.save_logits, item, ".npz"), transcript, asr)
    if cfg.output_dir is not None:
        path = _file(cfg.output_dir, item, ".txt" if cfg.format == "text" else f".{cfg.format}")
        path.write_text(_rendered(transcript, cfg.format, with_name=False), encoding="utf-8")
    else:
        print(_rendered(transcript, cfg.format, with_name=True), end="", file=stream, flush=True)


def _rendered(transcript: Transcript, format: str, *, with_name: bool) -> str:
    match format:
        case "text":
            return f"{transcript.audio}\t{transcript.text}\n" if with_name else f"{transcript.text}\n"
        case "json":
            return json.dumps(_record(transcript), ensure_ascii=False) + "\n"
        case _:
            return subtitles.render(transcript.words, format)  # type: ignore[arg-type]


def _record(transcript: Transcript) -> dict[str, object]:
    words = transcript.words
    return {
        "audio": transcript.audio,
        "duration": round(transcript.seconds, 3),
        "text": transcript.text,
        "confidence": round(sum(word.confidence for word in words) / len(words), 4) if words else 0.0,
        "words": [word._asdict() for word in words],
    }


def _save_logits(path: Path, transcript: Transcript, asr: Recognizer) -> None:
    assert transcript.log_probs_SV is not None
    frames = np.arange(len(transcript.log_probs_SV))
    np.savez(
        path,
        log_probs=transcript.log_probs_SV.numpy(),
        times=transcript.first_frame_seconds + frames * transcript.seconds_per_frame,
        labels=np.array(asr.vocabulary.labels),
    )


def _errors(item: Item, transcript: Transcript, asr: Recognizer) -> ErrorCount:
    return word_errors([data.normalized(item.reference, asr.config.model.labels)], [transcript.text])


def _file(folder: Path, item: Item, suffix: str) -> Path:
    path = folder / f"{item.name}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _make_folder(folder: Path | None) -> None:
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written to: {error.strerror}") from None


@contextlib.contextmanager
def _output(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    _make_folder(path.parent)
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written to: {error.strerror}") from None
    with file:
        yield file


def _tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    with config.reported(CheckpointError):
        sys.exit(main(config.parse_flags(InferenceConfig, None, sys.argv[1:], description=__doc__ or "")))

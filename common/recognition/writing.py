"""Transcripts to the terminal, to one file, or to a file for each recording; log-probabilities beside them."""

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TextIO

import numpy as np

from common.config import ConfigError
from common.recognition import subtitles
from common.recognition.transcripts import Transcript

Format = Literal["text", "json", "srt", "vtt"]


def check_format(style: Format, n_recordings: int, output_dir: Path | None) -> None:
    """Raises ConfigError where subtitles of several recordings would go into one file."""
    if style in ("srt", "vtt") and output_dir is None and n_recordings > 1:
        raise ConfigError(f"format {style}: {n_recordings} recordings do not go into one file; set --output_dir")


def write_transcript(transcript: Transcript, name: str, style: Format, stream: TextIO, output_dir: Path | None) -> None:
    """To `stream`, or to a file of its own called `name` in `output_dir`."""
    if output_dir is None:
        print(rendered(transcript, style, with_name=True), end="", file=stream, flush=True)
        return
    path = file_in(output_dir, name, ".txt" if style == "text" else f".{style}")
    path.write_text(rendered(transcript, style, with_name=False), encoding="utf-8")


def rendered(transcript: Transcript, style: Format, *, with_name: bool) -> str:
    """The transcript as text, a line of JSON, or subtitles."""
    match style:
        case "text":
            return f"{transcript.audio}\t{transcript.text}\n" if with_name else f"{transcript.text}\n"
        case "json":
            return json.dumps(transcript.record(), ensure_ascii=False) + "\n"
        case _:
            return subtitles.render(transcript.words, style)


def save_log_probs(folder: Path, name: str, transcript: Transcript, labels: Sequence[str]) -> None:
    """Writes `name`.npz: log_probs [S, V], the times of the S frames in seconds, and the labels."""
    assert transcript.log_probs_SV is not None
    frames = np.arange(len(transcript.log_probs_SV))
    np.savez(
        file_in(folder, name, ".npz"),
        log_probs=transcript.log_probs_SV.numpy(),
        times=transcript.first_frame_seconds + frames * transcript.seconds_per_frame,
        labels=np.array(labels),
    )


def file_in(folder: Path, name: str, suffix: str) -> Path:
    """The path of a file about a recording, in a folder that is there."""
    path = folder / f"{name}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def make_folder(folder: Path | None) -> None:
    """Raises ConfigError where it cannot be made."""
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written to: {error.strerror}") from None


@contextlib.contextmanager
def output(path: Path | None) -> Iterator[TextIO]:
    """The file at `path`, open for writing; the terminal without one. Raises ConfigError."""
    if path is None:
        yield sys.stdout
        return
    make_folder(path.parent)
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written to: {error.strerror}") from None
    with file:
        yield file


def tell(message: str) -> None:
    """A line for the user, beside the results."""
    print(message, file=sys.stderr, flush=True)

"""Transcripts to the terminal, to one file, or to a file for each recording; log-probabilities beside them."""

import contextlib
import errno
import io
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TextIO

import numpy as np

from common.config import ConfigError
from common.files.atomic import check_writable, write_text, written_whole
from common.recognition.output import subtitles
from common.recognition.output.transcripts import Transcript
from common.recognition.sources.inputs import InputRecording

Format = Literal["text", "json", "srt", "vtt"]


def check(
    inputs: Sequence[Path | None],
    items: Sequence[InputRecording],
    style: Format,
    output: Path | None,
    output_dir: Path | None,
) -> None:
    """Raises ConfigError where subtitles of several recordings would share a file, or one that is read be written to.

    `inputs` are what the user named, and `items` what was found in them.
    """
    if style in ("srt", "vtt") and output_dir is None and len(items) > 1:
        raise ConfigError(f"format {style}: {len(items)} recordings do not go into one file; set --output_dir")
    places = [output] if output is not None else []
    if output_dir is not None:
        places += [output_dir / file_name(item.name, style) for item in items]
    sources = (getattr(item.source, "audio", item.source) for item in items)
    check_apart(places, (path for path in (*inputs, *sources) if isinstance(path, Path)))


def check_apart(places: Sequence[Path], read: Iterable[Path | None]) -> None:
    """Raises ConfigError where a file that is written to is one of those that are read, by whatever name or link.

    None among those read is a file that was not named.
    """
    # Where nothing is there yet, as mostly, no file that is read need be looked at.
    there = {identity: place for place in places if (identity := _identity(place)) is not None}
    given = (path for path in read if path is not None) if there else ()
    found = next((there[of] for path in given if (of := _identity(path)) in there), None)
    if found is not None:
        raise ConfigError(f"{found}: cannot be written to: it is read; name another output")


def _identity(path: Path) -> tuple[int, int] | None:
    """What a file is called by in the system, whatever its names are; None where there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def check_file(path: Path | None, read: Iterable[Path | None]) -> None:
    """Raises ConfigError where a file cannot be written, or is one of those that are read; before long work."""
    if path is None:
        return
    check_apart([path], read)
    with told(path):
        check_writable(path)


def file_name(name: str, style: Format) -> str:
    """Name of the file about one recording."""
    return f"{name}.txt" if style == "text" else f"{name}.{style}"


def rendered(transcript: Transcript, style: Format, *, with_name: bool) -> str:
    """The transcript as text, a line of JSON, or subtitles."""
    match style:
        case "text":
            # A name with such characters would look like a row of its own.
            name = transcript.audio.translate({9: "\\t", 10: "\\n", 13: "\\r"})
            return f"{name}\t{transcript.text}\n" if with_name else f"{transcript.text}\n"
        case "json":
            return json.dumps(transcript.record(), ensure_ascii=False) + "\n"
        case _:
            return subtitles.render(transcript.words, style)


def save_log_probs(folder: Path, name: str, transcript: Transcript, labels: Sequence[str]) -> None:
    """Writes `name`.npz: log_probs [S, V], the times of the S frames in seconds, the labels. Raises ConfigError."""
    assert transcript.log_probs_SV is not None
    with file_in(folder, name, ".npz") as path:
        np.savez(
            path,
            log_probs=transcript.log_probs_SV,
            times=np.array([transcript.time_of(frame) for frame in range(len(transcript.log_probs_SV))]),
            labels=np.array(labels),
        )


@contextlib.contextmanager
def file_in(folder: Path, name: str, suffix: str) -> Iterator[Path]:
    """The path to write a file about a recording to, in a folder that is there. Raises ConfigError if it fails."""
    path = folder / f"{name}{suffix}"
    with told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        yield path


def make_folder(folder: Path | None) -> None:
    """Raises ConfigError where it cannot be made, or nothing can be written into it."""
    if folder is None:
        return
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextlib.contextmanager
def output(
    path: Path | None, style: Format, output_dir: Path | None = None, *, whole: bool = False
) -> Iterator[Callable[[Transcript, str], None]]:
    """What writes a transcript: to the file at `path`, or into `output_dir`, to a file that the name given says.

    To standard output without either, and for "-". `whole`: the file at `path` appears at the end, or not at all.
    Raises ConfigError, as does what it gives.
    """
    with _stream(path, whole=whole) as stream:

        def write(transcript: Transcript, name: str) -> None:
            text = rendered(transcript, style, with_name=output_dir is None)
            if output_dir is None:
                with told(getattr(stream, "name", None) or "output"):
                    print(text, end="", file=stream, flush=True)
                return
            own = output_dir / file_name(name, style)
            with told(own):
                write_text(own, text)

        yield write


@contextlib.contextmanager
def _stream(path: Path | None, *, whole: bool) -> Iterator[TextIO]:
    """The file at `path`, open for writing; standard output without one, and for "-"."""
    if path is None or path == Path("-"):
        yield sys.stdout
        return
    make_folder(path.parent)
    if whole:
        with told(path), written_whole(path) as content:
            text = io.TextIOWrapper(content, "utf-8", "backslashreplace", write_through=True)
            yield text
            text.detach()
        return
    with told(path):
        file = path.open("w", encoding="utf-8", errors="backslashreplace")
    try:
        yield file
    finally:
        with told(path):
            file.close()


def tell(message: str) -> None:
    """A line for the user, beside the results; none where standard error is closed."""
    if sys.stderr is not None:
        print(message, file=sys.stderr, flush=True)


@contextlib.contextmanager
def told(path: Path | str) -> Iterator[None]:
    """What cannot be written to `path` is a ConfigError, but for a reader of the output who left."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        name = {"<stdout>": "standard output"}.get(str(path), path)
        reason = os.strerror(errno.ENOTDIR) if isinstance(error, FileExistsError) else error.strerror or error
        raise ConfigError(f"{name}: cannot be written to: {reason}") from None

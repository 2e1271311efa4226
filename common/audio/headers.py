"""Recordings as files: what holds one that has no path, and headers, checked before anything is decoded."""

import io
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO

import soundfile

from common.audio import containers, piped_flac
from common.files import file_types
from common.files.stores import OutageError, Stored, StoreError

# libsndfile silently shortens a file whose header promises more bytes than are there, and says so only in its log:
# "data : 64000 (should be 31978)" (WAV), "SSND" (AIFF), "Data Size" (AU), "riff" (W64), "Riff size" (RF64).
_PROMISED_BYTES = re.compile(r"^ *(?:data|SSND|Data Size|riff|Riff size) *: (\d+) \(should be (\d+)\)", re.MULTILINE)
_UNKNOWN_BYTES = 0x7FFF0000  # from here on the size is a placeholder of a program that wrote to a pipe
_UNKNOWN_SAMPLES = 2**48  # likewise; libsndfile reports 2**63 - 1

RATES = (1_000, 768_000)
"""The lowest and the highest sample rate that is taken for one, in Hz."""
SPOOLED = 1 << 24  # bytes of a recording without a path up to which it stays in memory
_SAMPLE_COUNT = re.compile(rb"^sample_count -i (\d{1,18})$", re.MULTILINE)  # of NIST's SPHERE
_OGG_PAGE = 27 + 255 + 255 * 255  # bytes of the largest one
_SMALL = 4096  # bytes of a file that may be nothing but a header


class AudioError(ValueError):
    """A recording cannot be used; the message names the file and what is wrong with it."""


class UnreachableError(AudioError):
    """A store does not answer: nothing is wrong with the recording, and the next ones cannot be had either."""


class Held:
    """A recording that has no path, as the bytes of a file; `name` is what messages call it."""

    def __init__(self, content: bytes | IO[bytes], name: str = "audio"):
        self.file = io.BytesIO(content) if isinstance(content, bytes) else content
        self.name = name

    @classmethod
    def of(cls, stream: IO[bytes], name: str) -> "Held":
        """What is left in `stream`: in memory where it is small, else in a temporary file. Raises AudioError."""
        if isinstance(stream, io.TextIOBase):
            raise AudioError(f'{name}: is open as text; expected a file that was opened with mode "rb"')
        spooled = tempfile.SpooledTemporaryFile(max_size=SPOOLED)  # noqa: SIM115
        try:
            shutil.copyfileobj(stream, spooled, 1 << 20)
        except OSError as error:
            raise AudioError(f"{name}: cannot be kept in {tempfile.gettempdir()}: {error.strerror}") from error
        if spooled.tell() == 0 and stream.seekable() and stream.tell() > 0:
            raise AudioError(f"{name}: nothing is left in it, for it stands at its end; expected audio from there on")
        return cls(spooled, name)

    def __str__(self) -> str:
        return self.name

    @property
    def size(self) -> int:
        """Its bytes; it stays where it is."""
        at = self.tell()
        end = self.seek(0, os.SEEK_END)
        self.seek(at)
        return end

    def content(self) -> bytes:
        """All bytes."""
        self.seek(0)
        return self.file.read()

    # What libsndfile asks of a file.
    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As of a file."""
        self.file.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        """As of a file."""
        return self.file.tell()

    def read(self, size: int = -1) -> bytes:
        """As of a file."""
        return self.file.read(size)


AudioFile = Path | str | Held | Stored
"""What a recording is read from."""


@contextmanager
def open_checked(path: AudioFile) -> Iterator[soundfile.SoundFile]:
    """The open file, once its header has been found to be usable. Raises AudioError."""
    if isinstance(path, Stored):
        try:
            path = Held(path.read(), str(path))
        except OutageError as error:
            raise UnreachableError(str(error)) from None
        except StoreError as error:
            raise AudioError(str(error)) from None
    path = path if isinstance(path, Held) else Path(path)
    if _size(path) == 0:
        raise AudioError(f"{path}: the file is empty (0 bytes); expected audio")
    if isinstance(path, Held):
        path.seek(0)
    try:
        # As bytes, for names that are no UTF-8.
        sound = soundfile.SoundFile(path if isinstance(path, Held) else os.fsencode(path))
    except (soundfile.LibsndfileError, TypeError) as error:  # TypeError: headerless .raw
        if not isinstance(path, Held) and path.suffix.lower() in (".raw", ".pcm"):
            shown = shlex.join(["-i", str(path), str(path.with_suffix(".wav"))])
            raise AudioError(
                f"{path}: has no header that tells its rate and format; write one, as with: "
                f"ffmpeg -f s16le -ar 16000 -ac 1 {shown}"
            ) from error
        first = _part(path, 0, file_types.FIRST_BYTES)
        kind = file_types.other_sound(first) or ""
        if not kind or not containers.can_decode():
            told = file_types.no_audio(first, None if isinstance(path, Held) else path)
            reason = f"({getattr(error, 'error_string', str(error)).rstrip('.')}); {file_types.EXPECTED}"
            raise AudioError(f"{path}: cannot be read as audio {told or reason}") from error
        sound = None
    if sound is None:
        opened: AbstractContextManager[soundfile.SoundFile] = _decoded(path, kind)
    elif sound.frames > _UNKNOWN_SAMPLES and sound.format == "FLAC":
        sound.close()
        opened = _with_length(path)
    else:
        opened = sound
    with opened as known:
        _check_header(path, known)
        yield known


@contextmanager
def _decoded(path: Path | Held, kind: str) -> Iterator[soundfile.SoundFile]:
    """A file of a format that libsndfile does not read."""
    try:
        with _bytes_of(path) as file, containers.decoded(file) as sound:
            yield sound
    except containers.UndecodableError as error:
        raise AudioError(f"{path}: cannot be read as audio ({kind}): {error}") from error


@contextmanager
def _with_length(path: Path | Held) -> Iterator[soundfile.SoundFile]:
    """A FLAC file that was written to a pipe, so that its header has no length."""
    with _bytes_of(path) as file:
        if (samples := piped_flac.samples_in(file)) is None:
            raise AudioError(f"{path}: its header gives no length, nor does its end; encode it again to a file")
        known = piped_flac.WithSamples(file, samples)
        known.seek(0)
        with soundfile.SoundFile(known) as sound:
            yield sound


def _bytes_of(path: Path | Held) -> AbstractContextManager[IO[bytes]]:
    return nullcontext(path.file) if isinstance(path, Held) else path.open("rb")


def _size(path: Path | Held) -> int:
    if isinstance(path, Held):
        return path.size
    try:
        size = path.stat().st_size if path.is_file() else None
    except OSError as error:  # a name that is too long for the file system
        raise AudioError(f"{path}: {error.strerror}; expected an audio file") from error
    if size is None:
        raise AudioError(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}; expected an audio file")
    return size


def _check_header(path: Path | Held, sound: soundfile.SoundFile) -> None:
    if sound.format == "OGG" and _is_cut_ogg(path):
        raise AudioError(f"{path}: truncated: its last page is not whole")
    if sound.frames == 0:
        size = _size(path)
        hint = f", though it has {size} bytes (was it written to a pipe?); encode it again" if size > _SMALL else ""
        raise AudioError(f"{path}: holds 0 samples{hint}")
    if not RATES[0] <= sound.samplerate <= RATES[1]:
        raise AudioError(f"{path}: expected a sample rate of {RATES[0]} to {RATES[1]} Hz, found {sound.samplerate} Hz")
    if sound.frames > _UNKNOWN_SAMPLES:
        raise AudioError(f"{path}: its header gives no length (was it written to a pipe?); encode it again to a file")
    counted = _SAMPLE_COUNT.search(_part(path, 0, 1024)) if sound.format == "NIST" else None
    if (counted and int(counted[1]) > sound.frames) or "Seems to be a truncated file." in sound.extra_info:
        raise AudioError(f"{path}: truncated: its header promises more samples than the {sound.frames} that are there")
    for promised, present in _PROMISED_BYTES.findall(sound.extra_info):
        if int(present) + sound.channels * 8 <= int(promised) < _UNKNOWN_BYTES:
            raise AudioError(f"{path}: truncated: its header promises {promised} bytes but {present} are there")


def _is_cut_ogg(path: Path | Held) -> bool:
    """Whether the last page of an Ogg file goes on behind its end: libsndfile drops it without a word."""
    last = _part(path, max(0, _size(path) - _OGG_PAGE), _OGG_PAGE)
    page = last[last.rfind(b"OggS\0") :]
    lengths = page[27 : 27 + page[26]] if len(page) > 26 else b""
    return len(page) < 27 or len(page) < 27 + page[26] + sum(lengths)


def _part(path: Path | Held, start: int, size: int) -> bytes:
    """Bytes of a file, which stays where it is if it is open."""
    with _bytes_of(path) as file:
        before = file.tell()
        file.seek(start)
        part = file.read(size)
        file.seek(before)
    return part

"""Sound that libsndfile does not read, as phones and browsers record it: MP4, WebM, AAC and others, through PyAV.

PyAV is optional (`pip install av`) and brings FFmpeg's libraries. It is given open files, never names, which FFmpeg
could take for addresses.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import IO, Any

import soundfile

MISSING_SECONDS = 0.5  # that a file may hold less than it promises: priming and the last packet count differently


class UndecodableError(ValueError):
    """What is wrong with a file."""


def can_decode() -> bool:
    """Whether PyAV is installed."""
    return find_spec("av") is not None


@contextmanager
def decoded(file: IO[bytes]) -> Iterator[soundfile.SoundFile]:
    """The first sound of a file, decoded into a temporary one. Raises UndecodableError."""
    import av

    file.seek(0)
    with tempfile.TemporaryFile() as kept:
        try:
            with av.open(file, metadata_errors="replace") as container:
                if not container.streams.audio:
                    raise UndecodableError("holds no sound")
                _decode(container, container.streams.audio[0], kept)
        except av.error.FFmpegError as error:
            raise UndecodableError(f"truncated or damaged: {error.strerror}") from error
        kept.seek(0)
        with soundfile.SoundFile(kept) as sound:
            yield sound


def _decode(container: Any, stream: Any, kept: IO[bytes]) -> None:
    from av import AudioResampler

    rate, channels = stream.codec_context.sample_rate, stream.codec_context.layout.nb_channels
    packed = AudioResampler(format="flt", layout=stream.codec_context.layout, rate=rate)
    with soundfile.SoundFile(kept, "w", rate, channels, "FLOAT", format="W64") as sound:
        for frame in container.decode(stream):
            for part in packed.resample(frame):
                sound.write(part.to_ndarray().reshape(-1, channels))
        for part in packed.resample(None):
            sound.write(part.to_ndarray().reshape(-1, channels))
        found = sound.tell() / rate
    promised = float(stream.duration * stream.time_base) if stream.duration else 0.0
    if found < promised - MISSING_SECONDS:
        raise UndecodableError(f"truncated: {promised:.1f} s are promised but only {found:.1f} s can be read")

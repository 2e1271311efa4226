"""Recordings on disk to float32 mono samples in [-1, 1], and back; resampling and speed.

Legend of shapes: N samples, C channels.
"""

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import soundfile
import soxr

from common.audio.headers import RATES as RATES
from common.audio.headers import AudioError as AudioError
from common.audio.headers import AudioFile as AudioFile
from common.audio.headers import Held as Held
from common.audio.headers import open_checked
from common.files.atomic import written_whole

Read = TypeVar("Read")

INAUDIBLE = 1e-5
"""-100 dB: a recording that never gets louder is silent."""
QUALITY = "HQ"
"""soxr's recipe for resampling where a caller does not name another."""
MOST_SECONDS = 100 * 3600.0
"""Longest piece that `read` decodes where its caller does not say otherwise: a file that promises more is refused."""
CANCELLED = 0.01
"""Share of its channels' power below which their mean has lost the sound: they are each other's negatives."""
BLOCK = 1 << 20  # samples decoded at a time, so that what a header promises takes no memory until it is there


class ChannelsCancelError(AudioError):
    """The mean of the channels has lost the sound, which `channel` has."""

    def __init__(self, path: "AudioFile", channel: int):
        super().__init__(f"{path}: its channels cancel each other in their mean; take channel {channel + 1} alone")
        self.channel = channel


class Audio(NamedTuple):
    """Mono sound: `samples` is float32 [N], nominally in [-1, 1]."""

    samples: np.ndarray
    sample_rate: int


class AudioInfo(NamedTuple):
    """What the header of a recording says."""

    seconds: float
    samples: int
    sample_rate: int
    channels: int


class Opened(NamedTuple):
    """A piece of a recording that is about to be decoded: `n_samples` from `start`, at its own `sample_rate`."""

    path: AudioFile
    sound: soundfile.SoundFile
    sample_rate: int
    start: int
    n_samples: int
    channel: int | None = None
    """The one that is taken; None: the mean of all."""

    def read(self, sample_rate: int | None = None) -> Audio:
        """All of it, at that rate; AudioError."""
        blocks = list(self.blocks())
        samples = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        if sample_rate is None or sample_rate == self.sample_rate:
            return Audio(samples, self.sample_rate)
        found = resample(samples, self.sample_rate, sample_rate)
        if len(found) == 0:
            given = f"{len(samples)} samples at {self.sample_rate} Hz"
            raise AudioError(f"{self.path}: {given} are too few for one at {sample_rate} Hz")
        return Audio(found, sample_rate)

    def blocks(self, most: int = BLOCK) -> Iterator[np.ndarray]:
        """The samples, float32, of one channel or the mean of all: `most` numbers at a time, or AudioError.

        ChannelsCancelError, after the last one, where the mean has lost the sound.
        """
        found, sound, mix = 0, self.sound, Mix()
        try:
            _skip(sound, self.start)
            while found < self.n_samples:
                size = min(self.n_samples - found, max(1, most // sound.channels))
                block_NC = sound.read(size, dtype="float32", always_2d=True)
                block_N = mix.mean(block_NC) if self.channel is None else block_NC[:, self.channel].copy()
                found += len(block_N)
                if len(block_N) < size:
                    raise AudioError(
                        f"{self.path}: truncated: {self.n_samples} samples are promised but only {found} can be read"
                    )
                if not np.isfinite(block_N).all():
                    raise AudioError(
                        f"{self.path}: holds samples that are NaN or infinite; write the file again from its source"
                    )
                yield block_N
            if mix.is_lost:
                raise ChannelsCancelError(self.path, mix.loudest)
        except soundfile.LibsndfileError as error:
            reason = error.error_string.rstrip(".")
            raise AudioError(
                f"{self.path}: truncated or damaged: {self.n_samples} samples are promised, but: {reason}"
            ) from error


@contextmanager
def opened(
    path: AudioFile,
    *,
    offset_seconds: float = 0.0,
    seconds: float | None = None,
    most_seconds: float = MOST_SECONDS,
    channel: int | None = None,
) -> Iterator[Opened]:
    """The piece that `read` would decode with these options, and as it raises AudioError.

    `channel`, from 0: the one to take; by default their mean, of which ChannelsCancelError tells that it is no sound.
    """
    if offset_seconds < 0 or (seconds is not None and seconds <= 0):
        raise AudioError(f"{path}: a piece of {seconds} s from {offset_seconds} s; expected seconds > 0, offset >= 0")
    with open_checked(path) as sound:
        check_channel(path, sound.channels, channel)
        rate = sound.samplerate
        start = round(offset_seconds * rate)
        if start >= sound.frames:
            total = sound.frames / rate
            raise AudioError(f"{path}: the piece starts at {offset_seconds:.2f} s but the audio ends at {total:.2f} s")
        count = sound.frames - start
        if seconds is not None:
            count = min(count, max(1, round(seconds * rate)))
        if count > most_seconds * rate:
            raise AudioError(f"{path}: promises {count / rate:.0f} s; expected at most {most_seconds:.0f} s")
        yield Opened(path, sound, rate, start, count, channel)


def check_channel(name: AudioFile, channels: int, channel: int | None) -> None:
    """Raises AudioError where a recording of so many channels has none of that number, from 0."""
    if channel is not None and channel >= channels:
        raise AudioError(f"{name}: has {channels} channel{'s' if channels > 1 else ''}, and no channel {channel + 1}")


def of_channels(read: Callable[[int | None], Read]) -> Read:
    """What `read` gives of the mean of all channels, or of the loudest one where they cancel each other."""
    try:
        return read(None)
    except ChannelsCancelError as found:
        return read(found.channel)


def info(path: AudioFile) -> AudioInfo:
    """Length and format of a recording, from its header alone; AudioError where `read` would refuse the header too."""
    with open_checked(path) as sound:
        return AudioInfo(sound.frames / sound.samplerate, sound.frames, sound.samplerate, sound.channels)


def read(
    path: AudioFile,
    *,
    sample_rate: int | None = None,
    offset_seconds: float = 0.0,
    seconds: float | None = None,
    most_seconds: float = MOST_SECONDS,
) -> Audio:
    """Mono samples of any file that libsndfile reads: WAV, FLAC, OGG, MP3, AIFF, ...

    The file is on disk or held in memory. They are the mean of the channels, or the loudest one where these cancel
    each other, as where the wires of one microphone are swapped.
    Only the piece of at most `seconds` from `offset_seconds` is decoded; it is shorter where the file ends earlier.
    `sample_rate` asks for that rate, by soxr in high quality. AudioError: a file that is missing, empty, not audio,
    truncated, without samples, of a rate that no recording has, longer than `most_seconds`, or with samples that are
    not finite; an offset at or beyond the end.
    """

    def read_of(channel: int | None) -> Audio:
        options: dict[str, Any] = {"offset_seconds": offset_seconds, "seconds": seconds, "most_seconds": most_seconds}
        with opened(path, **options, channel=channel) as piece:
            return piece.read(sample_rate)

    return of_channels(read_of)


def write(path: Path | str, samples: np.ndarray, sample_rate: int) -> None:
    """Writes float samples [N] as 16-bit .wav or .flac; the name appears only when the file is complete.

    Samples beyond [-1, 1] are clipped. AudioError: another suffix, or samples that are not finite. Raises OSError.
    """
    path = Path(path)
    if path.suffix.lower() not in (".wav", ".flac"):
        raise AudioError(f"{path}: cannot write {path.suffix or 'a file without suffix'}; expected .wav or .flac")
    if not np.isfinite(samples).all():
        raise AudioError(f"{path}: the samples to write are not all finite")
    content = io.BytesIO()  # libsndfile waits for the disk after every file that it opens itself
    soundfile.write(content, samples, sample_rate, format=path.suffix[1:].upper(), subtype="PCM_16")
    with written_whole(path, is_flushed=False) as file:
        file.write(content.getbuffer())


def blocks_of(
    path: AudioFile,
    *,
    offset_seconds: float = 0.0,
    seconds: float | None = None,
    channel: int | None = None,
    most: int = BLOCK,
) -> Iterator[np.ndarray]:
    """The samples of `Opened.blocks`, as which it raises AudioError."""
    with opened(path, offset_seconds=offset_seconds, seconds=seconds, channel=channel) as piece:
        yield from piece.blocks(most)


def resample(samples: np.ndarray, from_rate: float, to_rate: float) -> np.ndarray:
    """Samples [N] at another rate."""
    if from_rate == to_rate:
        return samples
    return soxr.resample(samples, from_rate, to_rate, quality=QUALITY)


def resampled(blocks: Iterable[np.ndarray], from_rate: float, to_rate: float) -> Iterator[np.ndarray]:
    """As `resample`, of samples that come in blocks."""
    if from_rate == to_rate:
        yield from blocks
        return
    stream = soxr.ResampleStream(from_rate, to_rate, 1, dtype="float32", quality=QUALITY)
    for block_N in blocks:
        yield stream.resample_chunk(block_N)
    yield stream.resample_chunk(np.zeros(0, np.float32), last=True)


def change_speed(samples: np.ndarray, factor: float) -> np.ndarray:
    """Samples [N] played `factor` times as fast: N / factor samples, and higher in pitch for factor > 1.

    Resampling, as in speed perturbation (Ko et al. 2015, "Audio augmentation for speech recognition").
    """
    if not 0 < factor < float("inf"):
        raise ValueError(f"speed {factor}: expected a positive number, 1 for unchanged")
    return resample(samples, factor, 1.0)


def _skip(sound: soundfile.SoundFile, n_samples: int) -> None:
    """Passes over the first `n_samples`; by reading where one cannot seek, as in GSM 6.10 of telephones."""
    if n_samples and sound.seekable():
        sound.seek(n_samples)
        return
    while n_samples > 0 and (
        skipped := len(sound.read(min(n_samples, max(1, BLOCK // sound.channels)), always_2d=True))
    ):
        n_samples -= skipped


class Mix:
    """The mean of the channels of a recording, block by block, and whether it has lost the sound that they have."""

    def __init__(self) -> None:
        self._of_mean, self._of_channels_C = 0.0, np.zeros(1)

    def mean(self, samples_NC: np.ndarray) -> np.ndarray:
        """Mean of the channels [N] of samples [N, C], float32."""
        if samples_NC.shape[1] == 1:
            return samples_NC[:, 0]
        mean_N = samples_NC.mean(axis=1, dtype=np.float32)
        self._of_channels_C = self._of_channels_C + np.einsum("nc,nc->c", samples_NC, samples_NC)
        self._of_mean += float(mean_N @ mean_N)
        return mean_N

    @property
    def is_lost(self) -> bool:
        """Whether the channels cancel each other: the mean has less than `CANCELLED` of their power."""
        return self._of_mean < CANCELLED * float(self._of_channels_C.mean())

    @property
    def loudest(self) -> int:
        """The channel of the most power."""
        return int(self._of_channels_C.argmax())

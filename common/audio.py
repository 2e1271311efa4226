"""Recordings on disk to float32 mono samples in [-1, 1], and back; resampling, speed and silence.

Legend of shapes: N samples, C channels.
"""

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
import soxr

SILENCE_FRAME = 2048  # samples over which loudness is measured
SILENCE_HOP = 512  # samples between two measurements; divides SILENCE_FRAME

# libsndfile silently shortens a file whose header promises more bytes than are there, and says so only in its log:
# "data : 64000 (should be 31978)" (WAV), "SSND" (AIFF), "Data Size" (AU), "riff" (W64), "Riff size" (RF64).
_PROMISED_BYTES = re.compile(r"^ *(?:data|SSND|Data Size|riff|Riff size) *: (\d+) \(should be (\d+)\)", re.MULTILINE)
_UNKNOWN_BYTES = 0x7FFF0000  # from here on the size is a placeholder of a program that wrote to a pipe
_UNKNOWN_SAMPLES = 2**48  # likewise; libsndfile reports 2**63 - 1

RATES = (1_000, 768_000)
"""The lowest and the highest sample rate that is taken for one, in Hz."""
MOST_SECONDS = 100 * 3600.0
"""Longest piece that `read` decodes where its caller does not say otherwise: a file that promises more is refused."""
_BLOCK = 1 << 20  # samples decoded at a time, so that what a header promises takes no memory until it is there


class AudioError(ValueError):
    """A recording cannot be used; the message names the file and what is wrong with it."""


class Held(io.BytesIO):
    """A recording that is held in memory, as the bytes of a file; `name` is what messages call it."""

    def __init__(self, content: bytes, name: str = "audio"):
        super().__init__(content)
        self.name = name

    def __str__(self) -> str:
        return self.name


class Audio(NamedTuple):
    """Mono sound: `samples` is float32 [N], nominally in [-1, 1]."""

    samples: np.ndarray
    sample_rate: int


class Trimmed(NamedTuple):
    """Sound without the silence at its ends: `samples` is a view of the whole, from its index `start`."""

    samples: np.ndarray
    start: int


class AudioInfo(NamedTuple):
    """What the header of a recording says."""

    seconds: float
    samples: int
    sample_rate: int
    channels: int


def info(path: Path | str | Held) -> AudioInfo:
    """Length and format of a recording, from its header alone; AudioError where `read` would refuse the header too."""
    with _opened(path) as sound:
        return AudioInfo(sound.frames / sound.samplerate, sound.frames, sound.samplerate, sound.channels)


def read(
    path: Path | str | Held,
    *,
    sample_rate: int | None = None,
    offset_seconds: float = 0.0,
    seconds: float | None = None,
    most_seconds: float = MOST_SECONDS,
) -> Audio:
    """Mono samples (mean of the channels) of any file that libsndfile reads: WAV, FLAC, OGG, MP3, AIFF, ...

    The file is on disk or held in memory.
    Only the piece of at most `seconds` from `offset_seconds` is decoded; it is shorter where the file ends earlier.
    `sample_rate` asks for that rate, by soxr in high quality. AudioError: a file that is missing, empty, not audio,
    truncated, without samples, of a rate that no recording has, longer than `most_seconds`, or with samples that are
    not finite; an offset at or beyond the end.
    """
    if offset_seconds < 0 or (seconds is not None and seconds <= 0):
        raise AudioError(f"{path}: a piece of {seconds} s from {offset_seconds} s; expected seconds > 0, offset >= 0")
    with _opened(path) as sound:
        native_rate = sound.samplerate
        start = round(offset_seconds * native_rate)
        if start >= sound.frames:
            total = sound.frames / native_rate
            raise AudioError(f"{path}: the piece starts at {offset_seconds:.2f} s but the audio ends at {total:.2f} s")
        count = sound.frames - start
        if seconds is not None:
            count = min(count, max(1, round(seconds * native_rate)))
        if count > most_seconds * native_rate:
            raise AudioError(f"{path}: promises {count / native_rate:.0f} s; expected at most {most_seconds:.0f} s")
        samples = _decode(path, sound, start, count)
    if not np.isfinite(samples).all():
        raise AudioError(f"{path}: holds samples that are NaN or infinite; write the file again from its source")
    if sample_rate is None or sample_rate == native_rate:
        return Audio(samples, native_rate)
    resampled = resample(samples, native_rate, sample_rate)
    if len(resampled) == 0:
        raise AudioError(f"{path}: {len(samples)} samples at {native_rate} Hz are too few for one at {sample_rate} Hz")
    return Audio(resampled, sample_rate)


def write(path: Path | str, samples: np.ndarray, sample_rate: int) -> None:
    """Writes float samples [N] as 16-bit .wav or .flac; the name appears only when the file is complete.

    Samples beyond [-1, 1] are clipped. AudioError: another suffix, or samples that are not finite.
    """
    path = Path(path)
    if path.suffix.lower() not in (".wav", ".flac"):
        raise AudioError(f"{path}: cannot write {path.suffix or 'a file without suffix'}; expected .wav or .flac")
    if not np.isfinite(samples).all():
        raise AudioError(f"{path}: the samples to write are not all finite")
    unfinished = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        soundfile.write(unfinished, samples, sample_rate, subtype="PCM_16")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def resample(samples: np.ndarray, from_rate: float, to_rate: float, *, quality: str = "HQ") -> np.ndarray:
    """Samples [N] at another rate; `quality` is soxr's: QQ, LQ, MQ, HQ, VHQ."""
    if from_rate == to_rate:
        return samples
    return soxr.resample(samples, from_rate, to_rate, quality=quality)


def change_speed(samples: np.ndarray, factor: float, *, quality: str = "HQ") -> np.ndarray:
    """Samples [N] played `factor` times as fast: N / factor samples, and higher in pitch for factor > 1.

    Resampling, as in speed perturbation (Ko et al. 2015, "Audio augmentation for speech recognition").
    """
    if not 0 < factor < float("inf"):
        raise ValueError(f"speed {factor}: expected a positive number, 1 for unchanged")
    return resample(samples, factor, 1.0, quality=quality)


def trim_silence(samples: np.ndarray, *, top_db: float = 60.0) -> Trimmed:
    """Cuts the ends of samples [N] that are more than `top_db` below the loudest frame.

    The same samples as `librosa.effects.trim` keeps: centred frames of 2048 every 512, floor -100 dB, so that
    digital silence as a whole is kept.
    """
    level_db = 20 * np.log10(np.maximum(_frame_rms(samples), 1e-5))
    loud = np.flatnonzero(level_db - level_db.max() > -top_db)
    start, end = int(loud[0]) * SILENCE_HOP, int(loud[-1] + 1) * SILENCE_HOP
    return Trimmed(samples[start:end], start)


def _frame_rms(samples: np.ndarray) -> np.ndarray:
    """Root mean square of each frame, centred at multiples of the hop; beyond the ends are zeros."""
    blocks_per_frame = SILENCE_FRAME // SILENCE_HOP
    n_frames = 1 + len(samples) // SILENCE_HOP
    energy = np.zeros(n_frames + blocks_per_frame - 1, np.float32)  # of blocks of one hop, each in several frames
    whole, first = len(samples) // SILENCE_HOP, blocks_per_frame // 2
    blocks = samples[: whole * SILENCE_HOP].reshape(whole, SILENCE_HOP)
    np.einsum("bn,bn->b", blocks, blocks, out=energy[first : first + whole])
    rest = samples[whole * SILENCE_HOP :]
    energy[first + whole] = rest @ rest
    return np.sqrt(np.lib.stride_tricks.sliding_window_view(energy, blocks_per_frame).mean(axis=-1) / SILENCE_HOP)


@contextmanager
def _opened(path: Path | str | Held) -> Iterator[soundfile.SoundFile]:
    """The open file, once its header has been found to be usable."""
    path = path if isinstance(path, Held) else Path(path)
    if _size(path) == 0:
        raise AudioError(f"{path}: the file is empty (0 bytes); expected audio")
    if isinstance(path, Held):
        path.seek(0)
    try:
        sound = soundfile.SoundFile(path)
    except (soundfile.LibsndfileError, TypeError) as error:  # TypeError: headerless .raw
        reason = getattr(error, "error_string", str(error)).rstrip(".")
        raise AudioError(f"{path}: cannot be read as audio ({reason}); expected WAV, FLAC, OGG or MP3") from error
    with sound:
        _check_header(path, sound)
        yield sound


def _size(path: Path | Held) -> int:
    if isinstance(path, Held):
        return len(path.getbuffer())
    try:
        size = path.stat().st_size if path.is_file() else None
    except OSError as error:  # a name that is too long for the file system
        raise AudioError(f"{path}: {error.strerror}; expected an audio file") from error
    if size is None:
        raise AudioError(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}; expected an audio file")
    return size


def _check_header(path: Path | Held, sound: soundfile.SoundFile) -> None:
    if sound.frames == 0:
        raise AudioError(f"{path}: holds 0 samples")
    if not RATES[0] <= sound.samplerate <= RATES[1]:
        raise AudioError(f"{path}: expected a sample rate of {RATES[0]} to {RATES[1]} Hz, found {sound.samplerate} Hz")
    if sound.frames > _UNKNOWN_SAMPLES:
        raise AudioError(f"{path}: its header gives no length (was it written to a pipe?); encode it again to a file")
    for promised, present in _PROMISED_BYTES.findall(sound.extra_info):
        if int(present) + sound.channels * 8 <= int(promised) < _UNKNOWN_BYTES:
            raise AudioError(f"{path}: truncated: its header promises {promised} bytes but {present} are there")


def _decode(path: Path | str | Held, sound: soundfile.SoundFile, start: int, count: int) -> np.ndarray:
    """Float32 [N], the mean of the channels: exactly `count` samples from `start`, or AudioError."""
    blocks, found = [], 0
    try:
        sound.seek(start)
        while found < count:
            size = min(count - found, max(1, _BLOCK // sound.channels))
            blocks.append(_mono(sound.read(size, dtype="float32", always_2d=True)))
            found += len(blocks[-1])
            if len(blocks[-1]) < size:
                raise AudioError(f"{path}: truncated: {count} samples are promised but only {found} can be read")
    except soundfile.LibsndfileError as error:
        reason = error.error_string.rstrip(".")
        raise AudioError(f"{path}: truncated or damaged: {count} samples are promised, but: {reason}") from error
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _mono(samples_NC: np.ndarray) -> np.ndarray:
    if samples_NC.shape[1] == 1:
        return samples_NC[:, 0]
    return samples_NC.mean(axis=1, dtype=np.float32)

"""Recordings as a recogniser takes them: files, utterances of a manifest, or arrays; read ahead of their use."""

import array
import functools
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from common.ahead import in_threads
from common.audio import waveform
from common.audio.silence import Cut, Keep, cuts_of, kept
from common.audio.waveform import AudioError, AudioFile, Held, Mix
from common.data.manifest import Utterance
from common.recognition.sources.long_sound import BLOCK, LongSound

READERS = 4  # threads that decode and resample files while the network is at work
AT_ONCE = 64  # arrays, at most, that are not worth a thread
MOST_CHANNELS = 32  # of an array with two dimensions
FULL_SCALE = {np.dtype(np.int16): (0, 1 << 15), np.dtype(np.int32): (0, 1 << 31), np.dtype(np.uint8): (128, 128)}
"""What silence is in samples of whole numbers, and how far from it the loudest are."""
LONG_SECONDS = 600.0
"""Recordings that are longer are not held in memory: they are decoded while they are used."""

Samples = Any
"""An array or torch tensor [N], or [N, C] and [C, N] of C channels: floats from -1 to 1, or whole numbers as files have
them (`FULL_SCALE`)."""
Bytes = bytes | bytearray | memoryview
Source = str | Path | Utterance | Bytes | BinaryIO | Samples | tuple[Samples, int] | dict[str, Any]
"""A recording: a file; an utterance of a manifest; the bytes of a file, or one that is open; samples at the rate that
the model takes, or with the rate that they have, also as {"array", "sampling_rate"} of Hugging Face's datasets, whose
{"bytes", "path"} are a file. In place of the mean of its channels, one of them: `OneChannel`."""


@dataclass(frozen=True, slots=True)
class OneChannel:
    """One channel of a recording, as the agent's of a telephone call, whose number is counted from 0."""

    source: Any
    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError(f"channel {self.number}: expected a number, counted from 0")


def channel_number(channel: str) -> int | None:
    """The number, from 0, of the channel that is called left, right, or by its number from 1; None for the mean of all.

    Raises ValueError.
    """
    named = {"mean": None, "left": 0, "right": 1}
    if channel in named:
        return named[channel]
    if channel.isascii() and channel.isdecimal() and int(channel[:9]) > 0:
        return int(channel[:9]) - 1
    raise ValueError(f"channel = {channel!r}: expected mean, left, right, or a number, of which 1 is the left one")


def of_channel(sources: Iterable[Source], channel: str) -> list[Source]:
    """The sources as they are, or one channel of each, as `channel_number` reads it. Raises ValueError."""
    number = channel_number(channel)
    return list(sources) if number is None else [OneChannel(source, number) for source in sources]


class Recording(NamedTuple):
    """Mono samples_N of a recording of `seconds`; where nothing could be read, none, and why in `error`."""

    name: str
    samples_N: np.ndarray | LongSound
    seconds: float
    cuts: tuple[Cut, ...] = ()
    """Where samples of the recording are missing."""
    error: str = ""
    hot_words: tuple[str, ...] = ()
    """Words or phrases to favour in this one."""
    wanted: tuple[tuple[str, str], ...] = ()
    """What is to be written of this one; see `Utterance.wanted`."""

    @property
    def failure(self) -> str:
        """Why it could not be read; of a long one also what came up while it was used. "" where all went well."""
        return self.error or (self.samples_N.error if isinstance(self.samples_N, LongSound) else "")


def read(source: Source, sample_rate: int, *, long_seconds: float = math.inf, keep: Keep | None = None) -> Recording:
    """The recording at `sample_rate` Hz, which samples without a rate have already. Raises AudioError.

    One that is longer than `long_seconds` becomes a `LongSound`. What `keep` does not keep is cut out.
    """
    samples_N = _samples(source, sample_rate, long_seconds, keep)
    cuts: tuple[Cut, ...] = ()
    if isinstance(samples_N, LongSound):
        seconds, cuts = samples_N.whole / sample_rate, cuts_of(samples_N.kept_K2, sample_rate)
    else:
        seconds = len(samples_N) / sample_rate
        if keep is not None:
            kept_K2 = keep([samples_N])
            samples_N, cuts = kept(samples_N, kept_K2), cuts_of(kept_K2, sample_rate)
    given = source.source if isinstance(source, OneChannel) else source
    wanted = given.wanted if isinstance(given, Utterance) else ()
    return Recording(name_of(source), samples_N, seconds, cuts, wanted=wanted)


def heard(recording: Recording) -> Recording:
    """The recording, without samples where nothing can be heard."""
    samples_N = recording.samples_N
    silent = samples_N.is_silent if isinstance(samples_N, LongSound) else is_silent(samples_N)
    return recording._replace(samples_N=samples_N[:0] if silent else samples_N)


def read_ahead(
    sources: Iterable[Source],
    sample_rate: int,
    *,
    on_error: Literal["stop", "skip"],
    keep: Keep | None = None,
    shortest: int = 0,
    silence: bool = False,
) -> Iterable[Recording]:
    """`read` of every source, in order, by threads that are a few sources ahead; of a few arrays at once, as a list.

    Where nothing can be heard there are no samples, unless `silence` is wanted; otherwise fewer than `shortest` are an
    AudioError, which is raised, as those of `read` are, or with "skip" becomes the `error` of its recording. Raises
    TypeError, at once, for a single source.
    """
    given: Any = sources
    is_one = isinstance(given, str | Path | Utterance | OneChannel | np.ndarray | Bytes | dict)
    is_pair = isinstance(given, tuple) and len(given) == 2 and any(map(_is_number, given))
    if is_one or is_pair or hasattr(given, "is_floating_point") or hasattr(given, "read"):
        raise TypeError(f"expected a list of recordings, found one {type(sources).__name__}; put it in [ ]")

    def tolerant(source: Source) -> Recording:
        try:
            recording = read(source, sample_rate, long_seconds=LONG_SECONDS, keep=keep)
            recording = recording if silence else heard(recording)
            samples = len(recording.samples_N)
            if samples < shortest and (samples or silence):
                raise AudioError(
                    f"{recording.name}: {samples} samples at {sample_rate} Hz are too few; the model needs {shortest} "
                    "for its first frame"
                )
            if isinstance(recording.samples_N, LongSound):
                recording.samples_N.raises = on_error == "stop"
            return recording
        except AudioError as error:
            if on_error == "stop":
                raise
            return Recording(name_of(source), np.zeros(0, np.float32), 0.0, error=str(error))

    is_short = isinstance(sources, list | tuple) and len(sources) <= AT_ONCE
    if on_error == "skip" and is_short and all(isinstance(source, np.ndarray) for source in sources):
        return [tolerant(source) for source in sources]
    return in_threads(sources, tolerant, threads=READERS)


def is_silent(samples_N: np.ndarray) -> bool:
    """Whether nothing can be heard in them: normalised, the rounding errors of silence would sound like anything."""
    # No array of magnitudes: of an hour it would be as large as the samples.
    return bool(max(samples_N.max(initial=0.0), -samples_N.min(initial=0.0)) <= waveform.INAUDIBLE)


def name_of(source: Source) -> str:
    """What messages and results call it."""
    if isinstance(source, OneChannel):
        return name_of(source.source)
    if isinstance(source, Utterance):
        return source.id
    if isinstance(source, str | Path | Held):
        return str(source)
    if isinstance(source, dict) and isinstance(source.get("path"), str):
        return source["path"]
    return str(getattr(source, "name", None) or {"ndarray": "array"}.get(kind := type(source).__name__, kind))


def _samples(source: Source, rate: int, long_seconds: float, keep: Keep | None) -> np.ndarray | LongSound:
    given: Any = source
    channel = None
    if isinstance(given, OneChannel):
        given, channel = given.source, given.number
    decoded = functools.partial(_decoded, rate=rate, long_seconds=long_seconds, keep=keep, channel=channel)
    if isinstance(given, Utterance):
        return decoded(given.audio, piece=given.piece())
    if isinstance(given, Bytes):
        return decoded(Held(bytes(given), "bytes"))
    if isinstance(given, Held):
        return decoded(given)
    if hasattr(given, "read"):
        return decoded(Held.of(given, name_of(given)))
    if isinstance(given, str | os.PathLike):
        return decoded(Path(given))
    own_rate = rate
    if isinstance(given, dict):
        samples = given.get("array", given.get("raw"))  # of datasets, and of pipelines of transformers
        if samples is None and isinstance(given.get("bytes"), Bytes):
            return decoded(Held(bytes(given["bytes"]), str(given.get("path") or "bytes")))
        if samples is None and isinstance(given.get("path"), str | os.PathLike):
            return decoded(Path(given["path"]))
        if samples is None or given.get("sampling_rate") is None:
            keys = ", ".join(map(str, given)) or "nothing"
            raise AudioError(f"dict of {keys}: expected array and sampling_rate, or path, or bytes")
        given = samples, given["sampling_rate"]
    if isinstance(given, tuple):
        given, own_rate = _with_rate(given)
    samples_N = _array(given, own_rate, channel)
    if len(samples_N) > long_seconds * own_rate:
        parts = range(0, len(samples_N), BLOCK)
        return LongSound(
            lambda: (samples_N[i : i + BLOCK].astype(np.float32, copy=False) for i in parts), own_rate, rate, keep=keep
        )
    return waveform.resample(samples_N.astype(np.float32, copy=False), own_rate, rate)


def _with_rate(given: tuple[Any, ...]) -> tuple[Any, int]:
    """The samples and their rate, a whole number that may be written as a float; scipy gives the rate first."""
    if len(given) == 2 and _is_number(given[0]) and not _is_number(given[1]):
        given = given[1], given[0]
    if len(given) == 2 and _is_number(given[1]):
        low, high = waveform.RATES
        if low <= given[1] <= high and int(given[1]) == given[1]:
            return given[0], int(given[1])
        raise AudioError(f"samples at a rate of {given[1]}: expected a whole number of {low} to {high} Hz")
    found = ", ".join(type(part).__name__ for part in given)
    raise AudioError(f"tuple ({found}): expected (samples, rate)")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _array(given: Any, rate: int, channel: int | None) -> np.ndarray:
    if hasattr(given, "is_floating_point"):  # a tensor; torch need not be there
        given = given.detach().cpu()
        given = (given.float() if given.is_floating_point() else given).numpy()
    if isinstance(given, list | array.array) and all(map(_is_number, given[:1])):
        given = np.array(given)
    if not isinstance(given, np.ndarray):
        raise AudioError(f"{type(given).__name__}: expected a file, bytes, or samples as an array or tensor")
    samples = np.asarray(given)  # of a subclass too, such as masked arrays
    if samples.dtype.kind != "f" and samples.dtype not in FULL_SCALE:
        known = ", ".join(str(dtype) for dtype in FULL_SCALE)
        raise AudioError(f"array of {samples.dtype}: expected floating-point samples from -1 to 1, or {known}")
    finite = samples.size and (samples.dtype.kind != "f" or np.isfinite([samples.min(), samples.max()]).all())
    if not finite or not (samples.ndim == 1 or _is_of_channels(samples)):
        raise AudioError(f"array of shape {samples.shape}: expected finite mono samples [N] at {rate} Hz")
    waveform.check_channel("array", min(samples.shape) if samples.ndim == 2 else 1, channel)
    if samples.ndim == 2:
        samples_NC = samples if samples.shape[0] > samples.shape[1] else samples.T
        samples = _mono(_as_float(samples_NC)) if channel is None else samples_NC[:, channel]
    return _as_float(samples)


def _is_of_channels(samples: np.ndarray) -> bool:
    """Whether they are [N, C] or [C, N], of which one is sure to be the channels."""
    return samples.ndim == 2 and (min(samples.shape) == 1 or min(samples.shape) <= MOST_CHANNELS < max(samples.shape))


def _as_float(samples: np.ndarray) -> np.ndarray:
    """Whole numbers as the floats that they stand for; floats as they are."""
    if samples.dtype.kind == "f":
        return samples
    zero, full = FULL_SCALE[samples.dtype]
    return (samples.astype(np.float32) - zero) / np.float32(full)


def _mono(samples_NC: np.ndarray) -> np.ndarray:
    mix = Mix()
    mean_N = mix.mean(samples_NC)
    return samples_NC[:, mix.loudest] if mix.is_lost else mean_N


def _decoded(
    path: AudioFile,
    *,
    rate: int,
    long_seconds: float,
    keep: Keep | None,
    channel: int | None,
    piece: dict[str, float] | None = None,
) -> np.ndarray | LongSound:
    """What the file holds, of one channel, or of the mean of all unless they cancel each other."""

    options: dict[str, Any] = piece or {}

    def decoded(channel: int | None) -> np.ndarray | LongSound:
        with waveform.opened(path, **options, channel=channel) as sound:
            if sound.n_samples <= long_seconds * sound.sample_rate:
                return sound.read(rate).samples
            own_rate = sound.sample_rate
        blocks = functools.partial(waveform.blocks_of, path, **options, channel=channel, most=BLOCK)
        return LongSound(blocks, own_rate, rate, keep=keep, name=str(path))

    return waveform.of_channels(decoded) if channel is None else decoded(channel)

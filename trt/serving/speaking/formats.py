"""The formats of sound that is sent as it is made: samples become bytes part by part, nothing of it on disk.

Legend: N samples.
"""

import io
import struct
from typing import Literal

import numpy as np
import soundfile
import soxr

from common.audio.containers import can_decode
from trt.serving.admission.limits import RequestError

Format = Literal["wav", "pcm", "flac", "mp3", "opus", "aac"]
MEDIA: dict[Format, str] = {
    "wav": "audio/wav", "flac": "audio/flac", "mp3": "audio/mpeg", "opus": "audio/ogg", "aac": "audio/aac",
    "pcm": "audio/pcm",
}  # fmt: skip
MPEG_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
RATES = {"mp3": MPEG_RATES, "aac": MPEG_RATES, "opus": (8_000, 12_000, 16_000, 24_000, 48_000)}
OPENAI_RATE = 24_000  # what clients of OpenAI's take raw samples to be; all formats have it
WHOLE = ("mp3", "opus")  # formats whose encoder ends a file as a whole: they come when all of it has been said
FULL_SCALE = 32767
UNKNOWN_BYTES = 0xFFFFFFFF  # in a header of WAV: until the end


def rate_of(style: Format, asked: int | None, natural: int) -> int:
    """Samples per second of sound of rate `natural` in a format. Raises RequestError for what cannot be encoded."""
    rates = RATES.get(style, (asked or natural,))
    if style == "aac" and not can_decode():
        raise RequestError(400, "response_format: this server encodes no aac: pip install av", param="response_format")
    if asked is not None and asked not in rates:
        raise RequestError(400, f"sample_rate: {style} has {', '.join(map(str, rates))}", param="sample_rate")
    return asked or (natural if natural in rates and style != "pcm" else OPENAI_RATE)


class SoundTrack:
    """Samples at `rate` become bytes of a format at `to_rate`, part by part."""

    def __init__(self, style: Format, rate: int, to_rate: int, total: int | None):
        """`total`: samples that there will be, where the format wants to know it before."""
        encoder = _Raw if style in ("wav", "pcm") else _Aac if style == "aac" else _Encoder
        self._encoder = encoder(style, to_rate, total)
        self._stream = None
        if rate != to_rate:
            self._stream = soxr.ResampleStream(rate, to_rate, 1, dtype="float32", quality="HQ")
        self._left = total

    def add(self, samples_N: np.ndarray, *, last: bool = False) -> bytes:
        """What is written once these samples have come."""
        if self._stream is not None:
            samples_N = self._stream.resample_chunk(samples_N, last=last)
        if self._left is not None:  # resampling may give one more or less
            samples_N = np.pad(samples_N[: self._left], (0, max(0, self._left - len(samples_N)) if last else 0))
            self._left -= len(samples_N)
        return self._encoder.add(samples_N) if len(samples_N) else b""

    def end(self) -> bytes:
        """What is left."""
        return self.add(np.zeros(0, np.float32), last=True) + self._encoder.end()


class _Raw:
    """16-bit samples, after a header that leaves their number open, or without one."""

    def __init__(self, style: Format, rate: int, _: int | None):
        self._header = _wav_header(rate) if style == "wav" else b""

    def add(self, samples_N: np.ndarray) -> bytes:
        header, self._header = self._header, b""
        return header + _int16(samples_N).tobytes()

    def end(self) -> bytes:
        return b""


class _Aac:
    """AAC by PyAV, in frames that come as they are made."""

    def __init__(self, _: Format, rate: int, __: int | None):
        import av

        self._file, self._frame = io.BytesIO(), av.AudioFrame.from_ndarray
        self._container = av.open(self._file, "w", format="adts")
        self._stream = self._container.add_stream("aac", rate=rate, layout="mono")

    def add(self, samples_N: np.ndarray) -> bytes:
        frame = self._frame(samples_N[None].astype(np.float32), format="fltp", layout="mono")
        frame.sample_rate = self._stream.rate
        self._container.mux(self._stream.encode(frame))
        return self._new()

    def end(self) -> bytes:
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._new()

    def _new(self) -> bytes:
        content = self._file.getvalue()
        self._file.seek(0)
        self._file.truncate()
        return content


class _Encoder:
    """A format of libsndfile: what it has written so far is handed out, of WHOLE ones all of it at the end."""

    def __init__(self, style: Format, rate: int, total: int | None):
        kinds = {"flac": ("FLAC", "PCM_16"), "mp3": ("MP3", "MPEG_LAYER_III"), "opus": ("OGG", "OPUS")}
        self._file, self._given, self._is_whole = io.BytesIO(), 0, style in WHOLE
        kind, subtype = kinds[style]
        self._sound = soundfile.SoundFile(self._file, "w", rate, 1, format=kind, subtype=subtype)
        self._total = total

    def add(self, samples_N: np.ndarray) -> bytes:
        self._sound.write(_int16(samples_N))
        return b"" if self._is_whole else self._new()

    def end(self) -> bytes:
        self._sound.close()
        return self._new()

    def _new(self) -> bytes:
        content = bytearray(self._file.getbuffer()[self._given :])
        if self._total is not None and self._given == 0 and content:
            _set_flac_length(content, self._total)
        self._given += len(content)
        return bytes(content)


def _set_flac_length(content: bytearray, total: int) -> None:
    """Writes the number of samples into the block STREAMINFO: 36 bits from the middle of byte 21 (RFC 9639, 8.2)."""
    content[21] = content[21] & 0xF0 | total >> 32
    content[22:26] = struct.pack(">I", total & 0xFFFFFFFF)


def _int16(samples_N: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(samples_N * FULL_SCALE), -FULL_SCALE - 1, FULL_SCALE).astype("<i2")


def _wav_header(rate: int) -> bytes:
    described = struct.pack("<IHHIIHH", 16, 1, 1, rate, 2 * rate, 2, 16)
    return (
        b"RIFF"
        + struct.pack("<I", UNKNOWN_BYTES)
        + b"WAVEfmt "
        + described
        + b"data"
        + struct.pack("<I", UNKNOWN_BYTES)
    )

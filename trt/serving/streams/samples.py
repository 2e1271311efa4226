"""Sound that comes in bytes, in the forms that clients send, as float32 samples at the model's rate.

Legend: N samples, C channels.
"""

import numpy as np
import soxr

from trt.serving.admission.limits import RequestError

AT_ONCE = 1 << 14  # bytes that are resampled on the event loop


KINDS = {
    "u8": ("u1", 2.0**7, -1.0),
    "s16le": ("<i2", 2.0**15, 0.0),
    "s32le": ("<i4", 2.0**31, 0.0),
    "f32le": ("<f4", 1.0, 0.0),
    "mu-law": ("u1", 1.0, 0.0),
    "a-law": ("u1", 1.0, 0.0),
}
"""How a sample is written: its type, what it is divided by, and what is added then."""


class SampleStream:
    """A stream of them, mixed to one channel; parts of it need not end where a sample does."""

    def __init__(self, kind: str, rate: int, to_rate: int, channels: int = 1):
        """`kind`: one of KINDS."""
        self._kind, self._channels, self._rest = KINDS[kind], channels, b""
        self._table = companded(kind) if kind.endswith("-law") else None
        self._stream = soxr.ResampleStream(rate, to_rate, 1, dtype="float32") if rate != to_rate else None

    def add(self, content: bytes) -> np.ndarray:
        """The samples [N] of more bytes. Raises RequestError for those that are no numbers."""
        dtype, scale, offset = self._kind
        content, size = self._rest + content, np.dtype(dtype).itemsize * self._channels
        whole = len(content) // size * size
        self._rest = content[whole:]
        given = np.frombuffer(content[:whole], dtype)
        values = given.astype(np.float32) / np.float32(scale) + np.float32(offset)
        if self._table is not None:
            values = self._table[given]
        elif given.dtype.kind == "f" and not np.isfinite(values).all():
            raise RequestError(400, "samples that are NaN or infinite; expected numbers from -1 to 1")
        samples_N = values if self._channels == 1 else values.reshape(-1, self._channels).mean(1, dtype=np.float32)
        return samples_N if self._stream is None else self._stream.resample_chunk(samples_N)

    def end(self) -> np.ndarray:
        """The samples that are left."""
        empty_N = np.zeros(0, np.float32)
        return empty_N if self._stream is None else self._stream.resample_chunk(empty_N, last=True)


def companded(kind: str) -> np.ndarray:
    """Samples of the 256 bytes of telephones, float32: G.711's µ-law and A-law."""
    code = np.arange(256)
    if kind == "mu-law":
        code = ~code & 255
        magnitude = ((((code & 15) << 3) + 132) << (code >> 4 & 7)) - 132
        sign = np.where(code & 128, -1, 1)
    else:
        code = code ^ 0x55
        exponent, mantissa = code >> 4 & 7, code & 15
        magnitude = np.where(exponent == 0, (mantissa << 4) + 8, ((mantissa << 4) + 264) << np.maximum(exponent - 1, 0))
        sign = np.where(code & 128, 1, -1)
    return (sign * magnitude / 32768).astype(np.float32)

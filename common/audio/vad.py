"""Who speaks when: how likely each frame of a stream is speech, and the turns that these make.

Legend: N samples, F frames.
"""

import functools
import importlib.util
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

FRAME_SECONDS = 0.032
FLOOR_DB, QUIETEST_DB = -45.0, -65.0  # power of silence at first, and of the quietest silence; 0 is full scale
RISE_DB = 3.0  # a second: how fast what counts as silence gets louder
MARGIN_DB, SLOPE_DB = 10.0, 2.0  # of speech above silence: where it is as likely as not, and how surely
FEWEST_FRAMES = 3  # of speech that begin a turn


class Vad(Protocol):
    """Tells speech from what is none, in one stream."""

    frame: int
    """Samples of a frame."""

    def __call__(self, frame_N: np.ndarray) -> float:
        """How likely the next frame is speech."""


class EnergyVad:
    """By power alone: speech is louder than what has been quietest lately."""

    def __init__(self, sample_rate: int) -> None:
        self.frame = round(FRAME_SECONDS * sample_rate)
        self._floor = FLOOR_DB

    def __call__(self, frame_N: np.ndarray) -> float:
        """How likely the next frame is speech."""
        power = 10 * np.log10(max(float(np.square(frame_N).mean()), 1e-12))
        self._floor = max(QUIETEST_DB, min(power, self._floor + RISE_DB * FRAME_SECONDS))
        return float(1 / (1 + np.exp(-(power - self._floor - MARGIN_DB) / SLOPE_DB)))


class SileroVad:
    """By the network that the package silero-vad ships, in ONNX Runtime; at 16 kHz."""

    def __init__(self) -> None:
        """Raises ImportError without the package."""
        self.frame, self._network = 512, _silero()
        self._state, self._before = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32)

    def __call__(self, frame_N: np.ndarray) -> float:
        """How likely the next frame is speech."""
        input_1N = np.concatenate([self._before, frame_N])[None].astype(np.float32)
        given = {"input": input_1N, "state": self._state, "sr": np.array(16_000, np.int64)}
        found, self._state = self._network.run(None, given)
        self._before = frame_N[-64:]
        return float(found.item())


class TurnEvent(NamedTuple):
    """A turn begins or ends at a sample of the stream."""

    kind: Literal["started", "stopped"]
    at: int


class Turns:
    """The turns of a stream: from `prefix_seconds` before somebody speaks until `silence_seconds` after."""

    def __init__(
        self,
        vad: Vad,
        sample_rate: int,
        *,
        threshold: float = 0.5,
        prefix_seconds: float = 0.3,
        silence_seconds: float = 0.5,
    ) -> None:
        self._vad, self._threshold = vad, threshold
        self._prefix, self._silence = round(prefix_seconds * sample_rate), round(silence_seconds * sample_rate)
        self._rest_N = np.zeros(0, np.float32)
        self._at = 0  # samples that are judged
        self._first = 0  # of the speech that may be beginning
        self._spoken = 0  # frames of it in a row
        self._last = 0  # end of the last frame of speech
        self.speaks = False

    def feed(self, samples_N: np.ndarray) -> list[TurnEvent]:
        """What begins and ends in these samples, which follow those before."""
        found, size = list[TurnEvent](), self._vad.frame
        samples_N = np.concatenate([self._rest_N, samples_N])
        for start in range(0, len(samples_N) // size * size, size):
            is_speech = self._vad(samples_N[start : start + size]) >= self._threshold
            self._spoken = self._spoken + 1 if is_speech else 0
            if self._spoken == 1:
                self._first = self._at
            self._at += size
            if is_speech:
                self._last = self._at
            if not self.speaks and self._spoken >= FEWEST_FRAMES:
                self.speaks = True
                found.append(TurnEvent("started", max(0, self._first - self._prefix)))
            elif self.speaks and self._at - self._last >= self._silence:
                self.speaks = False
                found.append(TurnEvent("stopped", self._at))
        self._rest_N = samples_N[len(samples_N) // size * size :]
        return found


def best_vad(sample_rate: int) -> Vad:
    """silero-vad's network where the package is installed and the rate is its own, else the power alone."""
    if sample_rate == 16_000 and importlib.util.find_spec("silero_vad") is not None:
        return SileroVad()
    return EnergyVad(sample_rate)


@functools.cache
def _silero() -> Any:
    import onnxruntime

    found = importlib.util.find_spec("silero_vad")
    if found is None or not found.submodule_search_locations:
        raise ImportError("detecting speech by a network needs the extra vad: pip install -e '.[vad]'")
    path = Path(found.submodule_search_locations[0]) / "data" / "silero_vad.onnx"
    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

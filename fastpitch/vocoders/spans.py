"""Some frames of a mel spectrogram, of a tensor or an array: what a vocoder is asked for at a time. Needs no torch.

Shapes: M mel bins, T frames, N samples.
"""

from typing import Any, NamedTuple

CHUNK_FRAMES = 64  # of a stream, 0.74 s: little beside the time it takes to say it


class MelSpan(NamedTuple):
    """Frames `start` to `end` of a mel spectrogram [M, T]."""

    mel_MT: Any
    start: int
    end: int

    def around(self, frames: int) -> "MelSpan":
        """With so many frames more on either side, where there are any."""
        return MelSpan(self.mel_MT, max(0, self.start - frames), min(self.mel_MT.shape[1], self.end + frames))

    def of(self, wider: "MelSpan", audio_N: Any, hop: int) -> Any:
        """Its own samples of those that a wider one has."""
        return audio_N[(self.start - wider.start) * hop : (self.end - wider.start) * hop]

"""Recordings too long to be held in memory: decoded in blocks, resampled on the way, forgotten after use."""

from collections.abc import Callable, Iterator

import numpy as np

from common.audio import waveform
from common.audio.silence import Keep
from common.audio.waveform import AudioError

BLOCK = 1 << 18
"""Numbers that are decoded at a time."""

Blocks = Callable[[], Iterator[np.ndarray]]
"""All samples of a recording from the start, float32, in blocks."""


class LongSound:
    """Mono samples, in place of an array [N] that would be too large: it has a length, and slices.

    Making one reads the whole recording once, so that its length is exact and what is wrong with it is known before it
    is used. A slice that starts before the last one did decodes it all again. Slices are for one thread at a time.
    """

    def __init__(
        self, blocks: Blocks, rate: float, to_rate: float, *, keep: Keep | None = None, name: str = "recording"
    ):
        """`rate` is that of the blocks, `to_rate` that of the samples; what `keep` does not keep is cut out.

        `name` is what messages call it. Raises AudioError.
        """
        self.raises = True
        """Whether a slice raises the AudioError of a recording that can no longer be read, or leaves it in `error`."""
        self.error = ""
        self._blocks, self._rates, self._name = blocks, (rate, to_rate), name
        self._count, self._loudest = 0, 0.0
        counted = self._counted()
        kept_K2 = keep(counted) if keep else np.array([[0, sum(map(len, counted))]])
        self.kept_K2 = np.minimum(kept_K2, self._count)
        """The samples that are kept, first and end of each part."""
        self._coming: Iterator[np.ndarray] | None = None
        self._held_N, self._at = np.zeros(0, np.float32), 0

    @property
    def whole(self) -> int:
        """How many samples there are with those that were cut out."""
        return self._count

    @property
    def is_silent(self) -> bool:
        """Whether nothing can be heard."""
        return self._loudest <= waveform.INAUDIBLE

    def __len__(self) -> int:
        return int((self.kept_K2[:, 1] - self.kept_K2[:, 0]).sum())

    def __getitem__(self, wanted: slice) -> np.ndarray:
        """Float32 samples of a slice of step 1."""
        start, stop, step = wanted.indices(len(self))
        if step != 1:
            raise ValueError(f"a slice of step {step}: expected 1")
        stop = max(start, stop)
        if self._coming is None or start < self._at:
            self._coming, self._held_N, self._at = self._kept(), np.zeros(0, np.float32), 0
        held = [self._held_N]
        end = self._at + len(self._held_N)
        try:
            while end < stop and not self.error:
                if end <= start:  # nothing of it is wanted any more
                    held, self._at = [], end
                held.append(next(self._coming))
                end += len(held[-1])
        except (AudioError, StopIteration) as error:
            self.error = str(error) or f"{self._name}: has become shorter while it was read"
            if self.raises:
                raise AudioError(self.error) from None
        held_N = np.concatenate(held) if len(held) != 1 else held[0]
        self._held_N, self._at = held_N[max(0, start - self._at) :], max(start, self._at)
        found_N = self._held_N[: stop - start]
        return found_N if len(found_N) == stop - start else np.zeros(stop - start, np.float32)

    def _kept(self) -> Iterator[np.ndarray]:
        at, parts = 0, self.kept_K2
        for block in waveform.resampled(self._blocks(), *self._rates):
            before, within = np.searchsorted(parts[:, 1], [at, at + len(block)], side="right")
            for first, end in np.clip(parts[before : within + 1] - at, 0, len(block)):
                yield block[first:end]
            at += len(block)

    def _counted(self) -> Iterator[np.ndarray]:
        for block in waveform.resampled(self._blocks(), *self._rates):
            self._count += len(block)
            self._loudest = max(self._loudest, float(block.max(initial=0.0)), float(-block.min(initial=0.0)))
            yield block

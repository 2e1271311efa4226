"""How recordings of any length are cut: whole, or in chunks with context on both sides.

Shapes: N samples, S encoder frames.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # its module needs torch
    from fastconformer.config import EncoderConfig


@dataclass(frozen=True, kw_only=True)
class ChunkOptions:
    """How long recordings are encoded. A frame is heard with what is around it in its chunk and in the context."""

    chunk_seconds: float = 10.0
    """Length of the chunks of long recordings."""
    left_seconds: float = 10.0
    """Context before each chunk, encoded with it and not decoded again."""
    right_seconds: float = 5.0
    """Context after each chunk, encoded with it and not decoded yet."""
    whole_seconds: float = 60.0
    """Length up to which a recording is encoded in one piece."""

    def __post_init__(self) -> None:
        if not 0 < self.chunk_seconds < float("inf"):
            raise ValueError(f"chunk_seconds = {self.chunk_seconds}: expected seconds above 0")
        for name in ("left_seconds", "right_seconds", "whole_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} = {getattr(self, name)}: expected seconds, at least 0")


def attention_step(cfg: "EncoderConfig") -> int:
    """Frames of a chunk that attention sees at once, 1 where there are no chunks. They are counted from where a window
    starts, so windows start at multiples: a frame then sees what it would see in the whole recording."""
    if cfg.attention == "chunked":
        return max(1, cfg.right_frames + 1)
    return max(1, cfg.chunk_frames) if cfg.attention == "chunked_right" else 1


def windows(n_frames: int, *, chunk: int, left: int, right: int) -> Iterator[tuple[int, int, int, int]]:
    """Where the context of each chunk starts, the chunk starts, the chunk ends, and its context ends, in frames."""
    for first in range(0, n_frames, chunk):
        end = min(first + chunk, n_frames)
        yield max(0, first - left), first, end, min(end + right, n_frames)

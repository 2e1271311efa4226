from types import SimpleNamespace

import numpy as np

from trt.saying import Saying, say_together
from trt.serving.models import _next


def stream(*pieces):
    for piece in pieces:
        if piece is None:
            raise MemoryError("the device is full")
        yield np.full(2, piece, np.float32)


def test_a_sound_that_cannot_be_made_takes_none_from_the_others():
    """Streams cannot be asked twice for the same piece."""
    texts = {"first": (1.0, 2.0), "second": (3.0, None), "third": (5.0, 6.0)}
    planned = {name: SimpleNamespace(name=name, encoded=SimpleNamespace(tokens=(1,)), pause_ms=0) for name in texts}
    sayings = {name: Saying([planned[name]], chunk_frames=1) for name in texts}
    found = {name: [] for name in texts}
    for _ in range(3):
        said = say_together(
            list(sayings.values()),
            sentences=lambda pieces: [(stream(*texts[piece.name]), 2) for piece in pieces],
            sounds=lambda speaking: [_next(saying.sentence) for saying in speaking],
            sample_rate=8000,
        )
        for name, piece in zip(list(sayings), said, strict=True):
            found[name].append(piece)
            if isinstance(piece, Exception):
                del sayings[name]
    assert [piece if piece is None else piece[0] for piece in found["first"]] == [1.0, 2.0, None]
    assert [piece if piece is None else piece[0] for piece in found["third"]] == [5.0, 6.0, None]
    assert [type(piece) for piece in found["second"]] == [np.ndarray, MemoryError]

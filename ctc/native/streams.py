"""Where kernels run that are called by ctypes: on the device of their tensors, on the stream that torch has there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # libraries are built and loaded without it
    import torch


@contextmanager
def current_stream(device: torch.device) -> Iterator[int]:
    """The address of the current stream of `device`, which is the current device meanwhile."""
    import torch

    with torch.cuda.device(device):
        yield torch.cuda.current_stream(device).cuda_stream

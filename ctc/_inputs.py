"""What every decoder of this package checks about its inputs, in one place, with one wording.

B utterances, S frames, V labels (blank among them), U labels of a transcript.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

FLOAT_TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def batch_scores(scores_BSV: Tensor | np.ndarray, blank: int, *, name: str) -> Tensor:
    """`scores_BSV` as a tensor: of an array the same memory, unless it cannot be written to or its numbers lie apart.

    Raises ValueError unless it is a batch of frame scores with a label `blank`, TypeError for neither of them.
    """
    return _scores(scores_BSV, blank, ("utterance", "frame", "label"), name)


def frame_scores(scores_SV: Tensor | np.ndarray, blank: int, *, name: str) -> Tensor:
    """As `batch_scores`, of one utterance."""
    return _scores(scores_SV, blank, ("frame", "label"), name)


def _scores(scores: Tensor | np.ndarray, blank: int, axes: tuple[str, ...], name: str) -> Tensor:
    if not isinstance(scores, Tensor | np.ndarray):
        found = type(scores)
        raise TypeError(
            f"{name}: expected a torch.Tensor or a numpy.ndarray, found {found.__module__}.{found.__qualname__}"
        )
    if scores.ndim != len(axes):
        raise ValueError(f"{name}: expected ({', '.join(axes)}), found shape {tuple(scores.shape)}")
    if isinstance(scores, np.ndarray) and scores.dtype in (np.float64, np.float32, np.float16):
        scores = torch.from_numpy(np.require(scores, requirements=("C", "W")))
    if not isinstance(scores, Tensor) or scores.dtype not in FLOAT_TYPES:
        raise ValueError(f"{name}: expected a floating-point type, found {scores.dtype}")
    if not 0 <= blank < scores.shape[-1]:
        raise ValueError(f"blank: expected a label in [0, {scores.shape[-1]}), found {blank}")
    return scores


def length_tensor(values: Tensor | Sequence[int], batch: int, *, name: str) -> Tensor:
    """`values` as int64 [batch] on the device where they are, so that no device is waited for."""
    if values is None:
        raise TypeError(f"{name}: expected {batch} integers, one per utterance, found None")
    lengths_B = torch.as_tensor(values)
    if lengths_B.shape != (batch,) or (lengths_B.is_floating_point() and batch > 0):
        found = f"{lengths_B.dtype} of shape {tuple(lengths_B.shape)}"
        raise ValueError(f"{name}: expected {batch} integers, one per utterance, found {found}")
    return lengths_B.long()


def check_lengths(lengths: Sequence[int], maximum: int, *, name: str) -> None:
    """Raises ValueError that names the first item whose length is not in [0, maximum]."""
    for item, length in enumerate(lengths):
        if not 0 <= length <= maximum:
            raise ValueError(f"{name}: item {item}: expected at least 0 and at most {maximum}, found {length}")


def host_lengths(values: Tensor | Sequence[int], batch: int, maximum: int, *, name: str) -> Tensor:
    """`values` as int64 [batch] on the CPU, each checked to be in [0, maximum]."""
    lengths_B = length_tensor(values, batch, name=name).cpu()
    check_lengths(lengths_B.tolist(), maximum, name=name)
    return lengths_B

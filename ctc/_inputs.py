"""What every decoder of this package checks about its inputs, in one place, with one wording.

B utterances, S frames, V labels (blank among them), U labels of a transcript.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

FLOAT_TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def check_scores(scores_BSV: Tensor, blank: int, *, name: str) -> None:
    """Raises ValueError unless `scores_BSV` is a batch of frame scores with a label `blank`, TypeError if no tensor."""
    if not isinstance(scores_BSV, Tensor):
        found = type(scores_BSV)
        raise TypeError(f"{name}: expected a torch.Tensor, found {found.__module__}.{found.__qualname__}")
    if scores_BSV.dim() != 3:
        raise ValueError(f"{name}: expected (utterance, frame, label), found shape {tuple(scores_BSV.shape)}")
    if scores_BSV.dtype not in FLOAT_TYPES:
        raise ValueError(f"{name}: expected a floating-point type, found {scores_BSV.dtype}")
    if not 0 <= blank < scores_BSV.shape[2]:
        raise ValueError(f"blank: expected a label in [0, {scores_BSV.shape[2]}), found {blank}")


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

"""What is checked before the loss is computed on a GPU. Shapes: T frames, B utterances, V classes."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ctc._loss_library import LossOptions, TargetLabels, check


def check_on_host(
    logits_TBV: Tensor,
    options: LossOptions,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
) -> None:
    """ValueError for the first utterance whose lengths or labels do not fit, where all of them are on the host.

    What is on the device is looked at there alone, and makes NaN.
    """
    given = (targets, *(torch.as_tensor(lengths) for lengths in (input_lengths, target_lengths)))
    is_special = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    if is_special or logits_TBV.shape[1] == 0 or any(tensor.is_cuda for tensor in given):
        return
    check(logits_TBV, TargetLabels(targets, given[1].reshape(-1), given[2].reshape(-1), targets.shape[-1]), options)

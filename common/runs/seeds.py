"""Seeds of everything random: functions of the run's seed and of where in the run it is, never of what came before."""

import numpy as np
import torch


def mixed(*parts: int) -> int:
    """A seed that depends on all of `parts`, numbers of at least 0; seeds of neighbours have nothing in common."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(2))


def begin(seed: int, device: torch.device) -> None:
    """As `torch.manual_seed`, for networks on `device`: what draws without a generator of its own begins at `seed`.

    On a CPU that is all of it: for devices that are not in use torch notes each time from where it was called.
    """
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)

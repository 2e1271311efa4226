"""Results on their way from a device to the host while the device goes on."""

from typing import Any

import torch
from torch import Tensor


class HostCopy:
    """Numbers of a tensor as it is now, on their way to the host.

    Reading them waits for them alone, where `tensor.tolist()` would wait for all that a GPU has been told since, the
    step or batch under way included.
    """

    def __init__(self, tensor: Tensor):
        self._numbers = tensor.detach().to("cpu", non_blocking=True, copy=True)  # in pinned memory, if from a GPU
        on_host = tensor.device.type == "cpu"
        self._arrived = None if on_host else torch.accelerator.current_stream(tensor.device).record_event()

    def tensor(self) -> Tensor:
        """The tensor on the host."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._numbers

    def tolist(self) -> Any:
        """A number, or nested lists of them."""
        return self.tensor().tolist()

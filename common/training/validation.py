"""The processes of a validation, which a signal to one of them may cut short in all of them."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from common.devices.distributed import World
from common.interruption import Interrupted, Termination


@dataclass(frozen=True, kw_only=True)
class CuttableWorld(World):
    """All processes while they compute something that a signal to one of them may end, in all of them.

    Every exchange is a `gather`; who is cut says so in its next one, and nobody waits for what does not come.
    """

    signals: Termination

    def gather(self, item: Any) -> list[Any]:
        """`item` of every process. Raises Interrupted in all if one of them is cut."""
        with self.signals.held():
            items = super().gather(_CUT if self.signals.came else item)
            if _CUT in [item for item in items if isinstance(item, str)]:
                raise Interrupted(is_agreed=True)
        return items

    def sum(self, value: Tensor) -> Tensor:
        """The sum of `value` over all processes."""
        return torch.stack(self.gather(value.detach().cpu())).sum(0).to(value.device)

    def any(self, flag: bool) -> bool:
        """Whether `flag` is set in at least one process."""
        return any(self.gather(flag))

    def say_cut(self) -> None:
        """Ends the computation in the other processes."""
        super().gather(_CUT)


_CUT = "\0cut"

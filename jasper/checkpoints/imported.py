"""What a checkpoint gives, whoever wrote it."""

from typing import NamedTuple

from torch import Tensor

from jasper.config import Config


class Imported(NamedTuple):
    """Weights under this repository's names, EMA weights if the file has them, and the configuration they fit."""

    weights: dict[str, Tensor]
    ema: dict[str, Tensor] | None
    config: Config
    assumed: tuple[str, ...] = ()
    """What the checkpoint does not say, in lines for the user."""
    step: int | None = None
    """Optimiser step at which it was saved, if it says so."""

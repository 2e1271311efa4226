"""1-D convolutions by whichever algorithm costs least: direct, Winograd's, overlap-save.

`FusedConvolution`, for inference, takes the weights of an `nn.Conv1d`; `prepare` packs those of a whole network for
this processor. `WinogradConvolution` is trained. `Linear` is both, and `pack_linear` packs those of a network. `Rows`
(`common.convolution.rows`) is a linear layer on arrays, which needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from common.convolution.linear import Linear, pack_linear, unpack_linear
    from common.convolution.native import workspace
    from common.convolution.operator import (
        FusedConvolution,
        Lengths,
        PreparationReport,
        along_time,
        can_be_prepared,
        convolve,
        prepare,
    )
    from common.convolution.weights.kept import Kept, owned
    from common.convolution.winograd import WinogradConvolution

_MODULES = {
    "linear": ("Linear", "pack_linear", "unpack_linear"),
    "native": ("workspace",),
    "operator": (
        "FusedConvolution", "Lengths", "PreparationReport", "along_time", "can_be_prepared", "convolve", "prepare"
    ),
    "weights.kept": ("Kept", "owned"),
    "winograd": ("WinogradConvolution",),
}  # fmt: skip


def __getattr__(name: str) -> object:
    """What needs torch, imported when it is first asked for."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"common.convolution.{module}"), name)
    raise AttributeError(f"module 'common.convolution' has no attribute {name!r}")


__all__ = [
    "FusedConvolution",
    "Kept",
    "Lengths",
    "Linear",
    "PreparationReport",
    "WinogradConvolution",
    "along_time",
    "can_be_prepared",
    "convolve",
    "owned",
    "pack_linear",
    "prepare",
    "unpack_linear",
    "workspace",
]

"""1-D convolutions by whichever algorithm costs least: direct, Winograd's, overlap-save.

`FusedConvolution`, for inference, takes the weights of an `nn.Conv1d`; `prepare` packs those of a whole network for
this processor. `WinogradConvolution` is trained. `Linear` is both, and `pack_linear` packs those of a network.
"""

from common.convolution.kept import Kept, owned
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
from common.convolution.winograd import WinogradConvolution

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

"""1-D convolutions by whichever algorithm costs least: direct, Winograd's, overlap-save.

`FusedConvolution`, for inference, takes the weights of an `nn.Conv1d`; `prepare` packs those of a whole network for
this processor. `Convolution` is trained.
"""

from common.convolution.native import workspace
from common.convolution.operator import FusedConvolution, Lengths, Prepared, can_be_prepared, convolve, prepare
from common.convolution.winograd import Convolution

__all__ = [
    "Convolution",
    "FusedConvolution",
    "Lengths",
    "Prepared",
    "can_be_prepared",
    "convolve",
    "prepare",
    "workspace",
]

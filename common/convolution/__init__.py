"""1-D convolutions for inference by whichever algorithm costs least: direct, Winograd's, overlap-save.

`FusedConvolution` takes the weights of an `nn.Conv1d`; `prepare` packs those of a whole network for this processor.
"""

from common.convolution.operator import FusedConvolution, Lengths, Prepared, convolve, prepare

__all__ = ["FusedConvolution", "Lengths", "Prepared", "convolve", "prepare"]

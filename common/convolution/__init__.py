"""1-D convolutions by whichever algorithm costs least: direct, Winograd's, overlap-save.

`FusedConvolution` of `operator`, for inference, takes the weights of an `nn.Conv1d`; `prepare` packs those of a whole
network for this processor. `WinogradConvolution` is trained. `linear.Linear` is both, and `pack_linear` packs those of
a network. `rows.Rows` is a linear layer on arrays, which needs no torch, nor does `library`.
"""

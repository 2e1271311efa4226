"""Linear layers by the library that is fastest on this processor.

Shapes: I features in, O out, R rows: all but the last dimension of an input.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution import native, products
from common.convolution.native import Activation, Epilogue, PackedConvolution, Weights
from common.convolution.operator import runs_natively
from common.convolution.training import layers as trained
from common.convolution.training import matmul
from common.convolution.weights.scales import packed_by

SMALLEST = 2**15  # weights, below which a call of the native library takes longer than it saves


class Linear(nn.Linear):
    """`nn.Linear`, with the same names, which is trained and computes by the faster of torch's libraries.

    `pack_linear` brings the weights into the order of the native kernels, for inference, and drops those of torch.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        super().__init__(in_features, out_features, bias)
        self.packed: PackedConvolution | None = None

    def forward(self, x_XI: Tensor, activation: Activation = "identity") -> Tensor:
        """[..., O], after "identity", "gelu" or "silu"."""
        if self.packed is None or not runs_natively(x_XI) or not x_XI.numel():
            if self.packed is None and products.is_worth_it(x_XI) and matmul.is_fastest(x_XI, self.weight):
                is_fused = activation != "silu"
                y_XO = trained.linear(x_XI, self.weight, self.bias, activation if is_fused else "identity")
            else:
                is_fused, y_XO = False, F.linear(x_XI, self.direct_weight(), self.bias)
            return y_XO if is_fused or activation == "identity" else getattr(F, activation)(y_XO)
        rows_1RI = x_XI.reshape(1, -1, self.in_features)
        y_1RO = x_XI.new_empty(1, rows_1RI.shape[1], self.out_features)
        native.run(rows_1RI, self.packed, Epilogue(self.bias, activation=activation), y_1RO)
        return y_1RO.view(*x_XI.shape[:-1], self.out_features)

    def pack(self, weights: Weights = "float32") -> bool:
        """Packs the weights, which have to be on the CPU in float32, as `weights`; whether it did: those that "int8"
        would harm (`Sizes`) are packed in float32. "int8" rounds rows of the input, too. Needs the native library.

        A row has the same bits then, whatever the other rows are. Packed weights are packed anew, where nothing has
        rounded them. Raises ValueError for others.
        """
        native.check_packable(self.weight, self.packed, weights)
        if self.packed is not None and self.packed.weights == weights:
            return True
        weight_O1I = self.direct_weight().detach()[:, None].contiguous()
        self.packed, _ = packed_by(weight_O1I, [(None, weights), (None, "float32")])
        self.weight = nn.Parameter(self.weight.new_empty(0), requires_grad=False)
        return self.packed.weights == weights

    def direct_weight(self) -> Tensor:
        """[O, I]: the weights, from the packed ones where there are such."""
        return self.weight if self.packed is None else native.unpack(self.packed)[0].T.contiguous()

    def unpack(self) -> None:
        """The weights are torch's again."""
        if self.packed is not None:
            self.weight, self.packed = nn.Parameter(self.direct_weight(), requires_grad=False), None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Linear":
        """Packed weights are of use on this processor in float32 only: with any change torch's come back."""
        if self.packed is not None:
            probe = fn(torch.empty(0))
            if probe.device.type != "cpu" or probe.dtype != torch.float32:
                self.unpack()
        return super()._apply(fn, recurse)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.packed is not None:
            destination[f"{prefix}weight"] = self.direct_weight()

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        self.unpack()
        super()._load_from_state_dict(state_dict, prefix, *args)


def pack_linear(network: nn.Module) -> int:
    """Packs every `Linear` of a network for inference, where that pays; returns how many.

    It does on a CPU, in float32, where MKL is slow (`products.has_fast_products`) and the native library is built.
    """
    layers = [module for module in network.modules() if isinstance(module, Linear) and module.packed is None]
    layers = [layer for layer in layers if layer.weight.numel() >= SMALLEST and layer.weight.dtype == torch.float32]
    layers = [layer for layer in layers if layer.weight.device.type == "cpu"]
    if not layers or products.has_fast_products() or native.load() is None:
        return 0
    with torch.inference_mode(False), torch.no_grad():
        for layer in layers:
            layer.pack()
    return len(layers)


def unpack_linear(network: nn.Module) -> None:
    """Undoes `pack_linear`."""
    for module in network.modules():
        if isinstance(module, Linear):
            module.unpack()

"""The joint on tiles of frames of a whole batch, whose logits go to the CUDA kernels: products by torch, no waiting.

All cells of a tile are computed, of whatever length the utterances are, and in backward those too whose gradient is 0:
to leave some out, the host would have to wait for their number.

Shapes: B utterances, T frames, U positions, F frames of a tile, J joint, W outputs, N cells of a tile.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from fastconformer.transducer.loss._cuda_library import Lattices
from fastconformer.transducer.loss._loss_library import TransducerLossOptions, TransducerTargets

TILE_ROWS = 8192
"""Cells of a tile, enough to keep a large GPU's multipliers busy: of 1,024 outputs and a joint of 640, 32 MiB of logits
and 20 MiB each of hidden values and their gradient."""
ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


def activate_(x: Tensor, activation: str) -> None:
    """The activation, in place."""
    {"relu": torch.relu_, "tanh": torch.tanh_, "sigmoid": torch.sigmoid_}[activation](x)


def differentiate_(gradient: Tensor, activated: Tensor, activation: str) -> None:
    """The gradient of what was activated becomes that of the sum, in place."""
    if activation == "relu":
        gradient.masked_fill_(activated <= 0, 0)
    elif activation == "tanh":
        gradient.mul_(1 - activated.square())
    else:
        gradient.mul_(activated * (1 - activated))


class Gradients(NamedTuple):
    """Where gradients are added up: float64 for float64, else float32. Of a batch, or of one of its utterances."""

    encoded: Tensor
    predicted: Tensor
    weight_WJ: Tensor
    bias_W: Tensor


class BatchJoint:
    """A batch's frames and positions, and what the joint does with them on a device."""

    def __init__(
        self,
        encoded_BTJ: Tensor,
        predicted_BUJ: Tensor,
        weight_WJ: Tensor,
        bias_W: Tensor,
        labels: TransducerTargets,
        activation: str,
        dropout: float,
        seeds_B: Tensor,
    ) -> None:
        """`seeds_B`, on the host, determine the dropout if there is any."""
        device = encoded_BTJ.device
        # What lies behind an utterance may be anything, NaN too, which a gradient of 0 would not make 0.
        is_frame_BT = torch.arange(encoded_BTJ.shape[1], device=device) < labels.frames_B[:, None]
        is_position_BU = torch.arange(predicted_BUJ.shape[1], device=device) <= labels.labels_B[:, None]
        self.encoded_BTJ = torch.where(is_frame_BT[..., None], encoded_BTJ, 0)
        self.predicted_BUJ = torch.where(is_position_BU[..., None], predicted_BUJ, 0)
        self.weight_WJ, self.bias_W, self.labels = weight_WJ, bias_W, labels
        self.activation, self.dropout = activation, dropout
        self.seed = int(seeds_B[0]) if dropout and len(seeds_B) else 0
        self.shape = (*encoded_BTJ.shape[:2], predicted_BUJ.shape[1], len(weight_WJ))

    def losses(self, options: TransducerLossOptions) -> tuple[Tensor, Tensor]:
        """The losses, float64 [B], and the lattices that `backward` reads."""
        lattices = Lattices(self.weight_WJ.dtype, self.shape, self.labels, options)
        lattices.begin()
        for first, activated_BFUJ in self._tiles():
            lattices.read(first, self._logits(self._dropped(activated_BFUJ, first)))
        return lattices.walk(), lattices.memory

    def backward(self, options: TransducerLossOptions, memory: Tensor, scale_B: Tensor, gradients: Gradients) -> None:
        """Adds the gradient of the losses times `scale_B`; `memory` is what `losses` gave."""
        lattices = Lattices(self.weight_WJ.dtype, self.shape, self.labels, options, memory=memory)
        wide = gradients.weight_WJ.dtype
        for first, activated_BFUJ in self._tiles():
            hidden_BFUJ = self._dropped(activated_BFUJ, first)
            logits_BFUW = self._logits(hidden_BFUJ)
            lattices.write_gradient(first, logits_BFUW, scale_B, logits_BFUW)
            logits_NW = logits_BFUW.flatten(0, 2)
            gradients.weight_WJ.add_(logits_NW.T @ hidden_BFUJ.flatten(0, 2))
            gradients.bias_W.add_(logits_NW.sum(0, dtype=wide))
            gradient_BFUJ = self._dropped((logits_NW @ self.weight_WJ).view_as(activated_BFUJ), first)
            differentiate_(gradient_BFUJ, activated_BFUJ, self.activation)
            last = first + gradient_BFUJ.shape[1]
            gradients.encoded[:, first:last] = gradient_BFUJ.sum(2, dtype=wide)
            gradients.predicted.add_(gradient_BFUJ.sum(1, dtype=wide))

    def _tiles(self) -> Iterator[tuple[int, Tensor]]:
        """The number of the first frame, and what the activation makes of the cells [B, F, U, J]."""
        batch, frames, positions, _ = self.shape
        tile_frames = max(1, TILE_ROWS // max(1, batch * positions))
        for first in range(0, frames, tile_frames):
            activated_BFUJ = self.encoded_BTJ[:, first : first + tile_frames, None] + self.predicted_BUJ[:, None]
            activate_(activated_BFUJ, self.activation)
            yield first, activated_BFUJ

    def _dropped(self, x_BFUJ: Tensor, first: int) -> Tensor:
        """What dropout leaves of the tile whose first frame is `first`, drawn alike each time."""
        if not self.dropout:
            return x_BFUJ
        random = torch.Generator(x_BFUJ.device).manual_seed(self.seed ^ first)
        return x_BFUJ * torch.empty_like(x_BFUJ).bernoulli_(1 - self.dropout, generator=random).div_(1 - self.dropout)

    def _logits(self, hidden_BFUJ: Tensor) -> Tensor:
        return torch.nn.functional.linear(hidden_BFUJ, self.weight_WJ, self.bias_W)

"""The losses fused with the joint: logits are made a few cells at a time, and made again in backward.

An utterance has T x U cells with an output for every label; of 200 frames, 50 labels and 1,024 pieces these are 40 MB,
and as much for their gradient, the joint's hidden values and theirs. A tile is a thousandth of that. In backward cells
through which next to none of the probability goes are left out, which are most of them once a model has learned. In
float32 and without dropout the loss is one native call, which does not make the logits of cells either that next to
nothing reaches (`csrc/joint_cells.h`). On a GPU a tile is of all utterances, and larger (`joint_tiles.py`).

Shapes: B utterances, T frames, L labels, U positions: L + 1, J joint, V labels and blank, W outputs: V, then one per
duration, N cells of a tile.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from fastconformer.transducer.loss import _cuda_library, _loss_library
from fastconformer.transducer.loss._loss_library import GIVEN, NativeLattice, TransducerLossOptions, given, taken
from fastconformer.transducer.loss.joint_tiles import ACTIVATIONS, BatchJoint, Gradients, activate_, differentiate_
from fastconformer.transducer.loss.losses import (
    SKIP_BELOW,
    Lengths,
    Reduction,
    checked_labels,
    checked_options,
    is_native,
    reduced,
)
from fastconformer.transducer.loss.plain_losses import plain_losses
from fastconformer.transducer.weights import Activation

TILE_ROWS = 512


def joint_loss(
    encoded_BTJ: Tensor,
    predicted_BUJ: Tensor,
    weight_WJ: Tensor,
    bias_W: Tensor,
    targets_BL: Tensor,
    frames_B: Lengths,
    target_lengths_B: Lengths,
    durations: tuple[int, ...] = (),
    *,
    blank: int = -1,
    sigma: float = 0.0,
    reduction: Reduction = "mean",
    fastemit: float = 0.0,
    activation: Activation = "relu",
    dropout: float = 0.0,
    skip_below: float = SKIP_BELOW,
) -> Tensor:
    """`rnnt_loss`, or with durations `tdt_loss`, of logits W a(encoded + predicted) + b that nobody stores.

    `encoded_BTJ` and `predicted_BUJ` are frames and label positions, projected to the width of the joint; `activation`
    is that of their sum, and `dropout` the probability that one of its numbers becomes 0, drawn from torch's generator.
    All else is as in `fastconformer.transducer.loss.losses`: gradients go to the four tensors, and on a CPU those of an
    utterance's frames and positions are bitwise the same in every batch, on as many threads; on a GPU they are as far
    as torch's products are. In float32 and without dropout `skip_below` leaves cells out of a CPU's loss too, with less
    than a millionth of it of the probability of all paths together.

    Raises ValueError for shapes, lengths and labels that do not fit, TypeError for types.
    """
    if encoded_BTJ.dim() != 3 or predicted_BUJ.dim() != 3 or encoded_BTJ.shape[::2] != predicted_BUJ.shape[::2]:
        found = f"{list(encoded_BTJ.shape)} and {list(predicted_BUJ.shape)}"
        raise ValueError(f"encoded and predicted: expected [utterance, frame or position, joint], found {found}")
    if weight_WJ.dim() != 2 or weight_WJ.shape[1] != encoded_BTJ.shape[2] or bias_W.shape != weight_WJ.shape[:1]:
        found = f"{list(weight_WJ.shape)} and {list(bias_W.shape)}"
        raise ValueError(f"weight and bias: expected [output, {encoded_BTJ.shape[2]}] and [output], found {found}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout: expected at least 0 and less than 1, found {dropout}")
    if torch.is_autocast_enabled(encoded_BTJ.device.type):
        kind = torch.get_autocast_dtype(encoded_BTJ.device.type)
        encoded_BTJ, predicted_BUJ, weight_WJ, bias_W = (
            x.to(kind) for x in (encoded_BTJ, predicted_BUJ, weight_WJ, bias_W)
        )
    kinds = {encoded_BTJ.dtype, predicted_BUJ.dtype, weight_WJ.dtype, bias_W.dtype}
    if len(kinds) != 1 or encoded_BTJ.dtype not in _loss_library.TYPES:
        raise TypeError(f"encoded, predicted, weight, bias: expected one floating-point type, found {kinds}")
    options = checked_options(
        TransducerLossOptions(blank=blank, durations=durations, sigma=sigma, fastemit=fastemit, skip_below=skip_below),
        len(weight_WJ),
    )
    shape = (*encoded_BTJ.shape[:2], predicted_BUJ.shape[1], len(weight_WJ))
    labels = checked_labels(encoded_BTJ, shape, options, targets_BL, frames_B, target_lengths_B)
    if is_native(encoded_BTJ, shape[:3], options, "transducer.joint_loss"):
        losses_B, *_ = _joint_losses_op(
            *(encoded_BTJ, predicted_BUJ, weight_WJ, bias_W, *given(labels, options)),
            *(activation, dropout, torch.randint(2**62, (len(encoded_BTJ),)) if dropout else labels.frames_B),
        )
    else:
        if not torch.compiler.is_compiling() and encoded_BTJ.is_cpu:
            _loss_library.check(shape, labels, options)
        hidden_BTUJ = ACTIVATIONS[activation](encoded_BTJ[:, :, None] + predicted_BUJ[:, None])
        logits_BTUW = F.linear(F.dropout(hidden_BTUJ, dropout), weight_WJ, bias_W)
        losses_B = plain_losses(logits_BTUW, labels, options)
    return reduced(losses_B, reduction, encoded_BTJ.dtype)


class UtteranceJoint(NamedTuple):
    """One utterance's frames and positions, and what the joint does with them."""

    encoded_TJ: Tensor
    predicted_UJ: Tensor
    weight_WJ: Tensor
    bias_W: Tensor
    activation: str
    dropout: float
    seed: int

    @property
    def tile_frames(self) -> int:
        """Frames of a tile; dropout is drawn for all cells of a tile at once."""
        return max(1, TILE_ROWS // len(self.predicted_UJ))

    def masks(self, first: int, last: int) -> Tensor:
        """[frames, U, J]: what dropout multiplies the cells of the tile with."""
        shape = (last - first, *self.predicted_UJ.shape)
        random = torch.Generator().manual_seed(self.seed ^ first)
        return (
            torch.empty(shape, dtype=self.encoded_TJ.dtype)
            .bernoulli_(1 - self.dropout, generator=random)
            .div_(1 - self.dropout)
        )

    def tiles(self) -> Iterator[tuple[int, Tensor]]:
        """The logits [N, W] of all cells in order, and the number of the first; they last until the next."""
        positions = len(self.predicted_UJ)
        rows = self.tile_frames * positions
        hidden_FUJ = self.encoded_TJ.new_empty(self.tile_frames, *self.predicted_UJ.shape)
        logits_NW = self.encoded_TJ.new_empty(rows, len(self.weight_WJ))
        for first in range(0, len(self.encoded_TJ), self.tile_frames):
            last = min(first + self.tile_frames, len(self.encoded_TJ))
            tile_FUJ = hidden_FUJ[: last - first]
            torch.add(self.encoded_TJ[first:last, None], self.predicted_UJ, out=tile_FUJ)
            activate_(tile_FUJ, self.activation)
            if self.dropout:
                tile_FUJ *= self.masks(first, last)
            out_NW = logits_NW[: (last - first) * positions]
            yield first * positions, torch.addmm(self.bias_W, tile_FUJ.flatten(0, 1), self.weight_WJ.T, out=out_NW)

    def masks_of(self, cells_N: Tensor) -> Tensor:
        """The rows of dropout of some cells."""
        positions = len(self.predicted_UJ)
        tile_N = cells_N.div(self.tile_frames * positions, rounding_mode="floor")
        rows = []
        for tile in tile_N.unique().tolist():
            first = tile * self.tile_frames
            masks_FUJ = self.masks(first, min(first + self.tile_frames, len(self.encoded_TJ)))
            rows.append(masks_FUJ.flatten(0, 1)[cells_N[tile_N == tile] - first * positions])
        return torch.cat(rows)

    def backward(self, cells_M: Tensor, lattice: NativeLattice, scale: float, gradients: "Gradients") -> None:
        """Adds the gradient of `scale` times the loss; `cells_M` are those that are not skipped."""
        positions = len(self.predicted_UJ)
        rows = min(len(cells_M), TILE_ROWS)
        activated_NJ, gradient_NJ, position_NJ = self.encoded_TJ.new_empty(3, rows, self.encoded_TJ.shape[1])
        logits_NW = self.encoded_TJ.new_empty(rows, len(self.weight_WJ))
        for cells_N in cells_M.split(TILE_ROWS):
            n = len(cells_N)
            frame_N = cells_N.div(positions, rounding_mode="floor")
            position_N = cells_N - frame_N * positions
            torch.index_select(self.encoded_TJ, 0, frame_N, out=activated_NJ[:n])
            torch.index_select(self.predicted_UJ, 0, position_N, out=position_NJ[:n])
            activated_NJ[:n] += position_NJ[:n]
            activate_(activated_NJ[:n], self.activation)
            masks_NJ = self.masks_of(cells_N) if self.dropout else None
            hidden_NJ = activated_NJ[:n] if masks_NJ is None else activated_NJ[:n] * masks_NJ
            torch.addmm(self.bias_W, hidden_NJ, self.weight_WJ.T, out=logits_NW[:n])
            lattice.gradients_(logits_NW[:n], cells_N, scale)
            gradients.weight_WJ.addmm_(
                logits_NW[:n].T.to(gradients.weight_WJ.dtype), hidden_NJ.to(gradients.weight_WJ.dtype)
            )
            gradients.bias_W.add_(logits_NW[:n].sum(0, dtype=gradients.bias_W.dtype))
            torch.mm(logits_NW[:n], self.weight_WJ, out=gradient_NJ[:n])
            if masks_NJ is not None:
                gradient_NJ[:n] *= masks_NJ
            differentiate_(gradient_NJ[:n], activated_NJ[:n], self.activation)
            wide_NJ = gradient_NJ[:n].to(gradients.encoded.dtype)
            gradients.encoded.index_add_(0, frame_N, wide_NJ)
            gradients.predicted.index_add_(0, position_N, wide_NJ)


JOINT = f"Tensor encoded_BTJ, Tensor predicted_BUJ, Tensor weight_WJ, Tensor bias_W, {GIVEN}"
DROPOUT = "str activation, float dropout, Tensor seeds_B"


@torch.library.custom_op(
    "transducer::joint_losses",
    mutates_args=(),
    schema=f"({JOINT}, {DROPOUT}) -> (Tensor, Tensor, Tensor, Tensor)",
)
def _joint_losses_op(
    encoded_BTJ: Tensor, predicted_BUJ: Tensor, weight_WJ: Tensor, bias_W: Tensor, *arguments: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Losses float64 [B]; then, one utterance behind the other, lattices and kept cells, and sizes [B, 2] of both."""
    labels, options, (activation, dropout, seeds_B) = taken(arguments)
    targets_BL, frames_B, labels_B = labels
    if _cuda_library.serves(encoded_BTJ):
        joints = BatchJoint(encoded_BTJ, predicted_BUJ, weight_WJ, bias_W, labels, activation, dropout, seeds_B)
        return *joints.losses(options), labels.frames_B.new_empty(0), labels.frames_B.new_empty(len(frames_B), 2)
    _loss_library.check((*encoded_BTJ.shape[:2], predicted_BUJ.shape[1], len(weight_WJ)), labels, options)
    if encoded_BTJ.dtype == torch.float32 and not dropout:
        joint_inputs = (encoded_BTJ, predicted_BUJ, weight_WJ, bias_W)
        return _loss_library.joint_losses(*joint_inputs, labels, options, activation)
    losses, lattices, cells = [], [], []
    for n, (T, L) in enumerate(zip(frames_B.tolist(), labels_B.tolist(), strict=True)):
        inputs = (encoded_BTJ[n, :T], predicted_BUJ[n, : L + 1], weight_WJ, bias_W)
        joint = UtteranceJoint(*inputs, activation, dropout, int(seeds_B[n]))
        lattice = NativeLattice(weight_WJ.dtype, len(weight_WJ), targets_BL[n, :L], T, options, None)
        for first, logits_NW in joint.tiles():
            lattice.read(first, logits_NW)
        loss, kept = lattice.walk()
        losses.append(loss)
        lattices.append(lattice.memory)
        cells.append(kept)
    sizes_B2 = torch.tensor([[len(a), len(b)] for a, b in zip(lattices, cells, strict=True)]).reshape(-1, 2)
    nothing = [torch.zeros(0, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64)]
    lattice_bytes, kept_cells = (torch.cat([empty, *x]) for empty, x in zip(nothing, (lattices, cells), strict=True))
    return torch.tensor(losses, dtype=torch.float64), lattice_bytes, kept_cells, sizes_B2


@_joint_losses_op.register_fake
def _(encoded_BTJ: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    context = torch.library.get_ctx()
    batch = encoded_BTJ.shape[0]
    return (
        encoded_BTJ.new_empty(batch, dtype=torch.float64),
        encoded_BTJ.new_empty(context.new_dynamic_size(), dtype=torch.uint8),
        encoded_BTJ.new_empty(context.new_dynamic_size(), dtype=torch.int64),
        encoded_BTJ.new_empty(batch, 2, dtype=torch.int64),
    )


@torch.library.custom_op(
    "transducer::joint_gradients",
    mutates_args=(),
    schema=f"({JOINT}, {DROPOUT}, Tensor scale_B, Tensor lattices, Tensor cells, Tensor sizes_B2) -> "
    "(Tensor, Tensor, Tensor, Tensor)",
)
def _joint_gradients_op(
    encoded_BTJ: Tensor, predicted_BUJ: Tensor, weight_WJ: Tensor, bias_W: Tensor, *arguments: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the sum of the losses times `scale_B` with respect to the first four."""
    labels, options, (activation, dropout, seeds_B, scale_B, lattices, cells, sizes_B2) = taken(arguments)
    targets_BL, frames_B, labels_B = labels
    inputs = (encoded_BTJ, predicted_BUJ, weight_WJ, bias_W)
    wide = torch.promote_types(encoded_BTJ.dtype, torch.float32)
    sums = [torch.zeros(x.shape, dtype=wide, device=x.device) for x in inputs]
    if _cuda_library.serves(encoded_BTJ):
        joints = BatchJoint(*inputs, labels, activation, dropout, seeds_B)
        joints.backward(options, lattices, scale_B.contiguous(), Gradients(*sums))
        encoded, predicted, weight, bias = (x.to(encoded_BTJ.dtype) for x in sums)
        return encoded, predicted, weight, bias
    memories, kept = (x.split(sizes) for x, sizes in zip((lattices, cells), sizes_B2.T.tolist(), strict=True))
    for n, (T, L) in enumerate(zip(frames_B.tolist(), labels_B.tolist(), strict=True)):
        inputs = (encoded_BTJ[n, :T], predicted_BUJ[n, : L + 1], weight_WJ, bias_W)
        joint = UtteranceJoint(*inputs, activation, dropout, int(seeds_B[n]))
        lattice = NativeLattice(weight_WJ.dtype, len(weight_WJ), targets_BL[n, :L], T, options, memories[n])
        gradients = Gradients(sums[0][n, :T], sums[1][n, : L + 1], sums[2], sums[3])
        joint.backward(kept[n], lattice, float(scale_B[n]), gradients)
    encoded, predicted, weight, bias = (x.to(encoded_BTJ.dtype) for x in sums)
    return encoded, predicted, weight, bias


@_joint_gradients_op.register_fake
def _(
    encoded_BTJ: Tensor, predicted_BUJ: Tensor, weight_WJ: Tensor, bias_W: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    encoded, predicted, weight, bias = (x.new_empty(x.shape) for x in (encoded_BTJ, predicted_BUJ, weight_WJ, bias_W))
    return encoded, predicted, weight, bias


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.settings = inputs[7:14]
    ctx.save_for_backward(*inputs[:7], inputs[14], *output[1:])
    ctx.mark_non_differentiable(*output[1:])


def _backward(ctx: Any, scale_B: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    *tensors, seeds_B, lattices, cells, sizes_B2 = ctx.saved_tensors
    gradients = _joint_gradients_op(*tensors, *ctx.settings, seeds_B, scale_B, lattices, cells, sizes_B2)
    return *gradients, *(None,) * 11


_joint_losses_op.register_autograd(_backward, setup_context=_save)

"""What a model file gives, whoever wrote it, and how the weights of others get the names of ours."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from common.features import LogMelConfig
from common.runs.checkpoint import CheckpointError
from common.text.pieces import Pieces
from fastconformer.config import ModelConfig


class TrainedModel(NamedTuple):
    """A trained model under our names: weights, what they are of, what it hears and what it writes."""

    weights: dict[str, Tensor]
    model: ModelConfig
    features: LogMelConfig
    pieces: Pieces
    lookaheads: tuple[int, ...] = ()
    """Frames after a frame that a streaming model may see, its first choice first; none if it names none."""
    aligner: Path | None = None
    """The archive, where it holds a CTC model besides that finds the times of words."""


Rules = Sequence[tuple[str, str]]
"""Patterns of whole names and what to write in their place; "-" for weights that are not needed."""
LAYER = r"encoder\.layers\.(\d+)\."
LAYERS: Rules = (
    (r".*\.num_batches_tracked", "-"),
    (LAYER + r"norm_feed_forward1\.(\w+)", r"encoder.blocks.\1.feed_forward_in.norm.\2"),
    (LAYER + r"feed_forward1\.linear1\.(\w+)", r"encoder.blocks.\1.feed_forward_in.enter.\2"),
    (LAYER + r"feed_forward1\.linear2\.(\w+)", r"encoder.blocks.\1.feed_forward_in.leave.\2"),
    (LAYER + r"norm_feed_forward2\.(\w+)", r"encoder.blocks.\1.feed_forward_out.norm.\2"),
    (LAYER + r"feed_forward2\.linear1\.(\w+)", r"encoder.blocks.\1.feed_forward_out.enter.\2"),
    (LAYER + r"feed_forward2\.linear2\.(\w+)", r"encoder.blocks.\1.feed_forward_out.leave.\2"),
    (LAYER + r"norm_self_att\.(\w+)", r"encoder.blocks.\1.attention_norm.\2"),
    (LAYER + r"norm_conv\.(\w+)", r"encoder.blocks.\1.convolution.norm_in.\2"),
    (LAYER + r"conv\.pointwise_conv1\.(\w+)", r"encoder.blocks.\1.convolution.enter.\2"),
    (LAYER + r"conv\.pointwise_conv2\.(\w+)", r"encoder.blocks.\1.convolution.leave.\2"),
    (LAYER + r"norm_out\.(\w+)", r"encoder.blocks.\1.norm.\2"),
)
"""What NeMo and transformers call alike in each layer."""


def renamed(weights: dict[str, Tensor], rules: Rules, source: str) -> dict[str, Tensor]:
    """Weights under our names. Raises CheckpointError naming what no rule knows.

    Convolutions of one frame become linear layers; q, k and v become one layer.
    """
    patterns = [(re.compile(pattern), replacement) for pattern, replacement in rules]
    found: dict[str, Tensor] = {}
    unknown = []
    for name, tensor in weights.items():
        for pattern, replacement in patterns:
            if pattern.fullmatch(name):
                if replacement != "-":
                    found[pattern.sub(replacement, name)] = tensor
                break
        else:
            unknown.append(name)
    if unknown:
        raise CheckpointError(f"{source}: {', '.join(map(repr, unknown[:5]))}: weights of a layer that is not known")
    return _joined(found, source)


def _joined(weights: dict[str, Tensor], source: str) -> dict[str, Tensor]:
    joined: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if name.endswith((".enter.weight", ".leave.weight", "ctc.weight")) and tensor.ndim == 3:
            joined[name] = tensor[:, :, 0]
        elif found := re.fullmatch(r"(.*\.)q\.(weight|bias)", name):
            parts = [weights.get(f"{found[1]}{part}.{found[2]}") for part in "qkv"]
            if any(part is None or part.shape != tensor.shape for part in parts):
                raise CheckpointError(f"{source}: {name}: expected k and v of the same shape beside it")
            joined[f"{found[1]}qkv.{found[2]}"] = torch.cat([part for part in parts if part is not None])
        elif not re.fullmatch(r".*\.[kv]\.(weight|bias)", name):
            joined[name] = tensor
    return joined

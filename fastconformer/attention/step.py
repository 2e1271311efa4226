"""One step of the attention decoder for many sequences at once: tokens in, the most probable tokens after them out.

Keys and values of the frames of a recording are computed once. Those of a token lie in a slot of one store; a sequence
is a list of slots, so that sequences share what they have in common, and nothing is copied when a search branches.

What a sequence gets does not depend on the others of a step: every sum over time is taken over its own alone.

Shapes: N tokens of all sequences, S encoder frames, D width, H heads, V classes, K best.
"""

import copy
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution import Linear, native
from common.convolution.native import Weights as Kind
from fastconformer.attention.network import AttentionDecoder, DecoderBlock
from fastconformer.attention.search import Best, CachedToken, Heard

DecoderPrecision = Literal["fp32", "bf16", "int8"]
KINDS: dict[DecoderPrecision, Kind] = {"fp32": "float32", "bf16": "bfloat16", "int8": "int8"}
FIRST_SLOTS = 256  # of a new store, which doubles when it is full


class Weights:
    """A decoder as `TorchStep` takes it: on a CPU with the native library, packed for its products, else as it is.

    `precision` is that of packed weights; in "int8" the rows that they are multiplied by are rounded to bytes, too.
    """

    def __init__(self, decoder: AttentionDecoder, precision: DecoderPrecision = "fp32") -> None:
        self.decoder = copy.deepcopy(decoder).eval().requires_grad_(False)
        output = self.decoder.tokens.weight if self.decoder.output is None else self.decoder.output
        with torch.inference_mode(False):
            self.head = Linear(output.shape[1], output.shape[0]).requires_grad_(False)
            self.head.weight, self.head.bias = nn.Parameter(output, False), nn.Parameter(self.decoder.bias, False)
            layers = [self.head, *(layer for layer in self.decoder.modules() if isinstance(layer, Linear))]
            if output.device.type == "cpu" and output.dtype == torch.float32 and native.load() is not None:
                for layer in layers:
                    layer.pack(KINDS[precision])


class TorchStep:
    """`Step` in torch, with the products of the native library where there is one."""

    def __init__(self, weights: Weights) -> None:
        decoder = weights.decoder
        self.decoder, self.head, self.heads = decoder, weights.head, decoder.cfg.heads
        width = decoder.cfg.width // self.heads
        weight = decoder.tokens.weight
        self.store = torch.empty(
            len(decoder.blocks), FIRST_SLOTS, 2, self.heads, width, dtype=weight.dtype, device=weight.device
        )
        self.free = list(range(FIRST_SLOTS))

    def hear(self, encoded_SC: Tensor) -> Heard:
        """What the decoder needs of a recording's frames, after their projection."""
        found = []
        for block in self.decoder.blocks:
            assert isinstance(block, DecoderBlock)
            for name in ("key", "value"):
                found.append(block.sound[name](encoded_SC).unflatten(-1, (self.heads, -1)).transpose(0, 1))
        return Heard(torch.stack(found).unflatten(0, (-1, 2)))

    def take(self, count: int) -> list[int]:
        """So many free slots."""
        while len(self.free) < count:
            size = self.store.shape[1]
            self.store = torch.cat([self.store, torch.empty_like(self.store)], 1)
            self.free += range(size, 2 * size)
        taken = self.free[len(self.free) - count :]
        del self.free[len(self.free) - count :]
        return taken

    def give(self, slots: Sequence[int]) -> None:
        """Slots that are free again."""
        self.free += slots

    def __call__(
        self, tokens: Sequence[CachedToken], asked: Sequence[int], best: int, allowed_V: Sequence[np.ndarray]
    ) -> list[Best]:
        """As `Step` says."""
        device = self.store.device
        linear, heads = _linear, self.heads
        label_N = torch.tensor([token.label for token in tokens], device=device)
        at_N = torch.tensor([token.at for token in tokens], device=device)
        own_N = torch.tensor([token.slots[token.at] for token in tokens], device=device)
        by_length: dict[int, list[int]] = {}
        for number, token in enumerate(tokens):
            by_length.setdefault(token.at + 1, []).append(number)
        groups = [
            (
                torch.tensor(numbers, device=device),
                torch.tensor([tokens[n].slots[:length] for n in numbers], device=device),
            )
            for length, numbers in by_length.items()
        ]
        x_ND = self.decoder.embedded(label_N, at_N)
        for layer, block in enumerate(self.decoder.blocks):
            assert isinstance(block, DecoderBlock)
            qkv_N3HD = linear(block.text["qkv"], block.text_norm(x_ND)).unflatten(-1, (3, heads, -1))
            kept = self.store[layer]
            kept[own_N] = qkv_N3HD[:, 1:]
            text_ND = torch.empty_like(x_ND)
            for number_G, slots_GR in groups:  # no token sees more or fewer than another of its group
                k_GHRD, v_GHRD = kept[slots_GR].permute(2, 0, 3, 1, 4)
                text_ND[number_G] = _attended(qkv_N3HD[number_G, 0], k_GHRD, v_GHRD)
            x_ND = x_ND + linear(block.text["leave"], text_ND)
            q_NHD = linear(block.sound["query"], block.sound_norm(x_ND)).unflatten(-1, (heads, -1))
            sound = [
                _attended(q_1HD, *token.heard.keys_values[layer, :, None])
                for q_1HD, token in zip(q_NHD.split(1), tokens, strict=True)
            ]
            x_ND = x_ND + linear(block.sound["leave"], torch.cat(sound))
            x_ND = x_ND + linear(block.leave, block.activation(linear(block.enter, block.norm(x_ND))))
        wanted_ND = self.decoder.norm(x_ND[torch.tensor(asked, device=device)])
        log_probs_NV = linear(self.head, wanted_ND).log_softmax(-1)
        barred_NV = torch.from_numpy(~np.stack(allowed_V)).to(device)
        most = log_probs_NV.masked_fill(barred_NV, -torch.inf).topk(min(best, log_probs_NV.shape[1]), dim=-1)
        return [
            Best(labels, values) for labels, values in zip(most.indices.tolist(), most.values.tolist(), strict=True)
        ]


def _linear(layer: nn.Module, x_ND: Tensor) -> Tensor:
    """`layer` of every row, whose bits are those that it has alone: torch's products of several rows have others."""
    if isinstance(layer, Linear) and layer.packed is not None:
        return layer(x_ND)
    return torch.cat([layer(row_1D) for row_1D in x_ND.split(1)])


def _attended(q_NHD: Tensor, k_NHSD: Tensor, v_NHSD: Tensor) -> Tensor:
    """[N, H x D] of tokens that each see S others."""
    return F.scaled_dot_product_attention(q_NHD[:, :, None], k_NHSD, v_NHSD).flatten(1)

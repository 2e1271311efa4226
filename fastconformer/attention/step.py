"""One step of the attention decoder for many sequences at once: tokens in, the most probable tokens after them out.

Keys and values of the frames of a recording are computed once. Those of a token lie in a slot of one store; a sequence
is a list of slots, so that sequences share what they have in common, and nothing is copied when a search branches.
On a CPU steps are those of `host_step.py`.

What a sequence gets does not depend on the others of a step: every sum over time is taken over its own alone.

Shapes: N tokens of all sequences, S encoder frames, D width, H heads, V classes, K best.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from common.convolution.rows import Rows
from fastconformer.attention.config import DecoderPrecision
from fastconformer.attention.host_step import KINDS, HostDecoder, HostStep, Slots
from fastconformer.attention.network import AttentionDecoder, DecoderBlock
from fastconformer.attention.search import Best, CachedToken, DecoderStep, Heard


def keys_values(decoder: AttentionDecoder, encoded_XSC: Tensor) -> Tensor:
    """[..., layers, 2, H, S, D / H]: what `decoder` needs of encoder frames, after their projection."""
    found = []
    for block in decoder.blocks:
        assert isinstance(block, DecoderBlock)
        for name in ("key", "value"):
            found.append(block.sound[name](encoded_XSC).unflatten(-1, (decoder.cfg.heads, -1)).transpose(-3, -2))
    return torch.stack(found, -4).unflatten(-4, (-1, 2))


class Steps:
    """Makes the steps of a decoder: on arrays, if it is on the CPU, for which its weights are packed; else in torch."""

    def __init__(self, decoder: AttentionDecoder, precision: DecoderPrecision = "fp32") -> None:
        """`precision`: of packed weights."""
        self.decoder, self._host, self._sound = decoder, None, None
        if decoder.bias.device.type == "cpu":
            weights = {name: weight.numpy() for name, weight in decoder.step_weights().items()}
            self._host = HostDecoder(decoder.cfg, weights, precision)
            if precision != "fp32":
                own = decoder.state_dict()
                parts = [f"blocks.{i}.sound.{name}" for i in range(decoder.cfg.layers) for name in ("key", "value")]
                weight, bias = (torch.cat([own[f"{part}.{kind}"] for part in parts]) for kind in ("weight", "bias"))
                self._sound = Rows(weight.float().numpy(), bias.float().numpy(), KINDS[precision])

    def __call__(self) -> DecoderStep:
        """A step with a store of its own."""
        return TorchStep(self.decoder) if self._host is None else HostStep(self._host)

    def hear(self, encoded_SC: Tensor) -> Heard:
        """What steps need of a recording's frames, after their projection."""
        if self._sound is not None:
            found_SO = self._sound(encoded_SC.float().numpy())
            heads = (self.decoder.cfg.layers, 2, self.decoder.cfg.heads, -1)
            return Heard(np.ascontiguousarray(np.moveaxis(found_SO.reshape(len(found_SO), *heads), 0, 3)))
        found = keys_values(self.decoder, encoded_SC)
        return Heard(found if self._host is None else found.float().numpy())


class TorchStep(Slots):
    """`DecoderStep` in torch, on any device."""

    def __init__(self, decoder: AttentionDecoder) -> None:
        super().__init__()
        self.decoder, self.heads = decoder, decoder.cfg.heads
        weight, width = decoder.tokens.weight, decoder.cfg.width // self.heads
        self.store = weight.new_empty(len(decoder.blocks), self.size, 2, self.heads, width)

    def grow(self) -> None:
        """As `Slots` says."""
        self.store = torch.cat([self.store, torch.empty_like(self.store)], 1)

    def __call__(
        self, tokens: Sequence[CachedToken], asked: Sequence[int], best: int, allowed_V: Sequence[np.ndarray]
    ) -> list[Best]:
        """As `DecoderStep` says."""
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
        log_probs_NV = linear(self.decoder.logits, wanted_ND).log_softmax(-1)
        barred_NV = torch.from_numpy(~np.stack(allowed_V)).to(device)
        most = log_probs_NV.masked_fill(barred_NV, -torch.inf).topk(min(best, log_probs_NV.shape[1]), dim=-1)
        return [
            Best(labels, values) for labels, values in zip(most.indices.tolist(), most.values.tolist(), strict=True)
        ]


def _linear(layer: Callable[[Tensor], Tensor], x_ND: Tensor) -> Tensor:
    """`layer` of every row, whose bits are those that it has alone: torch's products of several rows have others."""
    return torch.cat([layer(row_1D) for row_1D in x_ND.split(1)])


def _attended(q_NHD: Tensor, k_NHSD: Tensor, v_NHSD: Tensor) -> Tensor:
    """[N, H x D] of tokens that each see S others."""
    return F.scaled_dot_product_attention(q_NHD[:, :, None], k_NHSD, v_NHSD).flatten(1)

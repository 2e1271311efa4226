"""One step of the attention decoder for many sequences at once: tokens in, the most probable tokens after them out.

Keys and values of the frames of a recording are computed once. Those of a token lie in a slot of one store; a sequence
is a list of slots, so that sequences share what they have in common, and nothing is copied when a search branches.
On a CPU steps are those of `host_step.py`.

What a sequence gets does not depend on the others of a step: every sum over time is taken over its own alone.

Shapes: N tokens of all sequences, S encoder frames, D width, H heads, V classes, K best.
"""

import contextlib
import copy
import functools
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ctc
from common.convolution.rows import Rows
from common.devices.graphs import GraphRunner, RecordedGraph, warn_refused
from common.devices.precision import DTYPES, InferencePrecision
from fastconformer.attention import _cuda_attention
from fastconformer.attention.config import DecoderPrecision
from fastconformer.attention.host_step import KINDS, HostDecoder, HostStep, Slots
from fastconformer.attention.network import AttentionDecoder, DecoderBlock
from fastconformer.attention.search import AttentionMemory, Best, CachedToken, DecoderStep

ROWS = 32
"""Rows of every product of matrices, so that a row has the same bits in any batch."""
NUMBERS = 5  # of a token, beside its slots
MOST_ALLOWED = 64
"""Sets of classes that may follow, of different recordings and languages."""
MOST_IDLE_BYTES = 1 << 28
"""Bytes, at most, of the stores of steps that no search has; the step that was given back first goes first."""


def keys_values(decoder: AttentionDecoder, encoded_XSC: Tensor) -> Tensor:
    """[..., layers, 2, H, S, D / H]: what `decoder` needs of encoder frames, after their projection."""
    found = []
    encoded_XSC = encoded_XSC.to(decoder.tokens.weight.dtype)
    for block in decoder.blocks:
        assert isinstance(block, DecoderBlock)
        for name in ("key", "value"):
            found.append(block.sound[name](encoded_XSC).unflatten(-1, (decoder.cfg.heads, -1)).transpose(-3, -2))
    return torch.stack(found, -4).unflatten(-4, (-1, 2))


def halved(decoder: AttentionDecoder, precision: InferencePrecision) -> AttentionDecoder:
    """`decoder` itself in float32, else a copy whose products are of `precision`: their weights, keys and values.

    What is normalised and added up stays float32.
    """
    if DTYPES[precision] == torch.float32:
        return decoder
    decoder = copy.deepcopy(decoder)
    for module in decoder.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            module.to(DTYPES[precision])
    for name in ("output", "bias"):
        if (own := getattr(decoder, name)) is not None:
            setattr(decoder, name, nn.Parameter(own.detach().to(DTYPES[precision]), requires_grad=False))
    return decoder


class Steps:
    """Makes the steps of a decoder: on arrays, if it is on the CPU, for which its weights are packed; else in torch."""

    def __init__(
        self, decoder: AttentionDecoder, precision: DecoderPrecision = "fp32", on_device: InferencePrecision = "fp32"
    ) -> None:
        """`precision`: of packed weights. `on_device`: of weights that are not on the CPU."""
        self.decoder, self._host, self._sound = decoder, None, None
        self._idle, self._lock = list[TorchStep](), threading.Lock()
        if decoder.bias.device.type != "cpu":
            self.decoder = halved(decoder, on_device)
        else:
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

    @contextlib.contextmanager
    def lent(self) -> Iterator[DecoderStep]:
        """A step for one search at a time: in torch, with the graphs of a search before it, if none has it now."""
        with self._lock:
            step = self._idle.pop() if self._idle else self()
        yield step
        if isinstance(step, TorchStep):  # after an error slots are still taken
            with self._lock:
                self._idle.append(step)
                while sum(own.store.nbytes for own in self._idle) > MOST_IDLE_BYTES:
                    del self._idle[0]

    def hear(self, encoded_SC: Tensor) -> AttentionMemory:
        """What steps need of a recording's frames, after their projection."""
        if self._sound is not None:
            found_SO = self._sound(encoded_SC.float().numpy())
            heads = (self.decoder.cfg.layers, 2, self.decoder.cfg.heads, -1)
            return AttentionMemory(np.ascontiguousarray(np.moveaxis(found_SO.reshape(len(found_SO), *heads), 0, 3)))
        found = keys_values(self.decoder, encoded_SC)
        return AttentionMemory(found if self._host is None else found.float().numpy())


class Attention(NamedTuple):
    """What each of N tokens attends to: [N, D] of a layer and query_NHW, in the store of its layer and in the sound."""

    to_text: Callable[[int, Tensor], Tensor]
    to_sound: Callable[[int, Tensor], Tensor]


class TorchStep(Slots):
    """`DecoderStep` in torch, on any device; on a GPU with kernels as a CUDA graph, for about as many tokens each."""

    def __init__(self, decoder: AttentionDecoder, record: Callable[..., RecordedGraph] | None = None) -> None:
        """`record`: see `GraphRunner`, for tests."""
        super().__init__()
        self.decoder, self.heads = decoder, decoder.cfg.heads
        weight, width = decoder.tokens.weight, decoder.cfg.width // self.heads
        self.store = weight.new_empty(len(decoder.blocks), self.size, 2, self.heads, width)
        self.has_kernels = width <= _cuda_attention.MOST_WIDTH and _cuda_attention.serves(self.store)
        if not self.has_kernels and not self.store.is_cpu:
            _warn_slow(_cuda_attention.why_missing(self.store.device) or f"its heads are {width} wide")
        self._record, self._allowed = record, OrderedDict[int, tuple[np.ndarray, Tensor]]()
        self._replayed = self._graphs()

    def _graphs(self) -> GraphRunner | None:
        has_graphs = self.has_kernels and (self.store.is_cuda or self._record is not None)
        return GraphRunner(self._by_kernels, self.decoder, record=self._record) if has_graphs else None

    def forget_graphs(self) -> None:
        """From here on launches kernels one by one."""
        self._replayed = None

    def grow(self) -> None:
        """As `Slots` says."""
        self.store = torch.cat([self.store, torch.empty_like(self.store)], 1)
        self._replayed = self._graphs() if self._replayed is not None else None

    @torch.inference_mode()
    def __call__(
        self, tokens: Sequence[CachedToken], asked: Sequence[int], best: int, allowed_V: Sequence[np.ndarray]
    ) -> list[Best]:
        """As `DecoderStep` says."""
        logits_NV = (self._on_gpu if self.has_kernels else self._anywhere)(tokens, asked)
        log_probs_NV = logits_NV.float().log_softmax(-1)
        barred_NV = torch.stack([self._barred(own) for own in allowed_V])
        most = log_probs_NV.masked_fill(barred_NV, -torch.inf).topk(min(best, log_probs_NV.shape[1]), dim=-1)
        return [
            Best(labels, values) for labels, values in zip(most.indices.tolist(), most.values.tolist(), strict=True)
        ]

    def _barred(self, allowed_V: np.ndarray) -> Tensor:
        """Where `allowed_V` is not, on the device: searches give the same array in every step."""
        known = self._allowed.get(id(allowed_V))
        if known is None:
            known = self._allowed[id(allowed_V)] = allowed_V, torch.from_numpy(~allowed_V).to(self.store.device)
            if len(self._allowed) > MOST_ALLOWED:
                self._allowed.popitem(last=False)
        return known[1]

    def _on_gpu(self, tokens: Sequence[CachedToken], asked: Sequence[int]) -> Tensor:
        """logits_NV; what is beyond `tokens` in a graph repeats the first of them."""
        longest = max(token.at for token in tokens) + 1
        given_NX = np.zeros((rows_for(len(tokens)), NUMBERS + rows_for(longest)), np.int64)
        for row_X, token in zip(given_NX, tokens, strict=False):
            count = token.at + 1
            place, frames = token.heard.keys_values.data_ptr(), token.heard.keys_values.shape[-2]
            row_X[: NUMBERS + count] = (token.label, token.at, count, place, frames, *token.slots[:count])
        given_NX[len(tokens) :] = given_NX[0]
        asked_N = np.zeros(rows_for(len(asked)), np.int64)
        asked_N[: len(asked)] = asked
        given = [torch.from_numpy(own).to(self.store.device) for own in (given_NX, asked_N)]
        if self._replayed is not None:
            try:
                return self._replayed(*given)[: len(asked)]
            except RuntimeError as error:
                self.forget_graphs()
                warn_refused("an attention decoder", error)
        return self._by_kernels(*given)[: len(asked)]

    def _by_kernels(self, given_NX: Tensor, asked_N: Tensor) -> Tensor:
        label_N, at_N, count_N, place_N, frames_N = given_NX[:, :NUMBERS].unbind(1)
        slots_NR = given_NX[:, NUMBERS:]
        own_N = slots_NR.gather(1, at_N[:, None])[:, 0]
        attention = Attention(
            lambda layer, q_NHD: _cuda_attention.to_slots(q_NHD, count_N, self.store[layer], slots_NR),
            lambda layer, q_NHD: _cuda_attention.to_frames(q_NHD, frames_N, place_N, layer),
        )
        return self.logits(label_N, at_N, own_N, asked_N, attention)

    def _anywhere(self, tokens: Sequence[CachedToken], asked: Sequence[int]) -> Tensor:
        device = self.store.device
        label_N, at_N, own_N = torch.tensor(
            [[token.label, token.at, token.slots[token.at]] for token in tokens], device=device
        ).T
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

        def to_text(layer: int, q_NHD: Tensor) -> Tensor:
            text_ND = q_NHD.new_empty(len(q_NHD), q_NHD[0].numel())
            for number_G, slots_GR in groups:  # no token sees more or fewer than another of its group
                k_GHRD, v_GHRD = self.store[layer][slots_GR].permute(2, 0, 3, 1, 4)
                text_ND[number_G] = _attended(q_NHD[number_G], k_GHRD, v_GHRD)
            return text_ND

        def to_sound(layer: int, q_NHD: Tensor) -> Tensor:
            rows = zip(q_NHD.split(1), tokens, strict=True)
            return torch.cat([_attended(q_1HD, *token.heard.keys_values[layer, :, None]) for q_1HD, token in rows])

        asked_N = torch.tensor(asked, device=device)
        return self.logits(label_N, at_N, own_N, asked_N, Attention(to_text, to_sound))

    def logits(self, label_N: Tensor, at_N: Tensor, own_N: Tensor, asked_N: Tensor, attention: Attention) -> Tensor:
        """logits_NV of what follows tokens label_N at places at_N, whose slots are own_N, for the numbers asked_N."""

        def linear(layer: Callable[[Tensor], Tensor], x_ND: Tensor) -> Tensor:
            return _linear(layer, x_ND.to(self.store.dtype))

        x_ND = self.decoder.embedded(label_N, at_N)
        for layer, block in enumerate(self.decoder.blocks):
            assert isinstance(block, DecoderBlock)
            qkv_N3HD = linear(block.text["qkv"], block.text_norm(x_ND)).unflatten(-1, (3, self.heads, -1))
            self.store[layer][own_N] = qkv_N3HD[:, 1:]
            x_ND = x_ND + linear(block.text["leave"], attention.to_text(layer, qkv_N3HD[:, 0]))
            q_NHD = linear(block.sound["query"], block.sound_norm(x_ND)).unflatten(-1, (self.heads, -1))
            x_ND = x_ND + linear(block.sound["leave"], attention.to_sound(layer, q_NHD))
            x_ND = x_ND + linear(block.leave, block.activation(linear(block.enter, block.norm(x_ND))))
        return linear(self.decoder.logits, self.decoder.norm(x_ND[asked_N]))


@functools.cache
def _warn_slow(why: str) -> None:
    told = f"an attention decoder runs in plain torch, which is slower: {why}"
    warnings.warn(told, ctc.SlowPathWarning, stacklevel=4)


def rows_for(count: int) -> int:
    """So many or more: ROWS, twice as many, four times …, so that few graphs are recorded."""
    return max(ROWS, 1 << (count - 1).bit_length())


def _linear(layer: Callable[[Tensor], Tensor], x_ND: Tensor) -> Tensor:
    """`layer` of every row, with the bits that it has alone: torch's products of more or fewer rows have others."""
    blocks = F.pad(x_ND, (0, 0, 0, -len(x_ND) % ROWS)).split(ROWS)
    return torch.cat([layer(rows_RD) for rows_RD in blocks])[: len(x_ND)]


def _attended(q_NHD: Tensor, k_NHSD: Tensor, v_NHSD: Tensor) -> Tensor:
    """[N, H x D] of tokens that each see S others."""
    return F.scaled_dot_product_attention(q_NHD[:, :, None], k_NHSD, v_NHSD).flatten(1)

"""`DecoderStep` on arrays, for processors: the decoder of an exported file, or of a model in torch. Needs no torch.

The native library takes a step in one call. What is written here in numpy is its reference, and takes its place where
there is no compiler.

Shapes: N tokens of all sequences, G those of equally long ones, R tokens up to one, S encoder frames, D width, H heads,
W width of a head, V classes, K best.
"""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from common.convolution import library
from common.convolution.library import Activation
from common.convolution.library import Weights as Kind
from common.convolution.rows import Rows
from fastconformer.attention._library import NORMS, PRODUCTS, NativeStep, load
from fastconformer.attention.config import AttentionConfig, DecoderPrecision
from fastconformer.attention.search import Best, CachedToken

KINDS: dict[DecoderPrecision, Kind] = {"fp32": "float32", "bf16": "bfloat16", "int8": "int8"}
ACTIVATIONS: dict[str, Activation] = {"relu": "leaky_relu", "gelu": "gelu"}  # of slope 0
FIRST_SLOTS = 256  # of a new store, which doubles when it is full
EPSILON = 1e-5


class Slots(ABC):
    """Places in a store of keys and values, which grows."""

    def __init__(self) -> None:
        self.free = list(range(FIRST_SLOTS))
        self.size = FIRST_SLOTS

    @abstractmethod
    def grow(self) -> None:
        """Makes room for twice as many."""

    def take(self, count: int) -> list[int]:
        """So many free slots."""
        while len(self.free) < count:
            self.grow()
            self.free += range(self.size, 2 * self.size)
            self.size *= 2
        taken = self.free[len(self.free) - count :]
        del self.free[len(self.free) - count :]
        return taken

    def give(self, slots: Sequence[int]) -> None:
        """Slots that are free again."""
        self.free += slots


class HostDecoder:
    """The weights of a decoder, packed for products on this processor; made once, for any number of `HostStep`s.

    In "int8" the rows that weights are multiplied by are rounded to bytes, too.
    """

    def __init__(
        self,
        cfg: AttentionConfig,
        weights: Mapping[str, np.ndarray],
        precision: DecoderPrecision = "fp32",
        *,
        threads: int = 0,
    ) -> None:
        """`weights`: those of `AttentionDecoder.step_weights`, as arrays. Raises KeyError for one that is missing."""
        self.cfg = cfg
        self.tokens_VD, self.positions_LD = weights["tokens.weight"], weights["positions.weight"]

        def packed(name: str) -> Rows:
            return Rows(weights[f"{name}.weight"], weights[f"{name}.bias"], KINDS[precision], threads=threads)

        def norm(name: str) -> tuple[np.ndarray, np.ndarray]:
            return weights[f"{name}.weight"], weights[f"{name}.bias"]

        self.head = Rows(weights.get("output", self.tokens_VD), weights["bias"], KINDS[precision], threads=threads)
        self.embedding_norm, self.norm = norm("embedding_norm"), norm("norm")
        self.blocks = [{name: norm(f"blocks.{i}.{name}") for name in NORMS} for i in range(cfg.layers)]
        self.products = [{name: packed(f"blocks.{i}.{name}") for name in PRODUCTS} for i in range(cfg.layers)]
        named = {f"blocks.{i}.{name}": rows for i, own in enumerate(self.products) for name, rows in own.items()}
        if kept := [name for name, rows in [*named.items(), ("head", self.head)] if rows.weights != KINDS[precision]]:
            print(f"{precision}: in higher precision: {', '.join(kept)}", file=sys.stderr)
        self.native = None
        if load() is not None:
            self.native = NativeStep(
                {"layers": cfg.layers, "width": cfg.width, "heads": cfg.heads, "inner": cfg.inner,
                 "classes": self.classes, "positions": len(self.positions_LD)},
                (self.tokens_VD, self.positions_LD),
                list(zip(self.blocks, self.products, strict=True)),
                (self.embedding_norm, self.norm),
                self.head,
                library.ACTIVATIONS[ACTIVATIONS[cfg.activation]],
            )  # fmt: skip

    @property
    def classes(self) -> int:
        """Outputs of the network."""
        return self.head.filters


class HostStep(Slots):
    """`DecoderStep` on arrays."""

    def __init__(self, decoder: HostDecoder) -> None:
        super().__init__()
        self.decoder, cfg = decoder, decoder.cfg
        self.heads, self.width = cfg.heads, cfg.width // cfg.heads
        self.store = np.empty((cfg.layers, self.size, 2, self.heads, self.width), np.float32)

    def grow(self) -> None:
        """As `Slots` says."""
        self.store = np.concatenate([self.store, np.empty_like(self.store)], 1)

    def __call__(
        self, tokens: Sequence[CachedToken], asked: Sequence[int], best: int, allowed_V: Sequence[np.ndarray]
    ) -> list[Best]:
        """As `DecoderStep` says."""
        if self.decoder.native is not None:
            return self.decoder.native(self.store, tokens, asked, best, allowed_V)
        decoder, activation = self.decoder, ACTIVATIONS[self.decoder.cfg.activation]
        own_N = np.array([token.slots[token.at] for token in tokens])
        by_length: dict[int, list[int]] = {}
        for number, token in enumerate(tokens):
            by_length.setdefault(token.at + 1, []).append(number)
        groups = [
            (np.array(numbers), np.array([tokens[n].slots[:length] for n in numbers]))
            for length, numbers in by_length.items()
        ]
        x_ND = decoder.tokens_VD[[token.label for token in tokens]]
        x_ND = normalized(x_ND + decoder.positions_LD[[token.at for token in tokens]], decoder.embedding_norm)
        for layer, (norms, products) in enumerate(zip(decoder.blocks, decoder.products, strict=True)):
            qkv_ND = products["text.qkv"](normalized(x_ND, norms["text_norm"]))
            qkv_N3HW = qkv_ND.reshape(len(tokens), 3, self.heads, self.width)
            kept = self.store[layer]
            kept[own_N] = qkv_N3HW[:, 1:]
            text_ND = np.empty_like(x_ND)
            for number_G, slots_GR in groups:  # no token sees more or fewer than another of its group
                k_GHRW, v_GHRW = kept[slots_GR].transpose(2, 0, 3, 1, 4)
                text_ND[number_G] = _attended(qkv_N3HW[number_G, 0], k_GHRW, v_GHRW)
            x_ND = x_ND + products["text.leave"](text_ND)
            q_NHW = products["sound.query"](normalized(x_ND, norms["sound_norm"]))
            q_NHW = q_NHW.reshape(len(tokens), self.heads, self.width)
            for number, token in enumerate(tokens):
                k_HSW, v_HSW = token.heard.keys_values[layer]
                text_ND[number] = _attended(q_NHW[number], k_HSW, v_HSW)
            x_ND = x_ND + products["sound.leave"](text_ND)
            x_ND = x_ND + products["leave"](products["enter"](normalized(x_ND, norms["norm"]), activation))
        logits_NV = decoder.head(normalized(x_ND[list(asked)], decoder.norm))
        logits_NV -= logits_NV.max(1, keepdims=True)
        log_probs_NV = logits_NV - np.log(np.exp(logits_NV).sum(1, keepdims=True))
        log_probs_NV[~np.stack(allowed_V)] = -math.inf
        return [_best(log_probs_V, best) for log_probs_V in log_probs_NV]


def normalized(x_ND: np.ndarray, scale_and_shift: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Layer normalisation of every row."""
    scale_D, shift_D = scale_and_shift
    x_ND = x_ND - x_ND.mean(1, keepdims=True)
    return x_ND / np.sqrt(np.square(x_ND).mean(1, keepdims=True) + np.float32(EPSILON)) * scale_D + shift_D


def _attended(q_XHW: np.ndarray, k_XHSW: np.ndarray, v_XHSW: np.ndarray) -> np.ndarray:
    """[..., H x W] of tokens that each see S others."""
    scores_XHS = np.matmul(k_XHSW, q_XHW[..., None])[..., 0] / np.float32(math.sqrt(q_XHW.shape[-1]))
    shares_XHS = np.exp(scores_XHS - scores_XHS.max(-1, keepdims=True))
    shares_XHS /= shares_XHS.sum(-1, keepdims=True)
    found_XHW = np.matmul(shares_XHS[..., None, :], v_XHSW)[..., 0, :]
    return found_XHW.reshape(*found_XHW.shape[:-2], -1)


def _best(log_probs_V: np.ndarray, count: int) -> Best:
    """The first of equal ones comes first."""
    if count == 1:
        labels = [int(log_probs_V.argmax())]
    else:
        most = np.sort(np.argpartition(log_probs_V, -min(count, len(log_probs_V)))[-count:])
        labels = most[np.argsort(-log_probs_V[most], kind="stable")].tolist()
    return Best(labels, log_probs_V[labels].tolist())

"""Features to context: positions and Transformer layers (Baevski et al. 2020, section 2).

Shapes: B utterances, S frames, D width of the model, F width inside the feed-forward part, H heads, E width of a head.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from common.convolution.linear import Linear
from common.lengths import inside
from common.training.layers.dropout import dropout
from wav2vec2.network.config import ACTIVATIONS, LearningConfig, ModelConfig
from wav2vec2.network.hourglass import Shortening
from wav2vec2.network.positions import PositionalConv, StackedPositions
from wav2vec2.network.relative import Adapter, Gate, RelativeBias


class Encoder(nn.Module):
    """Positions and Transformer layers; with an hourglass, those in the middle see a shortened sequence."""

    def __init__(self, config: ModelConfig, learning: LearningConfig):
        super().__init__()
        self.pre_norm, self.learning = config.pre_norm, learning
        self.positions = StackedPositions(config) if config.pos_layers else PositionalConv(config)
        self.relative = RelativeBias(config) if config.relative_buckets else None
        self.norm = nn.LayerNorm(config.dim, eps=config.norm_epsilon)
        self.layers = nn.ModuleList(TransformerLayer(config, learning) for _ in range(config.layers))
        self.hourglass = config.shortening
        self.shortening: Shortening | None = None
        if self.hourglass is not None:
            self.shortening = Shortening(config.dim, self.hourglass.factor, config.hourglass_resample)

    def forward(self, x_BSD: Tensor, frames_B: Tensor | None, *, seed: int = 0, layers: int | None = None) -> Tensor:
        """x_BSD with frames_B frames each (None: S) -> context of the same shape; 0 where no frame is.

        In training `seed` determines which layers are left out: give every process the same. With `layers` only so
        many are run, and the final normalisation of a pre-norm model is not: the output of that layer.
        """
        mask_BS = None if frames_B is None else inside(frames_B, x_BSD.shape[1])
        x_BSD = zero_padding(x_BSD, mask_BS)
        if isinstance(self.positions, StackedPositions):
            x_BSD = x_BSD + self.positions(x_BSD, None if mask_BS is None else mask_BS.unsqueeze(2))
        else:
            x_BSD = x_BSD + self.positions(x_BSD)
        return zero_padding(self.contextual(x_BSD, mask_BS, seed=seed, layers=layers), mask_BS)

    def contextual(self, x_BSD: Tensor, mask_BS: Tensor | None, *, seed: int = 0, layers: int | None = None) -> Tensor:
        """What follows the positions: x_BSD of the frames mask_BS (None: all) -> the same shape, not masked."""
        if not self.pre_norm:
            x_BSD = self.norm(x_BSD)
        x_BSD = dropout(x_BSD, self.learning.dropout, self.training)
        x_BSD = self._run(x_BSD, mask_BS, self.kept_layers(seed), len(self.layers) if layers is None else layers)
        return self.norm(x_BSD) if self.pre_norm and layers is None else x_BSD

    def _run(self, x_BSD: Tensor, mask_BS: Tensor | None, kept: Sequence[bool], n_layers: int) -> Tensor:
        hourglass, shortening = self.hourglass, self.shortening
        if hourglass is None or shortening is None or n_layers <= hourglass.before:
            return self._stack(x_BSD, mask_BS, kept, 0, n_layers)
        first, end = hourglass.before, hourglass.before + hourglass.shortened
        full_BSD = self._stack(x_BSD, mask_BS, kept, 0, first)
        short = shortening.shorten(zero_padding(full_BSD, mask_BS), mask_BS)
        short_BUD = self._stack(short.x_BUD, short.mask_BU, kept, first, min(end, n_layers))
        x_BSD = shortening.restore(short_BUD, full_BSD.shape[1])
        if n_layers < end:
            return x_BSD
        return self._stack(x_BSD + full_BSD, mask_BS, kept, end, n_layers)

    def _stack(self, x_BSD: Tensor, mask_BS: Tensor | None, kept: Sequence[bool], first: int, end: int) -> Tensor:
        allowed_B11S = None if mask_BS is None else mask_BS[:, None, None]
        bias_HSS = None if self.relative is None else self.relative(x_BSD.shape[1])
        for i in range(first, end):
            layer = self.layers[i]
            if not kept[i]:
                x_BSD = cast("Tensor", WithoutLayer.apply(x_BSD, *layer.parameters()))
            elif self.learning.checkpoint_activations and torch.is_grad_enabled():
                x_BSD = checkpoint(layer, x_BSD, allowed_B11S, bias_HSS, use_reentrant=False)
            else:
                x_BSD = layer(x_BSD, allowed_B11S, bias_HSS)
        return x_BSD

    def kept_layers(self, seed: int) -> list[bool]:
        """LayerDrop (Fan et al. 2020): drawn on the host, so no process ever waits for it or draws another."""
        if not self.training or not self.learning.layer_drop:
            return [True] * len(self.layers)
        draws = torch.rand(len(self.layers), generator=torch.Generator().manual_seed(seed))
        return cast("list[bool]", (draws >= self.learning.layer_drop).tolist())


class WithoutLayer(torch.autograd.Function):
    """x unchanged; the parameters of the layer that was left out get gradients of 0.

    Without them data-parallel training would wait for gradients that never come.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, *parameters: Tensor) -> Tensor:
        """`x`."""
        ctx.save_for_backward(*parameters)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient, and zeros."""
        needed = ctx.needs_input_grad[1:]
        zeros = [torch.zeros_like(p) if wanted else None for p, wanted in zip(ctx.saved_tensors, needed, strict=True)]
        return (grads[0], *zeros)


class TransformerLayer(nn.Module):
    """Self-attention and feed-forward network, each with a residual, normalised before (pre-norm) or after."""

    def __init__(self, config: ModelConfig, learning: LearningConfig):
        super().__init__()
        self.pre_norm, self.activation, self.learning = config.pre_norm, config.activation, learning
        self.attention = SelfAttention(config, learning)
        self.attention_norm = nn.LayerNorm(config.dim, eps=config.norm_epsilon)
        self.fc1 = Linear(config.dim, config.ffn_dim)
        self.fc2 = Linear(config.ffn_dim, config.dim)
        self.final_norm = nn.LayerNorm(config.dim, eps=config.norm_epsilon)
        self.adapter = Adapter(config) if config.adapter_dim else None
        for linear in (self.fc1, self.fc2):
            initialise_linear(linear)

    def forward(self, x_BSD: Tensor, allowed_B11S: Tensor | None, bias_HSS: Tensor | None = None) -> Tensor:
        """x_BSD -> the same shape; allowed_B11S marks the frames that may be attended to, None all.

        bias_HSS: what attention gains by distance, where the model has such.
        """
        if self.pre_norm:
            x_BSD = x_BSD + self._drop(self.attention(self.attention_norm(x_BSD), allowed_B11S, bias_HSS))
            x_BSD = x_BSD + self._drop(self._feed_forward(self.final_norm(x_BSD)))
            return x_BSD if self.adapter is None else self.adapter(x_BSD)
        x_BSD = self.attention_norm(x_BSD + self._drop(self.attention(x_BSD, allowed_B11S, bias_HSS)))
        return self.final_norm(x_BSD + self._drop(self._feed_forward(x_BSD)))

    def _feed_forward(self, x_BSD: Tensor) -> Tensor:
        is_gelu = self.activation == "gelu"  # which the library computes along with the product
        x_BSF = self.fc1(x_BSD, "gelu") if is_gelu else ACTIVATIONS[self.activation](self.fc1(x_BSD))
        return self.fc2(dropout(x_BSF, self.learning.activation_dropout, self.training))

    def _drop(self, x_BSD: Tensor) -> Tensor:
        return dropout(x_BSD, self.learning.dropout, self.training)


class SelfAttention(nn.Module):
    """Multi-head self-attention; queries, keys and values come of one product."""

    def __init__(self, config: ModelConfig, learning: LearningConfig):
        super().__init__()
        self.heads, self.dropout = config.heads, learning.attention_dropout
        self.qkv = Linear(config.dim, 3 * config.dim)
        self.out = Linear(config.dim, config.dim)
        self.gate = Gate(config) if config.relative_buckets else None
        for linear in (self.qkv, self.out):
            initialise_linear(linear)

    def forward(self, x_BSD: Tensor, allowed_B11S: Tensor | None, bias_HSS: Tensor | None = None) -> Tensor:
        """x_BSD -> the same shape."""
        n_utterances, n_frames, width = x_BSD.shape
        q_BHSE, k_BHSE, v_BHSE = self.qkv(x_BSD).view(n_utterances, n_frames, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = allowed_B11S
        if self.gate is not None and bias_HSS is not None:
            mask = self.gate(x_BSD.unflatten(2, (self.heads, -1)).transpose(1, 2), bias_HSS, allowed_B11S)
        mixed_BHSE = F.scaled_dot_product_attention(
            q_BHSE, k_BHSE, v_BHSE, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0
        )
        return self.out(mixed_BHSE.transpose(1, 2).reshape(n_utterances, n_frames, width))


def zero_padding(x_BSD: Tensor, mask_BS: Tensor | None) -> Tensor:
    """x_BSD with zeros where mask_BS is false; None: as it is."""
    return x_BSD if mask_BS is None else torch.where(mask_BS.unsqueeze(2), x_BSD, 0.0)


def initialise_linear(linear: nn.Linear) -> None:
    """BERT's initial weights (Devlin et al. 2019)."""
    nn.init.normal_(linear.weight, std=0.02)
    nn.init.zeros_(linear.bias)

"""Transformer over symbols and over frames, and the predictors, of FastPitch (Łańcucki 2021, arXiv:2006.06873).

What an utterance gets does not depend on the padding after it: padding is zero before every convolution.
Legend: B utterances, T positions (symbols or frames), C channels, H heads, mask_BT1 1 inside an utterance and 0 beyond.
"""

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution.linear import Linear
from common.convolution.winograd import WinogradConvolution
from common.devices.precision import compute_dtype
from common.training.layers.dropout import Dropout
from fastpitch.acoustic.config import PredictorConfig, TransformerConfig

LONGEST_WAVE = 10_000.0  # base of the periods of the positions (Vaswani et al. 2017)


def positions(longest: int, channels: int, device: torch.device) -> Tensor:
    """[T, C] sines, then cosines, of the position; float32 always, since in half precision 2048 is the last integer."""
    even_C = torch.arange(0, channels, 2, device=device, dtype=torch.float32)
    frequency_C = LONGEST_WAVE ** (-even_C / channels)
    angle_TC = torch.arange(longest, device=device, dtype=torch.float32)[:, None] * frequency_C
    return torch.cat([angle_TC.sin(), angle_TC.cos()], 1)


class Transformer(nn.Module):
    """Layers of self-attention and convolution, normalised after each residual, over inputs with positions added."""

    def __init__(self, channels: int, config: TransformerConfig):
        super().__init__()
        self.dropout = Dropout(config.input_dropout)
        self.layers = nn.ModuleList(Layer(channels, config) for _ in range(config.layers))

    def forward(self, x_BTC: Tensor, inside_BT: Tensor) -> Tensor:
        """x_BTC, whatever it holds in its padding, to as many outputs, zero in their padding."""
        mask_BT1 = inside_BT[:, :, None].to(x_BTC.dtype)
        x_BTC = x_BTC + positions(x_BTC.shape[1], x_BTC.shape[2], x_BTC.device).to(x_BTC.dtype)
        x_BTC = self.dropout(x_BTC) * mask_BT1
        # What autocast has computed would become float32 by a mask in float32.
        reduced_mask_BT1 = mask_BT1.to(compute_dtype(x_BTC))
        for layer in self.layers:
            x_BTC = layer(x_BTC, inside_BT, mask_BT1, reduced_mask_BT1)
        return x_BTC


class Layer(nn.Module):
    """Self-attention, then two convolutions."""

    def __init__(self, channels: int, config: TransformerConfig):
        super().__init__()
        self.attention = MaskedAttention(channels, config)
        self.attention_norm = nn.LayerNorm(channels)
        self.widen = WinogradConvolution(channels, config.filter_channels, config.kernel)
        self.narrow = WinogradConvolution(config.filter_channels, channels, config.kernel)
        self.convolution_norm = nn.LayerNorm(channels)
        self.dropout = Dropout(config.dropout)

    def forward(self, x_BTC: Tensor, inside_BT: Tensor, mask_BT1: Tensor, reduced_mask_BT1: Tensor) -> Tensor:
        """x_BTC with zeros in its padding to the same; the second mask is in the type of products."""
        attended_BTC = self.dropout(self.attention(x_BTC, inside_BT))
        x_BTC = self.attention_norm(x_BTC + attended_BTC) * mask_BT1
        wide_BTC = F.relu(self.widen(x_BTC)) * reduced_mask_BT1
        return self.convolution_norm(x_BTC + self.dropout(self.narrow(wide_BTC))) * mask_BT1


class MaskedAttention(nn.Module):
    """Every position looks at all positions of its utterance."""

    def __init__(self, channels: int, config: TransformerConfig):
        super().__init__()
        self.heads, self.dropout = config.heads, config.attention_dropout
        self.query_key_value = Linear(channels, 3 * config.heads * config.head_channels)
        self.out = Linear(config.heads * config.head_channels, channels, bias=False)

    def forward(self, x_BTC: Tensor, inside_BT: Tensor) -> Tensor:
        """x_BTC to as many outputs, arbitrary in the padding."""
        query_BHTC, key_BHTC, value_BHTC = (
            part_BTC.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for part_BTC in self.query_key_value(x_BTC).chunk(3, dim=2)
        )
        # An utterance without a symbol may look at its padding: softmax over nothing would be NaN.
        visible_B11T = (inside_BT | ~inside_BT.any(1, keepdim=True))[:, None, None]
        dropout = self.dropout if self.training else 0.0
        mixed_BHTC = F.scaled_dot_product_attention(
            query_BHTC, key_BHTC, value_BHTC, attn_mask=visible_B11T, dropout_p=dropout
        )
        return self.out(mixed_BHTC.transpose(1, 2).flatten(2))


class Predictor(nn.Module):
    """One number for every symbol: its log-duration, pitch or energy."""

    def __init__(self, channels: int, config: PredictorConfig):
        super().__init__()
        widths = [channels] + [config.filter_channels] * config.layers
        self.convolutions = nn.ModuleList(
            WinogradConvolution(narrow, wide, config.kernel) for narrow, wide in itertools.pairwise(widths)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in widths[1:])
        self.dropout = Dropout(config.dropout)
        self.out = nn.Linear(widths[-1], 1)

    def forward(self, x_BTC: Tensor, mask_BT1: Tensor) -> Tensor:
        """[B, T] from x_BTC; zero in the padding."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x_BTC = self.dropout(norm(F.relu(convolution(x_BTC * mask_BT1))))
        return (self.out(x_BTC) * mask_BT1)[:, :, 0]

"""The attention decoder: a pre-norm Transformer that reads tokens so far and encoder frames, and says what follows.

In reading order: decoder, positions, block, attention. Here all tokens are known (training, rescoring); `step.py`
computes the same one token after the other.

Sources: Vaswani et al. 2017, arXiv:1706.03762; Puvvada et al. 2024 (Canary), arXiv:2406.19674.

Shapes: B utterances, S encoder frames, C width of their encoder, L tokens, D width, H heads, V classes.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution.linear import Linear
from common.lengths import inside
from common.training.layers.dropout import dropout
from fastconformer.attention.config import AttentionConfig


class AttentionDecoder(nn.Module):
    """logits of the token that follows each token, from the tokens before it and all encoder frames."""

    def __init__(self, cfg: AttentionConfig, encoder_width: int, pieces: int):
        super().__init__()
        self.cfg = cfg
        classes = cfg.classes or pieces
        if classes < pieces:
            raise ValueError(f"attention.classes = {classes}: expected at least {pieces}, one for each piece")
        projects = cfg.projects or encoder_width != cfg.width
        self.project = Linear(encoder_width, cfg.width) if projects else None
        self.tokens = nn.Embedding(classes, cfg.width)
        self.positions = nn.Embedding(cfg.positions, cfg.width) if cfg.learned_positions else None
        self.embedding_norm = nn.LayerNorm(cfg.width)
        self.blocks = nn.ModuleList(DecoderBlock(cfg) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.width)
        self.output = nn.Parameter(torch.empty(classes, cfg.width)) if not cfg.tied else None
        self.bias = nn.Parameter(torch.zeros(classes))
        self.initialize()

    def initialize(self) -> None:
        """Linear layers uniform after Glorot and without bias, embeddings of variance 1 / width."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.cfg.width**-0.5)
        if self.output is not None:
            nn.init.normal_(self.output, std=self.cfg.width**-0.5)

    def forward(self, encoded_BSC: Tensor, frames_B: Tensor, tokens_BL: Tensor) -> Tensor:
        """logits_BLV of what follows each of tokens_BL. `encoded_BSC` are frames after `project`, frames_B of them.

        Raises ValueError for too many tokens.
        """
        length = tokens_BL.shape[1]
        if length > self.cfg.positions:
            raise ValueError(f"{length} tokens of prompt and text: expected {self.cfg.positions} at most")
        at_L = torch.arange(length, device=tokens_BL.device)
        x_BLD = dropout(self.embedded(tokens_BL, at_L), self.cfg.dropout, self.training)
        seen_LL = at_L <= at_L[:, None]
        heard_B1S = inside(frames_B, encoded_BSC.shape[1])[:, None]
        for block in self.blocks:
            x_BLD = block(x_BLD, encoded_BSC, seen_LL, heard_B1S)
        return self.logits(self.norm(x_BLD))

    def embedded(self, tokens_X: Tensor, at_X: Tensor) -> Tensor:
        """Tokens at these positions, all below `cfg.positions`, as the first block takes them."""
        dtype = self.embedding_norm.weight.dtype  # others may be of half as many bits
        positions_XD = sinusoids(at_X, self.cfg.width) if self.positions is None else self.positions(at_X)
        return self.embedding_norm(self.tokens(tokens_X).to(dtype) + positions_XD.to(dtype))

    def step_weights(self) -> dict[str, Tensor]:
        """Float32 weights of what follows keys and values of the frames, on the CPU, with a table of positions."""
        own = {name: weight.detach().float().cpu() for name, weight in self.state_dict().items()}
        table = self.positions.weight if self.positions is not None else None
        if table is None:
            table = sinusoids(torch.arange(self.cfg.positions), self.cfg.width)
        own["positions.weight"] = table.detach().float().cpu()
        left_out = ("project.", ".sound.key.", ".sound.value.")
        return {name: weight for name, weight in own.items() if not any(part in name for part in left_out)}

    def logits(self, x_XD: Tensor) -> Tensor:
        """logits_XV of normalised outputs of the last block."""
        return F.linear(x_XD, self.tokens.weight if self.output is None else self.output, self.bias)


def sinusoids(at_X: Tensor, width: int) -> Tensor:
    """float32 [X, D]: sine and cosine of positions in turns, divided by the square root of D."""
    # Rounded where NeMo's table is: the product is float32.
    frequency = torch.exp(
        torch.arange(0, width, 2, device=at_X.device, dtype=torch.float32) * (-math.log(10_000.0) / width)
    )
    angle = at_X[..., None].float() * frequency
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2) / math.sqrt(width)


class DecoderBlock(nn.Module):
    """Attention to the tokens so far, attention to the encoder frames, two linear layers; each added to its input."""

    def __init__(self, cfg: AttentionConfig):
        super().__init__()
        self.dropout, self.heads = cfg.dropout, cfg.heads
        self.text_norm = nn.LayerNorm(cfg.width)
        self.text = nn.ModuleDict({"qkv": Linear(cfg.width, 3 * cfg.width), "leave": Linear(cfg.width, cfg.width)})
        self.sound_norm = nn.LayerNorm(cfg.width)
        self.sound = nn.ModuleDict({name: Linear(cfg.width, cfg.width) for name in ("query", "key", "value", "leave")})
        self.norm = nn.LayerNorm(cfg.width)
        self.enter = Linear(cfg.width, cfg.inner)
        self.leave = Linear(cfg.inner, cfg.width)
        self.activation = {"relu": torch.relu, "gelu": F.gelu}[cfg.activation]

    def forward(self, x_BLD: Tensor, encoded_BSD: Tensor, seen_LL: Tensor, heard_B1S: Tensor) -> Tensor:
        """x_BLD -> x_BLD; `seen_LL` where the first token sees the second, `heard_B1S` which frames there are."""
        q_BLD, k_BLD, v_BLD = self.text["qkv"](self.text_norm(x_BLD)).chunk(3, -1)
        x_BLD = x_BLD + self._dropped(self.text["leave"](self._attended(q_BLD, k_BLD, v_BLD, seen_LL)))
        q_BLD = self.sound["query"](self.sound_norm(x_BLD))
        k_BSD, v_BSD = self.sound["key"](encoded_BSD), self.sound["value"](encoded_BSD)
        x_BLD = x_BLD + self._dropped(self.sound["leave"](self._attended(q_BLD, k_BSD, v_BSD, heard_B1S[:, None])))
        return x_BLD + self._dropped(self.feed_forward(x_BLD))

    def feed_forward(self, x_XD: Tensor) -> Tensor:
        """What the two linear layers make of [..., D]."""
        inner = self.activation(self.enter(self.norm(x_XD)))
        return self.leave(dropout(inner, self.dropout, self.training))

    def _dropped(self, x_BLD: Tensor) -> Tensor:
        return dropout(x_BLD, self.dropout, self.training)

    def _attended(self, q_BLD: Tensor, k_BMD: Tensor, v_BMD: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (q_BLD, k_BMD, v_BMD))
        share = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=share).transpose(1, 2).flatten(2)

"""FastConformer (Rekesh et al. 2023, arXiv:2305.05084): log-mel features in, one frame for 2, 4 or 8 of them out.

In reading order: encoder, subsampling, block, its feed-forward module, relative attention and convolution module.

Shapes: B utterances, F mel bins, T feature frames, S encoder frames, C width, H heads, D width of a head,
K subsampling channels, R frames that are seen: the S, and before them those of the past that are kept, P distances
(from R frames before a frame to S - 1 after it).

What an utterance gets does not depend on the others of its batch, nor on how far it is padded: frames beyond its end
are set to zero before every convolution along time, and no attention sees them.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution.linear import Linear
from common.convolution.operator import along_time
from common.lengths import inside
from common.training.layers.dropout import dropout
from fastconformer.config import EncoderConfig

Frames = TypeVar("Frames", int, Tensor)
CACHED_POSITIONS = 512  # frames; beyond, projecting positions costs little beside the attention itself


class EncodedFrames(NamedTuple):
    """encoded_BSC and frames_B, how many of each utterance's S frames are not padding."""

    encoded_BSC: Tensor
    frames_B: Tensor


class FastConformer(nn.Module):
    """Blocks of attention and convolution over subsampled log-mel features of any length."""

    def __init__(self, cfg: EncoderConfig, mel_bins: int):
        super().__init__()
        self.cfg = cfg
        self.subsampling = Subsampling(cfg, mel_bins)
        self.blocks = nn.ModuleList(ConformerBlock(cfg) for _ in range(cfg.layers))
        self.input_scale = math.sqrt(cfg.width) if cfg.scale_input else 1.0

    def forward(self, features_BFT: Tensor, frames_B: Tensor) -> EncodedFrames:
        """features_BFT with frames_B valid frames each; frames beyond are ignored, and what comes of them is not 0."""
        features_BFT = features_BFT.to(self.subsampling.project.weight.dtype)  # may be cast; features are always fp32
        x_BSC, frames_B = self.subsampling(features_BFT, frames_B)
        x_BSC = dropout(x_BSC * self.input_scale, self.cfg.dropout, self.training)
        frame_S = torch.arange(x_BSC.shape[1], device=x_BSC.device)
        inside_BS = inside(frames_B, x_BSC.shape[1])
        seen_BSS = visible(frame_S, frame_S, self.cfg) & inside_BS[:, None, :]
        # Frames of the padding see themselves: the softmax over nothing is NaN, and 0 times NaN is not 0.
        seen_BSS = seen_BSS | (frame_S == frame_S[:, None])
        for block in self.blocks:
            x_BSC = block(x_BSC, inside_BS, seen_BSS)
        return EncodedFrames(x_BSC, frames_B)

    def output_frames(self, frames: Frames) -> Frames:
        """How many encoder frames come of `frames` feature frames."""
        return self.subsampling.output_frames(frames)


def visible(row_S: Tensor, column_R: Tensor, cfg: EncoderConfig) -> Tensor:
    """[S, R] whether the frame of the row sees that of the column, all of them inside the utterance."""
    row_S1 = row_S[:, None]
    left, right = cfg.left_frames, cfg.right_frames
    seen_SR = torch.ones(row_S.shape[0], column_R.shape[0], dtype=torch.bool, device=row_S.device)
    if cfg.attention == "chunked" and right >= 0:
        # A frame sees its chunk and as many whole ones before it as fit into left_frames.
        behind_SR = row_S1 // (right + 1) - column_R // (right + 1)
        seen_SR = behind_SR >= 0
        return seen_SR & (behind_SR <= left // (right + 1)) if left >= 0 else seen_SR
    first_S1, last_S1 = row_S1, row_S1
    if cfg.attention == "chunked_right" and cfg.chunk_frames > 0:
        first_S1 = row_S1 // cfg.chunk_frames * cfg.chunk_frames
        last_S1 = first_S1 + cfg.chunk_frames - 1
    if left >= 0:
        seen_SR = seen_SR & (column_R >= first_S1 - left)
    if right >= 0:
        seen_SR = seen_SR & (column_R <= last_S1 + right)
    return seen_SR


class Subsampling(nn.Module):
    """3 x 3 convolutions of stride 2 over time and mel bins, depthwise separable after the first; then a projection."""

    def __init__(self, cfg: EncoderConfig, mel_bins: int):
        super().__init__()
        channels, stages = cfg.subsampling_channels, cfg.subsampling.bit_length() - 1
        self.causal = cfg.causal_subsampling
        padding = 0 if self.causal else 1
        self.first = nn.Conv2d(1, channels, 3, 2, padding)
        self.depthwise = nn.ModuleList(
            nn.Conv2d(channels, channels, 3, 2, padding, groups=channels) for _ in range(stages - 1)
        )
        self.pointwise = nn.ModuleList(nn.Conv2d(channels, channels, 1) for _ in range(stages - 1))
        self.project = Linear(channels * self.output_frames(mel_bins), cfg.width)

    def forward(self, features_BFT: Tensor, frames_B: Tensor) -> tuple[Tensor, Tensor]:
        """features_BFT, frames_B -> x_BSC and its frames_B."""
        x_BKTF = self._padded(features_BFT.mT[:, None], frames_B)
        x_BKTF, frames_B = self.first(x_BKTF).relu(), self._halved(frames_B)
        for depthwise, pointwise in zip(self.depthwise, self.pointwise, strict=True):
            x_BKTF = depthwise(self._padded(x_BKTF, frames_B))
            x_BKTF, frames_B = pointwise(x_BKTF).relu(), self._halved(frames_B)
        return self.project(x_BKTF.transpose(1, 2).flatten(2)), frames_B

    def following(self, features_BFT: Tensor, first_B: Tensor, frames_B: Tensor, tails_BKTF: list[Tensor]) -> Tensor:
        """x_BSC of features that follow others; of causal models only.

        `first_B`: the number of their first frame, 1 after a multiple of the subsampling, of which their number is
        one too. `frames_B`: how many there are of each utterance in all, as far as that is known. `tails_BKTF` hold
        the last frame before them in front of every convolution, and move on.
        """
        x_BKTF = features_BFT.mT[:, None]
        for stage, tail_BKTF in enumerate(tails_BKTF):
            frame_BT = first_B[:, None] + torch.arange(x_BKTF.shape[2], device=x_BKTF.device)
            inside_BT = (frame_BT >= 0) & (frame_BT < frames_B[:, None])
            x_BKTF = torch.cat([tail_BKTF, x_BKTF * inside_BT[:, None, :, None].to(x_BKTF.dtype)], 2)
            tails_BKTF[stage] = x_BKTF[:, :, -1:]
            x_BKTF = F.pad(x_BKTF, (2, 1))
            x_BKTF = self.pointwise[stage - 1](self.depthwise[stage - 1](x_BKTF)) if stage else self.first(x_BKTF)
            x_BKTF, first_B, frames_B = x_BKTF.relu(), (first_B + 1) // 2, self._halved(frames_B)
        return self.project(x_BKTF.transpose(1, 2).flatten(2))

    def output_frames(self, frames: Frames) -> Frames:
        """How many frames (or mel bins) are left of `frames`."""
        for _ in range(len(self.depthwise) + 1):
            frames = self._halved(frames)
        return frames

    def _halved(self, frames: Frames) -> Frames:
        if isinstance(frames, int):
            return frames // 2 + 1 if self.causal and frames else (frames + 1) // 2
        return torch.where(frames > 0, frames // 2 + 1, 0) if self.causal else (frames + 1) // 2

    def _padded(self, x_BKTF: Tensor, frames_B: Tensor) -> Tensor:
        inside_BT = inside(frames_B, x_BKTF.shape[2])
        x_BKTF = x_BKTF * inside_BT[:, None, :, None].to(x_BKTF.dtype)
        return F.pad(x_BKTF, (2, 1, 2, 1)) if self.causal else x_BKTF


@dataclass(slots=True)
class Past:
    """What a block keeps of the frames before: keys and values of some, and what its causal convolution still needs."""

    keys_values_BR2HD: Tensor
    tail_BCS: Tensor


class ConformerBlock(nn.Module):
    """Half a feed-forward module, attention, convolution, half a feed-forward module; each added to its input."""

    def __init__(self, cfg: EncoderConfig):
        super().__init__()
        self.dropout = cfg.dropout
        self.share = 0.5
        self.feed_forward_in = FeedForward(cfg)
        self.attention_norm = nn.LayerNorm(cfg.width)
        self.attention = RelativeAttention(cfg)
        self.convolution = ConvolutionModule(cfg)
        self.feed_forward_out = FeedForward(cfg)
        self.norm = nn.LayerNorm(cfg.width)
        self.adapter = LinearAdapter(cfg) if cfg.adapter_width else None

    def forward(self, x_BSC: Tensor, inside_BS: Tensor, seen_BSR: Tensor, past: "Past | None" = None) -> Tensor:
        """x_BSC; inside_BS is true for frames that are no padding, seen_BSR where the first frame sees the second.

        With `past`, the frames go on after others, the last of which are the first of those seen; `past` moves on.
        """
        x_BSC = torch.add(x_BSC, self._dropped(self.feed_forward_in(x_BSC)), alpha=self.share)
        normalized_BSC = _as_for(self.attention.qkv, self.attention_norm(x_BSC))
        x_BSC = x_BSC + self._dropped(self.attention(normalized_BSC, seen_BSR, past))
        x_BSC = x_BSC + self._dropped(self.convolution(x_BSC, inside_BS, past))
        x_BSC = torch.add(x_BSC, self._dropped(self.feed_forward_out(x_BSC)), alpha=self.share)
        x_BSC = self.norm(x_BSC)
        return x_BSC if self.adapter is None else x_BSC + self.adapter(x_BSC)

    def _dropped(self, x_BSC: Tensor) -> Tensor:
        return dropout(x_BSC, self.dropout, self.training)


def _as_for(layer: nn.Linear, x_BSC: Tensor) -> Tensor:
    """Frames, which may be kept more precisely than the layers compute, in the number format of `layer`."""
    return x_BSC.to(layer.weight.dtype)


class FeedForward(nn.Module):
    """Layer normalisation, then two linear layers with SiLU in between."""

    def __init__(self, cfg: EncoderConfig):
        super().__init__()
        self.dropout = cfg.dropout
        self.norm = nn.LayerNorm(cfg.width)
        self.enter = Linear(cfg.width, cfg.expansion * cfg.width, cfg.biases)
        self.leave = Linear(cfg.expansion * cfg.width, cfg.width, cfg.biases)

    def forward(self, x_BSC: Tensor) -> Tensor:
        """x_BSC -> x_BSC"""
        x_BSC = _as_for(self.enter, self.norm(x_BSC))
        return self.leave(dropout(self.enter(x_BSC, "silu"), self.dropout, self.training))


class LinearAdapter(nn.Module):
    """Two narrow linear layers beside a trained block (Houlsby et al., ICML 2019), which start as nothing."""

    def __init__(self, cfg: EncoderConfig):
        super().__init__()
        self.norm = nn.LayerNorm(cfg.width)
        self.enter = Linear(cfg.width, cfg.adapter_width, False)
        self.leave = Linear(cfg.adapter_width, cfg.width, False)
        nn.init.zeros_(self.leave.weight)

    def forward(self, x_BSC: Tensor) -> Tensor:
        """x_BSC -> x_BSC"""
        return self.leave(F.silu(self.enter(_as_for(self.enter, self.norm(x_BSC)))))


class RelativeAttention(nn.Module):
    """Attention by content and by distance (Dai et al., Transformer-XL, ACL 2019).

    Frame s sees frame r by (q_s + u) k_r + (q_s + v) p_(s-r), where p projects sinusoids of the distance.
    """

    def __init__(self, cfg: EncoderConfig):
        super().__init__()
        self.heads, self.head_width, self.dropout = cfg.heads, cfg.width // cfg.heads, cfg.attention_dropout
        self.qkv = Linear(cfg.width, 3 * cfg.width, cfg.biases)
        self.positions = Linear(cfg.width, cfg.width, bias=False)
        self.content_bias_HD = nn.Parameter(torch.zeros(self.heads, self.head_width))
        self.position_bias_HD = nn.Parameter(torch.zeros(self.heads, self.head_width))
        self.leave = Linear(cfg.width, cfg.width, cfg.biases)
        self.scale = self.head_width**-0.5
        self.keeps_positions = False  # only where the weights do not change any more
        self.kept_HDP: Tensor | None = None

    def forward(self, x_BSC: Tensor, seen_BSR: Tensor, past: Past | None = None) -> Tensor:
        """x_BSC -> x_BSC, every frame from the frames that it sees: those of `past`, and these."""
        heads_BS3HD = self.qkv(x_BSC).unflatten(-1, (3, self.heads, self.head_width))
        q_BSHD, keys_values_BR2HD = heads_BS3HD[:, :, 0], heads_BS3HD[:, :, 1:]
        if past is not None:
            kept = past.keys_values_BR2HD.shape[1]
            keys_values_BR2HD = torch.cat([past.keys_values_BR2HD, keys_values_BR2HD], 1)
            past.keys_values_BR2HD = keys_values_BR2HD[:, keys_values_BR2HD.shape[1] - kept :]
        k_BRHD, v_BRHD = keys_values_BR2HD.unbind(2)
        content_BHSD = ((q_BSHD + self.content_bias_HD) * self.scale).transpose(1, 2)
        position_BHSD = ((q_BSHD + self.position_bias_HD) * self.scale).transpose(1, 2)
        bias_BHSR = by_key(position_BHSD @ self._positions(x_BSC.shape[1], k_BRHD.shape[1], x_BSC))
        heads_BHSD = F.scaled_dot_product_attention(
            content_BHSD,
            k_BRHD.transpose(1, 2),
            v_BRHD.transpose(1, 2),
            attn_mask=bias_BHSR.masked_fill(~seen_BSR[:, None], -math.inf),
            dropout_p=self.dropout if self.training else 0.0,
            scale=1.0,
        )
        return self.leave(heads_BHSD.transpose(1, 2).flatten(2))

    def _positions(self, n_frames: int, n_seen: int, like: Tensor) -> Tensor:
        """[H, D, P] of the distances from n_seen down to 1 - n_frames, of the last n_frames of n_seen frames."""
        if not self.keeps_positions or n_seen > CACHED_POSITIONS:
            return self._projected(n_seen, like)[:, :, : n_seen + n_frames]
        kept_HDP = self.kept_HDP
        if kept_HDP is None or kept_HDP.shape[2] < 2 * n_seen or not _alike(kept_HDP, like):
            kept_HDP = self.kept_HDP = self._projected(min(CACHED_POSITIONS, max(64, 2 * n_seen)), like)
        longest = kept_HDP.shape[2] // 2
        return kept_HDP[:, :, longest - n_seen : longest + n_frames]

    def _projected(self, n_frames: int, like: Tensor) -> Tensor:
        table_PC = sinusoids(n_frames, self.positions.in_features, like.device).to(like.dtype)
        return self.positions(table_PC).unflatten(-1, (self.heads, self.head_width)).permute(1, 2, 0)


def _alike(x: Tensor, y: Tensor) -> bool:
    return x.dtype == y.dtype and x.device == y.device


def sinusoids(n_frames: int, width: int, device: torch.device) -> Tensor:
    """float32 [P, C]: sine and cosine in turns of the distances from n_frames down to 1 - n_frames."""
    distance_P = torch.arange(n_frames, -n_frames, -1, device=device, dtype=torch.float32)
    frequency = torch.exp(torch.arange(0, width, 2, device=device, dtype=torch.float32) * (-math.log(10_000) / width))
    angle = distance_P[:, None] * frequency
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


def by_key(x_BHSP: Tensor) -> Tensor:
    """[B, H, S, R], a view: from values by distance, R down to 1 - S, those by the frame that is seen.

    The S frames are the last of the R that are seen. The first of them sees frame r at distance R - S - r, so r = 0 is
    at column S; it is one further left in every next row, which is what rows of one column less do.
    """
    n_frames, n_distances = x_BHSP.shape[2:]
    rows = x_BHSP.contiguous().flatten(2).narrow(2, n_frames, n_frames * (n_distances - 1))
    return rows.unflatten(2, (n_frames, n_distances - 1))[..., : n_distances - n_frames]


class ConvolutionModule(nn.Module):
    """Layer normalisation, gated linear unit, depthwise convolution along time, normalisation, SiLU, linear layer."""

    def __init__(self, cfg: EncoderConfig):
        super().__init__()
        self.causal = cfg.causal_convolution
        self.norm_in = nn.LayerNorm(cfg.width)
        self.enter = Linear(cfg.width, 2 * cfg.width, cfg.biases)
        padding = 0 if self.causal else cfg.kernel // 2
        self.depthwise = nn.Conv1d(cfg.width, cfg.width, cfg.kernel, padding=padding, groups=cfg.width, bias=cfg.biases)
        self.norm: nn.Module = nn.BatchNorm1d(cfg.width) if cfg.norm == "batch" else ChannelNorm(cfg.width)
        self.leave = Linear(cfg.width, cfg.width, cfg.biases)

    def forward(self, x_BSC: Tensor, inside_BS: Tensor, past: Past | None = None) -> Tensor:
        """x_BSC -> x_BSC; after the frames of `past`, if this is causal."""
        x_BSC = F.glu(self.enter(_as_for(self.enter, self.norm_in(x_BSC))), dim=-1)
        x_BSC = x_BSC * inside_BS[:, :, None].to(x_BSC.dtype)
        if past is not None:
            x_BSC = torch.cat([past.tail_BCS.mT, x_BSC], 1)
            past.tail_BCS = x_BSC[:, x_BSC.shape[1] - past.tail_BCS.shape[2] :].mT
        elif self.causal:
            x_BSC = F.pad(x_BSC, (0, 0, self.depthwise.kernel_size[0] - 1, 0))
        return self.leave(F.silu(self.norm(along_time(self.depthwise, x_BSC).mT)).mT)


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation of x_BCS over C."""

    def forward(self, x_BCS: Tensor) -> Tensor:
        """x_BCS -> x_BCS"""
        return super().forward(x_BCS.mT).mT

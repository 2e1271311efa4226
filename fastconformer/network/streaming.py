"""The encoder of a streaming model over audio that goes on: what it needs of the past, for many streams at once.

Nothing is computed twice, and the result is that of the whole recording under the same attention mask: every block
keeps keys and values of the frames that are still seen, every causal convolution the frames that it still needs.

Shapes: B streams of a step, N streams that there is room for, F mel bins, T feature frames of a step, S encoder frames
of a step, R frames that are seen, C width, H heads, D width of a head, K subsampling channels.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from common.features import LogMelConfig
from fastconformer.config import EncoderConfig
from fastconformer.network.encoder import ConformerBlock, FastConformer, Past, visible

UNKNOWN = 2**40
"""Number of feature frames of a stream that goes on."""


def lookahead_of(cfg: EncoderConfig, features: LogMelConfig) -> int | None:
    """Frames after a frame that a streaming model sees, at most; None for a model that is not made for streaming.

    Such models have causal convolutions, features that do not depend on the whole utterance, and attention that sees
    a limited number of frames, in chunks, or none after its own.
    """
    is_causal = cfg.causal_subsampling and cfg.causal_convolution and cfg.left_frames >= 0
    if not is_causal or features.normalize != "none" or features.edges != "zeros":
        return None
    if cfg.attention == "chunked" and cfg.right_frames >= 0:
        return cfg.right_frames
    return 0 if cfg.attention == "regular" and cfg.right_frames == 0 else None


def no_such_lookahead(lookahead: int | None, known: Sequence[int]) -> str:
    """Why `lookahead` is none of those `known`, "" where it is, or where none are known."""
    if lookahead is None or not known or lookahead in known:
        return ""
    return f"lookahead = {lookahead}: this model has learned {', '.join(map(str, known))}"


class EncoderStreams:
    """The encoder over many streams, each with a slot for what is kept of it: steps of one chunk.

    A chunk is as long as attention sees at once, `lookahead` + 1 frames.
    """

    def __init__(self, encoder: FastConformer, lookahead: int, mel_bins: int) -> None:
        """`encoder` is that of a streaming model (`lookahead_of`), prepared for inference."""
        self.encoder, self.mel_bins = encoder, mel_bins
        self.cfg = replace(encoder.cfg, right_frames=lookahead)
        self.frames = lookahead + 1
        """Encoder frames of a step."""
        self.feature_frames = self.frames * encoder.cfg.subsampling
        """Feature frames of a step."""
        # Chunks that do not fit into left_frames as a whole are not seen.
        self.kept = self.cfg.left_frames // self.frames * self.frames
        self.tails_NKTF: list[Tensor] = []
        self.past_N: list[Past] = []

    @property
    def slots(self) -> int:
        """How many streams there is room for."""
        return len(self.tails_NKTF[0]) if self.tails_NKTF else 0

    def resize(self, slots: int) -> None:
        """Makes room for so many streams; those in further slots are forgotten."""
        more = self.empty(max(0, slots - self.slots))
        if not self.tails_NKTF:
            self.tails_NKTF, self.past_N = more
            return

        def sized(own: Tensor, new: Tensor) -> Tensor:
            return torch.cat([own[:slots], new])

        tails_NKTF = [sized(*pair) for pair in zip(self.tails_NKTF, more[0], strict=True)]
        past_N = [
            Past(sized(past.keys_values_BR2HD, new.keys_values_BR2HD), sized(past.tail_BCS, new.tail_BCS))
            for past, new in zip(self.past_N, more[1], strict=True)
        ]
        self.tails_NKTF, self.past_N = tails_NKTF, past_N  # both or none, where memory is short

    def clear(self, slot: int) -> None:
        """Forgets the stream that had this slot."""
        for tensor in self.tensors():
            tensor[slot] = 0

    @property
    def bytes_per_stream(self) -> int:
        """Memory that is kept of a stream, however long it is."""
        return sum(tensor[:1].numel() * tensor.element_size() for tensor in self.tensors())

    def step(
        self, features_BFT: Tensor, slots: Sequence[int], done: Sequence[int], feature_frames: Sequence[int]
    ) -> Tensor:
        """x_BSC, the next chunk of the streams in `slots`; of one that ends in it, only what is before its end counts.

        `features_BFT`: `self.feature_frames` of each, the last of which is that which the last encoder frame ends
        with. `done`: how many encoder frames each has had. `feature_frames`: how many each has in all, or UNKNOWN.
        """
        device = features_BFT.device
        rows, done_B = torch.tensor(slots, device=device), torch.tensor(done, device=device)
        frames_B = torch.tensor(feature_frames, device=device)
        subsampling, size = self.encoder.subsampling, self.encoder.cfg.subsampling
        tails = [tail_NKTF[rows] for tail_NKTF in self.tails_NKTF]
        features_BFT = features_BFT.to(subsampling.project.weight.dtype)
        x_BSC = subsampling.following(features_BFT, size * (done_B - 1) + 1, frames_B, tails) * self.encoder.input_scale
        inside_BS, seen_BSR = self._seen(done_B, subsampling.output_frames(frames_B))
        for tail_NKTF, tail in zip(self.tails_NKTF, tails, strict=True):
            tail_NKTF[rows] = tail
        for block, kept in zip(self.encoder.blocks, self.past_N, strict=True):
            past = Past(kept.keys_values_BR2HD[rows], kept.tail_BCS[rows])
            x_BSC = block(x_BSC, inside_BS, seen_BSR, past)
            kept.keys_values_BR2HD[rows], kept.tail_BCS[rows] = past.keys_values_BR2HD, past.tail_BCS
        return x_BSC

    def _seen(self, done_B: Tensor, frames_B: Tensor) -> tuple[Tensor, Tensor]:
        """inside_BS and seen_BSR for streams that have had done_B frames and have frames_B in all."""
        frame_R = torch.arange(-self.kept, self.frames, device=done_B.device)
        seen_SR = visible(frame_R[self.kept :] + self.kept, frame_R + self.kept, self.cfg)
        frame_BR = done_B[:, None] + frame_R
        inside_BR = (frame_BR >= 0) & (frame_BR < frames_B[:, None])
        itself_SR = frame_R[self.kept :, None] == frame_R  # as offline: no softmax over nothing
        return inside_BR[:, self.kept :], (seen_SR & inside_BR[:, None]) | itself_SR

    def tensors(self) -> list[Tensor]:
        """All that is kept of the streams."""
        pasts = [tensor for past in self.past_N for tensor in (past.keys_values_BR2HD, past.tail_BCS)]
        return [*self.tails_NKTF, *pasts]

    def empty(self, slots: int) -> tuple[list[Tensor], list[Past]]:
        """Room for so many streams that have not begun."""
        cfg, like = self.cfg, self.encoder.subsampling.project.weight
        bins, tails = self.mel_bins, []
        for stage in range(len(self.encoder.subsampling.depthwise) + 1):
            channels = cfg.subsampling_channels if stage else 1
            tails.append(like.new_zeros(slots, channels, 1, bins))
            bins = bins // 2 + 1
        heads = (cfg.heads, cfg.width // cfg.heads)
        block = self.encoder.blocks[0]
        assert isinstance(block, ConformerBlock)
        like = block.attention.qkv.weight  # which may be of another type than what subsamples
        return tails, [
            Past(like.new_zeros(slots, self.kept, 2, *heads), like.new_zeros(slots, cfg.width, cfg.kernel - 1))
            for _ in range(cfg.layers)
        ]

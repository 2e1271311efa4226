"""FastConformer in training computes what was published: an independent forward, values, statistics and gradients."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fastconformer.config import EncoderConfig
from fastconformer.network.encoder import FastConformer
from tests.fastconformer import tiny

FRAMES, RUBBISH = (61, 40, 9, 1), 1e3
KINDS: dict[str, dict] = {"batch": {}, "layer": {"norm": "layer"}, "scaled": {"scale_input": True, "subsampling": 4}}


def published_forward(
    encoder: FastConformer, utterances: list[Tensor], width: int
) -> tuple[list[Tensor], list[tuple[Tensor, Tensor]]]:
    """Encoder frames [S, C] of features [F, T], and mean and variance that each block's batch normalisation saw.

    Written anew from the paper: every utterance goes through everything alone, without any padding, but for batch
    normalisation, which was published to see the whole batch of `width` feature frames: utterances with zeros after
    them, of which the convolution before it has made its bias and what the last frames say beyond the end.
    """
    cfg, weights = encoder.cfg, dict(encoder.named_parameters())

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)

    def norm(name: str, x: Tensor) -> Tensor:
        x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def feed_forward(name: str, x: Tensor) -> Tensor:
        hidden = linear(f"{name}.enter", norm(f"{name}.norm", x))
        return x + linear(f"{name}.leave", hidden * hidden.sigmoid()) / 2

    def attention(name: str, x: Tensor) -> Tensor:
        q, k, v = linear(f"{name}.qkv", x).chunk(3, -1)
        distance = (torch.arange(len(x))[:, None] - torch.arange(len(x))).double()
        angle = distance[..., None] * 10_000 ** (-torch.arange(0, cfg.width, 2).double() / cfg.width)
        position = linear(f"{name}.positions", torch.stack([angle.sin(), angle.cos()], -1).flatten(2))
        mixed, size = [], cfg.width // cfg.heads
        for head in range(cfg.heads):
            part = slice(head * size, (head + 1) * size)
            by_content = (q[:, part] + weights[f"{name}.content_bias_HD"][head]) @ k[:, part].T
            by_distance = (q[:, None, part] + weights[f"{name}.position_bias_HD"][head]) * position[..., part]
            mixed.append(((by_content + by_distance.sum(-1)) / size**0.5).softmax(-1) @ v[:, part])
        return linear(f"{name}.leave", torch.cat(mixed, -1))

    def subsampled(x: Tensor) -> Tensor:
        x = F.conv2d(x.T[None], weights["subsampling.first.weight"], weights["subsampling.first.bias"], 2, 1).relu()
        for i in range(len(encoder.subsampling.depthwise)):
            names = [f"subsampling.{kind}.{i}" for kind in ("depthwise", "pointwise")]
            (weight, bias), (weight_1, bias_1) = ((weights[f"{n}.weight"], weights[f"{n}.bias"]) for n in names)
            x = F.conv2d(F.conv2d(x, weight, bias, 2, 1, groups=len(weight)), weight_1, bias_1).relu()
        return linear("subsampling.project", x.transpose(0, 1).flatten(1)) * (cfg.width**0.5 if cfg.scale_input else 1)

    frames, seen = int(encoder.output_frames(width)), []
    batch = [subsampled(x) for x in utterances]
    for i in range(cfg.layers):
        block = f"blocks.{i}"
        batch = [feed_forward(f"{block}.feed_forward_in", x) for x in batch]
        batch = [x + attention(f"{block}.attention", norm(f"{block}.attention_norm", x)) for x in batch]
        convolved = []
        for x in batch:
            value, gate = linear(f"{block}.convolution.enter", norm(f"{block}.convolution.norm_in", x)).chunk(2, -1)
            filled = F.pad((value * gate.sigmoid()).T, (0, frames - len(x)))
            depthwise = (weights[f"{block}.convolution.depthwise.{name}"] for name in ("weight", "bias"))
            convolved.append(F.conv1d(filled, *depthwise, padding=cfg.kernel // 2, groups=cfg.width))
        every = torch.stack(convolved)  # [B, C, S]
        if cfg.norm == "batch":
            mean, variance = every.mean((0, 2)), every.var((0, 2), unbiased=False)
            seen.append((mean.detach(), every.var((0, 2)).detach()))
            normal = (every - mean[:, None]) / (variance[:, None] + 1e-5).sqrt()
            scale, shift = (weights[f"{block}.convolution.norm.{name}"][:, None] for name in ("weight", "bias"))
            every = normal * scale + shift
        else:
            every = norm(f"{block}.convolution.norm", every.mT).mT
        every = (every * every.sigmoid()).mT
        batch = [x + linear(f"{block}.convolution.leave", y[: len(x)]) for x, y in zip(batch, every, strict=True)]
        batch = [norm(f"{block}.norm", feed_forward(f"{block}.feed_forward_out", x)) for x in batch]
    return batch, seen


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("extra", [0, 21], ids=["filled", "padded"])
def test_training_on_a_ragged_batch_computes_what_was_published(kind, extra):
    cfg: EncoderConfig = tiny.config(dropout=0.0, attention_dropout=0.0, **KINDS[kind]).encoder
    torch.manual_seed(0)
    encoder = FastConformer(cfg, tiny.MEL_BINS)
    tiny.randomize(encoder)
    encoder.double().train()
    before = {name: buffer.clone() for name, buffer in encoder.named_buffers()}
    features_BFT, frames_B = tiny.features(*FRAMES, extra=extra)
    features_BFT = features_BFT.double()
    for features_FT, frames in zip(features_BFT, FRAMES, strict=True):
        features_FT[:, frames:] = RUBBISH
    features_BFT.requires_grad_()
    utterances = [features_FT[:, :n] for features_FT, n in zip(features_BFT, FRAMES, strict=True)]
    expected, seen = published_forward(encoder, utterances, features_BFT.shape[2])
    encoded_BSC, encoded_frames_B = encoder(features_BFT, frames_B)
    assert encoded_frames_B.tolist() == [len(x_SC) for x_SC in expected]
    found = [x_SC[:n] for x_SC, n in zip(encoded_BSC, encoded_frames_B, strict=True)]
    near = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(found, expected, **near)
    for i, (mean, variance) in enumerate(seen):
        norm = f"blocks.{i}.convolution.norm"
        running = encoder.get_buffer(f"{norm}.running_mean"), encoder.get_buffer(f"{norm}.running_var")
        torch.testing.assert_close(running[0], 0.9 * before[f"{norm}.running_mean"] + 0.1 * mean, **near)
        torch.testing.assert_close(running[1], 0.9 * before[f"{norm}.running_var"] + 0.1 * variance, **near)
    assert len(seen) == (0 if cfg.norm == "layer" else cfg.layers)

    learned = [features_BFT, *encoder.parameters()]
    directions = [torch.randn_like(x_SC) for x_SC in expected]
    gradients = [
        torch.autograd.grad(sum((x * d).sum() for x, d in zip(said, directions, strict=True)), learned)
        for said in (found, expected)
    ]
    torch.testing.assert_close(*gradients, **near)
    assert all(not grad_FT[:, n:].any() for grad_FT, n in zip(gradients[0][0], FRAMES, strict=True))

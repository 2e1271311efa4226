"""wav2vec 2.0 in training computes what was published: an independent forward, the loss and gradients.

Every utterance goes through the independent network alone, without padding. The published one differs where the first
layer's group normalisation sees the zeros after a shorter utterance: that is left out on purpose.
"""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.wav2vec2.small import QUIET, lively, small_config
from wav2vec2.contrastive.masking import MaskConfig, draw_targets
from wav2vec2.contrastive.model import Wav2Vec2ForPretraining
from wav2vec2.contrastive.objective import ObjectiveConfig
from wav2vec2.network.config import ModelConfig
from wav2vec2.network.extractor import n_frames
from wav2vec2.network.model import Masked, Wav2Vec2

KINDS = ("base", "large", "base hourglass", "large linear")
TINY = {"conv_layers": ((8, 10, 5), (8, 3, 2), (8, 2, 2)), "dim": 16, "ffn_dim": 24, "heads": 2, "pos_kernel": 6}
SAMPLES, RUBBISH = (700, 433, 260), 1e3


def published_features(config: ModelConfig, weights: dict[str, Tensor], audio_N: Tensor) -> Tensor:
    """[S, C] before they are normalised."""
    if config.normalize_audio:
        audio_N = (audio_N - audio_N.mean()) / (audio_N.var(correction=0) + 1e-5).sqrt()
    x = audio_N[None]
    for i, (_, _, stride) in enumerate(config.conv_layers):
        name = f"extractor.layers.{i}"
        x = F.conv1d(x, weights[f"{name}.weight"].transpose(1, 2), weights.get(f"{name}.bias"), stride)
        if f"{name}.norm.weight" in weights:
            over = 1 if config.extractor_norm == "group" else 0  # of a channel over time, or of a frame
            x = (x - x.mean(over, keepdim=True)) / (x.var(over, correction=0, keepdim=True) + 1e-5).sqrt()
            x = x * weights[f"{name}.norm.weight"][:, None] + weights[f"{name}.norm.bias"][:, None]
        x = gelu(x)
    return x.T


def gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def published_context(
    config: ModelConfig, weights: dict[str, Tensor], raw_SC: Tensor, mask_S: Tensor, mask_D: Tensor
) -> tuple[Tensor, Tensor]:
    """Normalised features, and the output of the Transformer of what is left of them."""

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name: str, x: Tensor) -> Tensor:
        x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def attention(name: str, x: Tensor) -> Tensor:
        size = config.dim // config.heads
        parts = [part.split(size, 1) for part in linear(f"{name}.qkv", x).chunk(3, 1)]
        mixed = [(q @ k.T / size**0.5).softmax(1) @ v for q, k, v in zip(*parts, strict=True)]
        return linear(f"{name}.out", torch.cat(mixed, 1))

    def layers(x: Tensor, first: int, end: int) -> Tensor:
        for name in (f"encoder.layers.{i}" for i in range(first, end)):
            if config.pre_norm:
                x = x + attention(f"{name}.attention", norm(f"{name}.attention_norm", x))
                x = x + linear(f"{name}.fc2", gelu(linear(f"{name}.fc1", norm(f"{name}.final_norm", x))))
            else:
                x = norm(f"{name}.attention_norm", x + attention(f"{name}.attention", x))
                x = norm(f"{name}.final_norm", x + linear(f"{name}.fc2", gelu(linear(f"{name}.fc1", x))))
        return x

    features_SC = norm("norm", raw_SC)
    x = torch.where(mask_S[:, None], weights["mask_embedding"], linear("projection", features_SC))
    x = x * (~mask_D)
    v, g, kernel = weights["encoder.positions.direction"], weights["encoder.positions.norm"], config.pos_kernel
    taps = v / v.square().sum((0, 1), keepdim=True).sqrt() * g
    # As published, an even kernel is padded by half of it on either side, and the last output is dropped.
    placed = F.conv1d(x.T, taps, weights["encoder.positions.bias"], padding=kernel // 2, groups=config.pos_groups)
    x = x + gelu(placed[:, : len(x)].T)
    x = x if config.pre_norm else norm("encoder.norm", x)
    shape = config.shortening
    if shape is None:
        x = layers(x, 0, config.layers)
    else:
        full, last = layers(x, 0, shape.before), shape.before + shape.shortened
        groups = F.pad(full, (0, 0, 0, -len(full) % shape.factor)).unflatten(0, (-1, shape.factor))
        if config.hourglass_resample == "linear":
            short = layers(linear("encoder.shortening.down", groups.flatten(1)), shape.before, last)
            wide = linear("encoder.shortening.up", short).view(-1, config.dim)[: len(full)]
        else:
            wide = layers(groups.mean(1), shape.before, last)[torch.arange(len(full)) // shape.factor]
        x = layers(full + wide, last, config.layers)
    return features_SC, norm("encoder.norm", x) if config.pre_norm else x


def ragged_audio() -> Tensor:
    audio_BN = torch.full((len(SAMPLES), max(SAMPLES)), RUBBISH, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    for row_N, n in zip(audio_BN, SAMPLES, strict=True):
        row_N[:n] = 0.02 + 0.1 * torch.randn(n, generator=generator)
    return audio_BN


def same_gradients(found: Tensor, expected: Tensor, learned: dict[str, Tensor]) -> list[Tensor]:
    """The gradients of `found`, which must be those of `expected`: 0 where the formula does not use a weight."""
    tensors = list(learned.values())
    mine = torch.autograd.grad(found, tensors, retain_graph=True)
    theirs = torch.autograd.grad(expected, tensors, allow_unused=True, materialize_grads=True)
    for name, one, other in zip(learned, mine, theirs, strict=True):
        atol = 1e-5 * max(1.0, float(other.abs().max()))
        torch.testing.assert_close(one, other, rtol=0, atol=atol, msg=lambda text, name=name: f"{name}: {text}")
    return list(mine)


@pytest.mark.parametrize("kind", KINDS)
def test_training_on_a_ragged_batch_computes_what_was_published(kind):
    torch.manual_seed(0)
    config = small_config(kind, **TINY)
    model = lively(Wav2Vec2(config, QUIET)).double().train()
    audio_BN = ragged_audio().requires_grad_()
    frames = [n_frames(n, config.conv_layers) for n in SAMPLES]
    generator = torch.Generator().manual_seed(2)
    mask_BS = torch.rand(len(frames), max(frames), generator=generator) < 0.4  # in the padding, too
    mask_BD = torch.rand(len(frames), config.dim, generator=generator) < 0.2
    found = model(audio_BN, torch.tensor(SAMPLES), masked=Masked(mask_BS, mask_BD))
    assert found.frames_B.tolist() == frames
    weights, totals = dict(model.named_parameters()), torch.zeros(2, dtype=torch.float64)
    for b, (samples, n) in enumerate(zip(SAMPLES, frames, strict=True)):
        raw_SC = published_features(config, weights, audio_BN[b, :samples])
        features_SC, x_SD = published_context(config, weights, raw_SC, mask_BS[b, :n], mask_BD[b])
        torch.testing.assert_close(found.features_BSC[b, :n], features_SC, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found.x_BSD[b, :n], x_SD, rtol=1e-5, atol=1e-5)
        assert not found.x_BSD[b, n:].any()
        direction = torch.randn(x_SD.shape, dtype=torch.float64)
        totals = totals + torch.stack([(found.x_BSD[b, :n] * direction).sum(), (x_SD * direction).sum()])
    gradient_BN, *_ = same_gradients(totals[0], totals[1], {"audio": audio_BN, **weights})
    assert all(not row_N[n:].any() for row_N, n in zip(gradient_BN, SAMPLES, strict=True))


@pytest.mark.parametrize("kind", ["base", "large linear"])
def test_pretraining_on_a_ragged_batch_has_the_published_loss(kind):
    config, temperature, objective = small_config(kind, **TINY), 1.7, ObjectiveConfig(diversity=0.3, penalty=2.0)
    model = lively(Wav2Vec2ForPretraining(config, QUIET)).double().train()
    audio_BN = ragged_audio().requires_grad_()
    frames = [n_frames(n, config.conv_layers) for n in SAMPLES]
    targets = draw_targets(frames, MaskConfig(time_length=3), distractors=5, seed=0)
    torch.manual_seed(0)
    noise_QGV = torch.randn(targets.positions_BM.numel(), config.codebooks, config.codebook_size)
    found = model(
        audio_BN, torch.tensor(SAMPLES), [targets], objective=objective, temperature=temperature, noise_QGV=noise_QGV
    )
    weights = {name.removeprefix("wav2vec2."): p for name, p in model.named_parameters()}

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    contrastive, squares, probabilities = torch.zeros((), dtype=torch.float64), [], []
    for b, (samples, n) in enumerate(zip(SAMPLES, frames, strict=True)):
        raw_SC = published_features(config, weights, audio_BN[b, :samples])
        shown_D = torch.zeros(config.dim, dtype=torch.bool)
        features_SC, x_SD = published_context(config, weights, raw_SC, targets.mask_BS[b, :n], shown_D)
        here, n_masked = targets.positions_BM[b], targets.positions_BM.shape[1]
        scores = linear("quantizer.scores", features_SC[here]).unflatten(1, (config.codebooks, -1))
        probabilities.append(scores.softmax(2))
        soft = ((scores + noise_QGV[b * n_masked : (b + 1) * n_masked]) / temperature).softmax(2)
        picked = soft.argmax(2)
        chosen = F.one_hot(picked, config.codebook_size) + (soft - soft.detach())
        entries = (chosen[..., None] * weights["quantizer.codes_GVE"]).sum(2).flatten(1)
        codes, context = linear("project_codes", entries), linear("project_context", x_SD[here])
        for m in range(n_masked):
            # A distractor that is the same as the target is none.
            others = [k for k in targets.distractors_BMK[b, m].tolist() if (picked[k] != picked[m]).any()]
            near = F.cosine_similarity(context[m], codes[[m, *others]], dim=1) / objective.logit_temperature
            contrastive = contrastive + near.logsumexp(0) - near[0]
        squares.append(raw_SC.square().mean(1))
    used = torch.cat(probabilities).mean(0)
    perplexity = (-(used * used.log()).sum(1)).exp().sum()
    diversity = 1 - perplexity / used.numel()
    parts = contrastive, diversity * found.frames, torch.cat(squares).mean() * found.frames
    expected = parts[0] + objective.diversity * parts[1] + objective.penalty * parts[2]
    assert found.frames == targets.positions_BM.numel()
    said = found.contrastive, found.diversity, found.penalty, found.total
    for mine, theirs in zip(said, (*parts, expected), strict=True):
        torch.testing.assert_close(mine.double(), theirs.detach().double(), rtol=1e-5, atol=1e-5)
    gradient_BN, *_ = same_gradients(found.total, expected, {"audio": audio_BN, **weights})
    assert all(not row_N[n:].any() for row_N, n in zip(gradient_BN, SAMPLES, strict=True))

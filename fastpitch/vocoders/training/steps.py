"""One optimiser step of a vocoder: of a generator against discriminators, or of a flow by its likelihood.

Shapes: B segments, N samples, M mel bins, T frames, K numbers of a step.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from common.devices.precision import algorithms_tried, autocast
from fastpitch.vocoders.config import HifiganRun, WaveglowRun
from fastpitch.vocoders.training import data
from fastpitch.vocoders.training.data import GeneratorInput, SegmentBatch
from fastpitch.vocoders.training.discriminators import Judgement
from fastpitch.vocoders.training.objective import (
    GeneratorLoss,
    discriminator_loss,
    generator_loss,
    negative_log_likelihood,
)
from fastpitch.vocoders.training.run import Run


class Step(NamedTuple):
    """What a step leaves for the log: its losses, [K], means over the segments of this process."""

    losses_K: Tensor
    learning_rate: float


def update(run: Run, batch: SegmentBatch) -> Step:
    """One step of all networks, in cfg.grad_accumulation micro-batches; exchanges gradients once."""
    cfg, progress = run.cfg, run.state.progress
    rate = run.epochs.learning_rate(progress.step)
    for learner in run.learners:
        learner.begin(rate)
    parts = data.micro_batches(data.heard(batch.to(run.world.device), run.log_mel), cfg.grad_accumulation)
    with algorithms_tried(run.world.device, cfg.cudnn_benchmark):  # segments are all of one length
        losses_K = update_flow(run, parts) if isinstance(cfg, WaveglowRun) else update_adversarially(run, parts)
    return Step(losses_K, rate)


def update_flow(run: Run, parts: list[GeneratorInput]) -> Tensor:
    """A step of WaveGlow; its loss, [1]."""
    losses = []
    for part in run.learner.each(parts):
        loss = flow_loss(run, run.learner.parallel, part) * data.share(part, parts)
        run.learner.backward(loss)
        losses.append(loss.detach())
    run.learner.finish(run.state.progress, clip_norm=run.cfg.clip_norm)
    return torch.stack(losses).sum()[None]


def flow_loss(run: Run, model: nn.Module, part: GeneratorInput) -> Tensor:
    """What WaveGlow minimises, of a micro-batch."""
    assert isinstance(run.cfg, WaveglowRun)
    with autocast(run.world.device, run.cfg.precision):
        said = model(part.mel_BMT, part.audio_BN)
    return negative_log_likelihood(said, run.cfg.sigma)


def update_adversarially(run: Run, parts: list[GeneratorInput]) -> Tensor:
    """A step of the discriminators, then one of the generator; the generator's loss, its parts, the discriminators'."""
    cfg = run.cfg
    assert isinstance(cfg, HifiganRun)
    is_adversarial = cfg.loss.needs_discriminators and run.state.progress.step >= cfg.loss.adversarial_from
    kept = generated(run, parts[0]) if len(parts) == 1 else None
    discriminators = torch.zeros((), device=run.world.device)
    if is_adversarial:
        discriminators = update_discriminators(run, parts, kept)
    return torch.cat([update_generator(run, parts, kept, is_adversarial), discriminators[None]])


def update_discriminators(run: Run, parts: list[GeneratorInput], kept: Tensor | None) -> Tensor:
    """A step of the discriminators on recordings and on what the generator says; their loss."""
    assert run.against is not None
    learner, losses = run.against, []
    learner.network.requires_grad_(True)
    for part in learner.each(parts):
        fake_BN = kept.detach() if kept is not None else generated(run, part, grad=False)
        with autocast(run.world.device, run.cfg.precision):
            both = learner.parallel(torch.cat([part.audio_BN, fake_BN]))
        loss = discriminator_loss(*_split(both)) * data.share(part, parts)
        learner.backward(loss)
        losses.append(loss.detach())
    learner.finish(run.state.progress, clip_norm=run.cfg.clip_norm)
    return torch.stack(losses).sum()


def update_generator(run: Run, parts: list[GeneratorInput], kept: Tensor | None, is_adversarial: bool) -> Tensor:
    """A step of the generator; its `GeneratorLoss`, [K]."""
    assert isinstance(run.cfg, HifiganRun)
    assert run.against is not None
    learner, losses = run.learner, []
    run.against.network.requires_grad_(False)
    for part in learner.each(parts):
        fake_BN = kept if kept is not None else generated(run, part)
        real, fake = judged(run, part.audio_BN, fake_BN) if is_adversarial else (None, None)
        loss = generator_loss(run.cfg.loss, run.full_mel, part.audio_BN, fake_BN, real, fake)
        loss = GeneratorLoss(*(value * data.share(part, parts) for value in loss))
        learner.backward(loss.value)
        losses.append(torch.stack(loss).detach())
    learner.finish(run.state.progress, clip_norm=run.cfg.clip_norm)
    return torch.stack(losses).sum(0)


def generated(run: Run, part: GeneratorInput, *, grad: bool = True) -> Tensor:
    """What the generator says of the mel frames, audio_BN; with gradients that will be exchanged, or without any."""
    network = run.learner.parallel if grad else run.generator
    with autocast(run.world.device, run.cfg.precision), torch.set_grad_enabled(grad):
        return network(part.mel_BMT)


def judged(run: Run, audio_BN: Tensor, fake_BN: Tensor) -> tuple[Judgement, Judgement]:
    """Recorded and generated audio by the bare discriminators: their gradients are neither wanted nor exchanged."""
    assert run.against is not None
    judges = run.against.network
    with autocast(run.world.device, run.cfg.precision):
        with torch.no_grad():
            real = judges(audio_BN)
        return real, judges(fake_BN)


def _split(both: Judgement) -> tuple[Judgement, Judgement]:
    """The judgements of recorded and of generated audio, made in one batch."""
    half = len(both.scores[0]) // 2
    real, fake = (Judgement([s[rows] for s in both.scores], []) for rows in (slice(half), slice(half, None)))
    return real, fake

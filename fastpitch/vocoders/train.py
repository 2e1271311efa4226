"""Training of a vocoder with discriminators: `python -m fastpitch.vocoders.train configs/hifigan/v1.toml`.

On several GPUs: `torchrun --nproc_per_node 8 -m fastpitch.vocoders.train …`. Everything random is a function of (seed,
epoch, index), so a run that was stopped and resumed ends in the weights of one that never stopped.
"""

import math
import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from common import checkpoint, config, distributed
from common.data.batching import BatchingError
from common.data.loading import LoadingError
from common.data.manifest import ManifestError
from common.distributed import World
from common.features import LogMel
from common.interruption import termination
from common.logging import RunLogger
from common.precision import autocast
from common.schedule import build_schedule
from common.training import HostCopy, TrainingError, check_finite, limit_reached, started, tell_left_out
from fastpitch.vocoders.config import HifiganRun
from fastpitch.vocoders.training import data
from fastpitch.vocoders.training.data import Heard, SegmentBatch
from fastpitch.vocoders.training.discriminators import Judgement
from fastpitch.vocoders.training.evaluation import Evaluation, evaluate, resynthesized, show_samples
from fastpitch.vocoders.training.hifigan_state import NAME, Progress, TrainingState
from fastpitch.vocoders.training.objective import GeneratorLoss, discriminator_loss, generator_loss
from fastpitch.vocoders.training.steps import (
    apply_gradients,
    bad_segments,
    describe_run,
    epoch_batches,
    n_parameters,
    open_clips,
)

SAMPLES = 5  # clips that TensorBoard shows


@dataclass(frozen=True)
class Step:
    """What a step leaves for checks and logs; its losses are means over the segments, `losses_2` over all processes."""

    number: int
    batch: SegmentBatch
    generator: GeneratorLoss
    discriminators: Tensor
    losses_2: HostCopy
    learning_rate: float


def main(cfg: HifiganRun) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    run = started(cfg.output_dir, device=cfg.device, precision=cfg.precision, tensorboard=cfg.tensorboard)
    with run as (world, log):
        return Trainer(cfg, world, log).run()


class Trainer:
    """The state of one training process."""

    def __init__(self, cfg: HifiganRun, world: World, log: RunLogger):
        self.cfg, self.world, self.log = cfg, world, log
        self.state = TrainingState(cfg, world.device)
        self.progress = self.state.progress
        self.log_mel = LogMel(cfg.features).to(world.device)
        # What is compared goes up to half of the sample rate, beyond what generators hear.
        self.full_mel = LogMel(replace(cfg.features, highest_hz=cfg.features.sample_rate / 2)).to(world.device)
        self.generator = distributed.data_parallel(self.state.generator, world)
        self.discriminators = distributed.data_parallel(self.state.discriminators, world)
        self.last: Step | None = None
        self.told: set[str] = set()
        for message in self.state.messages:
            log.event(message)
        self.train_set = open_clips(cfg.data.train, cfg, log, training=True)
        self.validation = open_clips(cfg.data.validation, cfg, log, training=False) if cfg.data.validation else None
        self.steps_per_epoch = len(self._batches(0))
        self.learning_rate = build_schedule(
            cfg.schedule,
            lr=cfg.optim.lr,
            steps_per_epoch=self.steps_per_epoch,
            total_steps=self.steps_per_epoch * cfg.epochs,
        )
        if moved := self.progress.recount(self.steps_per_epoch):
            log.event(moved)

    def run(self) -> Progress:
        """All epochs that are left, or until a limit or SIGTERM; always ends with a checkpoint."""
        cfg, progress = self.cfg, self.progress
        last_epoch = min(cfg.epochs, progress.epoch + cfg.epochs_this_job) if cfg.epochs_this_job else cfg.epochs
        self._describe_run()
        self.log.progress(last_epoch * self.steps_per_epoch, progress.step)
        with termination() as terminated:
            try:
                while progress.epoch < last_epoch and not self._limit_reached(terminated):
                    self._epoch(terminated)
            except LoadingError:
                if self.world.size == 1:  # the state is that before the bad batch; several processes cannot meet now
                    self._save()
                raise
        self._save()
        if self.world.is_main:
            self.state.export(cfg.output_dir / f"{NAME}_final.pt")
        return progress

    def _epoch(self, terminated: list[int]) -> None:
        cfg, progress = self.cfg, self.progress
        batches = self._batches(progress.epoch)[progress.batch :]
        self.train_set.set_epoch(progress.epoch)
        clock, segments = time.perf_counter(), 0
        for batch in data.loader(self.train_set, batches, workers=cfg.data.workers):
            step = self.update(batch)
            self._check_last()  # of the step before, so that a GPU never waits for it
            self.last = step
            segments += len(batch.ids) * self.world.size
            progress.batch += 1
            progress.step += 1
            self.log.advance()
            stop = self._limit_reached(terminated)
            ends_epoch = progress.batch == self.steps_per_epoch
            if progress.step % cfg.log_every == 0 or ends_epoch or stop:
                self._check_last()
                took = time.perf_counter() - clock
                self._log_training(step, segments / took, took)
                clock, segments = time.perf_counter(), 0
            if stop:
                break
        if progress.batch == self.steps_per_epoch:
            progress.epoch, progress.batch = progress.epoch + 1, 0
            self._tell_left_out()
            self._end_epoch()

    def _end_epoch(self) -> None:
        cfg, epoch = self.cfg, self.progress.epoch
        if epoch % cfg.validate_every_epochs == 0 or epoch == cfg.epochs:
            self._validate()
        if cfg.samples_every_epochs and (epoch % cfg.samples_every_epochs == 0 or epoch == cfg.epochs):
            self._show_samples()
        if epoch in cfg.keep_epochs:
            self.progress.milestones.append(self.progress.step)
        if epoch % cfg.save_every_epochs == 0 or epoch in cfg.keep_epochs:
            self._save()

    def update(self, batch: SegmentBatch) -> Step:
        """One step of the discriminators, then one of the generator, in cfg.grad_accumulation micro-batches."""
        cfg, progress, state = self.cfg, self.progress, self.state
        rate = self.learning_rate(progress.step)
        for optimizer in (state.generator_optimizer, state.discriminators_optimizer):
            for group in optimizer.param_groups:
                group["lr"] = rate
        self.generator.train()
        parts = data.micro_batches(data.heard(batch.to(self.world.device), self.log_mel), cfg.grad_accumulation)
        is_adversarial = cfg.loss.needs_discriminators and progress.step >= cfg.loss.adversarial_from
        kept = self._generated(parts[0], sync=True) if len(parts) == 1 else None
        discriminators = torch.zeros((), device=self.world.device)
        if is_adversarial:
            discriminators = self._update_discriminators(parts, kept)
        generator = self._update_generator(parts, kept, is_adversarial)
        if state.ema is not None:
            state.ema.update()
        losses_2 = HostCopy(self.world.mean(torch.stack([generator.value, discriminators])))
        return Step(progress.step, batch, generator, discriminators, losses_2, rate)

    def _update_discriminators(self, parts: list[Heard], kept: Tensor | None) -> Tensor:
        state, losses = self.state, []
        state.discriminators.requires_grad_(True)
        for i, part in enumerate(parts):
            fake_BN = self._generated(part, sync=False, grad=False) if kept is None else kept.detach()
            with distributed.gradient_sync(self.discriminators, enabled=i == len(parts) - 1):
                with autocast(self.world.device, self.cfg.precision):
                    both = self.discriminators(torch.cat([part.audio_BN, fake_BN]))
                loss = discriminator_loss(*_split(both)) * data.share(part, parts)
                state.discriminators_scaler.scale(loss).backward()
            losses.append(loss.detach())
        optimizer, scaler = state.discriminators_optimizer, state.discriminators_scaler
        apply_gradients(optimizer, scaler, state.discriminators, clip_norm=self.cfg.clip_norm)
        return torch.stack(losses).sum()

    def _update_generator(self, parts: list[Heard], kept: Tensor | None, is_adversarial: bool) -> GeneratorLoss:
        state, losses = self.state, []
        state.discriminators.requires_grad_(False)
        for i, part in enumerate(parts):
            with distributed.gradient_sync(self.generator, enabled=i == len(parts) - 1):
                fake_BN = self._generated(part, sync=i == len(parts) - 1) if kept is None else kept
                real, fake = self._judged(part.audio_BN, fake_BN) if is_adversarial else (None, None)
                loss = generator_loss(self.cfg.loss, self.full_mel, part.audio_BN, fake_BN, real, fake)
                loss = GeneratorLoss(*(value * data.share(part, parts) for value in loss))
                state.generator_scaler.scale(loss.value).backward()
            losses.append(torch.stack(loss).detach())
        optimizer, scaler = state.generator_optimizer, state.generator_scaler
        apply_gradients(optimizer, scaler, state.generator, clip_norm=self.cfg.clip_norm)
        return GeneratorLoss(*torch.stack(losses).sum(0).unbind())

    def _generated(self, part: Heard, *, sync: bool, grad: bool = True) -> Tensor:
        with (
            distributed.gradient_sync(self.generator, enabled=sync),
            autocast(self.world.device, self.cfg.precision),
            torch.set_grad_enabled(grad),
        ):
            return self.generator(part.mel_BMT)

    def _judged(self, audio_BN: Tensor, fake_BN: Tensor) -> tuple[Judgement, Judgement]:
        """By the bare discriminators: their gradients are neither wanted nor exchanged."""
        with autocast(self.world.device, self.cfg.precision):
            with torch.no_grad():
                real = self.state.discriminators(audio_BN)
            return real, self.state.discriminators(fake_BN)

    def _check_last(self) -> None:
        """A loss of the last step that is not finite ends the run; its batch is saved."""
        step, self.last = self.last, None
        if step is None:
            return
        generator, discriminators = step.losses_2.tolist()
        if math.isfinite(generator) and math.isfinite(discriminators):
            return
        problem = f"the losses of generator and discriminators are {generator} and {discriminators}"
        raise bad_segments(problem, step.number, step.batch, self.cfg.output_dir, self.world)

    def _check_state(self) -> None:
        """Numbers that are not finite are neither saved nor evaluated."""
        self._check_last()
        networks = (self.state.generator, self.state.discriminators)
        state = [tensor for network in networks for tensor in network.state_dict().values()]
        check_finite(state, after=f"step {self.progress.step}", world=self.world)

    def _tell_left_out(self) -> None:
        """A line, once, for every clip that some process could not read; by all processes together."""
        sets = [self.train_set, *([self.validation] if self.validation is not None else [])]
        skipped = [message for read in sets for message in read.skipped.values()]
        tell_left_out(skipped, self.told, self.world, self.log)

    def _log_training(self, step: Step, throughput: float, took: float) -> None:
        losses = {"loss": step.generator.value, "mel_loss": step.generator.mel, "stft_loss": step.generator.stft}
        losses |= {"feature_loss": step.generator.features, "adversarial_loss": step.generator.adversarial}
        losses |= {"discriminator_loss": step.discriminators}
        values = {name: loss.item() for name, loss in losses.items() if name == "loss" or loss.item()}
        values |= {"throughput": throughput, "took": took, "lrate": step.learning_rate}
        where = (self.progress.epoch + 1, self.progress.batch, self.steps_per_epoch)
        self.log.log("train", where, values, global_step=self.progress.step)

    def _validate(self) -> None:
        """Distances of the weights and of their moving average; keeps the best generator by the latter."""
        if self.validation is None:
            return
        self._check_state()
        found: dict[str, Evaluation] = {"dev": self._evaluate(self.state.generator)}
        if self.state.ema is not None:
            found["dev_ema"] = self._evaluate(self.state.ema.model)
        for phase, evaluation in found.items():
            self.log.log(phase, (self.progress.epoch,), evaluation._asdict(), global_step=self.progress.step)
        mel = list(found.values())[-1].mel
        if mel < self.progress.best_mel:
            self.progress.best_mel = mel
            if self.world.is_main:
                self.state.export(self.cfg.output_dir / f"{NAME}_best.pt")

    def _evaluate(self, generator: nn.Module) -> Evaluation:
        assert self.validation is not None
        return evaluate(generator, self.log_mel, self.full_mel, self.validation, self.world, self.cfg.precision)

    def _show_samples(self) -> None:
        if self.validation is None or not self.cfg.tensorboard or not self.world.is_main:
            return
        generator = self.state.ema.model if self.state.ema is not None else self.state.generator
        clips = range(min(SAMPLES, len(self.validation.utterances)))
        said = resynthesized(generator, self.log_mel, self.validation, clips, self.world, self.cfg.precision)
        show_samples(self.cfg.output_dir / "dev", said, self.full_mel, step=self.progress.step)

    def _batches(self, epoch: int) -> list[list[int]]:
        return epoch_batches(self.train_set, self.cfg, epoch, self.world)

    def _limit_reached(self, terminated: list[int]) -> bool:
        """Whether to stop now, in all processes."""
        cfg = self.cfg
        return limit_reached(self.progress.step, cfg.steps, terminated, ask_every=cfg.log_every, world=self.world)

    def _save(self) -> None:
        self._check_state()
        self._tell_left_out()
        if self.world.is_main:
            self.state.save_step()
        self.world.barrier()

    def _describe_run(self) -> None:
        sizes = f"{n_parameters(self.state.generator):,} parameters in the generator"
        sizes += f", {n_parameters(self.state.discriminators):,} in the discriminators"
        describe_run(self.cfg, sizes, self.train_set, self.steps_per_epoch, self.world, self.log)


def _split(both: Judgement) -> tuple[Judgement, Judgement]:
    """Of recorded and generated audio, judged in one batch."""
    half = len(both.scores[0]) // 2
    real, fake = (Judgement([s[rows] for s in both.scores], []) for rows in (slice(half), slice(half, None)))
    return real, fake


if __name__ == "__main__":
    with config.reported(checkpoint.CheckpointError, ManifestError, BatchingError, LoadingError, TrainingError):
        main(config.command_line(HifiganRun, description=__doc__ or ""))

"""Training of WaveGlow: `python -m fastpitch.vocoders.train_waveglow configs/waveglow/waveglow256.toml`.

On several GPUs: `torchrun --nproc_per_node 8 -m fastpitch.vocoders.train_waveglow …`. Everything random is a
function of (seed, epoch, index), so a run that was stopped and resumed ends in the weights of one that never stopped.
"""

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from common import checkpoint, config, distributed
from common.data.batching import BatchingError, evaluation_batches
from common.data.loading import LoadingError
from common.data.manifest import ManifestError
from common.distributed import World
from common.features import LogMel
from common.interruption import termination
from common.logging import RunLogger
from common.precision import autocast
from common.schedule import build_schedule
from common.training import HostCopy, TrainingError, check_finite, limit_reached, started, tell_left_out
from fastpitch.vocoders.config import WaveglowRun
from fastpitch.vocoders.training import data
from fastpitch.vocoders.training.data import Heard, SegmentBatch
from fastpitch.vocoders.training.objective import negative_log_likelihood
from fastpitch.vocoders.training.steps import (
    apply_gradients,
    bad_segments,
    describe_run,
    epoch_batches,
    n_parameters,
    open_clips,
)
from fastpitch.vocoders.training.waveglow_state import NAME, Progress, TrainingState


@dataclass(frozen=True)
class Step:
    """What a step leaves for checks and logs; the loss is the mean over all processes."""

    number: int
    batch: SegmentBatch
    loss: HostCopy
    learning_rate: float


def main(cfg: WaveglowRun) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    run = started(cfg.output_dir, device=cfg.device, precision=cfg.precision, tensorboard=cfg.tensorboard)
    with run as (world, log):
        return Trainer(cfg, world, log).run()


class Trainer:
    """The state of one training process."""

    def __init__(self, cfg: WaveglowRun, world: World, log: RunLogger):
        self.cfg, self.world, self.log = cfg, world, log
        self.state = TrainingState(cfg, world.device)
        self.progress = self.state.progress
        self.log_mel = LogMel(cfg.features).to(world.device)
        self.parallel = distributed.data_parallel(self.state.model, world)
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
                values = {"loss": step.loss.tolist(), "throughput": segments / took, "took": took}
                where = (progress.epoch + 1, progress.batch, self.steps_per_epoch)
                self.log.log("train", where, values | {"lrate": step.learning_rate}, global_step=progress.step)
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
        if epoch in cfg.keep_epochs:
            self.progress.milestones.append(self.progress.step)
        if epoch % cfg.save_every_epochs == 0 or epoch in cfg.keep_epochs:
            self._save()

    def update(self, batch: SegmentBatch) -> Step:
        """One optimiser step, in cfg.grad_accumulation micro-batches; exchanges gradients once."""
        cfg, state = self.cfg, self.state
        rate = self.learning_rate(self.progress.step)
        for group in state.optimizer.param_groups:
            group["lr"] = rate
        self.parallel.train()
        parts = data.micro_batches(data.heard(batch.to(self.world.device), self.log_mel), cfg.grad_accumulation)
        losses = []
        for i, part in enumerate(parts):
            with distributed.gradient_sync(self.parallel, enabled=i == len(parts) - 1):
                loss = self._loss(self.parallel, part) * data.share(part, parts)
                state.scaler.scale(loss).backward()
            losses.append(loss.detach())
        apply_gradients(state.optimizer, state.scaler, state.model, clip_norm=cfg.clip_norm)
        if state.ema is not None:
            state.ema.update()
        return Step(self.progress.step, batch, HostCopy(self.world.mean(torch.stack(losses).sum())), rate)

    def _loss(self, model: nn.Module, part: Heard) -> Tensor:
        with autocast(self.world.device, self.cfg.precision):
            said = model(part.mel_BMT, part.audio_BN)
        return negative_log_likelihood(said, self.cfg.sigma)

    def _check_last(self) -> None:
        """A loss of the last step that is not finite ends the run; its batch is saved."""
        step, self.last = self.last, None
        if step is None:
            return
        loss = step.loss.tolist()
        if math.isfinite(loss):
            return
        raise bad_segments(f"the loss is {loss}", step.number, step.batch, self.cfg.output_dir, self.world)

    def _check_state(self) -> None:
        """Numbers that are not finite are neither saved nor evaluated."""
        self._check_last()
        check_finite(self.state.model.state_dict().values(), after=f"step {self.progress.step}", world=self.world)

    def _tell_left_out(self) -> None:
        """A line, once, for every clip that some process could not read; by all processes together."""
        sets = [self.train_set, *([self.validation] if self.validation is not None else [])]
        skipped = [message for read in sets for message in read.skipped.values()]
        tell_left_out(skipped, self.told, self.world, self.log)

    def _validate(self) -> None:
        """Losses of the weights and of their moving average; keeps the best network by the latter."""
        if self.validation is None:
            return
        self._check_state()
        found = {"dev": self._evaluate(self.state.model)}
        if self.state.ema is not None:
            found["dev_ema"] = self._evaluate(self.state.ema.model)
        for phase, loss in found.items():
            self.log.log(phase, (self.progress.epoch,), {"loss": loss}, global_step=self.progress.step)
        loss = list(found.values())[-1]
        if loss < self.progress.best_loss:
            self.progress.best_loss = loss
            if self.world.is_main:
                self.state.export(self.cfg.output_dir / f"{NAME}_best.pt")

    @torch.no_grad()
    def _evaluate(self, model: nn.Module) -> float:
        """Mean loss over the same segment of every clip each time."""
        assert self.validation is not None
        cfg, world = self.cfg, self.world
        model.eval()
        batches = evaluation_batches(
            [0.0] * len(self.validation), batch_size=cfg.batch_size, ranks=world.size, rank=world.rank
        )
        total_2 = torch.zeros(2, dtype=torch.float64, device=world.device)
        for batch in data.loader(self.validation, batches, workers=cfg.data.workers):
            loss = self._loss(model, data.heard(batch.to(world.device), self.log_mel))
            total_2 += torch.stack([loss * len(batch.ids), torch.full_like(loss, len(batch.ids))])
        loss_sum, count = world.sum(total_2).tolist()
        return loss_sum / count

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
        size = f"{n_parameters(self.state.model):,} parameters"
        describe_run(self.cfg, size, self.train_set, self.steps_per_epoch, self.world, self.log)


if __name__ == "__main__":
    with config.reported(checkpoint.CheckpointError, ManifestError, BatchingError, LoadingError, TrainingError):
        main(config.command_line(WaveglowRun, description=__doc__ or ""))

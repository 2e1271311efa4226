"""Training of FastPitch: `python -m fastpitch.train configs/fastpitch/fastpitch.toml --data.root DIR`.

On several GPUs: `torchrun --nproc_per_node 8 -m fastpitch.train …`. Everything random is a function of (seed, step,
rank), so a run that was stopped and resumed ends in the weights of one that never stopped.
"""

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch

from common import checkpoint, config, distributed
from common.data.batching import BatchingError, bucketed_batches
from common.data.loading import LoadingError
from common.data.manifest import ManifestError, Utterance
from common.distributed import World
from common.features import LogMel
from common.interruption import termination
from common.logging import RunLogger
from common.schedule import build_schedule
from common.seeds import mixed
from common.training import (
    HostCopy,
    TrainingError,
    bad_batch,
    check_finite,
    limit_reached,
    started,
    tell_left_out,
    write_run_files,
)
from fastpitch.acoustic import data
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.data import Clip, ClipBatch, ClipDataset
from fastpitch.acoustic.evaluation import evaluate, named
from fastpitch.acoustic.model import FastPitch
from fastpitch.acoustic.objective import Counts, Parts, counts_of, fastpitch_objective, micro_batches
from fastpitch.acoustic.state import Progress, TrainingState
from fastpitch.acoustic.tensorboard import Samples
from fastpitch.vocoders.vocoder import VocoderError


def main(cfg: Config) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    run = started(cfg.output_dir, device=cfg.device, precision=cfg.precision, tensorboard=cfg.tensorboard)
    with run as (world, log):
        return Trainer(cfg, world, log).run()


class Trainer:
    """The state of one training process."""

    def __init__(self, cfg: Config, world: World, log: RunLogger):
        self.cfg, self.world, self.log = cfg, world, log
        self.state = TrainingState(cfg, world.device)
        self.model, self.progress = self.state.model, self.state.progress
        self.log_mel = LogMel(cfg.features).to(world.device)
        self.parallel = distributed.data_parallel(self.model, world)
        self.last: Step | None = None
        self.losses: list[list[float]] = []  # of the steps since the last line of the log
        self.told: set[str] = set()
        self.speeds: list[tuple[int, float]] = []  # frames and seconds of the epochs of this job
        for message in self.state.messages:
            log.event(message)
        train = self._utterances(cfg.data.train, training=True)
        self.train_set = ClipDataset(train, cfg, training=True)
        self.seconds = [u.seconds for u in train]
        self.steps_per_epoch = len(self._batches(0))
        self.learning_rate = build_schedule(
            cfg.schedule,
            lr=cfg.optim.lr,
            steps_per_epoch=self.steps_per_epoch,
            total_steps=self.steps_per_epoch * cfg.epochs,
        )
        self.validation = None
        if cfg.data.validation:
            self.validation = ClipDataset(self._utterances(cfg.data.validation, training=False), cfg, training=False)
        if moved := self.progress.recount(self.steps_per_epoch):
            log.event(moved)

    def run(self) -> Progress:
        """All epochs that are left, or until a limit or SIGTERM; always ends with a checkpoint."""
        cfg, progress = self.cfg, self.progress
        if cfg.dry_run:
            self._try_longest_batch()
            return progress
        last_epoch = min(cfg.epochs, progress.epoch + cfg.epochs_this_job) if cfg.epochs_this_job else cfg.epochs
        self._describe_run()
        self.log.progress(last_epoch * self.steps_per_epoch, progress.step)
        with termination() as terminated, self._samples() as samples:
            try:
                while progress.epoch < last_epoch and not self._limit_reached(terminated):
                    self._epoch(terminated)
                    ends = progress.batch == 0
                    if ends and (progress.epoch % cfg.validate_every_epochs == 0 or progress.epoch == last_epoch):
                        self._validate(samples)
                    if ends and (progress.epoch % cfg.save_every_epochs == 0 or progress.epoch in cfg.keep_epochs):
                        self._save()
            except LoadingError:
                if self.world.size == 1:  # the state is that before the bad batch; several processes cannot meet now
                    self._save()
                raise
        self._save()
        if counted := self.speeds[1:]:  # the first epoch warms up
            frames, took = (sum(part) for part in zip(*counted, strict=True))
            self.log.log("train_avg", (), {"frames/s": frames / took, "took": took}, global_step=progress.step)
        if self.told:
            self.log.event(f"left out: {len(self.told)} clips")
        return progress

    def _epoch(self, terminated: list[int]) -> None:
        cfg, progress, world = self.cfg, self.progress, self.world
        batches = self._batches(progress.epoch)[progress.batch :]
        self.train_set.set_epoch(progress.epoch)
        clock, frames = time.perf_counter(), 0
        all_frames, all_seconds = 0, 0.0
        for batch in data.loader(self.train_set, batches, workers=cfg.data.workers):
            step = self.update(batch)
            self._check_last()  # of the step before, so that a GPU never waits for it
            self.last = step
            frames += int(batch.frames_B.sum()) * world.size  # of the other processes about as many
            progress.batch += 1
            progress.step += 1
            self.log.advance()
            stop = self._limit_reached(terminated)
            if progress.step % cfg.log_every == 0 or progress.batch == self.steps_per_epoch or stop:
                self._check_last()
                took = time.perf_counter() - clock
                self._log_training(step, frames / took, took)
                all_frames, all_seconds = all_frames + frames, all_seconds + took
                clock, frames = time.perf_counter(), 0
            trained = time.perf_counter()
            if cfg.save_every_steps and progress.step % cfg.save_every_steps == 0:
                self._save()
            clock += time.perf_counter() - trained
            if stop:
                break
        if progress.batch == self.steps_per_epoch:
            progress.epoch, progress.batch = progress.epoch + 1, 0
            self.speeds.append((all_frames, all_seconds))
            self._tell_left_out()
            if progress.epoch in cfg.keep_epochs:
                progress.milestones.append(progress.step)

    def update(self, batch: ClipBatch) -> "Step":
        """One optimiser step, in cfg.grad_accumulation micro-batches; exchanges gradients once."""
        cfg, progress, state, world = self.cfg, self.progress, self.state, self.world
        torch.manual_seed(mixed(cfg.seed, progress.step, world.rank))  # dropout
        self.parallel.train()
        self.log_mel.train()
        rate = self.learning_rate(progress.step)
        for group in state.optimizer.param_groups:
            group["lr"] = rate
        # Over all processes, then by one process's share, because gradients are averaged over them.
        counts_3 = world.sum(counts_of(batch).to(world.device, non_blocking=True)).clamp(min=1) / world.size
        share = 1.0
        if not batch.indices:
            batch, share = self._stand_in(batch), 0.0
        weight = cfg.loss.binarisation_weight(progress.epoch + 1)
        parts = micro_batches(batch, cfg.grad_accumulation)
        losses = []
        for i, part in enumerate(parts):
            with distributed.gradient_sync(self.parallel, enabled=i == len(parts) - 1):
                loss = fastpitch_objective(
                    self.parallel, self.log_mel, part, cfg,
                    pitch_mean=self.model.pitch_mean, pitch_std=self.model.pitch_std,
                    counts=Counts(*counts_3.unbind()), binarisation_weight=weight,
                )  # fmt: skip
                state.scaler.scale(loss.value * share).backward()
            losses.append(torch.stack([loss.value.detach(), *loss.parts]) * share)
        state.scaler.step(state.optimizer)
        state.scaler.update()
        state.optimizer.zero_grad(set_to_none=True)
        if state.ema is not None:
            state.ema.update()
        means = HostCopy(world.mean(torch.stack(losses).sum(0)))
        return Step(progress.step, batch, means, rate, weight)

    def _stand_in(self, batch: ClipBatch) -> ClipBatch:
        """A clip in place of a batch of which none can be used: other processes wait for this one's step."""
        for index in range(len(self.train_set)):
            if isinstance(item := self.train_set.item(index, self.progress.epoch), Clip):
                return data.collate([item])
        raise TrainingError(f"not one clip can be used: {batch.failures[0].message}")

    def _check_last(self) -> None:
        """Notes the loss of the last step, if not yet done. One that is not finite ends the run; its batch is saved."""
        step, self.last = self.last, None
        if step is None:
            return
        losses = step.losses.tolist()
        if all(map(math.isfinite, losses)):
            self.losses.append(losses)
            return
        bad = [name for name, loss in zip(("loss", *Parts._fields), losses, strict=True) if not math.isfinite(loss)]
        problem = f"the loss is {losses[0]} at step {step.number} (not finite: {', '.join(bad)})"
        failures = [failure.message for failure in step.batch.failures]
        kept = {"step": step.number, **step.batch._asdict(), "failures": failures}
        raise bad_batch(problem, step.batch.ids, kept, self.cfg.output_dir, self.world)

    def _check_state(self) -> None:
        """Numbers that are not finite are neither saved nor evaluated."""
        self._check_last()
        check_finite(self.model.state_dict().values(), after=f"step {self.progress.step}", world=self.world)

    def _tell_left_out(self) -> None:
        """A line, once, for every clip that some process had to leave out; by all processes together."""
        sets = [self.train_set, *([self.validation] if self.validation is not None else [])]
        skipped = [message for read in sets for message in read.skipped.values()]
        tell_left_out(skipped, self.told, self.world, self.log)

    def _log_training(self, step: "Step", throughput: float, took: float) -> None:
        means = torch.tensor(self.losses).mean(0).tolist()
        self.losses.clear()
        values = named(means) | {
            "kl_weight": step.binarisation_weight,
            "frames/s": throughput,
            "took": took,
            "lrate": step.learning_rate,
        }
        where = (self.progress.epoch + 1, self.progress.batch, self.steps_per_epoch)
        self.log.log("train", where, values, global_step=self.progress.step)

    def _validate(self, samples: Samples | None) -> None:
        """Losses of the weights and of their moving average; keeps the best checkpoint by the latter's mel loss."""
        if self.validation is None:
            return
        self._check_state()
        models: dict[str, FastPitch] = {"val": self.model}
        if self.state.ema is not None:
            models["val_ema"] = cast(FastPitch, self.state.ema.model)
        for phase, model in models.items():
            values = evaluate(model, self.log_mel, self.validation, self.world, self.cfg)
            self.log.log(phase, (self.progress.epoch,), values, global_step=self.progress.step)
        self._tell_left_out()
        if samples is not None:
            samples.write(model, self.log_mel, self.progress.step)
        if values["mel_loss"] < self.progress.best_loss:
            self.progress.best_loss = values["mel_loss"]
            if self.world.is_main:
                self.state.save_best()

    @contextlib.contextmanager
    def _samples(self) -> Iterator[Samples | None]:
        """Of the first validation clips, in the process that writes logs."""
        cfg = self.cfg
        if self.validation is None or not (self.world.is_main and cfg.tensorboard and cfg.samples):
            yield None
            return
        indices = list(range(min(cfg.samples, len(self.validation))))
        batch = next(iter(data.loader(self.validation, [indices])))
        samples = Samples(cfg.output_dir, cfg, batch, self.world.device)
        yield samples
        samples.close()

    def _utterances(self, sources: tuple[str, ...], *, training: bool) -> list[Utterance]:
        utterances, told = data.read_utterances(sources, self.cfg, training=training)
        for message in told:
            self.log.event(f"left out: {message}")
        return utterances

    def _batches(self, epoch: int) -> list[list[int]]:
        cfg, world = self.cfg, self.world
        return bucketed_batches(
            self.seconds, batch_size=cfg.batch_size, seed=cfg.seed, epoch=epoch, ranks=world.size, rank=world.rank
        )

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
        write_run_files(self.cfg, self.world, self.log)
        hours = sum(self.seconds) / 3600
        parameters = sum(p.numel() for p in self.model.parameters())
        clips, steps = len(self.seconds), self.steps_per_epoch
        self.log.event(f"{parameters:,} parameters; {clips} clips, {hours:.2f} h; {steps} steps an epoch")

    def _try_longest_batch(self) -> None:
        longest = sorted(range(len(self.seconds)), key=lambda i: -self.seconds[i])[: self.cfg.batch_size]
        batch = next(iter(data.loader(self.train_set, [longest])))
        self.last = self.update(batch)
        self._check_last()
        (losses,) = self.losses
        self.log.event(f"the longest batch fits: {int(batch.frames_B.max())} frames, loss {losses[0]:.3f}")


@dataclass(frozen=True)
class Step:
    """What a step leaves for checks and logs; `losses` are the loss and its `Parts`, means over all processes."""

    number: int
    batch: ClipBatch
    losses: HostCopy
    learning_rate: float
    binarisation_weight: float


if __name__ == "__main__":
    with config.reported(
        checkpoint.CheckpointError, ManifestError, BatchingError, LoadingError, VocoderError, TrainingError
    ):
        main(config.command_line(Config, description=__doc__ or ""))

"""Training of Jasper and QuartzNet: `python -m jasper.train configs/jasper/jasper10x5dr.toml --data.root DIR`.

On several GPUs: `torchrun --nproc_per_node 8 -m jasper.train …`. Everything random is a function of (seed, step, rank),
so a run that was stopped and resumed ends in the weights of one that never stopped.
"""

import contextlib
import json
import math
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ctc
from common import checkpoint, config, distributed
from common.data.batching import BatchingError, bucketed_batches
from common.data.loading import AudioBatch, LoadingError, loader
from common.data.manifest import ManifestError
from common.distributed import World
from common.ema import Ema
from common.features import LogMel, cutout, spec_augment
from common.logging import RunLogger, environment
from common.metrics import word_errors
from common.optim import build_optimizer
from common.precision import autocast, float32_math, grad_scaler
from common.schedule import build_schedule
from jasper import data
from jasper.checkpoint_import import FORMAT, read
from jasper.config import Config
from jasper.evaluation import Evaluation, evaluate
from jasper.model import Jasper

NAME = "jasper"  # checkpoints in a run directory start with it


class TrainingError(RuntimeError):
    """Training that cannot go on: a loss that is not finite, a target longer than its audio."""


@dataclass
class Progress:
    """Where training stands; with the configuration it determines all that follows."""

    epoch: int = 0
    """Epochs completed."""
    batch: int = 0
    """Batches of the current epoch completed."""
    step: int = 0
    """Optimiser steps completed."""
    best_wer: float = math.inf
    unfit: int = 0
    """Utterances left out because their target did not fit their frames."""
    milestones: list[int] = field(default_factory=list)
    """Steps whose checkpoints are kept."""


def main(cfg: Config) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    with (
        float32_math(cfg.precision),
        distributed.start(cfg.device) as world,
        contextlib.closing(_logger(cfg, world)) as log,
    ):
        return Trainer(cfg, world, log).run()


class Trainer:
    """The state of one training process."""

    def __init__(self, cfg: Config, world: World, log: RunLogger):
        self.cfg, self.world, self.log = cfg, world, log
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        self.vocabulary = data.vocabulary_of(cfg)
        self.model = Jasper(cfg.model, cfg.features.mel_bins).to(world.device)
        self.log_mel = LogMel(cfg.features).to(world.device)
        self.optimizer = build_optimizer(self.model.parameters(), cfg.optim)
        self.scaler = grad_scaler(world.device, cfg.precision)
        self.progress = Progress()
        self.last: Step | None = None
        self._load_initial_weights()
        self.ema = Ema(self.model, cfg.ema) if cfg.ema else None
        self._resume()
        self.parallel = distributed.data_parallel(self.model, world)
        train, told = data.read_utterances(cfg.data.train, cfg.data, cfg.model.labels, training=True)
        for message in told:
            log.event(f"left out: {message}")
        self.train_set = data.speech_dataset(train, cfg, training=True)
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
            utterances, _ = data.read_utterances(cfg.data.validation, cfg.data, cfg.model.labels, training=False)
            self.validation = data.speech_dataset(utterances, cfg, training=False)

    def run(self) -> Progress:
        """All epochs that are left, or until a limit or SIGTERM; always ends with a checkpoint."""
        cfg, progress = self.cfg, self.progress
        if cfg.dry_run:
            self._try_longest_batch()
            return progress
        last_epoch = min(cfg.epochs, progress.epoch + cfg.epochs_this_job) if cfg.epochs_this_job else cfg.epochs
        self._write_run_files()
        self.log.progress(last_epoch * self.steps_per_epoch, progress.step)
        with _termination() as terminated:
            while progress.epoch < last_epoch and not self._limit_reached(terminated):
                self._epoch(terminated)
        self._save()
        if self.train_set.skipped or progress.unfit:
            self.log.event(f"left out in training: {len(self.train_set.skipped)} unreadable, {progress.unfit} unfit")
        return progress

    def _epoch(self, terminated: list[int]) -> None:
        cfg, progress, world = self.cfg, self.progress, self.world
        batches = self._batches(progress.epoch)[progress.batch :]
        self.train_set.set_epoch(progress.epoch)
        clock, utterances, losses = time.perf_counter(), 0, []
        for batch in loader(self.train_set, batches, workers=cfg.data.workers):
            step = self.update(batch)
            losses += self._check_last()  # of the step before, so that a GPU never waits for it
            self.last = step
            utterances += len(batch.indices) * world.size
            progress.batch += 1
            progress.step += 1
            self.log.advance()
            stop = self._limit_reached(terminated)
            ends_epoch = progress.batch == self.steps_per_epoch
            if progress.step % cfg.log_every == 0 or ends_epoch or stop:
                losses += self._check_last()
                took = time.perf_counter() - clock
                self._log_training(step, losses, utterances / took, took)
                clock, utterances, losses = time.perf_counter(), 0, []
            if cfg.evaluate_every and progress.step % cfg.evaluate_every == 0:
                self._validate()
                clock = time.perf_counter()
            if cfg.save_every_steps and progress.step % cfg.save_every_steps == 0:
                self._save()
                clock = time.perf_counter()
            if stop:
                break
        if progress.batch == self.steps_per_epoch:
            progress.epoch, progress.batch = progress.epoch + 1, 0
            if not cfg.evaluate_every:
                self._validate()
            if progress.epoch in cfg.keep_epochs:
                progress.milestones.append(progress.step)
            if progress.epoch % cfg.save_every_epochs == 0 or progress.epoch in cfg.keep_epochs:
                self._save()

    def update(self, batch: AudioBatch) -> "Step":
        """One optimiser step, in cfg.grad_accumulation micro-batches; exchanges gradients once."""
        cfg, progress, world = self.cfg, self.progress, self.world
        if not batch.indices:
            raise TrainingError(f"not one utterance of a batch can be read: {batch.failures[0].message}")
        seed = _mixed(cfg.seed, progress.step, world.rank)
        torch.manual_seed(seed)  # dropout
        self.parallel.train()
        self.log_mel.train()
        rate = self.learning_rate(progress.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        weights_B = self._weights(batch)
        micro_batches = _split(batch, weights_B, cfg.grad_accumulation)
        losses = []
        for i, (part, part_weights_B) in enumerate(micro_batches):
            with distributed.gradient_sync(self.parallel, enabled=i == len(micro_batches) - 1):
                loss, log_probs_BSV, frames_B = self._loss(part, part_weights_B, seed + i, len(batch.indices))
                self.scaler.scale(loss).backward()
            losses.append(loss.detach())
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        if self.ema is not None:
            self.ema.update()
        return Step(progress.step, batch, torch.stack(losses).sum(), part, log_probs_BSV.detach(), frames_B, rate)

    def _loss(self, batch: AudioBatch, weights_B: Tensor, seed: int, batch_size: int) -> tuple[Tensor, Tensor, Tensor]:
        """CTC loss summed over the micro-batch and divided by the size of the whole batch, as published."""
        device = self.world.device
        batch = batch.to(device)
        audio_BN = batch.audio_BN
        if self.cfg.data.pad_to_max:
            longest = round(self.cfg.data.max_seconds * self.cfg.features.sample_rate)
            audio_BN = F.pad(audio_BN, (0, max(0, longest - audio_BN.shape[1])))
        with torch.no_grad():
            features_BFT, frames_B = self.log_mel(audio_BN, batch.samples_B, seed=seed)
            features_BFT = cutout(features_BFT, frames_B, self.cfg.cutout, seed=seed)
            features_BFT = spec_augment(features_BFT, frames_B, self.cfg.spec_augment, seed=seed)
        with autocast(device, self.cfg.precision):
            log_probs_BSV, frames_B = self.parallel(features_BFT, frames_B)
        losses_B = ctc.ctc_loss(
            log_probs_BSV,
            batch.targets_BU,
            frames_B,
            batch.target_lengths_B,
            blank=self.vocabulary.blank,
            reduction="none",
            zero_infinity=True,
            batch_first=True,
        )
        return (losses_B * weights_B.to(device, non_blocking=True)).sum() / batch_size, log_probs_BSV, frames_B

    def _weights(self, batch: AudioBatch) -> Tensor:
        """[B] 1, or 0 for targets that cannot fit their frames, which end the run unless data.on_error is "skip"."""
        frames_B = self.model.output_frames(self.cfg.features.frames(batch.samples_B))
        weights_B = torch.ones(len(batch.indices))
        for row in data.unfit(batch, frames_B):
            audio = self.train_set.utterances[batch.indices[row]].audio
            message = (
                f"utterance {batch.ids[row]}: {int(batch.target_lengths_B[row])} labels do not fit into "
                f"{int(frames_B[row])} output frames of {audio}"
            )
            if self.cfg.data.on_error == "stop":
                raise TrainingError(f"{message}; leave it out, or set --data.on_error skip")
            self.progress.unfit += 1
            self.log.event(f"left out: {message}")
            weights_B[row] = 0.0
        return weights_B

    def _check_last(self) -> list[float]:
        """The loss of the last step, if not yet looked at. One that is not finite ends the run; its batch is saved."""
        step, self.last = self.last, None
        if step is None:
            return []
        loss = self.world.mean(step.loss).item()
        if math.isfinite(loss):
            return [loss]
        path = self.cfg.output_dir / f"bad_batch_rank{self.world.rank}.pt"
        checkpoint.save(path, {"step": step.number, **step.batch._asdict()})
        raise TrainingError(
            f"the loss is {loss} at step {step.number}; utterances {', '.join(step.batch.ids)}; batch saved as {path}; "
            "the last checkpoint is from before: lower the learning rate or leave out the bad utterance"
        )

    def _log_training(self, step: "Step", losses: list[float], throughput: float, took: float) -> None:
        decoded = ctc.greedy(step.log_probs_BSV, step.frames_B, blank=self.vocabulary.blank)
        hypotheses = [self.vocabulary.decode(d.labels) for d in decoded]
        lengths = step.part.target_lengths_B.tolist()
        targets = [t[:n] for t, n in zip(step.part.targets_BU.tolist(), lengths, strict=True)]
        references = [self.vocabulary.decode(t) for t in targets]
        values = {
            "loss": sum(losses) / len(losses),
            "wer": word_errors(references, hypotheses).rate,
            "throughput": throughput,
            "took": took,
            "lrate": step.learning_rate,
        }
        where = (self.progress.epoch + 1, self.progress.batch, self.steps_per_epoch)
        self.log.log("train", where, values, global_step=self.progress.step)

    def _validate(self) -> None:
        """Error rates of the weights and of their moving average; keeps the best checkpoint by the latter."""
        if self.validation is None:
            return
        found: dict[str, Evaluation] = {"dev": self._evaluate(self.model)}
        if self.ema is not None:
            found["dev_ema"] = self._evaluate(self.ema.model)
        where = (self.progress.epoch,)
        for phase, evaluation in found.items():
            values = {"loss": evaluation.loss, "wer": evaluation.words.rate, "cer": evaluation.characters.rate}
            self.log.log(phase, where, values, global_step=self.progress.step)
        wer = list(found.values())[-1].words.rate
        if wer < self.progress.best_wer and self.progress.epoch >= self.cfg.save_best_from:
            self.progress.best_wer = wer
            if self.world.is_main:
                checkpoint.save(self.cfg.output_dir / f"{NAME}_best.pt", self._state())

    def _evaluate(self, model: nn.Module) -> Evaluation:
        assert self.validation is not None
        cfg = self.cfg
        distributed.share_buffers(model, self.world)
        return evaluate(
            model, self.log_mel, self.validation, self.world, vocabulary=self.vocabulary,
            batch_size=cfg.batch_size, workers=cfg.data.workers, precision=cfg.precision,
        )  # fmt: skip

    def _batches(self, epoch: int) -> list[list[int]]:
        cfg, world = self.cfg, self.world
        return bucketed_batches(
            self.seconds, batch_size=cfg.batch_size, seed=cfg.seed, epoch=epoch, ranks=world.size, rank=world.rank
        )

    def _limit_reached(self, terminated: list[int]) -> bool:
        """Whether to stop now; a signal is agreed on by all processes, at logging steps where there are several."""
        if self.cfg.steps and self.progress.step >= self.cfg.steps:
            return True
        may_ask = self.world.size == 1 or self.progress.step % self.cfg.log_every == 0
        return may_ask and self.world.any(bool(terminated))

    def _state(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "config": config.to_dict(self.cfg),
            "weights": self.model.state_dict(),
            "ema": self.ema.state_dict() if self.ema is not None else None,
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "progress": dict(vars(self.progress)),
        }

    def _save(self) -> None:
        self._check_last()
        if self.world.is_main:
            checkpoint.save(checkpoint.step_path(self.cfg.output_dir, NAME, self.progress.step), self._state())
            checkpoint.remove_old(self.cfg.output_dir, NAME, milestones=self.progress.milestones)
        self.world.barrier()

    def _resume(self) -> None:
        if not self.cfg.resume:
            return
        state, messages = checkpoint.load_newest(self.cfg.output_dir, NAME)
        for message in messages:
            self.log.event(message)
        if state is None:
            return
        self.model.load_state_dict(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        if self.ema is not None and state["ema"] is not None:
            self.ema.load_state_dict(state["ema"])
        self.progress = Progress(**state["progress"])
        self.log.event(f"resumed at step {self.progress.step}, epoch {self.progress.epoch + 1}")

    def _load_initial_weights(self) -> None:
        path = self.cfg.checkpoint
        if path is None:
            return
        start = read(checkpoint.load(path), path)
        for message in checkpoint.load_matching(self.model, start.ema or start.weights):
            self.log.event(f"{path}: {message}")

    def _write_run_files(self) -> None:
        if not self.world.is_main:
            return
        folder = self.cfg.output_dir
        (folder / "config.toml").write_text(config.to_toml(self.cfg), encoding="utf-8")
        told = environment(self.world.device) | {"processes": self.world.size}
        (folder / "environment.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        self.log.parameters(config.to_dict(self.cfg))
        hours = sum(self.seconds) / 3600
        parameters = sum(p.numel() for p in self.model.parameters())
        self.log.event(
            f"{parameters:,} parameters; {len(self.seconds)} utterances, {hours:.2f} h; "
            f"{self.steps_per_epoch} steps an epoch"
        )

    def _try_longest_batch(self) -> None:
        longest = sorted(range(len(self.seconds)), key=lambda i: -self.seconds[i])[: self.cfg.batch_size]
        batch = next(iter(loader(self.train_set, [longest], workers=0)))
        self.last = self.update(batch)
        (loss,) = self._check_last()
        self.log.event(f"the longest batch fits: {tuple(batch.audio_BN.shape)} samples, loss {loss:.3f}")


@dataclass(frozen=True)
class Step:
    """What an optimiser step leaves for checks and logs; `part` is its last micro-batch."""

    number: int
    batch: AudioBatch
    loss: Tensor
    part: AudioBatch
    log_probs_BSV: Tensor
    frames_B: Tensor
    learning_rate: float


def _split(batch: AudioBatch, weights_B: Tensor, parts: int) -> list[tuple[AudioBatch, Tensor]]:
    """`batch` in up to `parts` pieces of rows."""
    rows = [r for r in torch.arange(len(batch.indices)).tensor_split(parts) if len(r)]
    return [(_rows(batch, int(r[0]), int(r[-1]) + 1), weights_B[r[0] : r[-1] + 1]) for r in rows]


def _rows(batch: AudioBatch, first: int, end: int) -> AudioBatch:
    return AudioBatch._make(value[first:end] for value in batch)


def _mixed(*parts: int) -> int:
    """A seed that depends on all of `parts`."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(2))


@contextlib.contextmanager
def _termination() -> Iterator[list[int]]:
    """A list that is not empty once SIGTERM or SIGINT came; the step under way is finished first."""
    came: list[int] = []
    before = {s: signal.signal(s, lambda number, _: came.append(number)) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _logger(cfg: Config, world: World) -> RunLogger:
    return RunLogger(cfg.output_dir, enabled=world.is_main, tensorboard=cfg.tensorboard)


if __name__ == "__main__":
    with config.reported(checkpoint.CheckpointError, ManifestError, BatchingError, LoadingError, TrainingError):
        main(config.command_line(Config, description=__doc__ or ""))

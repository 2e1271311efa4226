"""Training of Jasper and QuartzNet: `python -m jasper.train configs/jasper/jasper10x5dr.toml --data.root DIR`.

On several GPUs: `torchrun --nproc_per_node 8 -m jasper.train …`. Everything random is a function of (seed, step, rank),
so a run that was stopped and resumed ends in the weights of one that never stopped.
"""

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import ctc
from common import checkpoint, config, distributed
from common.data.batching import BatchingError, bucketed_batches
from common.data.loading import AudioBatch, Item, LoadingError, collate, loader
from common.data.manifest import ManifestError, Utterance
from common.distributed import World
from common.features import LogMel
from common.interruption import termination
from common.logging import RunLogger
from common.metrics import word_errors
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
from jasper import data
from jasper.config import Config
from jasper.evaluation import Evaluation, EvaluationError, evaluate
from jasper.objective import ctc_objective, micro_batches
from jasper.state import Progress, TrainingState


class UnfitError(TrainingError):
    """A target longer than its audio; the steps before it are good."""


def main(cfg: Config) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    run = started(cfg.output_dir, device=cfg.device, precision=cfg.precision, tensorboard=cfg.tensorboard)
    with run as (world, log):
        return Trainer(cfg, world, log).run()


class Trainer:
    """The state of one training process."""

    def __init__(self, cfg: Config, world: World, log: RunLogger):
        self.cfg, self.world, self.log = cfg, world, log
        self.vocabulary = data.vocabulary_of(cfg)
        self.state = TrainingState(cfg, world.device)
        self.model, self.progress = self.state.model, self.state.progress
        self.log_mel = LogMel(cfg.features).to(world.device)
        self.parallel = distributed.data_parallel(self.model, world)
        self.last: Step | None = None
        self.losses: list[float] = []  # of the steps since the last line of the log
        self.unfit: list[str] = []  # of the utterances of this process left out since `_tell_left_out`
        self.unreadable: set[str] = set()
        self.told: set[str] = set()
        for message in self.state.messages:
            log.event(message)
        train = self._utterances(cfg.data.train, training=True)
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
            utterances = self._utterances(cfg.data.validation, training=False)
            self.validation = data.speech_dataset(utterances, cfg, training=False)
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
        with termination() as terminated:
            try:
                while progress.epoch < last_epoch and not self._limit_reached(terminated):
                    self._epoch(terminated)
            except (LoadingError, UnfitError):
                if self.world.size == 1:  # the state is that before the bad batch; several processes cannot meet now
                    self._save()
                raise
        self._save()
        if self.unreadable or progress.unfit:
            self.log.event(f"left out in training: {len(self.unreadable)} unreadable, {progress.unfit} unfit")
        return progress

    def _epoch(self, terminated: list[int]) -> None:
        cfg, progress, world = self.cfg, self.progress, self.world
        batches = self._batches(progress.epoch)[progress.batch :]
        self.train_set.set_epoch(progress.epoch)
        clock, utterances = time.perf_counter(), 0
        for batch in loader(self.train_set, batches, workers=cfg.data.workers):
            step = self.update(batch)
            self._check_last()  # of the step before, so that a GPU never waits for it
            self.last = step
            utterances += len(batch.indices) * world.size
            progress.batch += 1
            progress.step += 1
            self.log.advance()
            stop = self._limit_reached(terminated)
            ends_epoch = progress.batch == self.steps_per_epoch
            if progress.step % cfg.log_every == 0 or ends_epoch or stop:
                self._check_last()
                took = time.perf_counter() - clock
                self._log_training(step, utterances / took, took)
                clock, utterances = time.perf_counter(), 0
            trained = time.perf_counter()
            if cfg.evaluate_every and progress.step % cfg.evaluate_every == 0:
                self._validate()
            if cfg.save_every_steps and progress.step % cfg.save_every_steps == 0:
                self._save()
            clock += time.perf_counter() - trained
            if stop:
                break
        if progress.batch == self.steps_per_epoch:
            progress.epoch, progress.batch = progress.epoch + 1, 0
            self._tell_left_out()
            if not cfg.evaluate_every:
                self._validate()
            if progress.epoch in cfg.keep_epochs:
                progress.milestones.append(progress.step)
            if progress.epoch % cfg.save_every_epochs == 0 or progress.epoch in cfg.keep_epochs:
                self._save()

    def update(self, batch: AudioBatch) -> "Step":
        """One optimiser step, in cfg.grad_accumulation micro-batches; exchanges gradients once."""
        cfg, progress, state = self.cfg, self.progress, self.state
        seed = mixed(cfg.seed, progress.step, self.world.rank)
        torch.manual_seed(seed)  # dropout
        self.parallel.train()
        self.log_mel.train()
        rate = self.learning_rate(progress.step)
        for group in state.optimizer.param_groups:
            group["lr"] = rate
        weights_B = self._weights(batch)
        if not batch.indices:
            batch, weights_B = self._stand_in(batch), torch.zeros(1)
        parts = micro_batches(batch, weights_B, cfg.grad_accumulation)
        losses = []
        for i, part in enumerate(parts):
            with distributed.gradient_sync(self.parallel, enabled=i == len(parts) - 1):
                loss = ctc_objective(
                    self.parallel, self.log_mel, part, cfg,
                    batch_size=len(batch.indices), seed=seed + i, blank=self.vocabulary.blank,
                )  # fmt: skip
                state.scaler.scale(loss.value).backward()
            losses.append(loss.value.detach())
        state.scaler.step(state.optimizer)
        state.scaler.update()
        state.optimizer.zero_grad(set_to_none=True)
        if state.ema is not None:
            state.ema.update()
        mean = HostCopy(self.world.mean(torch.stack(losses).sum()))
        return Step(progress.step, batch, mean, part.batch, loss.log_probs_BSV, loss.frames_B, rate)

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
                raise UnfitError(f"{message}; leave it out, or set --data.on_error skip")
            self.unfit.append(message)
            weights_B[row] = 0.0
        return weights_B

    def _stand_in(self, batch: AudioBatch) -> AudioBatch:
        """An utterance in place of a batch of which none can be read: other processes wait for this one's step."""
        for index in range(len(self.train_set)):
            if isinstance(item := self.train_set.item(index, self.progress.epoch), Item):
                return collate([item])
        raise TrainingError(f"not one utterance can be read: {batch.failures[0].message}")

    def _check_last(self) -> None:
        """Notes the loss of the last step, if not yet done. One that is not finite ends the run; its batch is saved."""
        step, self.last = self.last, None
        if step is None:
            return
        loss = step.loss.tolist()
        if math.isfinite(loss):
            self.losses.append(loss)
            return
        failures = [failure.message for failure in step.batch.failures]
        kept = {"step": step.number, **step.batch._asdict(), "failures": failures}
        raise bad_batch(
            f"the loss is {loss} at step {step.number}", step.batch.ids, kept, self.cfg.output_dir, self.world
        )

    def _check_state(self) -> None:
        """Numbers that are not finite are neither saved nor evaluated."""
        self._check_last()
        check_finite(self.model.state_dict().values(), after=f"step {self.progress.step}", world=self.world)

    def _tell_left_out(self) -> None:
        """A line, once, for every utterance that some process had to leave out; by all processes together."""
        sets = [self.train_set, *([self.validation] if self.validation is not None else [])]
        skipped = [message for read in sets for message in read.skipped.values()]
        self.unreadable = set(tell_left_out(skipped, self.told, self.world, self.log))
        self.progress.unfit += len(tell_left_out(self.unfit, self.told, self.world, self.log))
        self.unfit = []

    def _log_training(self, step: "Step", throughput: float, took: float) -> None:
        decoded = ctc.greedy(step.log_probs_BSV, step.frames_B, blank=self.vocabulary.blank)
        hypotheses = [self.vocabulary.decode(d.labels) for d in decoded]
        lengths = step.part.target_lengths_B.tolist()
        targets = [t[:n] for t, n in zip(step.part.targets_BU.tolist(), lengths, strict=True)]
        references = [self.vocabulary.decode(t) for t in targets]
        values = {
            "loss": sum(self.losses) / len(self.losses),
            "wer": word_errors(references, hypotheses).rate,
            "throughput": throughput,
            "took": took,
            "lrate": step.learning_rate,
        }
        self.losses.clear()
        where = (self.progress.epoch + 1, self.progress.batch, self.steps_per_epoch)
        self.log.log("train", where, values, global_step=self.progress.step)

    def _validate(self) -> None:
        """Error rates of the weights and of their moving average; keeps the best checkpoint by the latter."""
        if self.validation is None:
            return
        self._check_state()
        found: dict[str, Evaluation] = {"dev": self._evaluate(self.model)}
        if self.state.ema is not None:
            found["dev_ema"] = self._evaluate(self.state.ema.model)
        where = (self.progress.epoch,)
        for phase, evaluation in found.items():
            values = {"loss": evaluation.loss, "wer": evaluation.words.rate, "cer": evaluation.characters.rate}
            self.log.log(phase, where, values, global_step=self.progress.step)
        wer = list(found.values())[-1].words.rate
        if wer < self.progress.best_wer and self.progress.epoch >= self.cfg.save_best_from:
            self.progress.best_wer = wer
            if self.world.is_main:
                self.state.save_best()

    def _evaluate(self, model: nn.Module) -> Evaluation:
        assert self.validation is not None
        cfg = self.cfg
        distributed.share_buffers(model, self.world)
        return evaluate(
            model, self.log_mel, self.validation, self.world, vocabulary=self.vocabulary,
            batch_size=cfg.batch_size, workers=cfg.data.workers, precision=cfg.precision,
        )  # fmt: skip

    def _utterances(self, sources: tuple[str, ...], *, training: bool) -> list[Utterance]:
        utterances, told = data.read_utterances(sources, self.cfg.data, self.cfg.model.labels, training=training)
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
        self.log.event(
            f"{parameters:,} parameters; {len(self.seconds)} utterances, {hours:.2f} h; "
            f"{self.steps_per_epoch} steps an epoch"
        )

    def _try_longest_batch(self) -> None:
        longest = sorted(range(len(self.seconds)), key=lambda i: -self.seconds[i])[: self.cfg.batch_size]
        batch = next(iter(loader(self.train_set, [longest], workers=0)))
        self.last = self.update(batch)
        self._check_last()
        (loss,) = self.losses
        self.log.event(f"the longest batch fits: {tuple(batch.audio_BN.shape)} samples, loss {loss:.3f}")


@dataclass(frozen=True)
class Step:
    """What a step leaves for checks and logs: the mean loss of all processes; `part` is its last micro-batch."""

    number: int
    batch: AudioBatch
    loss: HostCopy
    part: AudioBatch
    log_probs_BSV: Tensor
    frames_B: Tensor
    learning_rate: float


if __name__ == "__main__":
    with config.reported(
        checkpoint.CheckpointError, ManifestError, BatchingError, EvaluationError, LoadingError, TrainingError
    ):
        main(config.command_line(Config, description=__doc__ or ""))

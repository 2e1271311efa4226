"""The loop that pre-training and fine-tuning share: epochs, updates, logs, validations, checkpoints, stops.

Everything random is a function of (seed, epoch, sub-batch) or of (seed, update, process), so a run that was stopped and
resumed ends in the weights of one that never stopped.

Shapes: K sums that a loss consists of.
"""

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from common import checkpoint, distributed, training_state
from common.data.batching import BatchingError
from common.data.loading import LoadingError
from common.data.manifest import ManifestError
from common.distributed import World
from common.interruption import termination
from common.logging import RunLogger
from common.precision import float32_math
from common.schedule import build_schedule
from common.seeds import mixed
from common.training import (
    HostCopy,
    TrainingError,
    bad_batch,
    check_finite,
    limit_reached,
    tell_left_out,
    write_run_files,
)
from wav2vec2.checkpoints import sharding
from wav2vec2.checkpoints.state import NAME, Progress, TrainingState
from wav2vec2.corpus.batches import Batch, Plan, PlannedDataset, loader, on_device, training_plans
from wav2vec2.run_config import TrainingConfig

LEAST_SCALE = 1e-4  # of the loss in fp16: below it gradients overflow whatever the scale


EXPECTED_ERRORS = (checkpoint.CheckpointError, ManifestError, BatchingError, LoadingError, TrainingError)


class Loss(NamedTuple):
    """A sum over the targets of a batch, which carries the gradient, and sums_K that are logged."""

    value: Tensor
    sums_K: Tensor


class Task(Protocol):
    """What pre-training and fine-tuning do each in its own way."""

    @property
    def cfg(self) -> TrainingConfig:
        """The configuration, resolved."""

    @property
    def model(self) -> nn.Module:
        """With the weights that training starts from."""

    @property
    def score(self) -> str:
        """The value of a validation that is to become small."""

    def dataset(self, sources: tuple[str, ...], *, training: bool) -> tuple[PlannedDataset, list[str]]:
        """Utterances as batches, and what was left out. Raises ManifestError."""

    def loss(self, network: nn.Module, batch: Any, *, update: int, seed: int) -> Loss:
        """Of a batch on the device; `seed` is the same in all processes."""

    def described(self, sums: Sequence[float], n_targets: float, update: int) -> dict[str, float]:
        """What the log says of sums_K; `loss` first."""

    def prepare(self, update: int) -> bool:
        """Freezes and thaws parameters before `update`; whether any changed."""

    def validated(self, model: nn.Module, dataset: PlannedDataset, world: World) -> dict[str, float]:
        """Loss and other values over all of `dataset`, of the bare model."""


def train(cfg: TrainingConfig, build: Callable[[Any, Any], tuple[Task, list[str]]]) -> Progress:
    """Trains the task that `build(cfg, saved)` gives for a configuration and the checkpoint to go on from, or None."""
    with float32_math(cfg.precision), distributed.start(cfg.device) as world:
        cfg.check_batches(world.size)
        saved, messages = training_state.newest(cfg.output_dir, NAME, resume=cfg.resume, saves=cfg.save)
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        task, told = build(cfg, saved)
        with contextlib.closing(RunLogger(cfg.output_dir, enabled=world.is_main, tensorboard=cfg.tensorboard)) as log:
            for message in [*messages, *told]:
                log.event(message)
            return Trainer(task, saved, world, log).run()


class Trainer:
    """The state of one training process."""

    def __init__(self, task: Task, saved: dict[str, Any] | None, world: World, log: RunLogger):
        self.task, self.cfg, self.world, self.log = task, task.cfg, world, log
        self.state = TrainingState(task.cfg, task.model, saved, world)
        self.progress = self.state.progress
        task.prepare(self.progress.step)
        self.parallel = self._parallel()
        self.last: Step | None = None
        self.recent: list[list[float]] = []  # sums of the updates since the last line of the log
        self.told: set[str] = set()
        self.plans: tuple[int, list[Plan]] = (-1, [])  # of the epoch asked for last
        self.terminated = False
        self.is_saved = saved is not None
        for message in self.state.messages:
            log.event(message)
        self.train_set = self._dataset(self.cfg.data.train, training=True)
        self.validation = None
        if self.cfg.data.validation:
            self.validation = self._dataset(self.cfg.data.validation, training=False)
        self.learning_rate = build_schedule(
            self.cfg.schedule,
            lr=self.cfg.optim.lr,
            steps_per_epoch=self._updates(0),
            total_steps=self.cfg.max_updates,
        )

    def run(self) -> Progress:
        """All updates that are left, or until a limit or SIGTERM; what was learned is saved. A finished run stays."""
        cfg, progress = self.cfg, self.progress
        if progress.step >= cfg.max_updates and not self._owes_validation():
            self.log.event(f"finished: update {progress.step} of {cfg.max_updates} is done; there is nothing to do")
            return progress
        self._describe_run()
        self.log.progress(cfg.max_updates, progress.step)
        with termination() as came:
            try:
                self._train(came)
            except LoadingError:
                if self.world.size == 1:  # the state is that before the bad batch; several processes cannot meet now
                    self._save()
                raise
        self._save()
        if self.told:
            self.log.event(f"left out: {len(self.told)} utterances")
        return progress

    def _train(self, came: list[int]) -> None:
        cfg, progress = self.cfg, self.progress
        last_epoch = progress.epoch + cfg.epochs_this_job if cfg.epochs_this_job else math.inf
        if progress.step:
            self._settle()  # what the job before had no time for
        # One loader, so that the first batches of an epoch are made in the one before; it only iterates over the plans,
        # and asks for the first when the first batch is wanted.
        batches = iter(loader(self.train_set, self._plans_left(), workers=cfg.data.workers))
        while not self._must_stop(came) and progress.epoch < last_epoch:
            self._epoch(batches, came)

    def _epoch(self, batches: Iterator[Batch], came: list[int]) -> None:
        cfg, progress = self.cfg, self.progress
        if moved := progress.recount(self._updates(progress.epoch)):
            self.log.event(moved)
        clock, seconds, stop = time.perf_counter(), 0.0, False
        while progress.batch < progress.steps_per_epoch and not stop:
            turns = list(itertools.islice(batches, cfg.update_freq))
            step = self.update(turns)
            self._check_last()  # of the update before, so that a GPU never waits for it
            self.last = step
            seconds += sum(batch.seconds for batch in turns) * self.world.size  # of the others about as much
            self._count()
            stop = self._must_stop(came)
            if progress.step % cfg.log_every == 0 or progress.batch == progress.steps_per_epoch or stop:
                self._check_last()
                took = time.perf_counter() - clock
                self._log_training(step, seconds / took, took)
                clock, seconds = time.perf_counter(), 0.0
            learned = time.perf_counter()
            self._settle()
            clock += time.perf_counter() - learned

    def _count(self) -> None:
        progress = self.progress
        progress.batch += 1
        progress.step += 1
        if progress.step in self.cfg.keep_updates:
            progress.milestones.append(progress.step)
        self.is_saved = False
        self.log.advance()

    def _settle(self) -> None:
        """After an update: ends the epoch, validates and saves, each if it is time for it.

        A process that is terminated has no time to validate: the next job does, before it goes on.
        """
        cfg, progress = self.cfg, self.progress
        ends = 0 < progress.steps_per_epoch == progress.batch
        if ends:
            progress.epoch, progress.batch, progress.steps_per_epoch = progress.epoch + 1, 0, 0
            self._tell_left_out()
        if self._owes_validation() and not self.terminated:
            self._validate()
        if (
            (ends and progress.epoch % cfg.save_every_epochs == 0)
            or (cfg.save_every_updates and progress.step % cfg.save_every_updates == 0)
            or progress.step in cfg.keep_updates
        ):
            self._save()

    def _owes_validation(self) -> bool:
        """Whether this update is one to validate after, and that was not done."""
        cfg, progress = self.cfg, self.progress
        if self.validation is None or progress.validated_at == progress.step:
            return False
        if progress.step >= cfg.max_updates:
            return True
        if cfg.validate_every:
            return progress.step % cfg.validate_every == 0
        return progress.batch in (0, progress.steps_per_epoch)  # between two epochs

    def update(self, batches: Sequence[Batch]) -> "Step":
        """One optimiser step: forward and backward of each batch, whose gradients are added up and exchanged once."""
        cfg, progress, state, world = self.cfg, self.progress, self.state, self.world
        if self.task.prepare(progress.step):
            self.parallel = self._parallel()
        self.parallel.train()
        rate = self.learning_rate(progress.step)
        for group in state.optimizer.param_groups:
            group["lr"] = rate
        # Filled in there: a copy from here would make the host wait.
        n_targets = world.sum(torch.full((), float(sum(batch.n_targets for batch in batches)), device=world.device))
        share = world.size / n_targets.clamp(min=1)  # gradients are averaged over processes
        sums = []
        for turn, batch in enumerate(batches):
            seed = mixed(cfg.seed, progress.step, turn)
            torch.manual_seed(mixed(seed, world.rank))  # dropout
            muted = contextlib.nullcontext() if batch.counts else without_gradient(state.model)
            with distributed.gradient_sync(self.parallel, enabled=turn == len(batches) - 1), muted:
                loss = self.task.loss(self.parallel, on_device(batch, world.device), update=progress.step, seed=seed)
                state.scaler.scale(loss.value * share * float(batch.counts)).backward()
            sums.append(loss.sums_K if batch.counts else torch.zeros_like(loss.sums_K))
        norm = self._clip()
        state.scaler.step(state.optimizer)
        state.scaler.update()
        state.optimizer.zero_grad(set_to_none=True)
        if state.ema is not None:
            state.ema.update()
        # The count is of all processes already.
        totals = HostCopy(world.sum(torch.cat([torch.stack(sums).sum(0), n_targets[None] / world.size])))
        return Step(progress.step, list(batches), totals, rate, norm)

    def _clip(self) -> Tensor | None:
        """The norm of the whole gradient, which is at most cfg.clip_norm afterwards."""
        if not self.cfg.clip_norm:
            return None
        self.state.scaler.unscale_(self.state.optimizer)
        parameters = [parameter for parameter in self.state.model.parameters() if parameter.grad is not None]
        return sharding.total(nn.utils.clip_grad_norm_(parameters, self.cfg.clip_norm, foreach=True))

    def _parallel(self) -> nn.Module:
        return self.state.model if self.cfg.fsdp else distributed.data_parallel(self.state.model, self.world)

    def _check_last(self) -> None:
        """Notes the sums of the last update, if not yet done. If they are not finite, the run ends, its batch saved."""
        step, self.last = self.last, None
        if step is None:
            return
        sums = step.totals.tolist()
        if all(map(math.isfinite, sums)):
            self.recent.append(sums)
            return
        kept = [{"audio_BN": batch.audio_BN, "samples_B": batch.samples_B, "ids": batch.ids} for batch in step.batches]
        raise bad_batch(
            f"the loss is {sums[0]} at update {step.number}",
            [id_ for batch in step.batches for id_ in batch.ids],
            {"step": step.number, "batches": kept},
            self.cfg.output_dir,
            self.world,
        )

    def _check_state(self) -> None:
        """Numbers that are not finite are neither saved nor evaluated."""
        self._check_last()
        own = map(sharding.local, self.state.model.state_dict().values())
        check_finite(own, after=f"update {self.progress.step}", world=self.world)

    def _tell_left_out(self) -> None:
        """A line, once, for every utterance that some process had to leave out; by all processes together."""
        sets = [self.train_set, *([self.validation] if self.validation is not None else [])]
        skipped = [message for read in sets for message in read.skipped.values()]
        tell_left_out(skipped, self.told, self.world, self.log)

    def _log_training(self, step: "Step", throughput: float, took: float) -> None:
        *sums, n_targets = map(sum, zip(*self.recent, strict=True))
        self.recent.clear()
        values = self.task.described(sums, max(1.0, n_targets), step.number)
        values |= {"audio s/s": throughput, "took": took, "lrate": step.learning_rate}
        if step.norm is not None:
            values["grad_norm"] = step.norm.item()
        if self.state.scaler.is_enabled():
            values["loss_scale"] = self._scale()
        where = (self.progress.epoch + 1, self.progress.batch, self.progress.steps_per_epoch)
        self.log.log("train", where, values, global_step=self.progress.step)

    def _scale(self) -> float:
        scale = self.state.scaler.get_scale()
        if scale < LEAST_SCALE:
            raise TrainingError(
                f"gradients overflow in fp16 at update {self.progress.step} even with a loss scale of {scale:g}; "
                "the last checkpoint is from before: lower the learning rate, or train in bf16"
            )
        return scale

    def _validate(self) -> None:
        """Values of the weights and of their moving average; keeps the best checkpoint by the latter's."""
        if self.validation is None:
            return
        self._check_state()
        self.progress.validated_at, self.is_saved = self.progress.step, False
        models: dict[str, nn.Module] = {"dev": self.state.model}
        if self.state.ema is not None:
            models["dev_ema"] = self.state.ema.model
        for phase, model in models.items():
            # Of sharded weights every process has a part: all go through everything together.
            world = World(rank=0, size=1, device=self.world.device) if self.cfg.fsdp else self.world
            values = self.task.validated(model, self.validation, world)
            self.log.log(phase, (self.progress.epoch,), values, global_step=self.progress.step)
        self._tell_left_out()
        # One for all, who save it together: on sharded weights each has counted by itself, and may round otherwise.
        score = self.world.gather(values[self.task.score])[0]
        if score < self.progress.best and self.progress.step >= self.cfg.save_best_from:
            self.progress.best = score
            if self.cfg.save:
                self.state.save_best()

    def _dataset(self, sources: tuple[str, ...], *, training: bool) -> PlannedDataset:
        dataset, told = self.task.dataset(sources, training=training)
        for message in told:
            self.log.event(f"left out: {message}")
        return dataset

    def _plans(self, epoch: int) -> list[Plan]:
        if self.plans[0] != epoch:
            world = self.world
            plans = training_plans(self.train_set.sizes, self.cfg, epoch=epoch, ranks=world.size, rank=world.rank)
            self.plans = (epoch, plans)
        return self.plans[1]

    def _plans_left(self) -> Iterator[Plan]:
        """Those of this epoch, then those of all after it."""
        done = self.progress.batch * self.cfg.update_freq
        for epoch in itertools.count(self.progress.epoch):
            yield from self._plans(epoch)[done:]
            done = 0

    def _updates(self, epoch: int) -> int:
        return len(self._plans(epoch)) // self.cfg.update_freq

    def _must_stop(self, came: list[int]) -> bool:
        """Whether to stop now, in all processes, which are asked now and then, and before a validation."""
        cfg, step = self.cfg, self.progress.step
        ask_every = 1 if self._owes_validation() else cfg.log_every
        self.terminated = limit_reached(step, 0, came, ask_every=ask_every, world=self.world)
        return self.terminated or step >= min(cfg.max_updates, cfg.stop_at or cfg.max_updates)

    def _save(self) -> None:
        """What is saved already is not again."""
        if self.is_saved:
            return
        self._check_state()
        self._tell_left_out()
        if self.cfg.save:
            self.state.save_step()
        self.is_saved = True
        self.world.barrier()

    def _describe_run(self) -> None:
        write_run_files(self.cfg, self.world, self.log)
        hours = sum(u.seconds for u in self.train_set.utterances) / 3600
        parameters = sum(p.numel() for p in self.state.model.parameters())
        self.log.event(
            f"{parameters:,} parameters; {len(self.train_set)} utterances, {hours:.2f} h; "
            f"{self._updates(self.progress.epoch)} updates an epoch"
        )


@dataclass(frozen=True)
class Step:
    """What an update leaves for checks and logs; `totals` of all processes: sums_K, then the targets."""

    number: int
    batches: list[Batch]
    totals: HostCopy
    learning_rate: float
    norm: Tensor | None


@contextlib.contextmanager
def without_gradient(model: nn.Module) -> Iterator[None]:
    """What runs backward meanwhile adds gradients of 0, whatever it computed: 0 x NaN would be NaN.

    Other processes still get their answers. Sharded weights are not reached: hooks of FSDP2 take their gradients.
    """
    hooks = [p.register_hook(torch.zeros_like) for p in model.parameters() if p.requires_grad]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()

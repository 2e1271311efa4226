"""What pre-training and fine-tuning share: the parts of a run, and one optimiser step over several batches.

Everything random is a function of (seed, epoch, sub-batch) or of (seed, update, process), so a run that was stopped and
resumed ends in the weights of one that never stopped.

Shapes: K sums that a loss consists of.
"""

import contextlib
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from common import distributed
from common.course import Course
from common.distributed import World
from common.ema import Ema
from common.loop import Loop
from common.optim import build_optimizer
from common.precision import grad_scaler
from common.run_directory import RunDirectory
from common.schedule import build_schedule
from common.seeds import mixed
from common.training_state import Part, TrainingError, TrainingState, must_fit
from wav2vec2.checkpoints import sharding
from wav2vec2.checkpoints.checkpoint_import import FORMAT
from wav2vec2.corpus.batches import Batch, Plan, PlannedDataset, loader, on_device, training_plans
from wav2vec2.run_config import TrainingConfig

NAME = "wav2vec2"  # checkpoints in a run directory start with it
DEPENDS_ON = ("model", "optim.kind")
UNIT = "audio s/s"  # of throughput
LEAST_SCALE = 1e-4  # of the loss in fp16: below it gradients overflow whatever the scale


Cfg = TypeVar("Cfg", bound=TrainingConfig, covariant=True)


class Run(Generic[Cfg]):
    """What a training step uses. Raises CheckpointError for a checkpoint that does not fit, ConfigError."""

    def __init__(
        self,
        cfg: Cfg,
        directory: RunDirectory,
        model: nn.Module,
        train_set: PlannedDataset,
        validation: PlannedDataset | None,
    ):
        self.cfg: Cfg = cfg
        self.directory, self.world = directory, directory.world
        self.train_set, self.validation = train_set, validation
        directory.compare(cfg, depends_on=DEPENDS_ON)
        self.model = sharding.shard(model, self.world) if cfg.fsdp else model.to(self.world.device)
        self.trained = {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}
        """Parameters that the optimiser changes, by name."""
        self.optimizer = build_optimizer(self.trained.values(), cfg.optim)
        if directory.saved is not None:
            with must_fit(directory.folder):
                _check_trained(directory.saved, cfg, len(self.trained))
        self.scaler = grad_scaler(self.world.device, cfg.precision)
        self.ema = Ema(self.model, cfg.ema) if cfg.ema else None
        weights: Part = sharding.WholeWeights(self.model) if cfg.fsdp else self.model
        moments: Part = sharding.WholeMoments(self.model, self.optimizer) if cfg.fsdp else self.optimizer
        parts = {"weights": weights, "ema": self.ema, "optimizer": moments, "scaler": self.scaler}
        self.state = TrainingState(directory, cfg, parts, extra={"format": FORMAT}, saves=cfg.save)
        if cfg.compile:
            for layer in self.model.get_submodule("wav2vec2.encoder.layers").children():
                layer.compile(dynamic=True)
        self.parallel: nn.Module = self.model
        self.plans = functools.lru_cache(2)(self._plans)
        self.learning_rate = build_schedule(
            cfg.schedule, lr=cfg.optim.lr, steps_per_epoch=self.updates(0), total_steps=cfg.max_updates
        )

    @property
    def course(self) -> Course:
        """How far the training goes."""
        cfg = self.cfg
        return Course(
            steps=cfg.max_updates, epochs_this_job=cfg.epochs_this_job, stop_at=cfg.stop_at, keep_steps=cfg.keep_steps
        )

    @property
    def reads(self) -> list[PlannedDataset]:
        """The data sets, which note what they leave out."""
        return [self.train_set, *([self.validation] if self.validation is not None else [])]

    @property
    def models(self) -> dict[str, nn.Module]:
        """What a validation evaluates, by the name that the log has for it."""
        return {"dev": self.model} | ({"dev_ema": self.ema.model} if self.ema is not None else {})

    def evaluators(self, world: World) -> World:
        """Who shares a validation: of sharded weights every process has a part, so all evaluate everything together."""
        return World(rank=0, size=1, device=world.device) if self.cfg.fsdp else world

    def wrap(self) -> None:
        """Makes `parallel`, the network that exchanges the gradients of the parameters that are trained now."""
        self.parallel = self.model if self.cfg.fsdp else distributed.data_parallel(self.model, self.world)

    def describe(self) -> None:
        """Writes the settings and a line about the run."""
        cfg, progress = self.cfg, self.state.progress
        self.directory.write_settings(cfg)
        hours = sum(utterance.seconds for utterance in self.train_set.utterances) / 3600
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.directory.log.event(
            f"{parameters:,} parameters; {len(self.train_set)} utterances, {hours:.2f} h; "
            f"{self.updates(progress.epoch)} updates an epoch"
        )
        self.directory.log.progress(cfg.max_updates, progress.step)

    def updates(self, epoch: int) -> int:
        """Optimiser steps of an epoch."""
        return len(self.plans(epoch)) // self.cfg.update_freq

    def batches(self, loop: Loop) -> Iterator[list[Batch]]:
        """The batches of each step that is left for this job, by one loader, whose workers are ahead across epochs."""
        freq = self.cfg.update_freq
        plans = (plan for epoch, done in loop.ahead() for plan in self.plans(epoch)[done * freq :])
        single = iter(loader(self.train_set, plans, workers=self.cfg.data.workers))
        while turns := list(itertools.islice(single, freq)):
            yield turns

    def _plans(self, epoch: int) -> list[Plan]:
        world = self.world
        return training_plans(self.train_set.sizes, self.cfg, epoch=epoch, ranks=world.size, rank=world.rank)


class Step(NamedTuple):
    """What a step leaves for the log. `sums_K` are of this process, the number of targets last."""

    sums_K: Tensor
    ids: list[str]
    seconds: float
    """Seconds of audio, without padding."""
    kept: dict[str, Any]
    """What is saved if a number is not finite."""
    learning_rate: float
    norm: Tensor | None


class Update:
    """One optimiser step: forward and backward of each batch, whose gradients are added up and exchanged once."""

    def __init__(self, run: Run[TrainingConfig], batches: Sequence[Batch]):
        self.run, self._batches, self.step = run, batches, run.state.progress.step
        run.parallel.train()
        self._rate = run.learning_rate(self.step)
        for group in run.optimizer.param_groups:
            group["lr"] = self._rate
        # Filled in there: a copy from here would make the host wait.
        self._targets = torch.full((), float(sum(b.n_targets for b in batches)), device=run.world.device)
        # Gradients are averaged over processes.
        self._share = run.world.size / run.world.sum(self._targets).clamp(min=1)
        self._counts = True
        self._sums: list[Tensor] = []

    def batches(self) -> Iterator[tuple[Any, int]]:
        """Each batch on the device, and a seed that is the same in all processes. `backward` is called for each."""
        run = self.run
        for turn, batch in enumerate(self._batches):
            seed = mixed(run.cfg.seed, self.step, turn)
            torch.manual_seed(mixed(seed, run.world.rank))  # dropout
            self._counts = batch.counts
            muted = contextlib.nullcontext() if batch.counts else without_gradient(run.model)
            with distributed.gradient_sync(run.parallel, enabled=turn == len(self._batches) - 1), muted:
                yield on_device(batch, run.world.device), seed

    def backward(self, loss: Tensor, sums_K: Tensor) -> None:
        """Adds the gradient of `loss`, a sum over the targets of the batch; `sums_K` are for the log."""
        self.run.scaler.scale(loss * self._share * float(self._counts)).backward()
        self._sums.append(sums_K if self._counts else torch.zeros_like(sums_K))

    def finished(self) -> Step:
        """Changes the weights."""
        run, progress = self.run, self.run.state.progress
        norm = self._clip()
        run.scaler.step(run.optimizer)
        run.scaler.update()
        run.optimizer.zero_grad(set_to_none=True)
        if run.ema is not None:
            run.ema.update(self.step if progress.warm_average else None)
        kept = [{"audio_BN": b.audio_BN, "samples_B": b.samples_B, "ids": b.ids} for b in self._batches]
        return Step(
            sums_K=torch.cat([torch.stack(self._sums).sum(0), self._targets[None]]),
            ids=[id_ for batch in self._batches for id_ in batch.ids],
            seconds=sum(batch.seconds for batch in self._batches),
            kept={"batches": kept},
            learning_rate=self._rate,
            norm=norm,
        )

    def _clip(self) -> Tensor | None:
        """The norm of the whole gradient, which is at most cfg.clip_norm afterwards."""
        run = self.run
        if not run.cfg.clip_norm:
            return None
        run.scaler.unscale_(run.optimizer)
        parameters = [parameter for parameter in run.model.parameters() if parameter.grad is not None]
        return sharding.total(nn.utils.clip_grad_norm_(parameters, run.cfg.clip_norm, foreach=True))


def log_step(run: Run[TrainingConfig], loop: Loop, step: Step, values: Mapping[str, float]) -> None:
    """A line of the log with `values` of the loss, speed, and how the optimiser stands. Raises TrainingError."""
    values = {**values, **loop.speed(), "lrate": step.learning_rate}
    if step.norm is not None:
        values["grad_norm"] = step.norm.item()
    if run.scaler.is_enabled():
        values["loss_scale"] = scale = run.scaler.get_scale()
        if scale < LEAST_SCALE:
            raise TrainingError(
                f"gradients overflow in fp16 at update {loop.progress.step} even with a loss scale of {scale:g}: "
                "lower the learning rate, or train in bf16"
            )
    loop.log.log("train", loop.where, values, global_step=loop.progress.step)


def log_validation(
    run: Run[TrainingConfig], loop: Loop, found: Mapping[str, Mapping[str, float]], *, score: str
) -> None:
    """Logs the values of the weights and of their moving average; keeps the best checkpoint by the better `score`.

    Nothing of a validation that a signal cut short.
    """
    if loop.is_cut:
        return
    progress = loop.progress
    for phase, values in found.items():
        loop.log.log(phase, (progress.epoch,), values, global_step=progress.step)
    scores = dict(zip(("raw", "average"), (values[score] for values in found.values()), strict=False))
    run.state.save_best(scores, counts=progress.step >= run.cfg.save_best_from)


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


def _check_trained(saved: Mapping[str, Any], cfg: TrainingConfig, trained: int) -> None:
    """The optimiser in the checkpoint must be of the parameters that are trained today. Raises ValueError."""
    before = saved["config"]
    if (found := sum(len(group["params"]) for group in saved["optimizer"]["param_groups"])) != trained:
        raise ValueError(
            f"it trains {found} parameters, not {trained}, which depends on what is 0: mask.time_prob was "
            f"{before['mask']['time_prob']} and is {cfg.mask.time_prob}, learning.extractor_gradient was "
            f"{before['learning']['extractor_gradient']} and is {cfg.learning.extractor_gradient}"
        )

"""What pre-training and fine-tuning share: the parts of a run, and one optimiser step over several batches.

Everything random is a function of (seed, epoch, sub-batch) or of (seed, update, process), so a run that was stopped and
resumed ends in the weights of one that never stopped.

Shapes: K sums that a loss consists of.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from common.devices.distributed import World
from common.runs.run_directory import RunDirectory
from common.runs.seeds import begin, mixed
from common.training.course import Course
from common.training.learner import Learner, amount_of, size_of
from common.training.loop import Loop
from common.training.schedule import build_schedule
from common.training.state import TrainingState, must_fit
from wav2vec2.checkpoints import sharding
from wav2vec2.checkpoints.own import FORMAT
from wav2vec2.corpus.batches import Batch, Plan, PlannedDataset, SubBatch, loader, on_device, training_plans
from wav2vec2.run_config import SAMPLE_RATE, TrainingConfig

NAME = "wav2vec2"  # checkpoints in a run directory start with it
DEPENDS_ON = ("model", "optim.kind")
UNIT = "audio s/s"  # of throughput

Cfg = TypeVar("Cfg", bound=TrainingConfig, covariant=True)


class Run(Generic[Cfg]):
    """What a training step uses. Raises CheckpointError for a checkpoint that does not fit, ConfigError."""

    def __init__(
        self, cfg: Cfg, directory: RunDirectory, model: nn.Module, data: tuple[PlannedDataset, PlannedDataset | None]
    ):
        self.cfg: Cfg = cfg
        self.directory, self.world = directory, directory.world
        self.train_set, self.validation = self.data = data
        directory.compare(cfg, depends_on=DEPENDS_ON)
        if cfg.compile:  # a copy, such as the average, is not compiled
            for layer in model.get_submodule("wav2vec2.encoder.layers").children():
                layer.compile(dynamic=True)
        self.model = sharding.shard(model, self.world, cfg.precision) if cfg.fsdp else model.to(self.world.device)
        self.trained = {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}
        """Parameters that the optimiser changes, by name."""
        self.learner = Learner(self.model, cfg, self.world, parameters=self.trained.values())
        if directory.saved is not None:
            with must_fit(directory.folder):
                _check_trained(directory.saved, cfg, len(self.trained))
        parts = self.learner.parts
        if cfg.fsdp:
            moments = sharding.WholeMoments(self.model, self.learner.optimizer)
            parts |= {"weights": sharding.WholeWeights(self.model), "optimizer": moments}
        self.state = TrainingState(directory, cfg, parts, extra={"format": FORMAT}, saves=cfg.save)
        self.plans = functools.lru_cache(2)(self._plans)
        self.learning_rate = build_schedule(
            cfg.schedule, lr=cfg.optim.lr, steps_per_epoch=self.updates(0), total_steps=cfg.max_updates, first=0
        )

    @property
    def course(self) -> Course:
        """How far the training goes."""
        cfg = self.cfg
        return Course(
            steps=cfg.max_updates, epochs_this_job=cfg.epochs_this_job, stop_at=cfg.stop_at, keep_steps=cfg.keep_steps
        )

    def validate(self, loop: Loop, evaluate: Callable[..., dict[str, float]], *, score: str) -> None:
        """What `evaluate` finds of the weights and of their moving average; keeps the best checkpoint by the better.

        Of sharded weights every process has a part, so all evaluate everything together.
        """
        models, found = self.learner.models(), {}
        with loop.validation(can_be_cut=not self.cfg.fsdp) as world:
            world = World(rank=0, size=1, device=world.device) if self.cfg.fsdp else world
            for phase, model in models.items():
                found[phase] = evaluate(self.cfg, model, self.validation, world)
        loop.validated(found, score=score, counts=loop.progress.step >= self.cfg.save_best_from)

    @property
    def watched(self) -> dict[str, Any]:
        """What a `Loop` logs of: the data sets and the learner."""
        return {"data": self.data, "learners": {"": self.learner}}

    def join(self) -> None:
        """Lets the processes exchange the gradients of what is trained now; shards of it do by themselves."""
        if not self.cfg.fsdp:
            self.learner.join()

    def describe(self) -> None:
        """Writes the settings and a line about the run."""
        cfg, progress = self.cfg, self.state.progress
        of_data = amount_of(self.train_set.utterances, "utterances")
        facts = (size_of(self.model), of_data, f"{self.updates(progress.epoch)} updates an epoch")
        self.directory.describe(cfg, facts, steps=cfg.max_updates, done=progress.step)

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

    def _plans(self, epoch: int) -> Sequence[Plan]:
        world = self.world
        return training_plans(
            self.train_set.sizes, self.cfg, epoch=epoch, ranks=world.size, rank=world.rank, blocks=self.train_set.blocks
        )


def lengths(run: Run[TrainingConfig]) -> tuple[np.ndarray, None]:
    """Seconds that the network hears of each utterance, as `fitted` takes them."""
    return run.train_set.sizes / SAMPLE_RATE, None


def batches_of(run: Run[TrainingConfig], indices: list[int]) -> list[Batch]:
    """The batch of some utterances, dealt out to as many sub-batches as go through the network at once."""
    dealt = (indices[first :: run.cfg.concat_batches] for first in range(run.cfg.concat_batches))
    parts = [SubBatch(number, part) for number, part in enumerate(dealt) if part]
    return list(loader(run.train_set, [Plan(0, parts)]))


class Step(NamedTuple):
    """What a step leaves for the log. `sums_K` are of this process, the number of targets last."""

    sums_K: Tensor
    seconds: float
    """Seconds of audio, without padding."""
    learning_rate: float


class OptimizerUpdate:
    """One optimiser step: forward and backward of each batch, whose gradients are added up and exchanged once."""

    def __init__(self, run: Run[TrainingConfig], batches: Sequence[Batch]):
        self.run, self._batches, self.step = run, batches, run.state.progress.step
        self._rate = run.learning_rate(self.step)
        run.learner.begin(self._rate)
        # Filled in there: a copy from here would make the host wait.
        self._targets = torch.full((), float(sum(b.n_targets for b in batches)), device=run.world.device)
        # Gradients are averaged over processes.
        self._share = run.world.size / run.world.sum(self._targets).clamp(min=1)
        self._counts = True
        self._sums: list[Tensor] = []

    def batches(self) -> Iterator[tuple[Any, int]]:
        """Each batch on the device, and a seed that is the same in all processes. `backward` is called for each."""
        run = self.run
        for turn, batch in enumerate(run.learner.each(self._batches)):
            seed = mixed(run.cfg.seed, self.step, turn)
            begin(mixed(seed, run.world.rank), run.world.device)  # dropout
            self._counts = batch.counts
            with contextlib.nullcontext() if batch.counts else without_gradient(run.model):
                yield on_device(batch, run.world.device), seed

    def backward(self, loss: Tensor, sums_K: Tensor) -> None:
        """Adds the gradient of `loss`, a sum over the targets of the batch; `sums_K` are for the log."""
        self.run.learner.backward(loss * self._share * float(self._counts))
        self._sums.append(sums_K if self._counts else torch.zeros_like(sums_K))

    def finished(self) -> Step:
        """Changes the weights."""
        self.run.learner.finish(self.run.state.progress, clip_norm=self.run.cfg.clip_norm)
        return Step(
            sums_K=torch.cat([torch.stack(self._sums).sum(0), self._targets[None]]),
            seconds=sum(batch.seconds for batch in self._batches),
            learning_rate=self._rate,
        )


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

"""Training of FastPitch: `python -m fastpitch.train configs/fastpitch/fastpitch.toml --data.root DIR`.

On several GPUs: `torchrun --nproc_per_node 8 -m fastpitch.train …`. Everything random is a function of (seed, step,
rank), so a run that was stopped and resumed ends in the weights of one that never stopped.
"""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple, cast

import torch
from torch import Tensor

from common import config, distributed
from common.course import Course
from common.loop import EXPECTED, Loop
from common.run_directory import started
from common.seeds import mixed
from common.training_state import Progress, TrainingError
from fastpitch.acoustic import data
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.data import Clip, ClipBatch
from fastpitch.acoustic.evaluation import evaluate, named
from fastpitch.acoustic.model import FastPitch
from fastpitch.acoustic.objective import Counts, Parts, counts_of, fastpitch_objective, micro_batches
from fastpitch.acoustic.run import NAME, Run
from fastpitch.acoustic.tensorboard import Samples
from fastpitch.vocoders.vocoder import VocoderError


class Step(NamedTuple):
    """What a step leaves for the log: the loss and its parts, [K], of this process."""

    losses_K: Tensor
    learning_rate: float
    binarisation_weight: float


def main(cfg: Config) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    with started(cfg, NAME, saves=not cfg.dry_run) as directory:
        run = Run(cfg, directory)
        state, progress = run.state, run.state.progress
        if cfg.dry_run:
            try_longest_batch(run)
            return progress
        course = Course(
            epochs=cfg.epochs, epochs_this_job=cfg.epochs_this_job, stop_at=cfg.steps, keep_epochs=cfg.keep_epochs
        )
        with (
            tensorboard_samples(run) as samples,
            Loop(
                state, cfg.every, course, names=("loss", *Parts._fields), unit="frames/s", reads=run.reads,
                has_validation=run.validation is not None,
            ) as loop,
        ):  # fmt: skip
            run.describe()
            if loop.owes_validation:
                validate(run, loop, samples)
            batches = data.loader(run.train_set, loop.plans(run.batches), workers=cfg.data.workers)
            for epoch in loop.epochs():
                for batch in loop.steps(batches, len(run.batches(epoch))):
                    step = update(run, batch)
                    kept = batch._asdict() | {"failures": [failure.message for failure in batch.failures]}
                    loop.did(step.losses_K, ids=batch.ids, batch=kept, amount=int(batch.frames_B.sum()))
                    if loop.logs:
                        log_training(loop, step)
                    if loop.validates:
                        validate(run, loop, samples)
                    if loop.saves:
                        state.save_step()
        return progress


def update(run: Run, batch: ClipBatch) -> Step:
    """One optimiser step, in cfg.grad_accumulation micro-batches; exchanges gradients once."""
    cfg, progress, world = run.cfg, run.state.progress, run.world
    torch.manual_seed(mixed(cfg.seed, progress.step, world.rank))  # dropout
    run.parallel.train()
    run.log_mel.train()
    rate = run.learning_rate(progress.step)
    for group in run.optimizer.param_groups:
        group["lr"] = rate
    # Over all processes, then by one process's share, because gradients are averaged over them.
    counts_3 = world.sum(counts_of(batch).to(world.device, non_blocking=True)).clamp(min=1) / world.size
    share = 1.0
    if not batch.indices:
        batch, share = stand_in(run, batch), 0.0
    weight = cfg.loss.binarisation_weight(progress.epoch + 1)
    parts = micro_batches(batch, cfg.grad_accumulation)
    losses = []
    for i, part in enumerate(parts):
        with distributed.gradient_sync(run.parallel, enabled=i == len(parts) - 1):
            loss = fastpitch_objective(
                run.parallel, run.log_mel, part, cfg,
                pitch_mean=run.model.pitch_mean, pitch_std=run.model.pitch_std,
                counts=Counts(*counts_3.unbind()), binarisation_weight=weight,
            )  # fmt: skip
            run.scaler.scale(loss.value * share).backward()
        losses.append(torch.stack([loss.value.detach(), *loss.parts]) * share)
    run.scaler.step(run.optimizer)
    run.scaler.update()
    run.optimizer.zero_grad(set_to_none=True)
    if run.ema is not None:
        run.ema.update(progress.step if progress.warm_average else None)
    return Step(torch.stack(losses).sum(0), rate, weight)


def stand_in(run: Run, batch: ClipBatch) -> ClipBatch:
    """A clip in place of a batch of which none can be used: other processes wait for this one's step."""
    for index in range(len(run.train_set)):
        if isinstance(item := run.train_set.item(index, run.state.progress.epoch), Clip):
            return data.collate([item])
    raise TrainingError(f"not one clip can be used: {batch.failures[0].message}")


def log_training(loop: Loop, step: Step) -> None:
    """The losses since the last line."""
    values = named(loop.means()) | {"kl_weight": step.binarisation_weight} | loop.speed()
    values["lrate"] = step.learning_rate
    loop.log.log("train", loop.where, values, global_step=loop.progress.step)


def validate(run: Run, loop: Loop, samples: Samples | None) -> None:
    """Losses of the weights and of their moving average; the checkpoint with the least mel loss is the best."""
    assert run.validation is not None
    models = {"dev": run.model} | ({"dev_ema": cast(FastPitch, run.ema.model)} if run.ema is not None else {})
    found = {}
    with loop.validation() as world:
        for phase, model in models.items():
            found[phase] = evaluate(model, run.log_mel, run.validation, world, run.cfg)
    if loop.is_cut:
        return
    for phase, values in found.items():
        loop.log.log(phase, (loop.progress.epoch,), values, global_step=loop.progress.step)
    if samples is not None:
        samples.write(list(models.values())[-1], run.log_mel, loop.progress.step)
    run.state.save_best(dict(zip(("raw", "average"), (v["mel_loss"] for v in found.values()), strict=False)))


@contextlib.contextmanager
def tensorboard_samples(run: Run) -> Iterator[Samples | None]:
    """What TensorBoard shows of the first validation clips, in the process that writes logs."""
    cfg = run.cfg
    if run.validation is None or not (run.world.is_main and cfg.tensorboard and cfg.samples):
        yield None
        return
    indices = list(range(min(cfg.samples, len(run.validation))))
    batch = next(iter(data.loader(run.validation, [indices])))
    with contextlib.closing(Samples(cfg.output_dir, cfg, batch, run.world.device)) as samples:
        yield samples


def try_longest_batch(run: Run) -> None:
    """Runs forward and backward on the longest batch, and says whether it fits."""
    longest = sorted(range(len(run.seconds)), key=lambda i: -run.seconds[i])[: run.cfg.batch_size]
    batch = next(iter(data.loader(run.train_set, [longest])))
    loss = update(run, batch).losses_K[0].item()
    run.directory.log.event(f"the longest batch fits: {int(batch.frames_B.max())} frames, loss {loss:.3f}")


if __name__ == "__main__":
    with config.reported(*EXPECTED, VocoderError):
        main(config.command_line(Config, description=__doc__ or ""))

"""Training of FastPitch: `python -m fastpitch.train configs/fastpitch/fastpitch.toml --data.root DIR`.

On several GPUs: `torchrun --nproc_per_node 8 -m fastpitch.train …`. Everything random is a function of (seed, step,
rank), so a run that was stopped and resumed ends in the weights of one that never stopped.
"""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple, cast

import torch
from torch import Tensor

from common import config
from common.data.loading import stand_in
from common.runs.run_directory import started
from common.runs.seeds import mixed
from common.training.course import course_in_epochs
from common.training.fitting import fitted
from common.training.loop import EXPECTED, Loop
from common.training.state import Progress
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.model import FastPitch
from fastpitch.acoustic.training import data
from fastpitch.acoustic.training.data import ClipBatch
from fastpitch.acoustic.training.objective import Counts, counts_of, evaluate, fastpitch_objective, micro_batches, named
from fastpitch.acoustic.training.run import ADVERSARIAL, NAME, Run
from fastpitch.acoustic.training.tensorboard import Samples
from fastpitch.vocoders.vocoder import VocoderError


class Step(NamedTuple):
    """What a step leaves for the log: the loss and its parts, [K], of this process."""

    losses_K: Tensor
    learning_rate: float
    binarisation_weight: float


def main(cfg: Config) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    with started(cfg, NAME, saves=not cfg.dry_run) as directory:
        cfg = fitted(cfg, directory, Run, try_batch)
        run = Run(cfg, directory)
        if cfg.dry_run:
            try_longest_batch(run)
            return run.state.progress
        names, both = run.loss_names, (run.train_set, run.validation)
        with (
            tensorboard_samples(run) as samples,
            Loop(
                run.state, cfg.every, course_in_epochs(cfg),
                names=names, unit="frames/s", data=both, learners=run.learners,
            ) as loop,
        ):  # fmt: skip
            run.describe()
            if loop.owes_validation:
                validate(run, loop, samples)
            batches = data.loader(run.train_set, loop.plans(run.epochs.batches), workers=cfg.data.workers)
            for epoch in loop.epochs():
                for batch in loop.steps(batches, len(run.epochs.batches(epoch))):
                    step = update(run, batch)
                    loop.did(step.losses_K, batch, amount=int(batch.frames_B.sum()))
                    if loop.logs:
                        values = named(loop.means(), ADVERSARIAL) | {"kl_weight": step.binarisation_weight}
                        loop.log_training(values, learning_rate=step.learning_rate)
                    if loop.validates:
                        validate(run, loop, samples)
                    if loop.saves:
                        run.state.save_step()
        return run.state.progress


def update(run: Run, batch: ClipBatch) -> Step:
    """One optimiser step, in cfg.grad_accumulation micro-batches; exchanges gradients once."""
    cfg, learner, progress, world = run.cfg, run.learner, run.state.progress, run.world
    rate = run.epochs.learning_rate(progress.step)
    learner.begin(rate, run.log_mel, seed=mixed(cfg.seed, progress.step, world.rank))
    if cfg.trained == "refiner" and run.model.refiner is not None:
        run.model.eval()  # what it learns from is predicted as in speech, without dropout
        run.model.refiner.train()
    # Over all processes, then by one process's share, because gradients are averaged over them.
    counts_3 = world.sum(counts_of(batch).to(world.device, non_blocking=True)).clamp(min=1) / world.size
    share = 1.0
    if not batch.indices:
        batch, share = stand_in(run.train_set, data.collate, batch.failures), 0.0
    weight = cfg.loss.binarisation_weight(progress.epoch + 1)
    losses, windows = [], []
    for part in learner.each(micro_batches(batch, cfg.grad_accumulation)):
        loss = fastpitch_objective(
            learner.parallel, run.log_mel, part, cfg,
            pitch_mean=run.model.pitch_mean, pitch_std=run.model.pitch_std,
            counts=Counts(*counts_3.unbind()), binarisation_weight=weight,
        )  # fmt: skip
        value, numbers = loss.value, [loss.value.detach(), *loss.parts]
        if run.adversary is not None:
            windows.append(run.adversary.windows(loss))
            challenge = run.adversary.challenge(windows[-1])
            value = value + run.adversary.weighted(challenge) / cfg.grad_accumulation
            numbers += [each.detach() / cfg.grad_accumulation for each in challenge]
        learner.backward(value * share)
        losses.append(torch.stack(numbers) * share)
    run.model.note_symbols()
    learner.finish(progress)
    losses_K = torch.stack(losses).sum(0)
    if run.adversary is not None:
        losses_K = torch.cat([losses_K, run.adversary.update(windows, rate, progress, share)[None]])
    return Step(losses_K, rate, weight)


def validate(run: Run, loop: Loop, samples: Samples | None) -> None:
    """Losses of the weights and of their moving average; the best has the least mel loss, or refiner loss."""
    assert run.validation is not None
    models, found = run.learner.models(), {}
    with loop.validation() as world:
        for phase, model in models.items():
            found[phase] = evaluate(cast(FastPitch, model), run.log_mel, run.validation, world, run.cfg)
    loop.validated(found, score="refiner_loss" if run.cfg.trained == "refiner" else "mel_loss")
    if samples is not None and not loop.is_cut:
        samples.write(cast(FastPitch, model), run.log_mel, loop.progress.step)


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
    frames, loss = try_batch(run, run.epochs.longest)
    run.directory.log.event(f"the longest batch fits: {frames} frames, loss {loss:.3f}")


def try_batch(run: Run, indices: list[int]) -> tuple[int, float]:
    """Makes a step of some clips; the frames of the longest, and the loss."""
    batch = next(iter(data.loader(run.train_set, [indices])))
    return int(batch.frames_B.max()), update(run, batch).losses_K[0].item()


if __name__ == "__main__":
    with config.reported(*EXPECTED, VocoderError):
        main(config.command_line(Config, description=__doc__ or ""))

"""Training of Jasper and QuartzNet: `python -m jasper.train configs/jasper/jasper10x5dr.toml --data.root DIR`.

On several GPUs: `torchrun --nproc_per_node 8 -m jasper.train …`. Everything random is a function of (seed, step, rank),
so a run that was stopped and resumed ends in the weights of one that never stopped.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

import ctc
from common import config, distributed
from common.course import Course
from common.data.loading import AudioBatch, loader
from common.loop import EXPECTED, Loop
from common.metrics import word_errors
from common.recognition.training import begin_step, finish_step, micro_batches, stand_in, weights_of
from common.run_directory import started
from common.seeds import mixed
from common.training_state import Progress
from jasper import data
from jasper.config import Config
from jasper.objective import ctc_objective
from jasper.run import NAME, Run
from jasper.validation import evaluate


class Step(NamedTuple):
    """What a step leaves for the log: the loss [1] of this process; `part` is its last micro-batch."""

    loss_1: Tensor
    part: AudioBatch
    log_probs_BSV: Tensor
    frames_B: Tensor
    learning_rate: float


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
        with Loop(
            state, cfg.every, course, unit="utterances/s", reads=run.reads, has_validation=run.validation is not None
        ) as loop:
            run.describe()
            if loop.owes_validation:
                validate(run, loop)
            batches = weighted(run, loader(run.train_set, loop.plans(run.batches), workers=cfg.data.workers))
            for epoch in loop.epochs():
                for batch, weights_B in loop.steps(batches, len(run.batches(epoch))):
                    step = update(run, batch, weights_B)
                    failures = [failure.message for failure in batch.failures]
                    kept = batch._asdict() | {"failures": failures}
                    loop.did(step.loss_1, ids=batch.ids, batch=kept, amount=len(batch.indices))
                    if loop.logs:
                        log_training(run, loop, step)
                    if cfg.prediction_frequency and progress.step % cfg.prediction_frequency == 0:
                        show_prediction(run, loop, step)
                    if loop.validates:
                        validate(run, loop)
                    if loop.saves:
                        state.save_step()
        return progress


def weighted(run: Run, batches: Iterable[AudioBatch]) -> Iterator[tuple[AudioBatch, Tensor]]:
    """Each batch with weights_B: 1, or 0 for targets that cannot fit their frames.

    Those end the run with TrainingError, unless data.on_error is "skip".
    """
    for batch in batches:
        frames_B = run.model.output_frames(run.cfg.features.frames(batch.samples_B))
        unfit = {}
        for row in data.unfit(batch, frames_B):
            audio = run.train_set.utterances[batch.indices[row]].audio
            unfit[row] = (
                f"utterance {batch.ids[row]}: {int(batch.target_lengths_B[row])} labels do not fit into "
                f"{int(frames_B[row])} output frames of {audio}"
            )
        yield batch, weights_of(batch, unfit, on_error=run.cfg.data.on_error, skipped=run.unfit.skipped)


def update(run: Run, batch: AudioBatch, weights_B: Tensor) -> Step:
    """One optimiser step, in cfg.grad_accumulation micro-batches; exchanges gradients once."""
    cfg, progress = run.cfg, run.state.progress
    seed = mixed(cfg.seed, progress.step, run.world.rank)
    rate = run.learning_rate(progress.step)
    begin_step((run.parallel, run.log_mel), run.optimizer, rate=rate, seed=seed)
    if not batch.indices:
        batch, weights_B = stand_in(run.train_set, progress.epoch, batch.failures), torch.zeros(1)
    parts = micro_batches(batch, weights_B, cfg.grad_accumulation)
    losses = []
    for i, part in enumerate(parts):
        with distributed.gradient_sync(run.parallel, enabled=i == len(parts) - 1):
            loss = ctc_objective(
                run.parallel, run.log_mel, part, cfg,
                batch_size=len(batch.indices), seed=seed + i, blank=run.vocabulary.blank,
            )  # fmt: skip
            run.scaler.scale(loss.value).backward()
        losses.append(loss.value.detach())
    finish_step(run.optimizer, run.scaler, run.ema, progress)
    return Step(torch.stack(losses).sum()[None], part.batch, loss.log_probs_BSV, loss.frames_B, rate)


def log_training(run: Run, loop: Loop, step: Step) -> None:
    """The loss since the last line, and the word error rate of the last micro-batch."""
    references, hypotheses = texts(run, step)
    (loss,) = loop.means()
    values = {"loss": loss, "wer": word_errors(references, hypotheses).rate} | loop.speed()
    values["lrate"] = step.learning_rate
    loop.log.log("train", loop.where, values, global_step=loop.progress.step)


def show_prediction(run: Run, loop: Loop, step: Step) -> None:
    """One utterance of the step, what was said and what the model writes."""
    references, hypotheses = texts(run, step)
    loop.log.event(f"reference:  {references[0]}")
    loop.log.event(f"hypothesis: {hypotheses[0]}")


def texts(run: Run, step: Step) -> tuple[list[str], list[str]]:
    """References and greedy hypotheses of the last micro-batch of a step."""
    decoded = ctc.greedy(step.log_probs_BSV, step.frames_B, blank=run.vocabulary.blank)
    hypotheses = [run.vocabulary.decode(d.labels) for d in decoded]
    lengths = step.part.target_lengths_B.tolist()
    targets = [t[:n] for t, n in zip(step.part.targets_BU.tolist(), lengths, strict=True)]
    return [run.vocabulary.decode(t) for t in targets], hypotheses


def validate(run: Run, loop: Loop) -> None:
    """Error rates of the weights and of their moving average; keeps the best checkpoint by the better of both."""
    assert run.validation is not None
    cfg, progress = run.cfg, loop.progress
    models = {"dev": run.model} | ({"dev_ema": run.ema.model} if run.ema is not None else {})
    found = {}
    for model in models.values():
        distributed.share_buffers(model, run.world)
    with loop.validation() as world:
        for phase, model in models.items():
            found[phase] = evaluate(
                model, run.log_mel, run.validation, world, vocabulary=run.vocabulary,
                batch_size=cfg.batch_size, workers=cfg.data.workers, precision=cfg.precision,
            )  # fmt: skip
    if loop.is_cut:
        return
    for phase, evaluation in found.items():
        values = {"loss": evaluation.loss, "wer": evaluation.words.rate, "cer": evaluation.characters.rate}
        loop.log.log(phase, (progress.epoch,), values, global_step=progress.step)
    scores = dict(zip(("raw", "average"), (evaluation.words.rate for evaluation in found.values()), strict=False))
    run.state.save_best(scores, counts=progress.epoch >= cfg.save_best_from)


def try_longest_batch(run: Run) -> None:
    """Runs forward and backward on the longest batch, and says whether it fits."""
    longest = sorted(range(len(run.seconds)), key=lambda i: -run.seconds[i])[: run.cfg.batch_size]
    batch, weights_B = next(weighted(run, loader(run.train_set, [longest])))
    loss = update(run, batch, weights_B).loss_1.item()
    run.directory.log.event(f"the longest batch fits: {tuple(batch.audio_BN.shape)} samples, loss {loss:.3f}")


if __name__ == "__main__":
    with config.reported(*EXPECTED):
        main(config.command_line(Config, description=__doc__ or ""))

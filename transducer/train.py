"""Training of transducers and CTC models: `python -m transducer.train configs/transducer/tiny.toml --data.root DIR`.

On several GPUs: `torchrun --nproc_per_node 8 -m transducer.train …`. Everything random is a function of (seed, step,
rank), so a run that was stopped and resumed ends in the weights of one that never stopped.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

import torch
from torch import Tensor

from common import config, distributed
from common.course import Course
from common.data.loading import AudioBatch, loader
from common.loop import EXPECTED, Loop
from common.recognition.scoring import EvaluationError
from common.recognition.training import begin_step, finish_step, micro_batches, stand_in, weights_of
from common.run_directory import started
from common.seeds import mixed
from common.training_state import Progress
from transducer import data
from transducer.config import Config
from transducer.network.model import Model
from transducer.objective import objective
from transducer.recognizer import Head, Recognizer
from transducer.run import NAME, Run, started_from
from transducer.validation import evaluate


class Step(NamedTuple):
    """What a step leaves for the log: the numbers of this process [loss, transducer, ctc]."""

    losses_3: Tensor
    learning_rate: float


def main(cfg: Config) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    with started(cfg, NAME) as directory:
        cfg, start = started_from(cfg, directory)
        run = Run(cfg, start, directory)
        state, progress = run.state, run.state.progress
        course = Course(
            epochs=cfg.epochs, epochs_this_job=cfg.epochs_this_job, stop_at=cfg.steps, keep_epochs=cfg.keep_epochs
        )
        names = ("loss", "transducer", "ctc")
        with Loop(
            state, cfg.every, course,
            names=names, unit="utterances/s", reads=run.reads, has_validation=run.validation is not None,
        ) as loop:  # fmt: skip
            run.describe()
            if loop.owes_validation:
                validate(run, loop)
            batches = weighted(run, loader(run.train_set, loop.plans(run.batches), workers=cfg.data.workers))
            for epoch in loop.epochs():
                for batch, weights_B in loop.steps(batches, len(run.batches(epoch))):
                    step = update(run, batch, weights_B)
                    failures = [failure.message for failure in batch.failures]
                    kept = batch._asdict() | {"failures": failures}
                    loop.did(step.losses_3, ids=batch.ids, batch=kept, amount=len(batch.indices))
                    if loop.logs:
                        values = dict(zip(names, loop.means(), strict=True)) | loop.speed()
                        values["lrate"] = step.learning_rate
                        loop.log.log("train", loop.where, values, global_step=progress.step)
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
        frames_B = run.model.encoder.output_frames(run.cfg.features.frames(batch.samples_B))
        unfit = {}
        for row, needed in data.unfit(batch, frames_B, has_transducer=run.model.prediction is not None).items():
            audio = run.train_set.utterances[batch.indices[row]].audio
            unfit[row] = (
                f"utterance {batch.ids[row]}: {int(batch.target_lengths_B[row])} pieces need {needed} encoder frames, "
                f"there are {int(frames_B[row])} of {audio}"
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
    parts, losses = micro_batches(batch, weights_B, cfg.grad_accumulation), []
    for i, part in enumerate(parts):
        share = len(part.batch.indices) / len(batch.indices)
        with distributed.gradient_sync(run.parallel, enabled=i == len(parts) - 1):
            loss = objective(run.parallel, run.model, run.log_mel, *part, cfg, epoch=progress.epoch, seed=seed + i)
            run.scaler.scale(share * loss.value).backward()
        losses.append(share * torch.stack([loss.value.detach(), loss.transducer, loss.ctc]))
    if cfg.loss.clip:
        run.scaler.unscale_(run.optimizer)
        torch.nn.utils.clip_grad_norm_(run.model.parameters(), cfg.loss.clip)
    finish_step(run.optimizer, run.scaler, run.ema, progress)
    return Step(torch.stack(losses).sum(0), rate)


def validate(run: Run, loop: Loop) -> None:
    """Error rates of the weights and of their moving average, by every head; keeps the best checkpoint."""
    assert run.validation is not None
    cfg, progress = run.cfg, loop.progress
    models = {"dev": run.model} | ({"dev_ema": run.ema.model} if run.ema is not None else {})
    heads: list[Head] = ["transducer"] if run.model.prediction is not None else []
    heads += ["ctc"] if run.model.ctc is not None else []
    found = {}
    for model in models.values():
        distributed.share_buffers(model, run.world)
    with loop.validation() as world:
        for phase, model in models.items():
            asr = Recognizer(
                cast("Model", model), cfg.features, run.pieces, device=run.world.device, precision=cfg.precision
            )
            found[phase] = evaluate(
                asr, run.validation, world, heads=heads, batch_size=cfg.batch_size, workers=cfg.data.workers,
                normalized=data.spelling_of(cfg.data),
            )  # fmt: skip
    if loop.is_cut:
        return
    for phase, evaluations in found.items():
        values = {"wer": evaluations[0].words.rate, "cer": evaluations[0].characters.rate}
        if len(evaluations) > 1:
            values["wer_ctc"] = evaluations[1].words.rate
        loop.log.log(phase, (progress.epoch,), values, global_step=progress.step)
    scores = dict(zip(("raw", "average"), (each[0].words.rate for each in found.values()), strict=False))
    run.state.save_best(scores)


if __name__ == "__main__":
    with config.reported(*EXPECTED, EvaluationError):
        main(config.command_line(Config, description=__doc__ or ""))

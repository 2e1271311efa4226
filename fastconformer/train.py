"""Training of transducers and CTC models: `python -m fastconformer.train configs/fastconformer/digits.toml`.

On several GPUs: `torchrun --nproc_per_node 8 -m fastconformer.train …`. Everything random is a function of (seed, step,
rank), so a run that was stopped and resumed ends in the weights of one that never stopped.
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor

from common import config
from common.data.loading import AudioBatch, loader
from common.recognition.scoring import EvaluationError
from common.recognition.training import check_labels, counted, micro_batches, weighted
from common.runs.run_directory import started
from common.seeds import mixed
from common.training.course import course_in_epochs
from common.training.loop import EXPECTED, Loop
from common.training.state import Progress
from fastconformer.config import Config
from fastconformer.network.model import Model
from fastconformer.objective import objective
from fastconformer.recognizer import Head, Recognizer
from fastconformer.run import NAME, Run, started_from
from fastconformer.validation import evaluate


class Step(NamedTuple):
    """What a step leaves for the log: the numbers of this process [loss, transducer, ctc]."""

    losses_3: Tensor
    learning_rate: float


def main(cfg: Config) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    with started(cfg, NAME, saves=not cfg.dry_run) as directory:
        cfg, start = started_from(cfg, directory)
        run = Run(cfg, start, directory)
        if cfg.dry_run:
            try_longest_batch(run)
            return run.state.progress
        names, both = ("loss", "transducer", "ctc"), (run.train_set, run.validation)
        with Loop(
            run.state, cfg.every, course_in_epochs(cfg), names=names, unit="utterances/s", data=both,
            learners={"": run.learner},
        ) as loop:  # fmt: skip
            run.describe()
            if loop.owes_validation:
                validate(run, loop)
            read = loader(run.train_set, loop.plans(run.epochs.batches), workers=cfg.data.workers)
            has_transducer = run.model.prediction is not None
            if not has_transducer:
                check_labels(run.train_set, run.pieces.encode, run.frames, cfg.features.sample_rate, run.world)
            batches = weighted(read, run.train_set, run.frames, has_transducer=has_transducer)
            for epoch in loop.epochs():
                for batch, weights_B in loop.steps(batches, len(run.epochs.batches(epoch))):
                    step = update(run, batch, weights_B)
                    loop.did(step.losses_3, batch, amount=counted(batch, weights_B))
                    if loop.logs:
                        values = dict(zip(names, loop.means(), strict=True))
                        loop.log_training(values, learning_rate=step.learning_rate)
                    if loop.validates:
                        validate(run, loop)
                    if loop.saves:
                        run.state.save_step()
        return run.state.progress


def update(run: Run, batch: AudioBatch, weights_B: Tensor) -> Step:
    """One optimiser step, in cfg.grad_accumulation micro-batches; exchanges gradients once."""
    cfg, learner, progress = run.cfg, run.learner, run.state.progress
    seed = mixed(cfg.seed, progress.step, run.world.rank)
    rate = run.epochs.learning_rate(progress.step)
    learner.begin(rate, run.log_mel, seed=seed)
    if cfg.learns != "all":
        run.model.encoder.eval()  # its statistics stay, and it hears without dropout
    losses = []
    for i, part in enumerate(learner.each(micro_batches(batch, weights_B, cfg.grad_accumulation))):
        share = len(part.batch.indices) / len(batch.indices)
        loss = objective(learner.parallel, run.model, run.log_mel, *part, cfg, epoch=progress.epoch, seed=seed + i)
        learner.backward(share * loss.value)
        losses.append(share * torch.stack([loss.value.detach(), loss.transducer, loss.ctc]))
    learner.finish(progress, clip_norm=cfg.loss.clip)
    return Step(torch.stack(losses).sum(0), rate)


def validate(run: Run, loop: Loop) -> None:
    """Error rates of the weights and of their moving average, by every head; keeps the best checkpoint."""
    assert run.validation is not None
    cfg, models, found = run.cfg, run.learner.models(), {}
    heads: list[Head] = ["transducer"] if run.model.prediction is not None else []
    heads += ["ctc"] if run.model.ctc is not None else []
    with loop.validation() as world:
        for phase, model in models.items():
            asr = Recognizer(
                cast("Model", model), cfg.features, run.pieces, device=run.world.device, precision=cfg.precision
            )
            first, *others = evaluate(
                asr, run.validation, world, heads=heads, batch_size=cfg.batch_size, workers=cfg.data.workers,
                normalized=run.spelling,
            )  # fmt: skip
            found[phase] = first.rates
            for ctc in others:
                found[phase]["wer_ctc"] = ctc.words.rate
    loop.validated(found, score="wer")


def try_longest_batch(run: Run) -> None:
    """Makes a step of the longest batch, and says whether it fits."""
    read = loader(run.train_set, [run.epochs.longest])
    has_transducer = run.model.prediction is not None
    batch, weights_B = next(weighted(read, run.train_set, run.frames, has_transducer=has_transducer))
    loss = update(run, batch, weights_B).losses_3[0].item()
    run.directory.log.event(f"the longest batch fits: {tuple(batch.audio_BN.shape)} samples, loss {loss:.3f}")


if __name__ == "__main__":
    with config.reported(*EXPECTED, EvaluationError):
        main(config.command_line(Config, description=__doc__ or ""))

"""Training of Jasper and QuartzNet: `python -m jasper.train configs/jasper/jasper10x5dr.toml --data.root DIR`.

On several GPUs: `torchrun --nproc_per_node 8 -m jasper.train …`. Everything random is a function of (seed, step, rank),
so a run that was stopped and resumed ends in the weights of one that never stopped.

Shapes: B utterances, N samples, F mel bands, T feature frames, S output frames, V labels and the blank.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ctc
from common import config
from common.augmentation import cutout, spec_augment
from common.data.loading import AudioBatch, loader
from common.devices.precision import autocast
from common.features import LogMel
from common.recognition.metrics import word_errors
from common.recognition.training import WeightedBatch, check_labels, log_prediction, weighted
from common.runs.run_directory import started
from common.runs.seeds import mixed
from common.training.course import course_in_epochs
from common.training.fitting import fitted
from common.training.loop import EXPECTED, Loop
from common.training.state import Progress
from jasper.config import Config
from jasper.training.run import NAME, Run
from jasper.training.validation import evaluate


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
        cfg = fitted(cfg, directory, Run, try_batch)
        run = Run(cfg, directory)
        if cfg.dry_run:
            try_longest_batch(run)
            return run.state.progress
        data = (run.train_set, run.validation)
        learners = {"": run.learner}
        with Loop(
            run.state, cfg.every, course_in_epochs(cfg), unit="utterances/s", data=data, learners=learners
        ) as loop:
            run.describe()
            check_labels(run.train_set, run.vocabulary.encode, run.frames, cfg.features.sample_rate, run.world)
            if loop.owes_validation:
                validate(run, loop)
            read = loader(run.train_set, loop.plans(run.epochs.batches), workers=cfg.data.workers)
            batches = weighted(read, run.train_set, run.frames, has_transducer=False)
            for epoch in loop.epochs():
                for batch in loop.steps(batches, len(run.epochs.batches(epoch))):
                    step = update(run, batch)
                    loop.did(step.loss_1, batch.audio, amount=batch.counted)
                    if loop.logs:
                        log_training(run, loop, step)
                    if cfg.prediction_frequency and loop.progress.step % cfg.prediction_frequency == 0:
                        show_prediction(run, loop, step)
                    if loop.validates:
                        validate(run, loop)
                    if loop.saves:
                        run.state.save_step()
        return run.state.progress


def update(run: Run, batch: WeightedBatch) -> Step:
    """One optimiser step, in cfg.grad_accumulation micro-batches; exchanges gradients once."""
    cfg, learner, progress = run.cfg, run.learner, run.state.progress
    seed = mixed(cfg.seed, progress.step, run.world.rank)
    rate = run.epochs.learning_rate(progress.step)
    learner.begin(rate, run.log_mel, seed=seed)
    losses = []
    for i, part in enumerate(learner.each(batch.parts(cfg.grad_accumulation))):
        loss = ctc_objective(
            learner.parallel, run.log_mel, part, cfg,
            batch_size=len(batch.weights_B), seed=seed + i, blank=run.vocabulary.blank,
        )  # fmt: skip
        learner.backward(loss.value)
        losses.append(loss.value.detach())
    learner.finish(progress)
    return Step(torch.stack(losses).sum()[None], part.audio, loss.log_probs_BSV, loss.frames_B, rate)


class Loss(NamedTuple):
    """The part of a step's loss that a micro-batch has, and what the network said."""

    value: Tensor
    log_probs_BSV: Tensor
    frames_B: Tensor


def ctc_objective(
    network: nn.Module, log_mel: LogMel, part: WeightedBatch, cfg: Config, *, batch_size: int, seed: int, blank: int
) -> Loss:
    """CTC loss summed over the micro-batch and divided by the size of the whole batch, as published.

    Features are computed and augmented on the device of `log_mel`; `seed` determines the augmentation.
    """
    device = log_mel.window.device
    batch, weights_B = part.audio.to(device), part.weights_B.to(device, non_blocking=True)
    audio_BN = batch.audio_BN
    if cfg.data.pad_to_max:
        longest = round(cfg.data.max_seconds * cfg.features.sample_rate)
        audio_BN = F.pad(audio_BN, (0, max(0, longest - audio_BN.shape[1])))
    with torch.no_grad():
        features_BFT, frames_B = log_mel(audio_BN, batch.samples_B)
        features_BFT = cutout(features_BFT, frames_B, cfg.cutout, seed=seed)
        features_BFT = spec_augment(features_BFT, frames_B, cfg.spec_augment, seed=seed)
    with autocast(device, cfg.precision):
        log_probs_BSV, frames_B = network(features_BFT, frames_B)
    losses_B = ctc.ctc_loss(
        log_probs_BSV,
        batch.targets_BU,
        frames_B,
        batch.target_lengths_B,
        blank=blank,
        reduction="none",
        zero_infinity=True,  # of targets that do not fit: their weight is 0, but not even 0 times infinity is
        batch_first=True,
    )
    return Loss((losses_B * weights_B).sum() / batch_size, log_probs_BSV.detach(), frames_B)


def log_training(run: Run, loop: Loop, step: Step) -> None:
    """The loss since the last line, and the word error rate of the last micro-batch."""
    references, hypotheses = texts(run, step)
    (loss,) = loop.means()
    values = {"loss": loss, "wer": word_errors(references, hypotheses).rate}
    loop.log_training(values, learning_rate=step.learning_rate)


def show_prediction(run: Run, loop: Loop, step: Step) -> None:
    """One utterance of the step, what was said and what the model writes."""
    references, hypotheses = texts(run, step)
    log_prediction(loop.log.event, references[0], hypotheses[0])


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
    cfg, models, found = run.cfg, run.learner.models(), {}
    with loop.validation() as world:
        for phase, model in models.items():
            evaluation = evaluate(
                model, run.log_mel, run.validation, world, vocabulary=run.vocabulary,
                batch_size=cfg.batch_size, workers=cfg.data.workers, precision=cfg.precision,
            )  # fmt: skip
            found[phase] = evaluation.rates
    loop.validated(found, score="wer", counts=loop.progress.epoch >= cfg.save_best_from)


def try_longest_batch(run: Run) -> None:
    """Runs forward and backward on the longest batch, and says whether it fits."""
    shape, loss = try_batch(run, run.epochs.longest)
    run.directory.log.event(f"the longest batch fits: {shape} samples, loss {loss:.3f}")


def try_batch(run: Run, indices: list[int]) -> tuple[tuple[int, ...], float]:
    """Makes a step of some utterances; the shape of their samples, and the loss."""
    batches = weighted(loader(run.train_set, [indices]), run.train_set, run.frames, has_transducer=False)
    batch = next(batches)
    return tuple(batch.audio.audio_BN.shape), update(run, batch).loss_1.item()


if __name__ == "__main__":
    with config.reported(*EXPECTED):
        main(config.command_line(Config, description=__doc__ or ""))

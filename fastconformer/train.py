"""Training of transducers, attention decoders and CTC models: `python -m fastconformer.train fastconformer/digits`.

On several GPUs: `torchrun --nproc_per_node 8 -m fastconformer.train …`. Everything random is a function of (seed, step,
rank), so a run that was stopped and resumed ends in the weights of one that never stopped.
"""

import random
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from common import config
from common.data.loading import loader
from common.recognition.scoring import EvaluationError
from common.recognition.training import WeightedBatch, check_labels, weighted
from common.runs.run_directory import started
from common.runs.seeds import mixed
from common.training.course import course_in_epochs
from common.training.fitting import fitted
from common.training.loop import EXPECTED, Loop
from common.training.state import Progress
from fastconformer.attending import AttentionRecognizer
from fastconformer.attention.pieces import PromptedPieces
from fastconformer.config import Config
from fastconformer.network.model import Model
from fastconformer.recognizer import Head, Recognizer
from fastconformer.training.objective import Share, objective
from fastconformer.training.run import NAME, Run, started_from
from fastconformer.training.tasks import can_translate, of_places, task_of, translated
from fastconformer.training.validation import evaluate


class Step(NamedTuple):
    """What a step leaves for the log: the numbers of this process [loss, transducer or attention, ctc]."""

    losses_3: Tensor
    learning_rate: float


def main(cfg: Config) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    with started(cfg, NAME, saves=not cfg.dry_run) as directory:
        cfg, start = started_from(cfg, directory)
        cfg = fitted(cfg, directory, lambda cfg, directory: Run(cfg, start, directory), try_batch)
        run = Run(cfg, start, directory)
        if cfg.dry_run:
            try_longest_batch(run)
            return run.state.progress
        names, both = ("loss", run.decoder or "transducer", "ctc"), (run.train_set, run.validation)
        with Loop(
            run.state, cfg.every, course_in_epochs(cfg), names=names, unit="utterances/s", data=both,
            learners={"": run.learner},
        ) as loop:  # fmt: skip
            run.describe()
            if loop.owes_validation:
                validate(run, loop)
            read = loader(run.train_set, loop.plans(run.epochs.batches), workers=cfg.data.workers)
            if not run.decoder:
                check_labels(run.train_set, run.pieces.encode, run.frames, cfg.features.sample_rate, run.world)
            batches = weighted(read, run.train_set, run.frames, has_transducer=bool(run.decoder))
            for epoch in loop.epochs():
                for batch in loop.steps(batches, len(run.epochs.batches(epoch))):
                    step = update(run, batch)
                    loop.did(step.losses_3, batch.audio, amount=batch.counted)
                    if loop.logs:
                        values = dict(zip(names, loop.means(), strict=True))
                        loop.log_training(values, learning_rate=step.learning_rate)
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
    if cfg.lookaheads:  # the same in all processes
        drawn = random.Random(mixed(cfg.seed, progress.step)).choice(cfg.lookaheads)
        run.model.encoder.cfg = replace(cfg.model.encoder, right_frames=drawn)
    if cfg.learns != "all":
        run.model.encoder.eval()  # its statistics stay, and it hears without dropout
    losses, parts = [], batch.parts(cfg.grad_accumulation)
    texts = [run.texts(part.audio) for part in parts]
    counts = [own.counted(part.weights_B, learns_prompt=cfg.loss.learns_prompt)
              for own, part in zip(texts, parts, strict=True) if own is not None]  # fmt: skip
    tokens: Tensor | float
    labels: Tensor | float
    tokens, labels = map(sum, zip(*counts, strict=True)) if counts else (0.0, 0.0)
    if counts and run.world.size > 1:  # as if the batch were not split: each process has the mean over them
        tokens, labels = run.world.mean(torch.tensor([tokens, labels], device=run.world.device)).unbind()
    for i, part in enumerate(learner.each(parts)):
        share = Share(len(part.weights_B) / len(batch.weights_B), tokens, labels)
        loss = objective(
            learner.parallel, run.model, run.log_mel, *part, cfg,
            epoch=progress.epoch, seed=seed + i, texts=texts[i], part=share,
        )  # fmt: skip
        learner.backward(loss.value)
        losses.append(torch.stack([loss.value.detach(), loss.transducer + loss.attention, loss.ctc]))
    learner.finish(progress, clip_norm=cfg.loss.clip)
    run.model.encoder.cfg = cfg.model.encoder
    return Step(torch.stack(losses).sum(0), rate)


def validate(run: Run, loop: Loop) -> None:
    """Error rates of the weights and of their moving average, by every head; keeps the best checkpoint."""
    assert run.validation is not None
    cfg, models, found = run.cfg, run.learner.models(), {}
    heads: list[Head] = [run.decoder] if run.decoder else []
    heads += ["ctc"] if run.model.ctc is not None else []
    with loop.validation() as world:
        for phase, model in models.items():
            asr = recognizer_of(cast("Model", model), run)
            results = evaluate(
                asr, run.validation, world, heads=heads, batch_size=cfg.batch_size, workers=cfg.data.workers,
                normalized=run.spelling, guard=False,
            )  # fmt: skip
            transcripts: list[bool] = []
            if isinstance(asr, AttentionRecognizer):
                tasks = (task_of(run.validation.utterances[row], asr.prompts.languages) for row in results[0].rows)
                transcripts = [task.source == task.target for task in tasks]
            if not all(transcripts) and can_translate():
                found_of = translated(of_places(results[0], [not is_one for is_one in transcripts]))
                scores = {"bleu": found_of.bleu}
            else:
                scores = {}
            first, *others = results if all(transcripts) else [of_places(one, transcripts) for one in results]
            found[phase] = first.rates | scores
            for ctc in others:
                found[phase]["wer_ctc"] = ctc.words.rate
    loop.validated(found, score="wer", counts=loop.progress.epoch >= cfg.save_best_from)


def recognizer_of(model: Model, run: Run) -> Recognizer | AttentionRecognizer:
    """What transcribes by a model that is being trained."""
    shared: dict[str, Any] = {"device": run.world.device, "precision": run.cfg.precision}
    if isinstance(run.pieces, PromptedPieces):
        return AttentionRecognizer(model, run.cfg.features, run.pieces, **shared)
    return Recognizer(model, run.cfg.features, run.pieces, **shared)


def try_longest_batch(run: Run) -> None:
    """Makes a step of the longest batch, and says whether it fits."""
    shape, loss = try_batch(run, run.epochs.longest)
    run.directory.log.event(f"the longest batch fits: {shape} samples, loss {loss:.3f}")


def try_batch(run: Run, indices: list[int]) -> tuple[tuple[int, ...], float]:
    """Makes a step of some utterances; the shape of their samples, and the loss."""
    read = loader(run.train_set, [indices])
    batch = next(weighted(read, run.train_set, run.frames, has_transducer=bool(run.decoder)))
    return tuple(batch.audio.audio_BN.shape), update(run, batch).losses_3[0].item()


if __name__ == "__main__":
    with config.reported(*EXPECTED, EvaluationError):
        main(config.command_line(Config, description=__doc__ or ""))

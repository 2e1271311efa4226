"""Self-supervised pre-training: `python -m wav2vec2.pretrain configs/wav2vec2/pretrain_base.toml --data.root DIR`.

On several GPUs: `torchrun --nproc_per_node 8 -m wav2vec2.pretrain …`. Losses are per masked frame, in nats; chance is
ln(1 + distractors) for the contrastive one, and 1 / (1 + distractors) for the accuracy.

Shapes: K sums that are logged.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from common import config
from common.devices.distributed import World
from common.runs.checkpoint import CheckpointError
from common.runs.run_directory import RunDirectory, started
from common.training.fitting import fitted
from common.training.loop import EXPECTED, Loop
from common.training.state import Progress
from wav2vec2.checkpoints.loading import load_model
from wav2vec2.contrastive.model import Wav2Vec2ForPretraining
from wav2vec2.corpus.batches import Batch, PlannedDataset, PretrainingSet, loader, on_device, validation_plans
from wav2vec2.corpus.sources import read_utterances
from wav2vec2.losses import SUMS, gumbel_noise, pretraining_loss, pretraining_sums
from wav2vec2.run import NAME, UNIT, OptimizerUpdate, Run, Step, batches_of, lengths
from wav2vec2.run_config import PretrainConfig


def main(cfg: PretrainConfig) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    with started(cfg, NAME, saves=cfg.save) as directory:
        cfg.check_batches(directory.world.size)
        cfg = fitted(cfg, directory, prepared, lambda run, rows: update(run, batches_of(run, rows)), lengths)
        run = prepared(cfg, directory)
        names = (*SUMS, "targets")
        with Loop(run.state, cfg.every, run.course, names=names, unit=UNIT, **run.watched) as loop:
            run.describe()
            if loop.owes_validation:
                run.validate(loop, evaluate, score="loss")
            batches = run.batches(loop)
            for epoch in loop.epochs():
                for turns in loop.steps(batches, run.updates(epoch)):
                    step = update(run, turns)
                    loop.did(step.sums_K, *turns, amount=step.seconds)
                    if loop.logs:
                        log_training(run, loop, step)
                    if loop.validates:
                        run.validate(loop, evaluate, score="loss")
                    if loop.saves:
                        run.state.save_step()
        return run.state.progress


def prepared(cfg: PretrainConfig, directory: RunDirectory) -> Run[PretrainConfig]:
    """The run, new or as the checkpoint in `directory` says. Raises CheckpointError, ManifestError, ConfigError."""
    torch.manual_seed(cfg.seed)  # the same initial weights in every process
    cfg, model = starting_model(cfg, directory)
    train_set = dataset(cfg, directory, training=True)
    validation = dataset(cfg, directory, training=False) if cfg.data.validation else None
    run = Run(cfg, directory, model, (train_set, validation))
    run.join()
    return run


def starting_model(cfg: PretrainConfig, directory: RunDirectory) -> tuple[PretrainConfig, Wav2Vec2ForPretraining]:
    """The network, with the weights of cfg.checkpoint in a run that begins there, and the configuration with its
    architecture. Raises CheckpointError.
    """
    if directory.saved is not None and "objective" not in directory.saved["config"]:
        raise CheckpointError(f"{cfg.output_dir}: its checkpoints are not of pre-training; take another --output_dir")
    start = load_model(cfg.checkpoint) if cfg.checkpoint is not None and directory.saved is None else None
    if start is not None and not isinstance(start, Wav2Vec2ForPretraining):
        raise CheckpointError(
            f"{cfg.checkpoint}: expected a pre-trained model with its quantiser; found {type(start).__name__}"
        )
    cfg = directory.adopted(cfg, None if start is None else replace(cfg, model=start.wav2vec2.config), ("model",))
    model = Wav2Vec2ForPretraining(cfg.model, cfg.learning)
    if start is not None and cfg.checkpoint is not None:
        directory.start_from(model, start.state_dict(), cfg.checkpoint, cfg.from_checkpoint)
    return cfg, model


def dataset(cfg: PretrainConfig, directory: RunDirectory, *, training: bool) -> PretrainingSet:
    """Utterances as batches. Raises ManifestError."""
    sources = cfg.data.train if training else cfg.data.validation
    found = read_utterances(sources, cfg.data, cfg.model, training=training)
    directory.left_out(found.skipped)
    return PretrainingSet(found.utterances, cfg)


def update(run: Run[PretrainConfig], batches: Sequence[Batch]) -> Step:
    """One optimiser step."""
    cfg = run.cfg
    step = OptimizerUpdate(run, batches)
    for batch, seed in step.batches():
        found = pretraining_loss(
            cfg, run.learner.parallel, batch, update=step.step, seed=seed, noise_QGV=gumbel_noise(cfg.model, batch)
        )
        step.backward(found.total, pretraining_sums(found))
    return step.finished()


def log_training(run: Run[PretrainConfig], loop: Loop, step: Step) -> None:
    """Means over the masked frames since the last line."""
    *sums, targets = loop.totals()
    means = {name: total / max(1.0, targets) for name, total in zip(SUMS, sums, strict=True)}
    means["temperature"] = run.cfg.temperature.at(loop.progress.step - 1)
    loop.log_training(means, learning_rate=step.learning_rate)


@torch.inference_mode()
def evaluate(cfg: PretrainConfig, model: nn.Module, dataset: PlannedDataset, world: World) -> dict[str, float]:
    """Means over all masked frames, which are the same in every validation."""
    model.eval()
    totals_K = torch.zeros(len(SUMS) + 1, dtype=torch.float64)
    plans = validation_plans(dataset.sizes, cfg.data.max_tokens_valid, ranks=world.size, rank=world.rank)
    for batch in loader(dataset, plans, workers=cfg.data.workers):
        if batch.counts:
            found = pretraining_loss(cfg, model, on_device(batch, world.device), update=0, seed=0)
            totals_K += torch.cat([pretraining_sums(found).cpu(), torch.tensor([float(found.frames)])])
    *sums, n_frames = torch.stack(world.gather(totals_K)).sum(0).tolist()
    return {name: total / max(1.0, n_frames) for name, total in zip(SUMS, sums, strict=True)}


if __name__ == "__main__":
    with config.reported(*EXPECTED):
        main(config.command_line(PretrainConfig, description=__doc__ or ""))

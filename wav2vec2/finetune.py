"""Fine-tuning for recognition with CTC.

    python -m wav2vec2.finetune configs/wav2vec2/finetune_base_960h.toml --data.root DIR --pretrained base.pt

On several GPUs: `torchrun --nproc_per_node 8 -m wav2vec2.finetune …`. The loss is CTC's per utterance, in nats.

Shapes: B utterances.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

import ctc
from common import config
from common.config import ConfigError
from common.devices.distributed import World
from common.recognition.scoring import ScoredUtterance, scored
from common.recognition.training import check_labels, log_letters, log_prediction
from common.runs.checkpoint import CheckpointError
from common.runs.run_directory import RunDirectory, started
from common.training.fitting import fitted
from common.training.loop import EXPECTED, Loop
from common.training.state import Progress
from wav2vec2.checkpoints import reading
from wav2vec2.checkpoints.loading import for_finetuning
from wav2vec2.corpus.batches import Batch, FinetuningBatch, FinetuningSet, loader, on_device, validation_plans
from wav2vec2.corpus.letters import LIBRISPEECH_LABELS, Letters, read_dictionary
from wav2vec2.corpus.sources import located, read_utterances
from wav2vec2.losses import ctc_logits, ctc_losses
from wav2vec2.network.config import ModelConfig
from wav2vec2.network.extractor import n_frames
from wav2vec2.network.model import Wav2Vec2ForCTC
from wav2vec2.run import NAME, UNIT, OptimizerUpdate, Run, Step, batches_of, lengths
from wav2vec2.run_config import SAMPLE_RATE, FinetuneConfig


def main(cfg: FinetuneConfig) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    with started(cfg, NAME, saves=cfg.save) as directory:
        cfg.check_batches(directory.world.size)
        cfg = fitted(cfg, directory, prepared, lambda run, rows: update(run, batches_of(run, rows)), lengths)
        run = prepared(cfg, directory)
        names = ("loss", "targets")
        with Loop(run.state, cfg.every, run.course, names=names, unit=UNIT, **run.watched) as loop:
            run.describe()
            encode, layers = Letters(run.cfg.model.labels).encode, run.cfg.model.conv_layers
            check_labels(run.train_set, encode, lambda samples_B: n_frames(samples_B, layers), SAMPLE_RATE, run.world)
            if loop.owes_validation:
                run.validate(loop, evaluate, score="wer")
            batches = run.batches(loop)
            for epoch in loop.epochs():
                for turns in loop.steps(batches, run.updates(epoch)):
                    step = update(run, turns)
                    loop.did(step.sums_K, *turns, amount=step.seconds)
                    if loop.logs:
                        loss, utterances = loop.totals()
                        values = {"loss": loss / max(1.0, utterances)}
                        loop.log_training(values, learning_rate=step.learning_rate)
                    if cfg.prediction_frequency and loop.progress.step % cfg.prediction_frequency == 0:
                        show_prediction(run, loop, turns[-1])
                    if loop.validates:
                        run.validate(loop, evaluate, score="wer")
                    if loop.saves:
                        run.state.save_step()
        return run.state.progress


def prepared(cfg: FinetuneConfig, directory: RunDirectory) -> Run[FinetuneConfig]:
    """The run, new or as the checkpoint in `directory` says. Raises CheckpointError, ManifestError, ConfigError."""
    torch.manual_seed(cfg.seed)  # the same initial weights in every process
    model = starting_model(cfg, directory)
    cfg = replace(cfg, model=model.wav2vec2.config)
    if not cfg.mask.time_prob:
        model.wav2vec2.mask_embedding.requires_grad_(False)  # data-parallel training would wait for its gradient
    run = Run(cfg, directory, model, finetuning_sets(cfg, directory.log.event))
    thaw(run, run.state.progress.step)
    run.join()
    return run


def starting_model(cfg: FinetuneConfig, directory: RunDirectory) -> Wav2Vec2ForCTC:
    """The network: of the architecture in the checkpoint, else with the weights of cfg.pretrained, else random ones.

    Raises CheckpointError.
    """
    if directory.saved is not None:
        return Wav2Vec2ForCTC(_model_of(directory.saved, cfg), cfg.learning)
    labels, source = labels_of(cfg)
    directory.log.event(f"labels: {source}")
    if cfg.pretrained is None:
        directory.log.event("no pre-trained model: random weights")
        return Wav2Vec2ForCTC(replace(cfg.model, labels=labels), cfg.learning)
    if cfg.from_checkpoint != "architecture":
        model = Wav2Vec2ForCTC(replace(cfg.model, labels=labels), cfg.learning)
        weights = reading.read(cfg.pretrained, head=False).weights
        directory.start_from(model, weights, cfg.pretrained, cfg.from_checkpoint)
        return model
    model = for_finetuning(cfg.pretrained, labels, blank=cfg.model.blank, learning=cfg.learning)
    theirs = replace(cfg, model=model.wav2vec2.config)
    directory.adopted(cfg, theirs, ("model",), keeps=("model.labels",), named="pretrained")
    directory.log.event(f"{cfg.pretrained}: taken over but for the output layer")
    return model


def labels_of(cfg: FinetuneConfig) -> tuple[tuple[str, ...], str]:
    """The labels to be written, and where they come from. Raises ConfigError."""
    if cfg.model.labels:
        return cfg.model.labels, "those of model.labels"
    if cfg.data.dictionary is not None:
        return read_dictionary(cfg.data.dictionary), f"those of {cfg.data.dictionary}"
    beside = [located(source, cfg.data.root).with_name("dict.ltr.txt") for source in cfg.data.train[:1]]
    found = ((read_dictionary(path), f"those of {path}") for path in beside if path.is_file())
    return next(found, (LIBRISPEECH_LABELS, "the English letters of LibriSpeech, since no dictionary is named"))


def finetuning_sets(cfg: FinetuneConfig, log: Callable[[str], None]) -> tuple[FinetuningSet, FinetuningSet | None]:
    """Utterances as batches, to train and to validate on. Raises ManifestError, LanguageError for unknown letters."""
    data, letters = cfg.data, Letters(cfg.model.labels)
    spelling = letters.spelling(
        language=data.language, unknown_letters=data.unknown_letters, normalizes=data.normalize_text
    )

    def dataset(sources: tuple[str, ...], *, training: bool) -> FinetuningSet:
        found = read_utterances(sources, data, cfg.model, training=training, spelling=spelling)
        for message in found.skipped:
            log(f"left out: {message}")
        return FinetuningSet(found.utterances, cfg, letters, training=training)

    train_set = dataset(data.train, training=True)
    validation = dataset(data.validation, training=False) if data.validation else None
    log_letters(spelling, data, log)
    return train_set, validation


def thaw(run: Run[FinetuneConfig], update: int) -> bool:
    """Freezes all but the output layer before cfg.freeze_updates, and nothing from then on; whether anything changed.

    Without a gradient Adam changes nothing; only data-parallel training must know beforehand that none will come.
    """
    learns = update >= run.cfg.freeze_updates
    backbone = [parameter for name, parameter in run.trained.items() if name.startswith("wav2vec2.")]
    if run.cfg.fsdp or all(parameter.requires_grad == learns for parameter in backbone):
        return False
    for parameter in backbone:
        parameter.requires_grad_(learns)
    return True


def update(run: Run[FinetuneConfig], batches: Sequence[Batch]) -> Step:
    """One optimiser step."""
    cfg = run.cfg
    if thaw(run, run.state.progress.step):
        run.join()
    step = OptimizerUpdate(run, batches)
    for batch, seed in step.batches():
        output = ctc_logits(cfg, run.learner.parallel, batch, seed=seed, freeze_encoder=step.step < cfg.freeze_updates)
        loss = ctc_losses(cfg, output, batch).sum()
        step.backward(loss, loss.detach().float()[None])
    return step.finished()


@torch.inference_mode()
def show_prediction(run: Run[FinetuneConfig], loop: Loop, batch: Batch) -> None:
    """The first utterance of a batch, without what training hides of it: what was said and what the model writes."""
    assert isinstance(batch, FinetuningBatch)
    run.model.eval()
    letters, cfg = Letters(run.cfg.model.labels), run.cfg
    first = batch._replace(
        audio_BN=batch.audio_BN[:1], samples_B=batch.samples_B[:1], mask_BS=None, channel_mask_BD=None
    )
    output = ctc_logits(cfg, run.model, on_device(first, run.world.device))
    assert output.frames_B is not None
    (best,) = ctc.greedy(output.logits_BSV, output.frames_B, blank=cfg.model.blank)
    reference = batch.targets_BU[0, : batch.target_lengths_B[0]].tolist()
    log_prediction(loop.log.event, letters.decode(reference), letters.decode(best.labels))


@torch.inference_mode()
def evaluate(cfg: FinetuneConfig, model: nn.Module, dataset: FinetuningSet, world: World) -> dict[str, float]:
    """Word and character error rate of greedy transcripts, and the mean CTC loss, over all utterances."""
    model.eval()
    letters, mine = Letters(cfg.model.labels), list[ScoredUtterance]()
    plans = validation_plans(dataset.sizes, cfg.data.max_tokens_valid, ranks=world.size, rank=world.rank)
    for batch in loader(dataset, plans, workers=cfg.data.workers):
        if not batch.counts:
            continue
        batch = on_device(batch, world.device)
        output = ctc_logits(cfg, model, batch)
        assert output.frames_B is not None
        best = ctc.greedy(output.logits_BSV, output.frames_B, blank=cfg.model.blank)
        hypotheses = [letters.decode(decoded.labels) for decoded in best]
        mine += map(ScoredUtterance, batch.indices, hypotheses, ctc_losses(cfg, output, batch).tolist())
    return scored(dataset.utterances, mine, world).rates


def _model_of(saved: dict[str, Any], cfg: FinetuneConfig) -> ModelConfig:
    """The architecture of the run that is resumed. Raises CheckpointError."""
    try:
        model = config.build(ModelConfig, saved["config"]["model"], str(cfg.output_dir))
    except (KeyError, TypeError, ConfigError) as error:
        raise CheckpointError(f"{cfg.output_dir}: its newest checkpoint describes no model: {error}") from None
    if not model.labels:
        raise CheckpointError(f"{cfg.output_dir}: its checkpoints are not of fine-tuning; take another --output_dir")
    if cfg.data.dictionary is not None and read_dictionary(cfg.data.dictionary) != model.labels:
        raise CheckpointError(
            f"{cfg.output_dir}: its newest checkpoint writes other labels than {cfg.data.dictionary} lists; "
            "take another --output_dir, or the dictionary it was made with"
        )
    return model


if __name__ == "__main__":
    with config.reported(*EXPECTED):
        main(config.command_line(FinetuneConfig, description=__doc__ or ""))

"""Fine-tuning for recognition with CTC.

    python -m wav2vec2.finetune configs/wav2vec2/finetune_base_960h.toml --data.root DIR --pretrained base.pt

On several GPUs: `torchrun --nproc_per_node 8 -m wav2vec2.finetune …`. The loss is CTC's per utterance, in nats.

Shapes: B utterances, N samples, S frames, U target labels, V labels.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import ctc
from common import config
from common.checkpoint import CheckpointError
from common.config import ConfigError
from common.distributed import World
from common.metrics import ErrorCount, character_errors, word_errors
from common.precision import autocast
from wav2vec2.checkpoints.checkpoint_import import LIBRISPEECH_LABELS
from wav2vec2.checkpoints.loading import for_finetuning
from wav2vec2.checkpoints.state import Progress
from wav2vec2.corpus.batches import (
    FinetuningBatch,
    FinetuningSet,
    PlannedDataset,
    loader,
    on_device,
    validation_plans,
)
from wav2vec2.corpus.letters import Letters, read_dictionary
from wav2vec2.corpus.sources import located, read_utterances
from wav2vec2.network.config import ModelConfig
from wav2vec2.network.model import Logits, Masked, Wav2Vec2ForCTC
from wav2vec2.run_config import DataConfig, FinetuneConfig
from wav2vec2.training import EXPECTED_ERRORS, Loss, train


def main(cfg: FinetuneConfig) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    return train(cfg, build)


def build(cfg: FinetuneConfig, saved: dict[str, Any] | None) -> tuple["FineTuning", list[str]]:
    """The task with the weights that it starts from, and what is to be told of them. Raises CheckpointError."""
    if saved is not None:
        cfg = replace(cfg, model=_model_of(saved, cfg))
        return FineTuning(cfg, Wav2Vec2ForCTC(cfg.model, cfg.learning)), []
    labels = cfg.model.labels or labels_of(cfg.data)
    if cfg.pretrained is None:
        cfg = replace(cfg, model=replace(cfg.model, labels=labels))
        return FineTuning(cfg, Wav2Vec2ForCTC(cfg.model, cfg.learning)), ["no pre-trained model: random weights"]
    model = for_finetuning(cfg.pretrained, labels, blank=cfg.model.blank, learning=cfg.learning)
    cfg = replace(cfg, model=model.wav2vec2.config)
    return FineTuning(cfg, model), [f"{cfg.pretrained}: taken over but for the output layer"]


def labels_of(data: DataConfig) -> tuple[str, ...]:
    """The labels to be written: those of a dictionary, or LibriSpeech's letters. Raises ConfigError."""
    if data.dictionary is not None:
        return read_dictionary(data.dictionary)
    beside = [located(source, data.root).with_name("dict.ltr.txt") for source in data.train[:1]]
    return next((read_dictionary(path) for path in beside if path.is_file()), LIBRISPEECH_LABELS)


class FineTuning:
    """What was said? Only the output layer learns at first, then all but the extractor."""

    score = "wer"

    def __init__(self, cfg: FinetuneConfig, model: Wav2Vec2ForCTC):
        self.cfg, self.model = cfg, model
        self.letters = Letters(cfg.model.labels)
        if not cfg.mask.time_prob:
            model.wav2vec2.mask_embedding.requires_grad_(False)  # data-parallel training would wait for its gradient
        self.backbone = [parameter for parameter in model.wav2vec2.parameters() if parameter.requires_grad]

    def dataset(self, sources: tuple[str, ...], *, training: bool) -> tuple[PlannedDataset, list[str]]:
        """Utterances as batches, and what was left out. Raises ManifestError."""
        cfg = self.cfg
        found = read_utterances(sources, cfg.data, cfg.model, training=training, letters=self.letters)
        return FinetuningSet(found.utterances, cfg, self.letters, training=training), found.skipped

    def loss(self, network: nn.Module, batch: FinetuningBatch, *, update: int, seed: int) -> Loss:
        """Of a batch on the device; `seed` is the same in all processes."""
        output = self._logits(network, batch, seed=seed, freeze_encoder=update < self.cfg.freeze_updates)
        value = self._losses(output, batch).sum()
        return Loss(value, value.detach().float()[None])

    def described(self, sums: Sequence[float], n_targets: float, update: int) -> dict[str, float]:
        """What the log says of sums_K."""
        return {"loss": sums[0] / n_targets}

    def prepare(self, update: int) -> bool:
        """Freezes all but the output layer before cfg.freeze_updates.

        Without a gradient Adam changes nothing; only data-parallel training must know beforehand that none will come.
        """
        learns = update >= self.cfg.freeze_updates
        if self.cfg.fsdp or all(parameter.requires_grad == learns for parameter in self.backbone):
            return False
        for parameter in self.backbone:
            parameter.requires_grad_(learns)
        return True

    @torch.inference_mode()
    def validated(self, model: nn.Module, dataset: PlannedDataset, world: World) -> dict[str, float]:
        """Mean CTC loss, word and character error rate of greedy transcripts, over all utterances.

        The loss of one whose labels do not fit its frames counts as 0.
        """
        model.eval()
        data = self.cfg.data
        mine: list[_Result] = []
        plans = validation_plans(dataset.sizes, data.max_tokens_valid, ranks=world.size, rank=world.rank)
        for batch in loader(dataset, plans, workers=data.workers):
            if not batch.counts:
                continue
            batch = on_device(batch, world.device)
            output = self._logits(model, batch)
            assert output.frames_B is not None
            best = ctc.greedy(output.logits_BSV, output.frames_B, blank=self.cfg.model.blank)
            hypotheses = [self.letters.decode(decoded.labels) for decoded in best]
            mine += map(_Result, batch.indices, self._losses(output, batch).tolist(), hypotheses)
        results = sorted(result for part in world.gather(mine) for result in part)
        references = [dataset.utterances[result.row].text for result in results]
        words, characters = (
            count(references, [result.hypothesis for result in results]) for count in (word_errors, character_errors)
        )
        return _rates(words, characters) | {"loss": sum(result.loss for result in results) / max(1, len(results))}

    def _logits(
        self, network: nn.Module, batch: FinetuningBatch, *, seed: int = 0, freeze_encoder: bool = False
    ) -> Logits:
        masked = Masked(batch.mask_BS, batch.channel_mask_BD)
        with autocast(batch.audio_BN.device, self.cfg.precision):
            return network(batch.audio_BN, batch.samples_B, masked=masked, seed=seed, freeze_encoder=freeze_encoder)

    def _losses(self, output: Logits, batch: FinetuningBatch) -> Tensor:
        """[B]"""
        assert output.frames_B is not None
        return ctc.ctc_loss(
            output.logits_BSV,
            batch.targets_BU,
            output.frames_B,
            batch.target_lengths_B,
            blank=self.cfg.model.blank,
            reduction="none",
            zero_infinity=True,
            batch_first=True,
        )


class _Result(NamedTuple):
    row: int
    loss: float
    hypothesis: str


def _rates(words: ErrorCount, characters: ErrorCount) -> dict[str, float]:
    return {"wer": words.rate, "cer": characters.rate}


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
    with config.reported(*EXPECTED_ERRORS, OSError):
        main(config.command_line(FinetuneConfig, description=__doc__ or ""))

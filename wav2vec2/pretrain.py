"""Self-supervised pre-training: `python -m wav2vec2.pretrain configs/wav2vec2/pretrain_base.toml --data.root DIR`.

On several GPUs: `torchrun --nproc_per_node 8 -m wav2vec2.pretrain …`. Losses are per masked frame, in nats; chance is
ln(1 + distractors) for the contrastive one, and 1 / (1 + distractors) for the accuracy.

Shapes: Q masked frames, G codebooks, V entries of each, K sums that are logged.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from common import config
from common.checkpoint import CheckpointError
from common.distributed import World
from common.precision import autocast
from common.seeds import mixed
from wav2vec2.checkpoints.loading import load_model
from wav2vec2.checkpoints.state import Progress
from wav2vec2.contrastive.model import PretrainingLoss, Wav2Vec2ForPretraining
from wav2vec2.corpus.batches import (
    PlannedDataset,
    PretrainingBatch,
    PretrainingSet,
    loader,
    on_device,
    validation_plans,
)
from wav2vec2.corpus.sources import read_utterances
from wav2vec2.run_config import PretrainConfig
from wav2vec2.training import EXPECTED_ERRORS, Loss, train

SUMS = ("loss", "contrastive", "diversity", "penalty", "accuracy", "code_perplexity", "probability_perplexity")


def main(cfg: PretrainConfig) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    return train(cfg, build)


def build(cfg: PretrainConfig, saved: dict[str, Any] | None) -> tuple["Pretraining", list[str]]:
    """The task with the weights that it starts from, and what is to be told of them. Raises CheckpointError."""
    if saved is not None:
        _check_same(cfg, saved["config"])
    if cfg.checkpoint is None or saved is not None:
        return Pretraining(cfg, Wav2Vec2ForPretraining(cfg.model, cfg.learning)), []
    model = load_model(cfg.checkpoint, learning=cfg.learning)
    if not isinstance(model, Wav2Vec2ForPretraining):
        raise CheckpointError(
            f"{cfg.checkpoint}: expected a pre-trained model with its quantiser; found {type(model).__name__}"
        )
    if differences := _differences(config.to_dict(model.wav2vec2.config), config.to_dict(cfg.model)):
        raise CheckpointError(
            f"{cfg.checkpoint}: expected the architecture that the configuration describes; found {differences}"
        )
    return Pretraining(cfg, model), [f"{cfg.checkpoint}: weights taken over"]


class Pretraining:
    """Which of the quantised features belongs to a masked frame?"""

    score = "loss"

    def __init__(self, cfg: PretrainConfig, model: Wav2Vec2ForPretraining):
        self.cfg, self.model = cfg, model

    def dataset(self, sources: tuple[str, ...], *, training: bool) -> tuple[PlannedDataset, list[str]]:
        """Utterances as batches, and what was left out. Raises ManifestError."""
        found = read_utterances(sources, self.cfg.data, self.cfg.model, training=training)
        return PretrainingSet(found.utterances, self.cfg), found.skipped

    def loss(self, network: nn.Module, batch: PretrainingBatch, *, update: int, seed: int) -> Loss:
        """Of a batch on the device; `seed` is the same in all processes."""
        found = self._forward(network, batch, update=update, seed=seed, noise_QGV=self._noise(batch))
        return Loss(found.total, _sums(found))

    def described(self, sums: Sequence[float], n_targets: float, update: int) -> dict[str, float]:
        """What the log says of sums_K."""
        means = {name: total / n_targets for name, total in zip(SUMS, sums, strict=True)}
        return means | {"temperature": self.cfg.temperature.at(update)}

    def prepare(self, update: int) -> bool:
        """Nothing is ever frozen but what the configuration freezes."""
        return False

    @torch.inference_mode()
    def validated(self, model: nn.Module, dataset: PlannedDataset, world: World) -> dict[str, float]:
        """Means over all masked frames, which are the same in every validation."""
        model.eval()
        totals_K = torch.zeros(len(SUMS) + 1, dtype=torch.float64)
        data = self.cfg.data
        plans = validation_plans(dataset.sizes, data.max_tokens_valid, ranks=world.size, rank=world.rank)
        for batch in loader(dataset, plans, workers=data.workers):
            if batch.counts:
                found = self._forward(model, on_device(batch, world.device), update=0, seed=0)
                totals_K += torch.cat([_sums(found).cpu(), torch.tensor([float(found.frames)])])
        *sums, n_frames = torch.stack(world.gather(totals_K)).sum(0).tolist()
        return {name: total / max(1.0, n_frames) for name, total in zip(SUMS, sums, strict=True)}

    def _forward(
        self,
        network: nn.Module,
        batch: PretrainingBatch,
        *,
        update: int,
        seed: int,
        noise_QGV: Tensor | None = None,
    ) -> PretrainingLoss:
        cfg = self.cfg
        with autocast(batch.audio_BN.device, cfg.precision):
            return network(
                batch.audio_BN,
                batch.samples_B,
                batch.targets,
                objective=cfg.objective,
                temperature=cfg.temperature.at(update),
                channel_mask_BD=batch.channel_mask_BD,
                seed=seed,
                noise_QGV=noise_QGV,
            )

    def _noise(self, batch: PretrainingBatch) -> Tensor:
        """Gumbel's, a function of each sub-batch's seed: the same whatever it goes through the network with."""
        device, shape = batch.audio_BN.device, (self.cfg.model.codebooks, self.cfg.model.codebook_size)
        noise = []
        for part, seed in zip(batch.targets, batch.seeds, strict=True):
            generator = torch.Generator(device).manual_seed(mixed(seed, 2))
            uniform_QGV = torch.empty(part.positions_BM.numel(), *shape, device=device)
            noise.append(-uniform_QGV.exponential_(generator=generator).log())
        return torch.cat(noise)


def _check_same(cfg: PretrainConfig, saved: dict[str, Any]) -> None:
    """Weights may fit a model of other heads, strides or shortening, for which they were not trained."""
    if "objective" not in saved:
        raise CheckpointError(f"{cfg.output_dir}: its checkpoints are not of pre-training; take another --output_dir")
    if differences := _differences(saved["model"], config.to_dict(cfg.model)):
        raise CheckpointError(
            f"{cfg.output_dir}: its newest checkpoint does not fit this configuration: it has {differences}; "
            "take another --output_dir, or the configuration it was made with"
        )


def _differences(found: dict[str, Any], expected: dict[str, Any]) -> str:
    pairs = ((name, found.get(name), expected[name]) for name in expected if found.get(name) != expected[name])
    return ", ".join(f"model.{name} = {theirs!r} in place of {ours!r}" for name, theirs, ours in pairs)


def _sums(found: PretrainingLoss) -> Tensor:
    """In the order of SUMS."""
    perplexities = (found.code_perplexity * found.frames, found.probability_perplexity * found.frames)
    parts = (found.total.detach(), found.contrastive, found.diversity, found.penalty, found.correct, *perplexities)
    return torch.stack([part.float() for part in parts])


if __name__ == "__main__":
    with config.reported(*EXPECTED_ERRORS, OSError):
        main(config.command_line(PretrainConfig, description=__doc__ or ""))

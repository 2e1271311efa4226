"""How well a model does on validation clips, over all processes."""

import torch

from common.data.batching import evaluation_batches
from common.data.manifest import Utterances
from common.devices.distributed import World
from common.features import LogMel
from fastpitch.acoustic import data
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.data import ClipDataset
from fastpitch.acoustic.model import FastPitch
from fastpitch.acoustic.objective import Counts, Parts, counts_of, fastpitch_objective, weighted

# As the published logs call them.
NAMES = {
    "mel": "mel_loss",
    "duration": "duration_predictor_loss",
    "pitch": "pitch_loss",
    "energy": "energy_loss",
    "alignment": "attn_loss",
    "binarisation": "kl_loss",
    "duration_error": "dur_error",
    "alignment_entropy": "attn_entropy",
    "refiner": "refiner_loss",
}


def named(losses: list[float], more: tuple[str, ...] = ()) -> dict[str, float]:
    """The loss, its parts in their order, by the names that logs have, and as many of `more` as there are numbers."""
    return dict(zip(("loss", *(NAMES[part] for part in Parts._fields), *more), losses, strict=False))


@torch.no_grad()
def evaluate(model: FastPitch, log_mel: LogMel, dataset: ClipDataset, world: World, cfg: Config) -> dict[str, float]:
    """The loss (without its binarisation) and its parts, of all clips together, conditioned as in training."""
    model.eval()
    log_mel.eval()
    seconds = Utterances.of(dataset.utterances).seconds
    batches = evaluation_batches(seconds, batch_size=cfg.batch_size, ranks=world.size, rank=world.rank)
    one = torch.ones((), device=world.device)
    sums, counts = torch.zeros(len(Parts._fields), device=world.device), torch.zeros(3, device=world.device)
    for batch in data.loader(dataset, batches, workers=cfg.data.workers):
        if not batch.indices:
            continue
        loss = fastpitch_objective(
            model, log_mel, batch, cfg,
            pitch_mean=model.pitch_mean, pitch_std=model.pitch_std, counts=Counts(one, one, one),
            binarisation_weight=0.0,
        )  # fmt: skip
        sums += torch.stack(loss.parts)
        counts += counts_of(batch).to(world.device)
    parts = Parts(*world.sum(sums).unbind()).divided(Counts(*world.sum(counts).clamp(min=1).unbind()))
    return named([float(value) for value in (weighted(parts, cfg.loss, 0.0), *parts)])

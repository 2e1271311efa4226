"""A model from whatever file or folder holds one."""

from pathlib import Path

import torch

from common.published import hub
from common.published.nemo import archive
from common.runs import checkpoint
from fastconformer.checkpoints import huggingface, nemo, own
from fastconformer.checkpoints.imported import TrainedModel
from fastconformer.network.model import Model


def read(path: Path, *, ema: bool | None = None) -> TrainedModel:
    """A .nemo archive, a folder of transformers or a checkpoint of ours. Raises CheckpointError.

    `ema` is of ours alone: take the averaged weights; None takes them where there are any.
    """
    path = hub.located(path)
    with checkpoint.usable(path):
        if archive.folder_of(path) is not None:
            return nemo.read(path)
        if path.is_dir():
            return huggingface.read(path)
        return own.read(path, ema=ema) if own.is_own(path) else nemo.read(path)


def read_model(path: Path, *, ema: bool | None = None) -> tuple[Model, TrainedModel]:
    """The model at `path`, on the CPU in evaluation mode, and what belongs to it. Raises CheckpointError."""
    return _made(path, read(path, ema=ema))


def read_aligner(path: Path) -> tuple[Model, TrainedModel]:
    """The CTC model that the archive of an attention decoder holds besides. Raises CheckpointError."""
    with checkpoint.usable(path):
        return _made(path, nemo.read(path, aligner=True))


def _made(path: Path, imported: TrainedModel) -> tuple[Model, TrainedModel]:
    with checkpoint.usable(path), checkpoint.unfilled():
        model = Model(imported.model, imported.features.mel_bins)
    counters = {name: torch.tensor(0) for name in model.state_dict() if name.endswith("num_batches_tracked")}
    with checkpoint.usable(path):
        checkpoint.fill(model, counters | imported.weights, path)
    return model.eval(), imported

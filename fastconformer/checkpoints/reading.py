"""A model from whatever file or folder holds one."""

from pathlib import Path

from common.published import hub
from common.runs import checkpoint
from fastconformer.checkpoints import huggingface, nemo, own
from fastconformer.checkpoints.imported import TrainedModel
from fastconformer.network.model import Model


def read(path: Path, *, ema: bool | None = None) -> TrainedModel:
    """A .nemo archive, a folder of transformers or a checkpoint of ours. Raises CheckpointError.

    `ema` is of ours alone: take the averaged weights; None takes them where there are any.
    """
    path, form = hub.stored(path)
    with checkpoint.usable(path):
        match form:
            case "archive":
                return nemo.read(path)
            case "folder":
                return huggingface.read(path)
            case "file":
                return own.read(path, ema=ema)


def read_model(path: Path, *, ema: bool | None = None) -> tuple[Model, TrainedModel]:
    """The model at `path`, on the CPU in evaluation mode, and what belongs to it. Raises CheckpointError."""
    return _made(path, read(path, ema=ema))


def read_aligner(path: Path) -> tuple[Model, TrainedModel]:
    """The CTC model that the archive of an attention decoder holds besides. Raises CheckpointError."""
    with checkpoint.usable(path):
        return _made(path, nemo.read(path, aligner=True))


def _made(path: Path, imported: TrainedModel) -> tuple[Model, TrainedModel]:
    model = checkpoint.made(lambda: Model(imported.model, imported.features.mel_bins), imported.weights, path)
    return model, imported

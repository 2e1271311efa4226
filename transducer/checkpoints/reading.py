"""A model from whatever file or folder holds one."""

import re
from pathlib import Path

import torch

from common import hub
from common.checkpoint import CheckpointError
from transducer.checkpoints import huggingface, nemo, own
from transducer.checkpoints.imported import Imported
from transducer.network.model import Model


def read(path: Path, *, ema: bool | None = None) -> Imported:
    """A .nemo archive, a folder of transformers or a checkpoint of ours. Raises CheckpointError.

    `ema` is of ours alone: take the averaged weights; None takes them where there are any.
    """
    path = hub.located(path)
    try:
        if path.is_dir():
            return huggingface.read(path)
        return own.read(path, ema=ema) if own.is_own(path) else nemo.read(path)
    except CheckpointError:
        raise
    except ValueError as error:  # settings that are numbers, and do not go together
        raise CheckpointError(f"{path}: describes no model that can be: {error}") from None


def read_model(path: Path, *, ema: bool | None = None) -> tuple[Model, Imported]:
    """The model at `path`, on the CPU in evaluation mode, and what belongs to it. Raises CheckpointError."""
    imported = read(path, ema=ema)
    with torch.device("meta"):  # the weights come from the file: do not initialise them first
        model = Model(imported.model, imported.features.mel_bins)
    counters = {name: torch.tensor(0) for name in model.state_dict() if name.endswith("num_batches_tracked")}
    try:
        model.load_state_dict(counters | imported.weights, assign=True)
    except RuntimeError as error:
        problem = re.sub(r"\s+", " ", str(error)).partition(": ")[2][:300]
        raise CheckpointError(f"{path}: its weights do not fit its description: {problem}") from None
    return model.eval(), imported

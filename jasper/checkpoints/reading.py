"""A checkpoint from whatever file or name of the hub holds one: ours, DeepLearningExamples', NeMo's."""

from pathlib import Path

from common.published import hub
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError, Imported
from jasper.checkpoints import nemo, own, published
from jasper.config import Config
from jasper.network.model import Jasper


def read(path: str | Path, *, configuration: Config | None = None, is_start: bool = False) -> Imported[Config]:
    """What the checkpoint at `path` holds. Raises CheckpointError.

    `configuration` is taken in place of what it says of itself, or what can be read off its weights. `is_start`: as the
    start of a training, whose labels count, so that its own need not be known.
    """
    path, form = hub.stored(path)
    with checkpoint.usable(path):
        state = {} if form == "archive" else checkpoint.load(path)
        if state.get("format") == own.FORMAT:
            imported = own.read(state, path, configuration=configuration)
        elif form == "archive":
            imported = nemo.read(path, configuration=configuration)
        else:
            imported = published.read(state, path, configuration=configuration, is_start=is_start)
        described = sum(block.repeat for block in imported.config.model.blocks)
        if described > len(imported.weights):
            raise CheckpointError(f"{path}: describes {described} layers, and has {len(imported.weights)} weights")
        return imported


def read_model(
    path: str | Path, *, ema: bool | None = None, configuration: Config | None = None
) -> tuple[Jasper, Imported[Config]]:
    """The model at `path`, on the CPU in evaluation mode, and what belongs to it. Raises CheckpointError.

    `ema`: take the averaged weights; None takes them where there are any.
    """
    imported = read(path, configuration=configuration)
    cfg, weights = imported.config, imported.chosen(ema, path)
    return checkpoint.made(lambda: Jasper(cfg.model, cfg.features.mel_bins), weights, path), imported

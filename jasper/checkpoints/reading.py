"""A checkpoint from whatever file or name of the hub holds one: ours, DeepLearningExamples', NeMo's."""

import tarfile
from pathlib import Path

from common.published import hub
from common.published.nemo import archive
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError, Imported
from jasper.checkpoints import nemo, own, published
from jasper.config import Config


def read(path: str | Path, *, configuration: Config | None = None, is_start: bool = False) -> Imported[Config]:
    """What the checkpoint at `path` holds. Raises CheckpointError.

    `configuration` is taken in place of what it says of itself, or what can be read off its weights. `is_start`: as the
    start of a training, whose labels count, so that its own need not be known.
    """
    path = hub.located(path)
    with checkpoint.usable(path):
        if path.suffix == ".nemo" or archive.folder_of(path) or (path.is_file() and tarfile.is_tarfile(path)):
            imported = nemo.read(path)
            return imported if configuration is None else imported._replace(config=configuration)
        state = checkpoint.load(path)
        if state.get("format") == own.FORMAT:
            imported = own.read(state, path, configuration=configuration)
        else:
            imported = published.read(state, path, configuration=configuration, is_start=is_start)
        described = sum(block.repeat for block in imported.config.model.blocks)
        if described > len(imported.weights):
            raise CheckpointError(f"{path}: describes {described} layers, and has {len(imported.weights)} weights")
        return imported

"""A checkpoint from whatever file or name of the hub holds one: ours, DeepLearningExamples', NeMo's."""

import tarfile
from pathlib import Path

from common import checkpoint, hub
from jasper import checkpoint_import, nemo_import
from jasper.checkpoint_import import Imported
from jasper.config import Config


def read(path: str | Path, *, configuration: Config | None = None) -> Imported:
    """What the checkpoint at `path` holds. Raises CheckpointError.

    `configuration` is taken in place of what it says of itself, or what can be read off its weights.
    """
    path = hub.located(path)
    if path.suffix == ".nemo" or (path.is_file() and tarfile.is_tarfile(path)):
        imported = nemo_import.read(path)
        return imported if configuration is None else imported._replace(config=configuration)
    return checkpoint_import.read(checkpoint.load(path), path, configuration=configuration)

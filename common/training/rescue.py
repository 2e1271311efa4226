"""What a training that ends by an error saves, and what its user reads."""

import contextlib
import traceback
from typing import Any

from common.config import ConfigError
from common.data.batching import BatchingError
from common.data.loading import LoadingError
from common.data.manifest import ManifestError
from common.runs.checkpoint import CheckpointError
from common.training.fitting import is_out_of_memory, too_large
from common.training.state import TrainingError, TrainingState

EXPECTED = (TrainingError, LoadingError, BatchingError, ManifestError, CheckpointError, ConfigError)
"""Errors whose message is for the user."""


def rescued(error: Exception, state: TrainingState, *, is_whole: bool, batch: Any) -> Exception:
    """`error`, or what a user should read of it, after the state was saved, if it `is_whole`: after a step, not within.

    `batch`: the last one that a step was given. Of an error that nobody expected, the traceback goes into a file.
    """
    cause, directory, progress = error, state.directory, state.progress
    # Before the first step there is nothing to lose, and a checkpoint would fix what a user is about to mend.
    if is_whole and progress.step and not state.is_saved:
        try:
            state.save_alone()
        except Exception as unsaved:  # whatever it is, the user reads what ended the run
            cause = unsaved if isinstance(error, OSError) and isinstance(unsaved, OSError) else error
    safe = directory.safe_step()
    if is_out_of_memory(error) and not is_whole:
        told = too_large(batch, state.cfg, directory, progress.step)
        cause = error = TrainingError(f"{told}; {safe}")
    with contextlib.suppress(OSError):
        directory.log.event(f"ended by an error: {safe}")
    if isinstance(error, EXPECTED):
        return error
    if directory.last_saved is not None:
        safe += ", and the run goes on from there"
    if isinstance(cause, OSError):
        return TrainingError(f"{cause.filename or directory.folder}: {cause.strerror or cause}; {safe}")
    world = directory.world
    path = directory.folder / f"error_rank{world.rank}.txt"
    with contextlib.suppress(OSError):
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    first = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    if world.pulse is not None and isinstance(error, RuntimeError):  # of an exchange, which names nobody
        first = world.pulse.lost() or first
    return TrainingError(f"{first}; {safe}; what Python says is in {path}")

"""The folder of a Triton that runs, locked by the process that started it.

A process that is killed leaves its folder and its shared memory behind; the next one that starts a Triton removes them.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "speech-models-triton-"
LOCK = "lock"
MEMORY = Path("/dev/shm")  # by which Triton and the stub of its back end share tensors


class Folder:
    """A new one in the folder of temporary files, which is this process's until `remove`."""

    def __init__(self) -> None:
        """Also removes those whose processes have ended."""
        for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            _remove_without_owner(left)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = (self.path / f"{LOCK}.new").open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.path / f"{LOCK}.new").rename(self.path / LOCK)  # nobody finds it before it is locked

    def remove(self) -> None:
        """Removes it, and the shared memory that is called after it."""
        _remove(self.path)
        self._lock.close()


def _remove_without_owner(folder: Path) -> None:
    with contextlib.suppress(OSError):  # of others, in use, or just removed
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return
        with (folder / LOCK).open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for shared in MEMORY.glob(f"{folder.name}*"):
        shared.unlink(missing_ok=True)

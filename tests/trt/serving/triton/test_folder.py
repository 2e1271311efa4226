"""Folders and shared memory of servers that are no more."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from trt.serving.triton import folder
from trt.serving.triton.folder import LOCK, PREFIX, Folder

OWNER = """
import sys
from trt.serving.triton.folder import Folder
own = Folder()
print(own.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Where temporary files and shared memory go."""
    for name in ("tmp", "shm"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(folder, "MEMORY", tmp_path / "shm")
    return tmp_path


def test_what_a_killed_process_left_is_removed_by_the_next_and_nothing_else(places):
    environment = {**os.environ, "TMPDIR": str(places / "tmp")}
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        left = Path(owner.stdout.readline().strip())
        (places / "shm" / f"{left.name}_region").touch()
        (places / "shm" / "another").touch()
        (places / "tmp" / f"{PREFIX}of_somebody").mkdir()  # without a lock: no folder of ours
        during = Folder()
        assert left.exists()
        assert (places / "shm" / f"{left.name}_region").exists()
        owner.kill()
        owner.wait()
        after = Folder()
    assert not left.exists()
    assert [path.name for path in (places / "shm").iterdir()] == ["another"]
    for own in (during, after):
        assert (own.path / LOCK).exists()
        own.remove()
    assert [path.name for path in (places / "tmp").iterdir()] == [f"{PREFIX}of_somebody"]

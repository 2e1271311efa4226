"""Where the tests find real speech and reference outputs, which are not part of the repository."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("SPEECH_SHARED", Path(__file__).resolve().parents[2] / "shared"))


def shared(name: str) -> Path:
    """Path of `name` under the folder of shared test data; skips the test with a message where it is absent."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not here: set SPEECH_SHARED to the folder that holds data/ and golden/")
    return path

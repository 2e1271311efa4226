"""Where the tests find real speech and reference outputs, which are not part of the repository."""

import os
from pathlib import Path

import pytest

from common.data.lists.index import RecordError
from common.data.utterance import Utterance

SHARED = Path(os.environ.get("SPEECH_SHARED", Path(__file__).resolve().parents[2] / "shared"))


def shared(name: str) -> Path:
    """Path of `name` under the folder of shared test data; skips the test with a message where it is absent."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not here: set SPEECH_SHARED to the folder that holds data/ and golden/")
    return path


class OneDamaged(list[Utterance]):
    """Utterances of an index in which the record of number 1 is damaged."""

    def __getitem__(self, index):
        if index == 1:
            raise RecordError("data.index: damaged: number 1 in it")
        return super().__getitem__(index)

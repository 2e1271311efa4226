"""The data of toy trainings, made once for each file."""

from pathlib import Path

import pytest

from tests.fastpitch.vocoders.corpus import write_corpus


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))

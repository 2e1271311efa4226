"""The data of toy trainings and a recogniser with random weights, made once for each file."""

from pathlib import Path

import pytest

from tests.jasper.runs import write_corpus
from tests.jasper.tiny import save_tiny


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model") / "tiny.pt")

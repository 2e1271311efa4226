"""The native library is built once before the tests here, where there is a compiler; the data of toy trainings."""

from pathlib import Path

import pytest

from ctc.native import build
from fastconformer.transducer._library import LIBRARY
from tests.jasper.runs import write_corpus


@pytest.fixture(scope="session", autouse=True)
def native_library() -> None:
    build(LIBRARY)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))

"""The native library is built once before the tests here, where there is a compiler."""

import pytest

from ctc.native import build
from fastconformer.transducer._library import LIBRARY


@pytest.fixture(scope="session", autouse=True)
def native_library() -> None:
    build(LIBRARY)

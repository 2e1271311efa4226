"""The native library is built once before the tests of this folder, where there is a compiler."""

import pytest

from ctc.build import build


@pytest.fixture(scope="session", autouse=True)
def native_library() -> None:
    build()

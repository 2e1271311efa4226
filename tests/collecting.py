"""`pytest -p tests.collecting`: garbage is collected at every chance, so that generators are closed, and finalisers and
callbacks of weak references run, in the midst of everything and in whatever thread."""

import gc

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """After the hook of conftest, which collects seldom."""
    gc.set_threshold(1)

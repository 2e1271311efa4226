import pytest

from fastconformer.transducer._decoder_library import functions


@pytest.fixture
def native() -> None:
    """Skips the test where there is no native library."""
    if functions() is None:
        pytest.skip("no compiler")

import pytest

from tests.wav2vec2 import runs


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return runs.write_corpus(tmp_path_factory.mktemp("corpus"))

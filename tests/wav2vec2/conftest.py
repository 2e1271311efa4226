import pytest
import torch

from tests.wav2vec2 import runs


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return runs.write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def one_thread():
    """Sums depend on the number of threads: runs that must agree bitwise, in whatever process, have one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)

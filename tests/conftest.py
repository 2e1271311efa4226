"""Tests marked `gpu` are skipped where torch sees no GPU. A fixture sets the number of threads."""

import pytest
import torch


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip(f"torch {torch.__version__} sees no GPU")


@pytest.fixture
def one_thread():
    """Sums depend on the number of threads: runs that must agree bitwise, in whatever process, have one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)

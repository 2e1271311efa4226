"""Tests marked `gpu` are skipped where torch sees no GPU."""

import pytest
import torch


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip(f"torch {torch.__version__} sees no GPU")

"""Makes the device known when tests are collected: autograd starts a thread per device at its first backward pass."""

import pytest
import torch

from tests.device import mirror

try:
    mirror.load()
    why_not = None
except mirror.UnavailableError as error:
    why_not = str(error)


@pytest.fixture
def device(one_thread: None) -> torch.device:
    """The device for tests; skips the test with a message where there can be none."""
    if why_not is not None:
        pytest.skip(why_not)
    return mirror.DEVICE

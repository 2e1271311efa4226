"""Makes the device known when tests are collected: autograd starts a thread per device at its first backward pass."""

from types import SimpleNamespace

import pytest
import torch

from common.convolution import products
from ctc.alignment import monotonic
from ctc.bindings import _compiled_loss, _loss_library
from fastconformer.transducer import decoder as transducer_decoder
from fastconformer.transducer.loss import _loss_library as transducer_loss_library
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


@pytest.fixture
def plain_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU computes as a device for which there are no kernels: plainly, with torch alone."""
    monkeypatch.setattr(_loss_library, "is_available", lambda: False)
    monkeypatch.setattr(_compiled_loss, "function", lambda: None)
    monkeypatch.setattr(monotonic, "_native", SimpleNamespace(load=lambda: None))
    for uses_kernels in (transducer_loss_library, transducer_decoder):
        monkeypatch.setattr(uses_kernels, "functions", lambda: None)
    monkeypatch.setattr(products, "runs_eagerly", lambda x: False)

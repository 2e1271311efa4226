"""The native libraries are built once before the tests here: where there are compilers, and GPUs for CUDA's."""

import os

import pytest
import torch

from ctc.bindings._library import LIBRARY
from ctc.loss import function as loss
from ctc.native import build

# What torch wants of cuBLAS before it multiplies on a GPU with deterministic algorithms; read when CUDA starts.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@pytest.fixture(scope="session", autouse=True)
def native_library() -> None:
    build(LIBRARY)


DEVICES = [
    "cpu",
    "cpu, without the compiled node",
    pytest.param(
        "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
    ),
]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a loss is computed, for the suite of all implementations: also on a CPU, without the compiled node."""
    device, _, without = request.param.partition(", ")
    if without:
        monkeypatch.setattr(loss._compiled_loss, "function", lambda: None)
    return device

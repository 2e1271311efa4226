"""The native libraries are built once before the tests here: where there are compilers, and GPUs for CUDA's."""

import os

import pytest

from ctc._library import LIBRARY
from ctc.native import build

# What torch wants of cuBLAS before it multiplies on a GPU with deterministic algorithms; read when CUDA starts.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@pytest.fixture(scope="session", autouse=True)
def native_library() -> None:
    build(LIBRARY, cuda="present")

"""The CUDA kernels compiled for the processor: see csrc/test/cuda_emulator.h."""

import contextlib
import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctc import _cuda_library
from ctc._library import LIBRARY
from ctc.native import find_compiler

FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-Wall", "-Wextra", "-Werror")
INCLUDES = [f"-I{folder}" for folder in LIBRARY.header_folders]


def compile_emulated(name: str, target: Path, *flags: str) -> Path:
    """Compiles `csrc/test/<name>.cpp`, which includes the CUDA sources."""
    compiler = find_compiler() or pytest.skip("no C++ compiler")
    source = LIBRARY.package / "csrc" / "test" / f"{name}.cpp"
    done = subprocess.run(
        [compiler, *FLAGS, *flags, *INCLUDES, str(source), "-o", str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


@contextlib.contextmanager
def no_device(device: object) -> Iterator[int]:
    """Stands for `_cuda_library._on`: the emulator has one stream and no device."""
    yield 0


def emulate(monkeypatch: pytest.MonkeyPatch, library: ctypes.CDLL) -> None:
    """From here on `_cuda_library` calls `library`, on tensors of the CPU."""
    monkeypatch.setattr(_cuda_library, "_on", no_device)
    monkeypatch.setattr(_cuda_library, "library", lambda: _cuda_library.declare(library))

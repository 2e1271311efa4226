"""CUDA kernels compiled by nvcc, and for the processor: see ctc/csrc/test/cuda_emulator.h."""

import contextlib
import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ctc import native
from ctc.native.compilers import cuda_command
from tests import sanitized

FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-Wall", "-Wextra", "-Werror")


def compile_emulated(library: native.NativeLibrary, name: str, target: Path, *flags: str) -> Path:
    """Compiles `csrc/test/<name>.cpp` of a package, which includes its CUDA sources."""
    compiler = native.find_compiler() or pytest.skip("no C++ compiler")
    source = library.package / "csrc" / "test" / f"{name}.cpp"
    includes = [f"-I{folder}" for folder in library.header_folders]
    done = subprocess.run(
        [compiler, *FLAGS, *flags, *includes, str(source), "-o", str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


def sanitize_lattices(library: native.NativeLibrary, folder: Path, count: int) -> None:
    """Random lattices go through the emulated kernels under sanitizers, where these have changed."""
    flags = ("-O0", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")  # optimising takes longer
    with sanitized.unless_unchanged(f"{library.name}-kernels", library):
        program = compile_emulated(library, "cuda_lattices", folder / "lattices", *flags)
        done = subprocess.run([program, str(count)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "all passed" in done.stdout


def compile_by_nvcc(library: native.NativeLibrary, target: Path) -> Path:
    """Compiles the CUDA sources of a package for one architecture, without a warning."""
    compiler = shutil.which("nvcc") or pytest.skip("no nvcc")
    command = cuda_command(compiler, [90], library.sources("*.cu"), library.header_folders)
    done = subprocess.run([*command, "-o", target], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == ""
    return target


@contextlib.contextmanager
def no_stream(device: object) -> Iterator[int]:
    """Stands for `native.current_stream`: the emulator has one stream and no device."""
    yield 0


def emulate(monkeypatch: pytest.MonkeyPatch, binding: ModuleType, library: ctypes.CDLL) -> None:
    """From here on `binding`, the `_cuda_library` of a package, calls `library`, on tensors of the CPU."""
    monkeypatch.setattr(native, "current_stream", no_stream)
    monkeypatch.setattr(binding, "library", lambda: binding.declare(library))

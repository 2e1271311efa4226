"""CUDA kernels compiled by nvcc, and for the processor: see ctc/csrc/test/cuda_emulator.h."""

import contextlib
import ctypes
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
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


def compiles_by_nvcc(library: native.NativeLibrary, folder: Path, exported: Sequence[str]) -> None:
    """The CUDA sources of a package compile without a warning, where they have changed, and export these functions."""
    compiler = shutil.which("nvcc") or pytest.skip("no nvcc")
    command = cuda_command(compiler, [90], library.sources("*.cu"), library.header_folders)
    with sanitized.unless_unchanged(f"{library.name}-nvcc", library):
        done = subprocess.run([*command, "-o", folder / "cuda.so"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.strip()) == (0, "")
        symbols = (folder / "cuda.so").read_bytes()
        assert all(name.encode() in symbols for name in exported)


def kernels_of(library: native.NativeLibrary) -> ctypes.CDLL:
    """The kernels of a package for the processor, compiled once for their source and kept beside its library."""
    target = library.cpu.with_name(f"{library.name}_emulated_{library.digest()[:16]}.so")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent) as folder:
            compile_emulated(library, "cuda_emulated", Path(folder) / target.name, "-shared").replace(target)
    return ctypes.CDLL(str(target))


@contextlib.contextmanager
def no_stream(device: object) -> Iterator[int]:
    """Stands for `native.current_stream`: the emulator has one stream and no device."""
    yield 0


def emulate(monkeypatch: pytest.MonkeyPatch, binding: ModuleType, library: ctypes.CDLL) -> None:
    """From here on `binding`, the `_cuda_library` of a package, calls `library`, on tensors of the CPU."""
    monkeypatch.setattr(native, "current_stream", no_stream)
    monkeypatch.setattr(binding, "library", lambda: binding.declare(library))

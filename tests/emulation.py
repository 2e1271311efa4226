"""CUDA kernels on the processor: an emulator takes the place of libcuda (see ctc/csrc/test/cuda_emulated_driver.h).

What launches the kernels is the library itself, as it does on a GPU.
"""

import contextlib
import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from ctypes import Structure
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import pytest

from ctc import native
from ctc.native import kernels
from tests import sanitized

FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-Wall", "-Wextra", "-Werror")


class Counts(Structure):
    """What the emulated driver was asked for."""

    _fields_ = native.fields("n launches copies waits")


def write_kernels(library: native.NativeLibrary, folder: Path) -> Path:
    """The source of an emulated driver; and files that stand for compiled kernels in `folder`/sm_90."""
    loaded = native.load(library) or pytest.skip("no C++ compiler")
    names = kernels.names(library, loaded)
    (folder / "sm_90").mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / kernels.file_of(name, 90)).write_text(f"{name}\n{name}")
    table = "".join(f'    {{"{name}", emulator::run<{name}>}},\n' for name in names)
    source = folder / "kernels.cpp"
    source.write_text(
        f'#define CTC_EMULATED\n#include "cuda_{library.name}.cuh"\n#include "test/cuda_emulated_driver.h"\n'
        f"using namespace {library.name}_cuda;\nstd::vector<emulator::Entry> emulator::KERNELS = {{\n{table}}};\n"
    )
    return source


def compile_with(library: native.NativeLibrary, sources: list[Path], target: Path, *flags: str) -> Path:
    """Compiles sources with the headers of a package."""
    compiler = native.find_compiler() or pytest.skip("no C++ compiler")
    includes = [f"-I{folder}" for folder in library.header_folders]
    command = [compiler, *FLAGS, *flags, *includes, *map(str, sources), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def sanitize_lattices(library: native.NativeLibrary, folder: Path, count: int) -> None:
    """Random lattices go through the emulated kernels under sanitizers, where these have changed."""
    flags = (
        "-O0",
        "-g1",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-rdynamic",
    )  # optimising is slow
    with sanitized.unless_unchanged(f"{library.name}-kernels", library.digest()):
        sources = [
            write_kernels(library, folder),
            *library.sources("cuda_*.cpp"),
            *library.sources("test/cuda_lattices.cpp"),
        ]
        program = compile_with(library, sources, folder / "lattices", *flags)
        done = subprocess.run([program, folder, str(count)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "all passed" in done.stdout


def kernels_folder(library: native.NativeLibrary) -> Path:
    """Where the emulated driver, the files of its kernels and a copy of the library are kept."""
    return library.cpu.with_name(f"emulated-{library.digest()[:16]}")


def kernels_of(library: native.NativeLibrary) -> ctypes.CDLL:
    """A copy of a library that launches emulated kernels, compiled once for their source and kept beside it.

    A copy, because what has been loaded once keeps its driver.
    """
    folder = kernels_folder(library)
    if not folder.exists():
        with TemporaryDirectory(dir=library.cpu.parent) as name:
            written = Path(name) / "it"
            compile_with(library, [write_kernels(library, written)], written / "driver.so", "-shared")
            shutil.copyfile(library.cpu, written / library.cpu.name)
            with contextlib.suppress(OSError):  # another process was faster
                written.replace(folder)
    loaded = ctypes.CDLL(str(folder / library.cpu.name))
    return kernels.use(library, loaded, folder=folder, driver=folder / "driver.so")


def counts_of(library: native.NativeLibrary) -> Counts:
    """What the emulated driver of a library was asked for since the last call."""
    found = Counts()
    ctypes.CDLL(str(kernels_folder(library) / "driver.so")).emulator_counts(ctypes.byref(found))
    return found


@contextlib.contextmanager
def no_stream(device: object) -> Iterator[int]:
    """Stands for `native.current_stream`: the emulator has one stream and no device."""
    yield 0


def emulate(monkeypatch: pytest.MonkeyPatch, binding: ModuleType, library: ctypes.CDLL) -> None:
    """From here on `binding`, the `_cuda_library` of a package, calls `library`, on tensors of the CPU."""
    monkeypatch.setattr(native, "current_stream", no_stream)
    monkeypatch.setattr(binding.DEVICE, "loaded", lambda: binding.DEVICE.declared(library))

"""Loads a native library. Where it was never built, the first use builds it."""

import ctypes
import functools
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from ctc.native import compilers
from ctc.native.building import build
from ctc.native.library import NativeLibrary, can_write

if TYPE_CHECKING:  # libraries are built and loaded without it
    import torch

SWITCH = "NATIVE_BUILD"
"""The environment variable that keeps a first use from compiling when it is 0."""


@functools.cache
def load(library: NativeLibrary) -> ctypes.CDLL | None:
    """The CPU library; None where it was not built and cannot be, or cannot be loaded."""
    return _opened(library, library.cpu) if _is_there(library, "cpu") else None


@functools.cache
def load_binding(library: NativeLibrary) -> ModuleType | None:
    """The binding, a module of Python; None where it was not built and cannot be, or cannot be loaded."""
    if not _is_there(library, "binding"):
        return None
    loader = ExtensionFileLoader(f"{library.name}_torch", str(library.binding))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    try:
        _check_length(library.binding)
        module = module_from_spec(spec)
        loader.exec_module(module)
    except (ImportError, OSError) as error:
        _tell_unusable(library, library.binding, error)
        return None
    return module


def threads() -> int:
    """How many threads kernels may take: as many as torch where it is in use, else one for each core."""
    torch = sys.modules.get("torch")
    return int(torch.get_num_threads()) if torch is not None else len(os.sched_getaffinity(0))


@contextmanager
def current_stream(device: "torch.device") -> Iterator[int]:
    """The address of the stream that torch has on `device`, which is the current device meanwhile."""
    import torch

    with torch.cuda.device(device):
        yield torch.cuda.current_stream(device).cuda_stream


def _opened(library: NativeLibrary, path: Path) -> ctypes.CDLL | None:
    try:
        _check_length(path)
        return ctypes.CDLL(str(path))
    except OSError as error:  # of another processor, cut short, or without a library that it needs
        _tell_unusable(library, path, error)
        return None


def _check_length(path: Path) -> None:
    """Raises OSError for a file of ELF that ends before its table of sections does, which would kill the process."""
    with path.open("rb") as file:
        head = file.read(64)
    if len(head) == 64 and head.startswith(b"\x7fELF\x02\x01"):  # of 64 bits, the least significant byte first
        start, size, count = struct.unpack("<40xQ10x2H2x", head)
        if start + size * count > path.stat().st_size:
            raise OSError("the file is cut short")


def _tell_unusable(library: NativeLibrary, path: Path, error: Exception) -> None:
    why = " ".join(str(error).removeprefix(f"{path}: ").split())
    advice = f"going on without it; {library.command} --force builds it again"
    print(f"{library.name}: {path} cannot be loaded: {why}; {advice}", file=sys.stderr)


def _is_there(library: NativeLibrary, kind: Literal["cpu", "binding"]) -> bool:
    """Whether that library is there, once it was built where it was missing and a compiler was not."""
    target = getattr(library, kind)
    is_current = target.exists() and not _is_older_than_sources(library, target)
    if is_current or os.environ.get(SWITCH) == "0" or not compilers.find_compiler():
        return bool(target.exists())
    print(f"{library.name}: compiling {target}, once; {SWITCH}=0 in the environment prevents it", file=sys.stderr)
    try:
        report = build(library, binding=kind == "binding")
    except compilers.BuildError as error:
        print(f"{library.name}: {error}", file=sys.stderr)
        return False
    if not target.exists():
        print(f"{library.name}: {report}", file=sys.stderr)
        return False
    target.touch()  # where its sources were only touched themselves
    return True


def _is_older_than_sources(library: NativeLibrary, target: Path) -> bool:
    """Whether sources have changed since, as they do when a checkout is brought up to date."""
    if not can_write(target.parent):
        return False
    built = target.stat().st_mtime
    folders = [folder for folder in library.header_folders if folder.is_dir()]
    return any(path.stat().st_mtime > built for folder in folders for path in folder.rglob("*.*"))

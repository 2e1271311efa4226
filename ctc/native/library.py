"""What a native library is made of, and where it lies."""

import contextlib
import fcntl
import functools
import hashlib
import os
import platform
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class NativeLibrary:
    """A package's native code. What the folders hold says what is built:

    - `csrc/*.cpp` becomes `lib<name>.so`. Files that end in `_avx2`, `_avx512`, `_avx512vnni` or `_avx512bf16` are
      compiled for these instruction sets, where processor and compiler know them; all files then see
      `NATIVE_HAS_AVX2`, …. Which is called is decided at run time (`__builtin_cpu_supports`), so that one build serves
      every machine.
    - `csrc/cuda_<name>.cuh` includes the kernels that it launches on GPUs, if it does; see `kernels.py`.
    - `csrc/torch/binding.cpp` becomes `lib<name>_torch-<versions>.so`, a Python module linked with `lib<name>.so`.
    - `csrc/test/x_test.cpp`, with every `csrc/x*.cpp`, becomes the program `x_test_address` or `x_test_thread`.
    """

    package: Path
    """The folder that holds `csrc`, and `include` if there is one; its name is that of the library."""
    command: str
    """What builds it, for messages: "python -m ctc.build"."""
    headers: tuple[Path, ...] = ()
    """Folders of other packages whose headers the sources include."""
    folder: Path | None = None
    """Where it is built, in place of `_build` in the package or, where that cannot be written, the user's cache."""

    @property
    def name(self) -> str:
        """What the files of the library are named after."""
        return self.package.name

    @property
    def cpu(self) -> Path:
        """The CPU library, there or yet to be built."""
        return self.place(f"lib{self.name}.so")

    @property
    def binding(self) -> Path:
        """The binding, compiled against one version of torch and one of Python, and good for no other."""
        return self.place(f"lib{self.name}_torch-{metadata.version('torch')}-{sys.implementation.cache_tag}.so")

    @property
    def header_folders(self) -> list[Path]:
        """Where sources find their headers."""
        return [self.package / "include", self.package / "csrc", *self.headers]

    def sources(self, pattern: str = "*.cpp") -> list[Path]:
        """The files of `csrc` that match, in order."""
        return sorted((self.package / "csrc").glob(pattern))

    def place(self, file: str) -> Path:
        """Where `file` of this library lies; where it does not lie anywhere, where it will be built."""
        if self.folder is not None:
            return self.folder / file
        packaged = self.package / "_build"
        if (packaged / file).exists() or can_write(packaged):
            return packaged / file
        return cache_folder() / f"{self.name}-{platform.machine()}-{self.digest()[:16]}" / file

    def digest(self, folders: tuple[str, ...] = ("include", "csrc")) -> str:
        """A checksum of the names and contents of what is in `folders` of the package, and of the headers' folders."""
        digest = hashlib.sha256()
        for folder in [*(self.package / name for name in folders), *self.headers]:
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                digest.update(str(path.relative_to(folder)).encode())
                digest.update(path.read_bytes())
        return digest.hexdigest()


def can_write(folder: Path) -> bool:
    """Whether files can be made in `folder`, which is there, or which can be made in the folder around it."""
    nearest = folder if folder.exists() else folder.parent
    return nearest.is_dir() and os.access(nearest, os.W_OK)


def cache_folder() -> Path:
    """The folder in which this user's programs keep what they can make again, theirs alone where it is a temporary one.

    It is one where no other can be written to, as in a container whose user has no home.
    """
    usual = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "speech-models"  # noqa: PTH111
    with contextlib.suppress(OSError):
        if usual.is_absolute():  # there is a home
            usual.mkdir(parents=True, exist_ok=True)
            if os.access(usual, os.W_OK):
                return usual
    return _temporary_folder()


@functools.cache
def _temporary_folder() -> Path:
    temporary = Path(tempfile.gettempdir()) / f"speech-models-{os.getuid()}"
    with contextlib.suppress(OSError):
        temporary.mkdir(mode=0o700, exist_ok=True)
        found = temporary.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
            return temporary
    return Path(tempfile.mkdtemp(prefix="speech-models-"))


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Processes that enter with the same file wait for each other."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a file system without locks: what is built is still put in place whole
            fcntl.flock(stack.enter_context(lock.open("w")), fcntl.LOCK_EX)
        yield

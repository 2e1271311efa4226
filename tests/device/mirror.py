"""The device `mirror` for tests: all that a GPU demands of code but its speed, on any machine with a C++ compiler.

Its tensors lie in host memory and its kernels are the CPU's, so that results are bitwise those of the CPU; but it is
another device to torch. Tensors of two devices do not mix, a late copy to the host holds NaN until somebody waits for
it, autocast casts what it casts on CUDA, and operations, casts, copies and waits are counted. See `mirror.cpp`.

Not as on a GPU: there are no kernels of `ctc` for it, one stream per device, and random numbers are the CPU's.
"""

import contextlib
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch

SOURCE = Path(__file__).with_suffix(".cpp")
DEVICE = torch.device("privateuseone:0")  # "mirror:0" once it is loaded


class UnavailableError(RuntimeError):
    """There is no compiler for it, or this torch has other headers; the message says which."""


@functools.cache
def load() -> None:
    """Makes the device known to torch, once in a process and before its first backward pass; builds it if need be."""
    torch.ops.load_library(built())
    torch.utils.rename_privateuse1_backend("mirror")
    torch._register_device_module("mirror", _device_module())
    torch.utils.generate_methods_for_privateuse1_backend()


def find_compiler() -> str | None:
    """Path of a C++ compiler, or None where there is none."""
    return shutil.which(os.environ.get("CXX", "")) or shutil.which("g++") or shutil.which("c++")


def built() -> Path:
    """The library, compiled in a quarter of a minute if source, compiler or torch are not those of the last time."""
    compiler = find_compiler()
    if compiler is None:
        raise UnavailableError("the device for tests needs a C++ compiler; set CXX to name one")
    if torch.cuda.is_available():
        raise UnavailableError(
            "there is a GPU here, and torch knows one kind of accelerator at a time; see gpu_check.sh"
        )
    installed = Path(torch.__file__).parent
    command = [compiler, "-std=c++20", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra"]
    command += ["-isystem", str(installed / "include")]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", str(SOURCE)]
    command += [f"-L{installed / 'lib'}", f"-Wl,-rpath,{installed / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10"]
    digest = hashlib.sha256(repr((command, torch.__version__)).encode() + SOURCE.read_bytes()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "speech_models"
    library = folder / f"mirror_{digest}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as beside:
            made = Path(beside) / library.name
            done = subprocess.run([*command, "-o", str(made)], text=True, capture_output=True, check=False)
            if done.returncode != 0:
                raise UnavailableError(
                    f"the device for tests does not compile with torch {torch.__version__}:\n{done.stderr}"
                )
            made.replace(library)
    return library


class Counts:
    """How often what was done since the last `reset`, or since the block of `counted` began."""

    def __init__(self) -> None:
        self.all: Counter[str] = Counter()

    def read(self) -> None:
        """Takes the counts of now."""
        found = torch.ops.mirror.counts()
        self.all = Counter({name: found[name] for name in found})

    @property
    def operations(self) -> Counter[str]:
        """By their names in ATen, without overloads: `add_`, `convolution`."""
        return self._of("operation: ")

    @property
    def waits(self) -> Counter[str]:
        """What the host waited for: blocking copies, `item`, results whose size depends on values."""
        return self._of("wait: ")

    @property
    def slow(self) -> Counter[str]:
        """Operations on lists of tensors that CUDA would take apart, because the lists are not alike."""
        return self._of("slow: ")

    @property
    def casts(self) -> int:
        """Copies on the device to another type."""
        return self.all["cast"]

    def copies(self, kind: str) -> int:
        """How many copies of this kind there were: "to the host", "from the host", either with ", late" behind it,
        "from the host, not pinned", "on the device"."""
        return self.all[f"copy: {kind}"]

    def _of(self, prefix: str) -> Counter[str]:
        return Counter({k.removeprefix(prefix): n for k, n in self.all.items() if k.startswith(prefix)})


@contextlib.contextmanager
def counted() -> Iterator[Counts]:
    """What is done in the block; to be read after it."""
    counts = Counts()
    torch.ops.mirror.reset_counts()
    yield counts
    counts.read()


@contextlib.contextmanager
def no_waits() -> Iterator[None]:
    """In the block it is an error to wait for the device, as in `torch.cuda.set_sync_debug_mode("error")`."""
    torch.ops.mirror.forbid_waits(True)
    try:
        yield
    finally:
        torch.ops.mirror.forbid_waits(False)


class _DeviceContext:
    """What `torch.cuda.device` is."""

    def __init__(self, device: torch.device | int):
        self.index = device if isinstance(device, int) else (device.index or 0)

    def __enter__(self) -> None:
        self.before = torch.accelerator.current_device_index()
        torch.accelerator.set_device_index(self.index)

    def __exit__(self, *_: object) -> None:
        torch.accelerator.set_device_index(self.before)


def _device_module() -> types.ModuleType:
    """`torch.mirror`: what torch asks of the module of a device."""
    module = types.ModuleType("torch.mirror")
    functions = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_is_in_bad_fork": lambda: False,
        "_lazy_init": lambda: None,
        "device_count": lambda: 2,
        "current_device": torch.accelerator.current_device_index,
        "set_device": torch.accelerator.set_device_index,
        "manual_seed_all": lambda seed: None,  # its generator is the CPU's
        "get_amp_supported_dtype": lambda: [torch.bfloat16, torch.float16],
        "device": _DeviceContext,
    }
    for name, function in functions.items():
        setattr(module, name, function)
    return module

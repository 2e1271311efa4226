"""CUDA kernels of native libraries: each is compiled by NVRTC at its first launch, for the GPU at hand, and kept.

NVRTC, NVIDIA's compiler as a library, comes with every CUDA build of torch, with the toolkit, and alone as the package
`nvidia-cuda-nvrtc`; it needs neither a GPU nor headers. `csrc/cuda_<name>.cuh` includes all kernels of a library.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctc.native.compilers import BuildError
from ctc.native.declaring import declare
from ctc.native.library import NativeLibrary, alone, cache_folder
from ctc.native.loading import load

if TYPE_CHECKING:
    import torch

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
"""What `--cuda all` compiles for; others are compiled for at their first use."""
FLAGS = ("--std=c++17", "--fmad=false", "--device-as-default-execution-space", "--ptxas-options=-v")
FOLDER = "NATIVE_KERNELS"
"""The environment variable that names a folder of compiled kernels, in place of the user's cache."""
HEADERS = {
    "stddef.h": "",
    "string.h": "",
    "cstring": "",
    "new": "",
    "algorithm": '#include "cuda_algorithms.h"\n',
    "cmath": '#include "cuda_algorithms.h"\n',
    "limits": '#include "cuda_algorithms.h"\n',
    "stdint.h": """typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned uint32_t;
typedef unsigned long uint64_t; typedef unsigned long uintptr_t;
#define INT32_MAX 2147483647
#define INT32_MIN (-INT32_MAX - 1)
""",
    "math.h": "#define INFINITY __int_as_float(0x7f800000)\n#define NAN __int_as_float(0x7fffffff)\n",
}
"""NVRTC knows C's functions, not its headers."""
MAKE = ctypes.CFUNCTYPE(c_int, c_char_p, ctypes.c_int32, c_char_p)


class CompiledKernel(NamedTuple):
    """Machine code, its symbol, and what the assembler said: registers, spills."""

    code: bytes
    symbol: bytes
    log: str


def use(
    library: NativeLibrary, loaded: ctypes.CDLL, *, folder: Path | None = None, driver: Path | None = None
) -> ctypes.CDLL:
    """`loaded`, the CPU library, which from here on launches kernels of `folder`, and has this module make others.

    `driver` takes the place of libcuda.
    """

    @MAKE
    def make(kernel: bytes, architecture: int, file: bytes) -> int:
        why = _why_not_kept(library, kernel.decode(), architecture, Path(file.decode()))
        if why:
            print(f"{library.name}: {why}", file=sys.stderr)
        return int(why is not None)

    _KEPT.append(make)
    place = str(folder or folder_of(library)).encode()
    tell = _function(library, loaded, "use", None, c_char_p, MAKE, c_char_p)
    tell(place, make, None if driver is None else str(driver).encode())
    return loaded


_KEPT: list[object] = []
"""What native code may call as long as the process lives."""


class DeviceFunctions:
    """The functions of a native library that launch kernels: `load_cpu` gives the library, `functions` arguments."""

    def __init__(
        self, library: NativeLibrary, load_cpu: Callable[[], ctypes.CDLL | None], functions: Mapping[str, str]
    ) -> None:
        self.library, self.functions, self._load_cpu = library, functions, load_cpu

    @functools.cached_property
    def found(self) -> ctypes.CDLL | None:
        """The library with these functions; None where it was never built."""
        loaded = self._load_cpu()
        return None if loaded is None else self.declared(use(self.library, loaded))

    def declared(self, loaded: ctypes.CDLL) -> ctypes.CDLL:
        """`loaded`, which knows the arguments of these functions from here on."""
        return declare(loaded, self.functions)

    def loaded(self) -> ctypes.CDLL:
        """The library; RuntimeError where it was never built."""
        if self.found is None:
            raise RuntimeError(f"{self.library.cpu} is missing: run `{self.library.command}`")
        return self.found

    def why_missing(self, device: torch.device) -> str | None:
        """Why there are no kernels for a device; None where there are, and for a CPU, which needs none."""
        if device.type != "cuda":
            return None if device.type == "cpu" else f"there are none for {device.type}"
        from torch.cuda import get_device_capability

        major, minor = get_device_capability(device)
        return why_missing(self.library, 10 * major + minor)

    def serve(self, tensor: torch.Tensor) -> bool:
        """Whether the kernels compute with tensors of this device: of a GPU that they are compiled for."""
        return tensor.is_cuda and self.why_missing(tensor.device) is None


def names(library: NativeLibrary, loaded: ctypes.CDLL) -> list[str]:
    """All kernels that the library launches: "ctc_cuda::prepare_kernel<void>", …"""
    name_of = _function(library, loaded, "kernel", c_char_p, ctypes.c_int32)
    found = (name_of(i) for i in range(1000))
    return sorted(name.decode() for name in iter(lambda: next(found), None))


def _function(library: NativeLibrary, loaded: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(loaded, f"{library.name}_cuda_{name}")
    function.restype, function.argtypes = result, arguments
    return function


@functools.cache
def folder_of(library: NativeLibrary) -> Path:
    """Where the compiled kernels of these sources lie."""
    known = hashlib.sha256(repr((FLAGS, HEADERS, library.digest())).encode()).hexdigest()
    return Path(os.environ.get(FOLDER) or cache_folder()) / f"{library.name}-kernels-{known[:16]}"


def file_of(kernel: str, architecture: int) -> str:
    """The file of a kernel in such a folder, as `cuda_driver.h` has it."""
    return f"sm_{architecture}/{''.join(c if c.isalnum() else '_' for c in kernel)}.cubin"


@functools.cache
def why_missing(library: NativeLibrary, architecture: int) -> str | None:
    """Why there are no kernels for GPUs of an architecture (90 for sm_90); None where there are.

    Compiles one of them to find out.
    """
    loaded = load(library)
    if loaded is None:
        return f"{library.cpu} is missing; `{library.command}` makes it where there is a C++ compiler"
    if architecture < ARCHITECTURES[0]:
        return f"its kernels need compute capability {ARCHITECTURES[0] / 10}, and this GPU has {architecture / 10}"
    kernel = names(library, loaded)[0]
    return _why_not_kept(library, kernel, architecture, folder_of(library) / file_of(kernel, architecture))


def keep_all(library: NativeLibrary, loaded: ctypes.CDLL, architectures: Sequence[int]) -> Path:
    """Compiles all kernels ahead of their first launch; returns where they lie."""
    place = folder_of(library)
    wanted = [(name, a) for a in architectures for name in names(library, loaded)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda one: keep(library, one[0], one[1], place / file_of(*one)), wanted))
    return place


def _why_not_kept(library: NativeLibrary, kernel: str, architecture: int, file: Path) -> str | None:
    try:
        keep(library, kernel, architecture, file)
    except (BuildError, OSError) as error:
        return str(error)
    return None


def keep(library: NativeLibrary, kernel: str, architecture: int, file: Path) -> None:
    """Compiles a kernel to `file`, once for all processes: its code, and its symbol in a line behind it."""
    if _is_whole(file):
        return
    with alone(file.with_suffix(".lock")):
        if _is_whole(file):
            return
        found = compiled(library, kernel, architecture)
        written = file.with_suffix(f".{os.getpid()}")
        written.write_bytes(found.code + b"\n" + found.symbol)
        written.replace(file)


def _is_whole(file: Path) -> bool:
    """Whether the code names the symbol behind it, as `cuda_driver.h` asks: a computer that stops may leave a part."""
    code, _, symbol = file.read_bytes().rpartition(b"\n") if file.exists() else (b"", b"", b"")
    return bool(symbol) and symbol in code


def compiled(library: NativeLibrary, kernel: str, architecture: int) -> CompiledKernel:
    """A kernel for an architecture: machine code, or PTX where this NVRTC knows none of its kind. Raises BuildError."""
    nvrtc = compiler()
    if nvrtc is None:
        raise BuildError(
            "NVRTC, which compiles kernels, is missing: CUDA builds of torch have it; `pip install nvidia-cuda-nvrtc`"
        )
    known = _architectures(nvrtc)
    fitting = [a for a in known if a <= architecture]
    if not fitting:
        raise BuildError(f"NVRTC compiles for sm_{known[0]} and later; this GPU is sm_{architecture}")
    is_native = fitting[-1] // 10 == architecture // 10  # code runs on later ones of its kind
    target = f"--gpu-architecture={'sm' if is_native else 'compute'}_{fitting[-1]}"
    options = [target, *FLAGS, *(f"-I{path}" for path in library.header_folders)]
    source = f'#include "cuda_{library.name}.cuh"\nusing namespace {library.name}_cuda;\n'
    headers = [_strings(HEADERS.values()), _strings(HEADERS)]
    program = c_void_p()
    _must(nvrtc.nvrtcCreateProgram(byref(program), source.encode(), b"kernel.cu", len(HEADERS), *headers))
    try:
        _must(nvrtc.nvrtcAddNameExpression(program, kernel.encode()))
        failed = nvrtc.nvrtcCompileProgram(program, len(options), _strings(options))
        log = _text(nvrtc, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if failed:
            raise BuildError(f"NVRTC does not compile {kernel} with {' '.join(options)}:\n{log.strip()}")
        symbol = c_char_p()
        _must(nvrtc.nvrtcGetLoweredName(program, kernel.encode(), byref(symbol)))
        assert symbol.value is not None
        return CompiledKernel(_text(nvrtc, program, "CUBIN" if is_native else "PTX"), symbol.value, log)
    finally:
        nvrtc.nvrtcDestroyProgram(byref(program))


@functools.cache
def compiler() -> ctypes.CDLL | None:
    """NVRTC: torch's, a package's, or the toolkit's; None where there is none that can be loaded."""
    for path in _candidates():
        try:
            for builtins in sorted(path.parent.glob("libnvrtc-builtins.so*")):  # which it looks for by name alone
                ctypes.CDLL(str(builtins))
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    return None


def _candidates() -> Iterator[Path]:
    installed = [Path(folder) for folder in sys.path if folder]
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    patterns = ("torch/lib/libnvrtc*.so*", "nvidia/*/lib/libnvrtc.so.*")
    others = [(Path(sys.prefix), "lib/libnvrtc.so*"), (toolkit, "lib64/libnvrtc.so*")]  # Conda's; images have no link
    for place, pattern in [*((i, p) for p in patterns for i in installed), *others]:
        yield from sorted(
            (p for p in place.glob(pattern) if ".alt." not in p.name and "builtins" not in p.name), reverse=True
        )


def _architectures(nvrtc: ctypes.CDLL) -> list[int]:
    count = c_int()
    _must(nvrtc.nvrtcGetNumSupportedArchs(byref(count)))
    found = (c_int * count.value)()
    _must(nvrtc.nvrtcGetSupportedArchs(found))
    return sorted(found)


def _text(nvrtc: ctypes.CDLL, program: c_void_p, what: str) -> bytes:
    size = c_size_t()
    _must(getattr(nvrtc, f"nvrtcGet{what}Size")(program, byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _must(getattr(nvrtc, f"nvrtcGet{what}")(program, text))
    return text.raw


def _strings(texts: Iterable[str]) -> ctypes.Array[c_char_p]:
    found = [text.encode() for text in texts]
    return (c_char_p * len(found))(*found)


def _must(status: int) -> None:
    if status != 0:
        raise BuildError(f"NVRTC answered with status {status}")


def present_architectures() -> list[int]:
    """Those of the GPUs of this machine."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    return sorted({int(a + b) for a, b in re.findall(r"^(\d+)\.(\d)$", done.stdout, re.MULTILINE)})

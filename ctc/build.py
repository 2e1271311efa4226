"""Builds the native library: `python -m ctc.build`, at install or after a change of the sources.

Every `ctc/csrc/*.cpp` is compiled into `ctc/_build/libctc.so`. A file named `*_avx2.cpp` or `*_avx512.cpp` is compiled
for that instruction set, all others for any processor of the family; which is called is decided at run time, so one
build serves every machine. Where there are a GPU and nvcc, every `ctc/csrc/*.cu` goes into `ctc/_build/libctc_cuda.so`,
for that GPU; `--cuda all` compiles for all architectures that nvcc knows, GPU or not (in a few minutes). The loss gets
a node of its own in autograd (`csrc/torch`), compiled against the headers of the torch that is installed. Nothing
is compiled when sources, flags and compiler are those of the last build.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import torch

from ctc._library import BUILD, CPU_LIBRARY, CUDA_LIBRARY, TORCH_BINDING

PACKAGE = Path(__file__).parent
COMPILERS = ("g++", "clang++", "c++")
FLAGS = ("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra")
INSTRUCTION_SETS = {
    # GCC's schedule for Skylake is 3 % faster than its generic one, on AMD's processors too.
    "_avx2": ("-mavx2", "-mfma", "-mf16c", "-mtune=skylake"),
    "_avx512": (
        *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c", "-mprefer-vector-width=512"),
        # GCC warns of its own headers, its bug 105593; clang does not know one of the warnings.
        *("-Wno-unknown-warning-option", "-Wno-uninitialized", "-Wno-maybe-uninitialized"),
    ),
}
TORCH_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wfatal-errors")
WITHOUT_OPENMP = ("-Wno-unknown-pragmas", "-Wno-unused-parameter")
SANITIZERS = {
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g", "-O1"),
    "thread": ("-fsanitize=thread", "-g", "-O1"),
}
CUDA_ARCHITECTURES = (80, 86, 89, 90, 100, 120)
CUDA_FLAGS = (
    *("-std=c++17", "-O3", "--fmad=false", "--shared", "-cudart", "static", "-Werror", "all-warnings"),
    *("-Xcompiler", "-fPIC,-fvisibility=hidden,-Wall"),
)


class BuildError(RuntimeError):
    """A compiler refused the sources; the message holds its command and its words."""


@dataclass
class BuildReport:
    """What was built, and why the rest was not."""

    built: list[Path] = field(default_factory=list)
    current: list[Path] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"built {path}" for path in self.built]
        lines += [f"up to date: {path}" for path in self.current]
        lines += [f"not built: {reason}" for reason in self.absent]
        return "\n".join(lines)


def build(
    *,
    compiler: str | None = None,
    sanitize: Literal["address", "thread"] | None = None,
    cuda: Literal["none", "present", "all"] = "none",
    force: bool = False,
) -> BuildReport:
    """Builds what this machine has compilers for.

    `compiler` names the C++ compiler (default: $CXX, else the first of g++, clang++, c++ on the PATH). `sanitize`
    builds the C++ tests of `csrc/test` instead of the library: `x_test.cpp`, linked with every `x*.cpp`, becomes
    `_build/x_test_address` or `_build/x_test_thread`. `cuda`: for no GPU, for those that are here, for all there are.
    Raises `BuildError` when a compiler fails.
    """
    report = BuildReport()
    found = find_compiler(compiler)
    if found is None:
        report.absent.append(f"CPU library: no C++ compiler ({', '.join(COMPILERS)}) on the PATH; set CXX to name one")
    elif sanitize is None:
        _build_with_binding(report, found, force)
    else:
        for test in sorted((PACKAGE / "csrc" / "test").glob("*_test.cpp")):
            program = BUILD / f"{test.stem}_{sanitize}"
            tested = [source for source in _sources() if source.stem.startswith(test.stem.removesuffix("_test"))]
            _build_cpu(report, found, program, [*tested, test], sanitize=sanitize, force=force)
    if sanitize is None and cuda != "none":
        _build_cuda(report, cuda, force)
    return report


def find_compiler(name: str | None = None) -> str | None:
    """Path of the C++ compiler that `build` takes, or None where there is none."""
    candidates = [name] if name else [os.environ.get("CXX", ""), *COMPILERS]
    return next((path for candidate in candidates if candidate and (path := shutil.which(candidate))), None)


def _sources() -> list[Path]:
    return [source for source in sorted((PACKAGE / "csrc").glob("*.cpp")) if _runs_here(source)]


def _runs_here(source: Path) -> bool:
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return x86 or not source.stem.endswith(tuple(INSTRUCTION_SETS))


def _flags_of(source: Path) -> tuple[str, ...]:
    return next((flags for suffix, flags in INSTRUCTION_SETS.items() if source.stem.endswith(suffix)), ())


def _build_cpu(
    report: BuildReport,
    compiler: str,
    target: Path,
    sources: list[Path],
    *,
    sanitize: Literal["address", "thread"] | None = None,
    force: bool = False,
) -> None:
    # Thread sanitizers do not know the barriers of OpenMP; the tests bring threads of their own.
    openmp = WITHOUT_OPENMP if sanitize == "thread" else _openmp_flags(compiler)
    if openmp == WITHOUT_OPENMP and sanitize != "thread":
        report.absent.append(f"threads: {compiler} cannot link OpenMP, so the CPU library runs on one thread")
    extra = SANITIZERS[sanitize] if sanitize else ()
    common = (*FLAGS, *openmp, *extra, f"-I{PACKAGE / 'include'}", f"-I{PACKAGE / 'csrc'}")
    stamp = _stamp([compiler, *common, *map(str, INSTRUCTION_SETS.items())], _version(compiler))
    if not force and _is_current(target, stamp):
        report.current.append(target)
        return
    objects_folder = BUILD / f"{target.stem}.{os.getpid()}"
    objects_folder.mkdir(parents=True, exist_ok=True)
    try:
        objects = [objects_folder / f"{source.stem}.o" for source in sources]
        commands = [
            [compiler, *common, *_flags_of(source), "-c", str(source), "-o", str(output)]
            for source, output in zip(sources, objects, strict=True)
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(_run, commands))
        linked = objects_folder / target.name
        kind = () if sanitize else ("-shared",)
        _run([compiler, *common, *kind, *map(str, objects), "-o", str(linked)])
        linked.replace(target)
    finally:
        shutil.rmtree(objects_folder)
    _stamp_path(target).write_text(stamp)
    report.built.append(target)


def _build_with_binding(report: BuildReport, compiler: str, force: bool) -> None:
    """The library, and beside it the binding, which is linked with it.

    The binding needs a compiler that torch's headers like; without it the loss is as right, and slower to call.
    """
    installed = Path(torch.__file__).parent
    compilation = [compiler, *TORCH_FLAGS, f"-I{PACKAGE / 'include'}", "-isystem", str(installed / "include")]
    compilation += ["-isystem", sysconfig.get_path("include")]
    compilation += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    compilation += ["-c", str(PACKAGE / "csrc" / "torch" / "binding.cpp")]
    libraries = [f"-L{CPU_LIBRARY.parent}", "-lctc", f"-L{installed / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10"]
    stamp = _stamp([*compilation, *libraries, torch.__version__], _version(compiler), ("include", "csrc/torch"))
    if not force and _is_current(TORCH_BINDING, stamp):
        _build_cpu(report, compiler, CPU_LIBRARY, _sources(), force=force)
        report.current.append(TORCH_BINDING)
        return
    BUILD.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="binding.", dir=BUILD) as folder, ThreadPoolExecutor(1) as beside:
        compiled, linked = Path(folder) / "binding.o", Path(folder) / TORCH_BINDING.name
        compiling = beside.submit(_run, [*compilation, "-o", str(compiled)])
        _build_cpu(report, compiler, CPU_LIBRARY, _sources(), force=force)
        try:
            compiling.result()
            _run([compiler, "-shared", "-Wl,-rpath,$ORIGIN", str(compiled), *libraries, "-o", str(linked)])
        except BuildError as error:
            TORCH_BINDING.unlink(missing_ok=True)  # it may be one that knows another `ctcProblem`
            report.absent.append(f"binding of torch {torch.__version__}: {error}")
            return
        linked.replace(TORCH_BINDING)
    _stamp_path(TORCH_BINDING).write_text(stamp)
    report.built.append(TORCH_BINDING)


def _build_cuda(report: BuildReport, wanted: Literal["present", "all"], force: bool) -> None:
    compiler = shutil.which("nvcc")
    if compiler is None:
        report.absent.append("CUDA library: no nvcc on the PATH")
        return
    architectures = _known_architectures(compiler) if wanted == "all" else _present_architectures()
    if not architectures:
        report.absent.append(
            "CUDA library: no GPU here; `python -m ctc.build --cuda all` builds it for those of others"
        )
        return
    command = cuda_command(compiler, architectures)
    stamp = _stamp(command, _version(compiler))
    if not force and _is_current(CUDA_LIBRARY, stamp):
        report.current.append(CUDA_LIBRARY)
        return
    BUILD.mkdir(exist_ok=True)
    partial = CUDA_LIBRARY.with_suffix(f".{os.getpid()}")
    _run([*command, "-o", str(partial)])
    partial.replace(CUDA_LIBRARY)
    _stamp_path(CUDA_LIBRARY).write_text(stamp)
    report.built.append(CUDA_LIBRARY)


def cuda_command(compiler: str, architectures: list[int]) -> list[str]:
    """How nvcc makes the library, but for its name: code for `architectures`, and for later ones the last one's PTX."""
    codes = [flag for a in architectures for flag in ("-gencode", f"arch=compute_{a},code=sm_{a}")]
    codes += ["-gencode", f"arch=compute_{architectures[-1]},code=compute_{architectures[-1]}"]
    sources = sorted(map(str, (PACKAGE / "csrc").glob("*.cu")))
    includes = (f"-I{PACKAGE / 'include'}", f"-I{PACKAGE / 'csrc'}")
    return [compiler, *CUDA_FLAGS, *includes, "--threads", str(os.cpu_count()), *codes, *sources]


def _known_architectures(compiler: str) -> list[int]:
    known = _run([compiler, "--list-gpu-arch"]).split()
    return [a for a in CUDA_ARCHITECTURES if f"compute_{a}" in known]


def _present_architectures() -> list[int]:
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    return sorted({int(line.replace(".", "")) for line in done.stdout.split()}) if done.returncode == 0 else []


def _openmp_flags(compiler: str) -> tuple[str, ...]:
    """-fopenmp where the compiler can link it: clang often comes without its OpenMP library."""
    BUILD.mkdir(exist_ok=True)
    probe = BUILD / f"openmp.{os.getpid()}"
    command = [compiler, "-fopenmp", "-x", "c++", "-", "-o", str(probe)]
    source = "#include <omp.h>\nint main() { return omp_get_max_threads() < 1; }\n"
    done = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
    probe.unlink(missing_ok=True)
    return ("-fopenmp",) if done.returncode == 0 else WITHOUT_OPENMP


def _stamp(command: list[str], version: str, folders: tuple[str, ...] = ("include", "csrc")) -> str:
    digest = hashlib.sha256(repr((command, version)).encode())
    for path in sorted(p for folder in folders for p in (PACKAGE / folder).rglob("*") if p.is_file()):
        digest.update(str(path.relative_to(PACKAGE)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _stamp_path(target: Path) -> Path:
    return target.with_name(target.name + ".stamp")


def _is_current(target: Path, stamp: str) -> bool:
    path = _stamp_path(target)
    return target.exists() and path.exists() and path.read_text() == stamp


def _version(compiler: str) -> str:
    return _run([compiler, "--version"])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\nfailed with status {done.returncode}:\n{done.stderr.strip()}")
    if done.stderr.strip():
        print(done.stderr.strip(), file=sys.stderr)
    return done.stdout


def main() -> None:
    """The command line: builds and says what happened; exit status 1 when a compiler failed."""
    parser = argparse.ArgumentParser(prog="python -m ctc.build", description="Builds the native CTC library.")
    parser.add_argument("--compiler", help="C++ compiler; default $CXX, then g++, clang++, c++")
    parser.add_argument("--sanitize", choices=list(SANITIZERS), help="build the C++ tests under sanitizers instead")
    parser.add_argument("--cuda", choices=["none", "present", "all"], default="present", help="for which GPUs")
    parser.add_argument("--force", action="store_true", help="build even if nothing changed")
    options = parser.parse_args()
    try:
        report = build(compiler=options.compiler, sanitize=options.sanitize, cuda=options.cuda, force=options.force)
        print(report)
    except BuildError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

"""Compilers and their flags: what is compiled how, and for which processors and GPUs."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

COMPILERS = ("g++", "clang++", "c++")
FLAGS = ("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra")
# GCC warns of its own headers, its bug 105593; clang does not know one of the warnings.
AVX512 = (
    *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c", "-mprefer-vector-width=512"),
    *("-Wno-unknown-warning-option", "-Wno-uninitialized", "-Wno-maybe-uninitialized"),
)
INSTRUCTION_SETS = {
    # GCC's schedule for Skylake is 3 % faster than its generic one, on AMD's processors too.
    "_avx2": ("-mavx2", "-mfma", "-mf16c", "-mtune=skylake"),
    "_avx512": AVX512,
    "_avx512bf16": (*AVX512, "-mavx512bf16"),
    "_avx512vnni": (*AVX512, "-mavx512vnni"),
}
"""The flags of a source file by the end of its name."""
TORCH_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wfatal-errors")
WITHOUT_OPENMP = ("-Wno-unknown-pragmas", "-Wno-unused-parameter")
# The tests that are built with these run for seconds: optimising them takes longer, and hides what an optimiser mends.
SANITIZERS = {
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1", "-O0"),
    "thread": ("-fsanitize=thread", "-g1", "-O0"),
}


class BuildError(RuntimeError):
    """A compiler refused the sources; the message holds its command and its words."""


def find_compiler(name: str | None = None) -> str | None:
    """Path of the C++ compiler `name`, of `$CXX`, or of the first of `COMPILERS`; None where there is none."""
    candidates = [name] if name else [os.environ.get("CXX", ""), *COMPILERS]
    return next((path for candidate in candidates if candidate and (path := shutil.which(candidate))), None)


def run(command: list[str]) -> str:
    """What `command` prints; its warnings go to standard error. Raises `BuildError` when it fails."""
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\nfailed with status {done.returncode}:\n{done.stderr.strip()}")
    if done.stderr.strip():
        print(done.stderr.strip(), file=sys.stderr)
    return done.stdout


def version(compiler: str) -> str:
    """The name of a compiler and what it says of its version."""
    return f"{Path(compiler).name} {run([compiler, '--version'])}"


def accepts(compiler: str, flags: tuple[str, ...], program: str = "int main() {}") -> bool:
    """Whether the compiler compiles and links `program` with `flags`."""
    with TemporaryDirectory() as folder:
        command = [compiler, *flags, "-x", "c++", "-", "-o", f"{folder}/program"]
        done = subprocess.run(command, input=program, text=True, capture_output=True, check=False)
    return done.returncode == 0


def openmp_flags(compiler: str) -> tuple[str, ...]:
    """-fopenmp where the compiler can link it: clang often comes without its OpenMP library."""
    program = "#include <omp.h>\nint main() { return omp_get_max_threads() < 1; }\n"
    return ("-fopenmp",) if accepts(compiler, ("-fopenmp",), program) else WITHOUT_OPENMP


def instruction_set(source: Path) -> str | None:
    """The key of `INSTRUCTION_SETS` that a file's name ends in; None for files that suit every processor."""
    return next((suffix for suffix in INSTRUCTION_SETS if source.stem.endswith(suffix)), None)


def usable_instruction_sets(compiler: str, sources: list[Path]) -> set[str]:
    """Those of the sources that this family of processors has and the compiler knows."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return set()
    used = {suffix for source in sources if (suffix := instruction_set(source))}
    return {suffix for suffix in used if accepts(compiler, INSTRUCTION_SETS[suffix])}

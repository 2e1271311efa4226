"""Builds a native library: nothing where sources, flags and compiler are those of the last build."""

import hashlib
import os
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from ctc.native import compilers
from ctc.native.compilers import BuildError, run
from ctc.native.library import NativeLibrary, alone, can_write

Sanitizer = Literal["address", "thread"]


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
    library: NativeLibrary,
    *,
    compiler: str | None = None,
    sanitize: Sanitizer | None = None,
    binding: bool = True,
    force: bool = False,
) -> BuildReport:
    """Builds what this machine has compilers for; processes that build at the same time wait for each other.

    `compiler` names the C++ compiler (default: $CXX, else the first of g++, clang++, c++ on the PATH). `sanitize`
    builds the test programs instead of the library. `binding`: whether the binding is built where there are its source
    and torch. Raises `BuildError` when a compiler fails.
    """
    report = BuildReport()
    found = compilers.find_compiler(compiler)
    with alone(library.place(".lock")):
        if found is None:
            names = ", ".join(compilers.COMPILERS)
            report.absent.append(f"{library.cpu.name}: no C++ compiler ({names}) on the PATH; set CXX to name one")
        elif sanitize is not None:
            for test in library.sources("test/*_test.cpp"):
                program = library.cpu.parent / f"{test.stem}_{sanitize}"
                tested = library.sources(f"{test.stem.removesuffix('_test')}*.cpp")
                _build_cpu(library, report, found, program, [*tested, test], sanitize=sanitize, force=force)
        elif binding and library.sources("torch/binding.cpp") and find_spec("torch") is not None:
            _build_with_binding(library, report, found, force)
        else:
            _build_cpu(library, report, found, library.cpu, library.sources(), force=force)
    return report


def _build_cpu(
    library: NativeLibrary,
    report: BuildReport,
    compiler: str,
    target: Path,
    sources: list[Path],
    *,
    sanitize: Sanitizer | None = None,
    force: bool = False,
) -> None:
    # Thread sanitizers do not know the barriers of OpenMP; the tests bring threads of their own.
    unthreaded = compilers.WITHOUT_OPENMP
    openmp = unthreaded if sanitize == "thread" else compilers.openmp_flags(compiler)
    if openmp == unthreaded and sanitize != "thread":
        report.absent.append(f"threads: {compiler} cannot link OpenMP, so {target.name} runs on one thread")
    usable = compilers.usable_instruction_sets(compiler, sources)
    sources = [source for source in sources if compilers.instruction_set(source) in {None, *usable}]
    flags = (*compilers.FLAGS, *openmp, *(f"-DNATIVE_HAS{suffix.upper()}" for suffix in sorted(usable)))
    flags += compilers.SANITIZERS[sanitize] if sanitize else ()
    stamp = _stamp(library, compiler, [*flags, *map(str, compilers.INSTRUCTION_SETS.items())])
    if not force and _is_current(target, stamp):
        report.current.append(target)
        return
    common = [compiler, *flags, *(f"-I{folder}" for folder in library.header_folders)]
    with TemporaryDirectory(prefix=f"{target.stem}.", dir=target.parent) as folder:
        objects = [Path(folder) / f"{source.stem}.o" for source in sources]
        own = [compilers.INSTRUCTION_SETS.get(compilers.instruction_set(source) or "", ()) for source in sources]
        commands = [
            [*common, *flags_of_source, "-c", str(source), "-o", str(output)]
            for source, flags_of_source, output in zip(sources, own, objects, strict=True)
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(run, commands))
        linked = Path(folder) / target.name
        run([*common, *(() if sanitize else ("-shared",)), *map(str, objects), "-o", str(linked)])
        _put(linked, target, stamp)
    report.built.append(target)


def _build_with_binding(library: NativeLibrary, report: BuildReport, compiler: str, force: bool) -> None:
    """The library, and beside it the binding, which is linked with it.

    The binding needs a compiler that torch's headers like; without it the library is as right, and slower to call.
    """
    import torch

    target, cpu = library.binding, library.cpu
    installed = Path(torch.__file__).parent
    flags = [*compilers.TORCH_FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    places = ["$ORIGIN", *([] if cpu.parent == target.parent else [str(cpu.parent)])]
    stamp = _stamp(library, compiler, [*flags, torch.__version__, *places], ("include", "csrc/torch"))
    if not force and _is_current(target, stamp):
        _build_cpu(library, report, compiler, cpu, library.sources(), force=force)
        report.current.append(target)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="binding.", dir=target.parent) as folder, ThreadPoolExecutor(1) as beside:
        compiled, linked = Path(folder) / "binding.o", Path(folder) / target.name
        headers = [f"-I{library.package / 'include'}", *(f"-I{folder}" for folder in library.headers)]
        system = ["-isystem", str(installed / "include"), "-isystem", sysconfig.get_path("include")]
        source = library.package / "csrc" / "torch" / "binding.cpp"
        command = [compiler, *flags, *headers, *system, "-c", str(source), "-o", str(compiled)]
        compiling = beside.submit(run, command)
        _build_cpu(library, report, compiler, cpu, library.sources(), force=force)
        libraries = [*(f"-Wl,-rpath,{place}" for place in places), f"-L{cpu.parent}", f"-l{library.name}"]
        libraries += [f"-L{installed / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10"]
        try:
            compiling.result()
            run([compiler, "-shared", str(compiled), *libraries, "-o", str(linked)])
        except BuildError as error:
            target.unlink(missing_ok=True)  # it may be one that knows another interface of the library
            report.absent.append(f"binding of torch {torch.__version__}: {error}")
            return
        _put(linked, target, stamp)
    report.built.append(target)


def _stamp(
    library: NativeLibrary, compiler: str, flags: list[str], folders: tuple[str, ...] = ("include", "csrc")
) -> str:
    known = (flags, compilers.version(compiler), library.digest(folders))
    return hashlib.sha256(repr(known).encode()).hexdigest()


def _put(linked: Path, target: Path, stamp: str) -> None:
    linked.replace(target)
    _stamp_path(target).write_text(stamp)


def _stamp_path(target: Path) -> Path:
    return target.with_name(target.name + ".stamp")


def _is_current(target: Path, stamp: str) -> bool:
    path = _stamp_path(target)
    installed = not can_write(target.parent)  # with these sources, by whoever may write there
    return target.exists() and (installed or (path.exists() and path.read_text() == stamp))

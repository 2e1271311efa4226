"""The command of a package that builds its native libraries."""

import argparse
import sys
from collections.abc import Sequence

from ctc._interruption import EndedByTheUser
from ctc.native import compilers, kernels
from ctc.native.building import build
from ctc.native.compilers import BuildError
from ctc.native.library import NativeLibrary
from ctc.native.loading import load


def command_line(*libraries: NativeLibrary) -> None:
    """The command of a package that builds its libraries; exit status 1 when a compiler failed."""
    names = ", ".join(library.cpu.name for library in libraries)
    description = f"Compiles {names}, unless nothing has changed since the last time."
    parser = argparse.ArgumentParser(prog=libraries[0].command, description=description)
    parser.add_argument("--compiler", help="C++ compiler; default $CXX, then g++, clang++, c++")
    sanitizers = list(compilers.SANITIZERS)
    parser.add_argument(
        "--sanitize", choices=sanitizers, help="compile the C++ tests with this sanitizer in place of the library"
    )
    gpus = "GPUs whose kernels are compiled now, not at their first use: none, those of this machine (default), or all"
    parser.add_argument("--cuda", choices=["none", "present", "all"], default="present", help=gpus)
    parser.add_argument("--force", action="store_true", help="compile even if nothing has changed")
    options = vars(parser.parse_args())
    wanted = options.pop("cuda")
    architectures: Sequence[int] = {"none": (), "all": kernels.ARCHITECTURES}.get(
        wanted, kernels.present_architectures()
    )
    try:
        with EndedByTheUser():
            for library in libraries:
                print(build(library, **options))
                loaded = (
                    load(library)
                    if architectures and not options["sanitize"] and library.sources("cuda_*.cuh")
                    else None
                )
                if loaded is None:
                    continue
                missing = {a: kernels.why_missing(library, a) for a in architectures} if wanted == "present" else {}
                for architecture, why in missing.items():
                    if why:  # slower paths serve
                        print(f"not built: kernels for sm_{architecture}: {why}")
                if usable := [a for a in architectures if not missing.get(a)]:
                    print(f"kernels in {kernels.keep_all(library, loaded, usable)}")
    except BuildError as error:
        sys.exit(str(error))

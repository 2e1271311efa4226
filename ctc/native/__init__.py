"""Builds and loads the native code of a package: C++ for any processor and for its vector units, CUDA, test programs.

    LIBRARY = native.NativeLibrary(package=Path(__file__).parent, command="python -m speech.build")
    native.build(LIBRARY)             # what there are compilers for; says what was not built and why
    native.command_line(LIBRARY)      # the same as a command, with --sanitize, --cuda, --compiler, --force
    library = native.load(LIBRARY)    # a ctypes.CDLL, built at the first use; None: compute without it
    kernels.use(LIBRARY, library)     # its CUDA kernels are compiled at their first launch, by NVRTC

`NativeLibrary` says which files become what. Needs neither torch nor numpy; only the binding needs torch.
"""

from ctc.native.building import BuildReport, build
from ctc.native.command import command_line
from ctc.native.compilers import BuildError, find_compiler
from ctc.native.declaring import check, declare, fields
from ctc.native.library import NativeLibrary
from ctc.native.loading import current_stream, load, load_binding, threads

__all__ = [
    "BuildError",
    "BuildReport",
    "NativeLibrary",
    "build",
    "check",
    "command_line",
    "current_stream",
    "declare",
    "fields",
    "find_compiler",
    "load",
    "load_binding",
    "threads",
]

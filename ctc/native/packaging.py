"""What setuptools does besides copying Python files: builds native libraries, takes configurations along.

Named under `[tool.setuptools.cmdclass]` in two `pyproject.toml`, and loaded by its path before anything is installed:
it imports nothing of this package until there is a copy of it to import.
"""

import atexit
import shutil
import sys
import tempfile
from pathlib import Path

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_py import build_py


class BuildElsewhere(build):
    """Builds in a folder of its own: nothing of an earlier build is packed, and nothing is left among the sources."""

    def initialize_options(self) -> None:
        """Called by setuptools before it reads options."""
        super().initialize_options()
        self.build_base = tempfile.mkdtemp(prefix="build.")
        atexit.register(shutil.rmtree, self.build_base, ignore_errors=True)


class BuildWithLibraries(build_py):
    """Copies packages, then compiles the native code of those that have any, for any processor of this family.

    Where there is no compiler, or it fails, the package is installed without: its first use builds the library.
    """

    def run(self) -> None:
        """Called by setuptools."""
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib).resolve()
        if Path("configs").is_dir():
            shutil.copytree("configs", target / "common" / "configs", dirs_exist_ok=True)
        sys.path.insert(0, str(target))
        sys.dont_write_bytecode = True  # of what is imported from there it would be packed
        from ctc.native import BuildError, NativeLibrary, build

        headers = tuple(target / folder for folder in ("ctc/include", "ctc/csrc", "common/convolution/include"))
        for package in sorted(path.parent for path in target.rglob("csrc")):
            library = NativeLibrary(package=package, command="", headers=() if package.name == "ctc" else headers)
            try:
                print(build(library))
            except BuildError as error:
                print(f"{library.cpu.name} is left to its first use: {error}", file=sys.stderr)
            (library.cpu.parent / ".lock").unlink(missing_ok=True)


class WheelOfThisPlatform(bdist_wheel):
    """A wheel that serves every Python 3 of this platform: its libraries are called by ctypes."""

    def finalize_options(self) -> None:
        """Called by setuptools after it read options."""
        self.distribution.has_ext_modules = lambda: True
        super().finalize_options()

    def get_tag(self) -> tuple[str, str, str]:
        """Python, its binary interface, the platform."""
        return "py3", "none", super().get_tag()[2]

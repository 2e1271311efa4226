"""What takes long and depends on files alone is checked when these have changed: native code by sanitizers, weights by
training. In nightly runs always, for compilers change too.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ctc
from ctc.native import NativeLibrary

SCRIPT = Path(ctc.__path__[0]) / "csrc" / "test" / "sanitize.sh"
RECORD = Path(__file__).with_name("sanitized.txt")
"""By name, the checksum of the files that have passed: of every clone, so it is committed with them."""


def run_programs(package: str, library: NativeLibrary, count: int) -> None:
    """The C++ tests of `package` pass under the sanitizers of addresses and of threads, with `count` problems each."""
    with unless_unchanged(package, library.digest()):
        environment = os.environ | {"PYTHON": sys.executable}
        done = subprocess.run(
            ["bash", str(SCRIPT), str(count), package], capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        tests = list((library.package / "csrc" / "test").glob("*_test.cpp"))
        assert done.stdout.count("all passed") == 2 * len(tests) > 0, done.stdout


@contextlib.contextmanager
def unless_unchanged(name: str, digest: str) -> Iterator[None]:
    """Skips a test if files of that checksum have passed it before; else records that they do."""
    found = digest[:16]
    if on_record().get(name) == found and not os.environ.get("NIGHTLY"):
        pytest.skip(f"{name}: the files are those that have passed; NIGHTLY=1 checks them nevertheless")
    yield
    if (passed := on_record()).get(name) != found:
        passed[name] = found
        RECORD.write_text("".join(f"{name} {passed[name]}\n" for name in sorted(passed)))


def on_record() -> dict[str, str]:
    return dict(line.split() for line in RECORD.read_text().splitlines())

"""A library is loaded where it lies; the first use builds it where it can."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ctc.native import build, find_compiler, load
from ctc.native.library import _temporary_folder, cache_folder
from tests.ctc.native.product import write_product

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


@needs_compiler
def test_the_first_use_builds_and_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    library = write_product(tmp_path)
    assert load(library) is not None
    expected = f"product: compiling {library.cpu}, once; NATIVE_BUILD=0 in the environment prevents it\n"
    assert capfd.readouterr().err == expected
    load.cache_clear()
    assert load(library) is not None
    assert capfd.readouterr().err == ""


@needs_compiler
def test_a_library_older_than_its_sources_is_built_anew(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    library = write_product(tmp_path)
    build(library)
    source = library.package / "csrc" / "which.cpp"
    before = library.cpu.read_bytes()
    source.write_text(
        source.read_text() + '\nextern "C" __attribute__((visibility("default"))) int later() { return 3; }\n'
    )
    os.utime(source, (library.cpu.stat().st_mtime + 10,) * 2)
    found = load(library)
    assert found is not None
    assert found.later() == 3
    assert library.cpu.read_bytes() != before
    assert "product: compiling" in capfd.readouterr().err


def test_the_environment_can_forbid_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NATIVE_BUILD", "0")
    library = write_product(tmp_path)
    assert load(library) is None
    assert not library.cpu.exists()


def test_without_a_compiler_there_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    library = write_product(tmp_path)
    assert load(library) is None


@needs_compiler
def test_sources_that_do_not_compile_are_told_and_cost_the_library_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    library = write_product(tmp_path)
    (library.package / "csrc" / "which.cpp").write_text("#error out of order")
    assert load(library) is None
    assert "out of order" in capfd.readouterr().err


@needs_compiler
def test_a_package_that_cannot_be_written_is_built_in_the_cache_of_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library = write_product(tmp_path)
    (library.package / "_build").touch()  # a file in the folder's place: nobody can write into it, not even root
    assert load(library) is not None
    assert library.cpu.is_relative_to(cache_folder())
    assert cache_folder() == tmp_path / "cache" / "speech-models"
    (library.package / "csrc" / "which.cpp").write_text("// another version")
    assert not library.cpu.exists(), "other sources have a folder of their own"


@needs_compiler
def test_a_library_that_was_installed_read_only_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library = write_product(tmp_path)
    build(library)
    (library.cpu.parent / "libproduct.so.stamp").write_text("by another compiler")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != library.cpu.parent)
    assert build(library).current == [library.cpu]


def test_the_mechanism_needs_no_torch():
    program = "import sys; sys.modules['torch'] = None; from ctc import native; native.NativeLibrary"
    subprocess.run([sys.executable, "-c", program], check=True)


@needs_compiler
@pytest.mark.parametrize("length", [0, 7, 3000, -1])
def test_a_library_that_was_cut_short_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str], length: int):
    library = write_product(tmp_path)
    build(library)
    library.cpu.write_bytes(library.cpu.read_bytes()[:length])
    assert load(library) is None
    told = capfd.readouterr().err
    assert told.startswith(f"product: {library.cpu} cannot be loaded: ")
    assert told.endswith(f"; going on without it; {library.command} --force builds it again\n")
    assert told.count("\n") == 1


@pytest.mark.parametrize("home", ["/dev/null", "~"])
def test_without_a_home_the_cache_is_a_temporary_folder_of_the_user(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path.replace("~", home))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = tmp_path / f"speech-models-{os.getuid()}"
    assert fresh_cache_folder() == own
    assert fresh_cache_folder() == own, "for all processes"
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)
    assert fresh_cache_folder() != own, "others could put code into it"


def fresh_cache_folder() -> Path:
    _temporary_folder.cache_clear()
    return cache_folder()

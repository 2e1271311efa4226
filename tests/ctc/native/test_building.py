"""What is built of the sources of a package, what is not and why; builds at the same time do not disturb each other."""

import ctypes
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ctc.native import BuildError, NativeLibrary, build, command_line, compilers, find_compiler
from tests.ctc.native.product import write_product

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


def answer(path: Path) -> str:
    function = ctypes.CDLL(str(path)).which
    function.restype = ctypes.c_char_p
    return function().decode()


@needs_compiler
def test_files_are_compiled_for_the_instruction_set_in_their_name(tmp_path: Path):
    library = write_product(tmp_path)
    report = build(library)
    assert report.built == [library.cpu], report
    known = compilers.usable_instruction_sets(find_compiler() or "", library.sources())
    assert answer(library.cpu).split() == ["generic", *sorted(suffix[1:] for suffix in known)]


@needs_compiler
def test_files_that_the_compiler_has_no_flags_for_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(compilers.INSTRUCTION_SETS, "_avx512bf16", ("-mno-such-flag",))
    library = write_product(tmp_path)
    assert build(library).built == [library.cpu]
    assert "avx512bf16" not in answer(library.cpu)


@needs_compiler
def test_files_of_other_processors_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compilers.platform, "machine", lambda: "aarch64")
    library = write_product(tmp_path)
    build(library)
    assert answer(library.cpu) == "generic"


@needs_compiler
def test_a_second_build_compiles_nothing_until_a_source_or_header_changes(tmp_path: Path):
    library = write_product(tmp_path)
    build(library)
    report = build(library)
    assert report.built == []
    assert str(report) == f"up to date: {library.cpu}"
    assert build(library, force=True).built == [library.cpu]
    (library.package / "include" / "product.h").write_text(
        (library.package / "include" / "product.h").read_text() + "// changed"
    )
    assert build(library).built == [library.cpu]


@needs_compiler
def test_what_was_copied_elsewhere_is_still_up_to_date(tmp_path: Path):
    build(write_product(tmp_path / "here"))
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    report = build(write_product(tmp_path / "there"))
    assert report.current == [tmp_path / "there" / "product" / "_build" / "libproduct.so"]


@needs_compiler
def test_builds_at_the_same_time_wait_and_compile_once(tmp_path: Path):
    library = write_product(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: build(library), range(4)))
    assert sum(len(report.built) for report in reports) == 1
    left = sorted(path.name for path in library.cpu.parent.iterdir())
    assert left == [".lock", "libproduct.so", "libproduct.so.stamp"]


@needs_compiler
def test_test_programs_are_linked_with_what_they_are_named_after(tmp_path: Path):
    library = write_product(tmp_path)
    (library.package / "csrc" / "other.cpp").write_text("#error not of this test")
    (program,) = build(library, sanitize="address").built
    assert program.name == "which_test_address"
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout.startswith("generic")
    wrong = subprocess.run([program, "1"], capture_output=True, text=True, check=False)
    assert "runtime error: index 2 out of bounds" in wrong.stderr


def test_a_compiler_that_fails_is_quoted_with_its_command(tmp_path: Path):
    broken = tmp_path / "c++"
    broken.write_text(
        '#!/bin/sh\ncase "$*" in *--version*) echo broken 1.0;; *) echo no such luck >&2; exit 3;; esac\n'
    )
    broken.chmod(0o755)
    with pytest.raises(BuildError, match=r"(?s)-c .*failed with status 3:\nno such luck"):
        build(write_product(tmp_path), compiler=str(broken))


def test_without_compilers_the_report_says_how_to_name_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    report = str(build(write_product(tmp_path)))
    assert "not built: libproduct.so: no C++ compiler (g++, clang++, c++) on the PATH; set CXX to name one" in report


def test_headers_of_other_packages_are_found(tmp_path: Path):
    library = NativeLibrary(package=tmp_path / "b", command="", headers=(tmp_path / "a",))
    assert library.header_folders == [tmp_path / "b" / "include", tmp_path / "b" / "csrc", tmp_path / "a"]


@needs_compiler
def test_the_command_prints_the_report_and_a_failure_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    library = write_product(tmp_path)
    monkeypatch.setattr(sys, "argv", ["build", "--cuda", "none"])
    command_line(library)
    assert capsys.readouterr().out == f"built {library.cpu}\n"
    (library.package / "csrc" / "which.cpp").write_text("#error out of order")
    with pytest.raises(SystemExit, match="out of order"):
        command_line(library)

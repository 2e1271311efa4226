"""The build says what it did and why not, and the C++ tests run under sanitizers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ctc import build as build_module
from ctc.build import PACKAGE, BuildError, build, find_compiler


def test_a_second_build_compiles_nothing():
    build()
    report = build()
    assert report.built == []
    assert report.current
    assert "up to date:" in str(report)


def test_without_a_compiler_the_report_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    report = str(build(cuda="present"))
    assert "not built: CPU library: no C++ compiler (g++, clang++, c++) on the PATH; set CXX to name one" in report
    assert "CUDA library: no nvcc on the PATH" in report


def test_a_compiler_that_fails_is_quoted_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broken = tmp_path / "c++"
    broken.write_text(
        '#!/bin/sh\ncase "$*" in *--version*) echo broken 1.0;; *) echo no such luck >&2; exit 3;; esac\n'
    )
    broken.chmod(0o755)
    monkeypatch.setattr(build_module, "CPU_LIBRARY", tmp_path / "libctc.so")
    with pytest.raises(BuildError, match=r"(?s)-c .*failed with status 3:\nno such luck"):
        build(compiler=str(broken))


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_headers_that_the_compiler_cannot_read_cost_the_binding_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    former = tmp_path / "libctc_torch.so"
    former.touch()
    monkeypatch.setattr(build_module, "TORCH_FLAGS", ("-std=c++98", "-Wfatal-errors"))
    monkeypatch.setattr(build_module, "TORCH_BINDING", former)
    report = build()
    assert build_module.CPU_LIBRARY in report.current
    assert "not built: binding of torch" in str(report)
    assert not former.exists()


@pytest.mark.slow
def test_clang_compiles_everything_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    names = ["clang++", *(f"clang++-{version}" for version in range(30, 13, -1))]
    compiler = next(filter(shutil.which, names), None) or pytest.skip("no clang++")
    for name, path in (
        ("BUILD", tmp_path),
        ("CPU_LIBRARY", tmp_path / "libctc.so"),
        ("TORCH_BINDING", tmp_path / "b.so"),
    ):
        monkeypatch.setattr(build_module, name, path)
    for name in ("FLAGS", "TORCH_FLAGS"):  # clang warns of what it reads, not of what it makes of it
        flags = getattr(build_module, name)
        monkeypatch.setattr(build_module, name, tuple("-O0" if flag in ("-O2", "-O3") else flag for flag in flags))
    report = build(compiler=compiler)
    assert report.built == [tmp_path / "libctc.so", tmp_path / "b.so"], report
    assert capfd.readouterr().err == ""


def test_only_files_of_this_processor_are_compiled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(build_module.platform, "machine", lambda: "aarch64")
    assert not [source for source in build_module._sources() if "avx" in source.name]


def test_importing_compiles_nothing_and_prints_nothing():
    done = subprocess.run([sys.executable, "-c", "import ctc"], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


@pytest.mark.slow
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_the_c_tests_pass_under_sanitizers():
    environment = os.environ | {"PYTHON": sys.executable}
    script = PACKAGE / "csrc" / "test" / "sanitize.sh"
    done = subprocess.run(["bash", str(script), "100"], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tests = list(script.parent.glob("*_test.cpp"))
    assert done.stdout.count("all passed") == 2 * len(tests) > 0, done.stdout

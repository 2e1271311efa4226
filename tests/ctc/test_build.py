"""The library and its binding are built, and the C++ tests run under sanitizers."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import ctc
from ctc.bindings import _library
from ctc.bindings._library import LIBRARY
from ctc.native import build, compilers, find_compiler
from tests import sanitized

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


@needs_compiler
def test_headers_that_the_compiler_cannot_read_cost_the_binding_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copytree(LIBRARY.cpu.parent, tmp_path, dirs_exist_ok=True)
    library = replace(LIBRARY, folder=tmp_path)
    library.binding.touch()
    monkeypatch.setattr(compilers, "TORCH_FLAGS", ("-std=c++98", "-Wfatal-errors"))
    report = build(library)
    assert library.cpu in report.current
    assert "not built: binding of torch" in str(report)
    assert not library.binding.exists()


def test_clang_compiles_everything_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    names = ["clang++", *(f"clang++-{version}" for version in range(30, 13, -1))]
    compiler = next(filter(shutil.which, names), None) or pytest.skip("no clang++")
    library = replace(LIBRARY, folder=tmp_path)
    for name in ("FLAGS", "TORCH_FLAGS"):  # clang warns of what it reads, not of what it makes of it
        flags = getattr(compilers, name)
        monkeypatch.setattr(compilers, name, tuple("-O0" if flag in ("-O2", "-O3") else flag for flag in flags))
    report = build(library, compiler=compiler)
    assert report.built == [library.cpu, library.binding], report
    assert capfd.readouterr().err == ""


def test_the_headers_and_the_library_have_their_places_for_c_programs():
    assert (ctc.include_dir() / "ctc.h").is_file()
    assert ctc.library_file() == LIBRARY.cpu


def test_a_library_that_cannot_be_built_is_an_error_for_c_programs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_library, "load_cpu", lambda: None)
    with pytest.raises(FileNotFoundError, match=r"libctc.so is missing; `python -m ctc.build` makes it where there is"):
        ctc.library_file()


def test_without_torch_there_are_decoders_and_the_c_library_and_a_clear_message_for_the_rest():
    program = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import ctc
print(ctc.library_file())
import numpy as np
print(ctc.beam_search(np.log([[[0.1, 0.6, 0.3]]]), [1])[0][0].labels, ctc.greedy(np.eye(3)[None], [3])[0].labels)
print(ctc.align(np.eye(3)[None], [[1, 2]], [3])[0].start_frames, ctc.segment(np.eye(3), [[1], [2]])[1].end_frame)
try:
    ctc.ctc_loss
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    path, found, aligned, message = done.stdout.splitlines()
    assert path == str(LIBRARY.cpu)
    assert (found, aligned) == ("[1] [1, 2]", "[1, 2] 3")
    assert message == (
        "ctc.ctc_loss needs torch (pip install torch); without it there are decoding, `align` and `segment`"
    )


@needs_compiler
def test_the_c_tests_pass_under_sanitizers():
    sanitized.run_programs("ctc", LIBRARY, count=100)

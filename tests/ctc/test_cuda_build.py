"""The CUDA sources compile without a warning where nvcc is, and the build says why where it does not compile them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ctc import build as build_module
from ctc.build import CUDA_ARCHITECTURES, build, cuda_command

EXPORTED = (
    *("ctc_loss_cuda", "ctc_loss_cuda_workspace", "ctc_scale_gradient_cuda", "ctc_greedy_cuda", "ctc_align_cuda"),
    *("compute_ctc_loss", "compute_ctc_loss_double", "get_workspace_size", "get_workspace_size_double"),
)


@pytest.mark.slow
def test_the_library_compiles_without_a_warning_and_exports_its_functions(tmp_path: Path):
    compiler = shutil.which("nvcc") or pytest.skip("no nvcc")
    target = tmp_path / "libctc_cuda.so"
    done = subprocess.run([*cuda_command(compiler, [90]), "-o", target], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == ""
    symbols = target.read_bytes()
    assert all(name.encode() in symbols for name in EXPORTED)


def test_every_architecture_gets_code_and_later_ones_what_they_can_compile():
    command = " ".join(cuda_command("nvcc", list(CUDA_ARCHITECTURES)))
    assert all(f"arch=compute_{a},code=sm_{a} " in command for a in CUDA_ARCHITECTURES)
    assert f"code=compute_{CUDA_ARCHITECTURES[-1]} " in command


def test_without_a_gpu_the_report_says_how_to_build_for_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(build_module, "_present_architectures", list)
    monkeypatch.setattr(build_module.shutil, "which", lambda name: f"/usr/bin/{name}")
    report = str(build(cuda="present"))
    assert "CUDA library: no GPU here; `python -m ctc.build --cuda all` builds it for those of others" in report


def test_the_architectures_are_those_of_the_gpus_that_are_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lister = tmp_path / "nvidia-smi"
    lister.write_text("#!/bin/sh\necho 9.0\necho 8.6\necho 9.0\n")
    lister.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert build_module._present_architectures() == [86, 90]

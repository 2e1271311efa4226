"""The CUDA sources compile without a warning where nvcc is."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ctc._library import LIBRARY
from ctc.native.compilers import cuda_command

EXPORTED = (
    *("ctc_loss_cuda", "ctc_loss_cuda_workspace", "ctc_scale_gradient_cuda", "ctc_greedy_cuda", "ctc_align_cuda"),
    *("compute_ctc_loss", "compute_ctc_loss_double", "get_workspace_size", "get_workspace_size_double"),
)


@pytest.mark.slow
def test_the_library_compiles_without_a_warning_and_exports_its_functions(tmp_path: Path):
    compiler = shutil.which("nvcc") or pytest.skip("no nvcc")
    target = tmp_path / "libctc_cuda.so"
    command = cuda_command(compiler, [90], LIBRARY.sources("*.cu"), LIBRARY.header_folders)
    done = subprocess.run([*command, "-o", target], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == ""
    symbols = target.read_bytes()
    assert all(name.encode() in symbols for name in EXPORTED)

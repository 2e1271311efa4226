"""The CUDA sources compile without a warning where nvcc is."""

from pathlib import Path

import pytest

from ctc._library import LIBRARY
from tests import emulation

EXPORTED = (
    *("ctc_loss_cuda", "ctc_loss_cuda_workspace", "ctc_scale_gradient_cuda", "ctc_greedy_cuda", "ctc_align_cuda"),
    *("compute_ctc_loss", "compute_ctc_loss_double", "get_workspace_size", "get_workspace_size_double"),
)


@pytest.mark.slow
def test_the_library_compiles_without_a_warning_and_exports_its_functions(tmp_path: Path):
    emulation.compiles_by_nvcc(LIBRARY, tmp_path, EXPORTED)

"""CUDA kernels are compiled by NVRTC, without a GPU; what launches them is the library itself, with any libcuda."""

import ctypes
import os
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

import ctc
from ctc.bindings import _cuda_library
from ctc.bindings._library import LIBRARY
from ctc.native import NativeLibrary, command_line, find_compiler, kernels, load
from fastconformer.attention._library import LIBRARY as ATTENTION
from fastconformer.transducer._library import LIBRARY as TRANSDUCER
from tests.timing import timed

needs_nvrtc = pytest.mark.skipif(kernels.compiler() is None, reason="no NVRTC: pip install nvidia-cuda-nvrtc")
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
LIBRARIES = (LIBRARY, TRANSDUCER, ATTENTION)
HOT = (
    *("block_rows_kernel<float, true>", "block_rows_kernel<Bfloat, true>", "walk_kernel", "cell_kernel<"),
    *("lattice_kernel<2, 1, false>", "lattice_kernel<8, 2, false>", "score_kernel<", "follow_kernel<"),
    "attend_kernel<ctc_cuda::Bfloat, 4>",
)
ARCHITECTURES = (80, 86, 89, 90, 100, 120) if os.environ.get("NIGHTLY") else (90,)
RARE = {"lattice_kernel<8, 8,": 16, "<double": 16, "beam_": 64}
"""What may keep some bytes in memory: lattices of more than 1,023 labels, doubles, which are for tests, and what a lane
alone does in a beam search."""


def all_kernels() -> list[tuple[NativeLibrary, str]]:
    found = [(library, loaded) for library in LIBRARIES if (loaded := load(library)) is not None]
    named = [(library, name) for library, loaded in found for name in kernels.names(library, loaded)]
    return [one for one in named if os.environ.get("NIGHTLY") or any(hot in one[1] for hot in HOT)]


@pytest.mark.timeout(1800)
@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_compiles_in_seconds_and_keeps_its_numbers_in_registers(architecture: int):
    found = all_kernels()
    assert found
    for library, name in found:
        kernel, took = timed(partial(kernels.compiled, library, name, architecture))
        assert took < 5, name
        spilled = sum(map(int, re.findall(r"(\d+) bytes spill stores", kernel.log)))
        assert "registers" in kernel.log
        most = 0 if any(hot in name for hot in HOT) else max((n for part, n in RARE.items() if part in name), default=8)
        assert spilled <= most, f"{name}: {spilled} bytes"
        assert kernel.code.startswith(b"\x7fELF")
        assert kernel.symbol in kernel.code


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    """A library that has not launched anything yet, and makes its kernels in a folder of its own."""
    monkeypatch.setenv(kernels.FOLDER, str(tmp_path / "kernels"))
    kernels.folder_of.cache_clear()
    kernels.why_missing.cache_clear()
    load(LIBRARY) or pytest.skip("no C++ compiler")
    shutil.copyfile(LIBRARY.cpu, tmp_path / "copy.so")
    yield ctypes.CDLL(str(tmp_path / "copy.so"))
    kernels.folder_of.cache_clear()
    kernels.why_missing.cache_clear()


@needs_nvrtc
def test_a_kernel_is_compiled_once_and_kept(copy: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch):
    assert kernels.why_missing(LIBRARY, 90) is None
    (file,) = kernels.folder_of(LIBRARY).rglob("*.cubin")
    name = kernels.names(LIBRARY, copy)[0]
    assert file == kernels.folder_of(LIBRARY) / kernels.file_of(name, 90)
    before = file.read_bytes()
    code, _, symbol = before.rpartition(b"\n")
    assert symbol in code
    monkeypatch.setattr(kernels, "compiler", lambda: None)
    kernels.keep(LIBRARY, name, 90, file)
    assert file.read_bytes() == before


@needs_nvrtc
def test_gpus_that_nvrtc_does_not_know_get_what_later_drivers_compile():
    kernel = kernels.compiled(LIBRARY, "ctc_cuda::scale_kernel<float>", 990)
    assert kernel.code.lstrip().startswith(b"//")
    assert b".target sm_" in kernel.code
    assert kernels.compiled(LIBRARY, "ctc_cuda::scale_kernel<float>", 87).code.startswith(b"\x7fELF")


@needs_nvrtc
def test_what_does_not_compile_is_quoted():
    with pytest.raises(kernels.BuildError, match=r"(?s)NVRTC does not compile ctc_cuda::no_kernel with .*no_kernel"):
        kernels.compiled(LIBRARY, "ctc_cuda::no_kernel", 90)


@needs_compiler
def test_a_gpu_without_kernels_hears_why(copy: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch):
    assert kernels.why_missing(LIBRARY, 70) == "its kernels need compute capability 7.5, and this GPU has 7.0"
    monkeypatch.setattr(kernels, "compiler", lambda: None)
    why = kernels.why_missing(LIBRARY, 90)
    assert why == (
        "NVRTC, which compiles kernels, is missing: CUDA builds of torch have it; `pip install nvidia-cuda-nvrtc`"
    )
    ctc.bindings._library.warn_slow.cache_clear()
    with pytest.warns(ctc.SlowPathWarning, match="ctc_loss runs in plain torch, which is slower: NVRTC, which"):
        ctc.bindings._library.warn_slow("ctc_loss", why)


@needs_compiler
def test_without_a_driver_a_launch_is_answered_with_a_status(copy: ctypes.CDLL, tmp_path: Path):
    from tests.ctc.test_c_interface import EXECUTION_FAILED, CtcOptions, ints

    kernels.use(LIBRARY, copy, driver=tmp_path / "no_libcuda.so")
    one, memory, numbers = ints([1]), ctypes.create_string_buffer(100_000), (ctypes.c_float * 5)()
    arguments = (numbers, None, one, one, one, 5, 1, numbers, memory, CtcOptions(loc=1))
    assert copy.compute_ctc_loss(*arguments) == EXECUTION_FAILED
    assert _cuda_library.DEVICE.declared(copy).ctc_greedy_cuda_workspace(2, 3) > 0


@pytest.mark.parametrize(
    "place",
    [
        "target/nvidia/cu13/lib/libnvrtc.so.13",
        "target/torch/lib/libnvrtc-0a.so.12",
        "prefix/lib/libnvrtc.so.12",
        "cuda/lib64/libnvrtc.so.12",
    ],
)
def test_nvrtc_is_found_wherever_installers_put_it(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).touch()
    monkeypatch.setattr(kernels.sys, "path", ["", str(tmp_path / "target")])
    monkeypatch.setattr(kernels.sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert list(kernels._candidates()) == [tmp_path / place]


@pytest.mark.parametrize("damage", [b"", b"\x7fELF\n", b"\x7fELF\nscale", b"scale"])
def test_a_kernel_of_which_a_part_was_kept_is_made_anew(damage: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernels, "compiled", lambda *_: kernels.CompiledKernel(b"code of scale", b"scale", ""))
    file = tmp_path / "scale.cubin"
    file.write_bytes(damage)
    kernels.keep(LIBRARY, "scale", 90, file)
    assert file.read_bytes() == b"code of scale\nscale"


@needs_compiler
def test_a_build_where_the_gpu_at_hand_can_have_no_kernels_says_so_and_succeeds(
    copy: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(kernels, "compiler", lambda: None)
    monkeypatch.setattr(kernels, "present_architectures", lambda: [70, 90])
    monkeypatch.setattr(kernels.sys, "argv", ["build"])
    command_line(LIBRARY)
    told = capsys.readouterr().out
    assert "not built: kernels for sm_70: its kernels need compute capability 7.5" in told
    assert "not built: kernels for sm_90: NVRTC, which compiles kernels, is missing" in told
    monkeypatch.setattr(kernels.sys, "argv", ["build", "--cuda", "all"])
    with pytest.raises(SystemExit, match="NVRTC, which compiles kernels, is missing"):
        command_line(LIBRARY)


def test_gpus_whose_driver_knows_no_capability_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told = tmp_path / "nvidia-smi"
    told.write_text("#!/bin/sh\nprintf '9.0\\n[N/A]\\n12.0\\n9.0\\n'\n")
    told.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert kernels.present_architectures() == [90, 120]

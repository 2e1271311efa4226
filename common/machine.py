"""What machine this is, and at which commit: its processor, its instructions, its versions."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

CODE = (".py", ".c", ".cpp", ".cu", ".h", ".inl", ".cuh", ".sh", ".toml", ".txt")
"""Endings of files that change what is measured."""

VECTOR_FLAGS = ("avx2", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")


def environment(device: torch.device) -> dict[str, Any]:
    """Versions, device and commit, for environment.json and benchmark rows."""
    on_gpu = device.type == "cuda"
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda if on_gpu else None,
        "device": torch.cuda.get_device_name(device) if on_gpu else processor_name() + processor_model() + _held_back(),
        "threads": None if on_gpu else torch.get_num_threads(),
        "commit": commit(),
    }


def _held_back() -> str:
    """What a device's name gains where ATEN_CPU_CAPABILITY and ONEDNN_MAX_CPU_ISA hold torch's vectors back."""
    names = os.environ.get("ATEN_CPU_CAPABILITY", "").upper(), os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    if not any(names):
        return ""
    return f" ({names[0]} forced)" if names[0] == names[1] else f" (ATen {names[0] or '-'}, oneDNN {names[1] or '-'})"


def processor_flags() -> str | None:
    """Those vector instructions of the CPU that number crunching depends on; None where the system does not tell."""
    flags = _of_processor("flags")
    return None if flags is None else " ".join(flag for flag in VECTOR_FLAGS if flag in flags.split())


def processor_vendor() -> str | None:
    """Who made the CPU, as it says: GenuineIntel, AuthenticAMD; None where the system does not tell."""
    return _of_processor("vendor_id")


def _of_processor(field: str) -> str | None:
    """What /proc/cpuinfo says of the first processor: "" where it lacks the field, None where there is no such file."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    pairs = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in pairs if name.strip() == field), "")


def commit(folder: Path = Path(__file__).parent) -> str:
    """The commit of the working tree that `folder` lies in, `-dirty` appended where its code is another; "unknown"
    elsewhere. Rows that were measured and pages that show them are no code, nor are files of data beside it."""

    def git(*arguments: str) -> str:
        command = ["git", "--no-optional-locks", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10, check=True).stdout

    no_code = [":(top,exclude)benchmarks/results", ":(top,exclude)*.md"]
    try:
        name = git("describe", "--always", "--abbrev=9", "--exclude=*").strip()
        changed = git("status", "--porcelain", "--untracked-files=all", "--", ":/", *no_code).splitlines()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    is_dirty = any(not line.startswith("??") or line.rstrip('"').endswith(CODE) for line in changed)
    return f"{name}-dirty" if is_dirty else name


def processor_name() -> str:
    """The CPU's own name where the system tells it, else its architecture."""
    name = _of_processor("model name")
    if name is None:
        return platform.processor() or platform.machine()
    return name or platform.machine()


def processor_model() -> str:
    """What tells processors of one name apart: " family 26 model 2"; "" where the system does not tell."""
    family, model = _of_processor("cpu family"), _of_processor("model")
    return f" family {family} model {model}" if family and model else ""

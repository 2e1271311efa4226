"""The weights of the reader are those that its phrases teach, on every machine."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from common.text.english.say import TABLES
from common.text.european.language import TABLES as EUROPEAN
from common.text.mandarin.say import TABLES as MANDARIN
from tests.sanitized import unless_unchanged

FOLDERS = {"english": TABLES, "european": EUROPEAN, "mandarin": MANDARIN}
ROOT = Path(__file__).resolve().parents[4]
TEACHES = (
    "scripts/train_reader.py",
    "benchmarks/carriers.py",
    "benchmarks/normalization.py",
    "benchmarks/phrases",
    "common/text",
    "constraints.txt",
)
"""What the weights depend on, and they themselves."""


def digest() -> str:
    """The checksum of what teaches the weights."""
    found = hashlib.sha256()
    for path in sorted(file for name in TEACHES for file in (ROOT / name, *(ROOT / name).rglob("*")) if file.is_file()):
        if "__pycache__" not in path.parts:
            found.update(f"{path.relative_to(ROOT)} ".encode() + path.read_bytes())
    return found.hexdigest()


@pytest.mark.timeout(1500)
def test_phrases_teach_the_weights_that_are_kept_to_the_last_bit(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "train_reader.py"), "--output", str(tmp_path)]
    with unless_unchanged("weights-of-readers", digest()):
        subprocess.run(command, check=True, capture_output=True)
        for name, folder in FOLDERS.items():
            assert (tmp_path / f"{name}.tsv").read_bytes() == (folder / "weights.tsv").read_bytes()


def test_weights_are_small() -> None:
    assert all((folder / "weights.tsv").stat().st_size <= 100_000 for folder in FOLDERS.values())

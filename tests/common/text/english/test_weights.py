"""The weights of the reader are those that its phrases teach, on every machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from common.text.english.say import TABLES
from common.text.european.language import TABLES as EUROPEAN
from common.text.mandarin.say import TABLES as MANDARIN

FOLDERS = {"english": TABLES, "european": EUROPEAN, "mandarin": MANDARIN}
ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.timeout(1500)
def test_phrases_teach_the_weights_that_are_kept_to_the_last_bit(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "train_reader.py"), "--output", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    for name, folder in FOLDERS.items():
        assert (tmp_path / f"{name}.tsv").read_bytes() == (folder / "weights.tsv").read_bytes()


def test_weights_are_small() -> None:
    assert all((folder / "weights.tsv").stat().st_size <= 100_000 for folder in FOLDERS.values())

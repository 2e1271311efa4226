"""scripts/fastconformer/translation.py does all of its steps, in seconds, and goes on where it stopped."""

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "fastconformer" / "translation.py"


def test_the_corpus_the_training_and_the_scores_are_one_command(tmp_path):
    command = [sys.executable, str(SCRIPT), "--size", "toy", "--data_dir", "data", "--run_dir", "runs"]
    first, second = (
        subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    for told in (first, second):
        assert re.search(r"en -> de: BLEU [\d.]+, chrF [\d.]+ of 4 translations", told)
        assert re.search(r"in a wrong language: \d+ of 12", told)
        assert re.search(r"words as in fp32: -?[\d.]+% of \d+", told)
    assert "finished at step 12: there is nothing to do" in second
    assert (tmp_path / "runs" / "translation-toy" / "test_hypotheses.jsonl").is_file()

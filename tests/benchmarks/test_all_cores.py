import sys

import pytest

from benchmarks import all_cores


def test_processes_run_side_by_side_and_a_failure_is_told():
    naps = [[sys.executable, "-c", "import time; time.sleep(1)"]] * 2
    assert 1 <= all_cores.took(naps, 1) < 60
    with pytest.raises(SystemExit, match="no such model"):
        all_cores.took([[sys.executable, "-c", "raise SystemExit('no such model')"]], 1)


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(SystemExit, match="no .flac or .wav files in it"):
        all_cores.main(["model.pt", str(tmp_path)])

import os
import sys

import pytest

from benchmarks import all_cores


def test_processes_run_side_by_side_and_a_failure_is_told(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    meet = "import sys; open(sys.argv[1], sys.argv[2]).close()"  # each end of a pipe opens once the other does
    commands = [[sys.executable, "-c", meet, str(tmp_path / "pipe"), mode] for mode in ("r", "w")]
    assert all_cores.took(commands, 1) > 0
    with pytest.raises(SystemExit, match="no such model"):
        all_cores.took([[sys.executable, "-c", "raise SystemExit('no such model')"]], 1)


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(SystemExit, match="no .flac or .wav files in it"):
        all_cores.main(["model.pt", str(tmp_path)])

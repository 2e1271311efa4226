import json
import sys

import numpy as np
import pytest
import soundfile

from benchmarks import length


def test_a_recording_is_as_long_as_asked_for(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.full(3000, 0.1), length.RATE)
    soundfile.write(tmp_path / "b.wav", np.full(2000, -0.1), length.RATE)
    (tmp_path / "made").mkdir()
    length.recording(tmp_path, 0.5, tmp_path / "made" / "long.wav")
    samples_N, rate = soundfile.read(tmp_path / "made" / "long.wav")
    assert (len(samples_N), rate) == (8000, length.RATE)
    assert (samples_N[:3000] > 0).all()
    assert (samples_N[3000:5000] < 0).all()


def test_a_command_costs_its_own_time_and_memory():
    small, large = (
        length.cost([sys.executable, "-c", f"import time; b = b'x' * {n}; time.sleep(0.3)"]) for n in (1, 200 * 2**20)
    )
    assert 190 < large.peak_mib - small.peak_mib < 230
    with pytest.raises(SystemExit, match="no such model"):
        length.cost([sys.executable, "-c", "raise SystemExit('no such model')"])


def test_the_newest_rows_are_drawn(tmp_path):
    rows = [
        {"model": "jasper", "minutes": minutes, "seconds_per_minute": 1.5, "peak_mib": 300} for minutes in (1, 10, 60)
    ]
    (tmp_path / "length.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    length.main(["--plot", str(tmp_path / "length.svg"), "--results", str(tmp_path)])
    assert "<svg" in (tmp_path / "length.svg").read_text()
    with pytest.raises(SystemExit, match="no rows to draw"):
        length.plot(tmp_path / "length.svg", tmp_path / "none")


def test_what_is_missing_on_the_command_line_is_said(tmp_path, capsys):
    for words, message in (
        (["--jasper", "a.pt"], "--recordings: a folder is needed"),
        (["--fastpitch", "a.pt"], "--fastpitch and --vocoder: expected both or none"),
        (
            ["--jasper", "a.pt", "--recordings", "a", "--repeats", "0"],
            "--repeats 0, --minutes [1.0, 10.0, 60.0]: expected at",
        ),
        (["--recordings", "a"], "nothing to measure: expected the checkpoint of a model, or --plot"),
    ):
        with pytest.raises(SystemExit):
            length.main(words)
        assert message in capsys.readouterr().err

import json
import sys

import pytest
import soundfile
import torch

from common.config import ConfigError
from tests.wav2vec2.small import small_config
from wav2vec2 import benchmark
from wav2vec2.benchmark import BenchmarkConfig


def quick(tmp_path, **options):
    shape = {"model": small_config(labels=()), "device": "cpu", "repeats": 1, "warmup": 0, "results": tmp_path}
    return BenchmarkConfig(**(shape | {"seconds": 0.5, "batch_size": 2, "name": "small", "hourglass": ""} | options))


@pytest.mark.parametrize(
    ("task", "sides"),
    [
        ("inference", ["ours", "transformers"]),
        ("pretraining", ["ours", "transformers"]),
        ("contrast", ["ours", "published"]),
    ],
)
def test_both_sides_get_a_row_with_their_ratio(task, sides, tmp_path, capsys):
    pytest.importorskip("transformers")
    rows = benchmark.main(quick(tmp_path, task=task))
    assert [row["side"] for row in rows] == sides
    first, second = (row["times_faster"] for row in rows)
    assert first[sides[1]] == pytest.approx(1 / second[sides[0]], rel=0.01)
    assert all(row["peak_memory_mib"] >= 0 and row["p50"] > 0 for row in rows)
    written = (tmp_path / f"wav2vec2_{task}.jsonl").read_text().splitlines()
    assert [json.loads(line)["side"] for line in written] == sides
    assert f"x as fast as {sides[1]}" in capsys.readouterr().out


def test_an_hourglass_is_a_side_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    calls = benchmark.inference(quick(tmp_path, model=small_config(hourglass="[1,(2,2),1]")), torch.device("cpu"))
    assert list(calls) == ["ours"]
    with pytest.raises(ConfigError, match=r"^transformers is not installed, and this compares with it: pip install tr"):
        benchmark.inference(quick(tmp_path, hourglass="[1,(2,2),1]"), torch.device("cpu"))


def test_nobody_else_need_take_part(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    wanted = {"sides": ("ours", "hourglass"), "hourglass": "[1,(2,2),1]"}
    assert [row["side"] for row in benchmark.main(quick(tmp_path, **wanted))] == ["ours", "hourglass"]


def test_speech_comes_from_recordings_that_are_long_enough(tmp_path):
    for i, seconds in enumerate((0.4, 0.6, 0.7)):
        soundfile.write(tmp_path / f"{i}.wav", [0.1 * i] * round(16000 * seconds), 16000)
    audio_BN = benchmark.speech(quick(tmp_path, audio=tmp_path), torch.device("cpu"))
    assert audio_BN[:, 0].tolist() == pytest.approx([0.1, 0.2], abs=1e-4)
    with pytest.raises(ConfigError, match=r": 2 recordings of 0\.5 s; expected 3$"):
        benchmark.speech(quick(tmp_path, audio=tmp_path, batch_size=3), torch.device("cpu"))


def test_the_peak_of_memory_counts_what_is_alive_at_once():
    def call():
        a = torch.zeros(2**20)
        del a
        return torch.zeros(2**21).sum()

    assert benchmark.peak_memory(call, torch.device("cpu")) == 8


def test_impossible_measurements_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^batch_size = 0, repeats = 1, seconds = 0\.5: expected above 0$"):
        quick(tmp_path, batch_size=0)
    with pytest.raises(ValueError, match=r"^sides: expected at least one of ours, hourglass, transformers$"):
        quick(tmp_path, sides=())

import pytest

from common.benchmark import read_rows
from common.config import ConfigError
from fastpitch.vocoders.benchmark import BenchmarkConfig, main
from tests.fastpitch.vocoders.small import save_hifigan, save_waveglow


def test_both_layouts_take_turns_and_the_row_says_how_far_they_are_apart(tmp_path):
    cfg = BenchmarkConfig(
        vocoders=(str(save_hifigan(tmp_path / "a.pt")), str(save_waveglow(tmp_path / "b.pt")), "toy"),
        frames=12, repeats=2, batch_sizes=(1, 2), device="cpu", results=tmp_path,
    )  # fmt: skip
    rows = main(cfg)
    assert read_rows("vocoders", folder=tmp_path) == rows
    assert [(row["mode"], row["batch"]) for row in rows[:4]] == [("plain", 1), ("fused", 1), ("plain", 2), ("fused", 2)]
    assert rows[1]["greatest_difference"] < 1e-5
    assert {"times_faster_than_plain", "times_real_time", "p50", "p99", "threads", "commit"} <= set(rows[1])
    assert rows[4]["seconds_of_audio"] == pytest.approx(12 * 256 / 22050, abs=1e-3)


def test_a_number_of_nothing_is_refused():
    with pytest.raises(
        ValueError, match=r"frames = 0, repeats = 5, threads = 1, batch_sizes = \(1,\): expected at lea"
    ):
        BenchmarkConfig(frames=0)


def test_a_vocoder_that_is_not_known_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"vocoders: 'v9': expected a checkpoint \(.pt\) or one of .*v1, v2, v3"):
        main(BenchmarkConfig(vocoders=("v9",), device="cpu", results=tmp_path))

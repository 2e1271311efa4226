import json
import math
import sys

import pytest
import soundfile
import torch

from common.benchmark import Timings
from common.config import ConfigError
from tests.wav2vec2.small import small_config
from wav2vec2.benchmark import measure
from wav2vec2.benchmark import sides as benchmark_sides
from wav2vec2.benchmark.config import BenchmarkConfig
from wav2vec2.benchmark.sides import Side


def quick(tmp_path, **options):
    shape = {"model": small_config(labels=()), "device": "cpu", "repeats": 1, "warmup": 0, "results": tmp_path}
    return BenchmarkConfig(
        **(shape | {"seconds": 0.5, "batch_sizes": (2,), "name": "small", "hourglass": ()} | options)
    )


@pytest.mark.parametrize(
    ("task", "sides"),
    [
        ("inference", ["ours", "transformers"]),
        ("pretraining", ["ours", "transformers"]),
    ],
)
def test_both_sides_get_a_row_with_their_ratio(task, sides, tmp_path, capsys):
    pytest.importorskip("transformers")
    rows = measure.main(quick(tmp_path, task=task))
    assert [row["side"] for row in rows] == sides
    a, b = rows[0]["times_faster"][sides[1]], rows[1]["times_faster"][sides[0]]
    assert a * b == pytest.approx(1, abs=0.0006 * (a + b))  # each is rounded to 0.001
    assert all(row["peak_memory_mib"] >= 0 and row["p50"] > 0 for row in rows)
    written = (tmp_path / f"wav2vec2_{task}.jsonl").read_text().splitlines()
    assert [json.loads(line)["side"] for line in written] == sides
    assert f"x as fast as {sides[1]}" in capsys.readouterr().out


def test_an_hourglass_is_a_side_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    plain, shortened = small_config(labels=()), small_config(hourglass="[1,(2,2),1]")
    sides = benchmark_sides.inference(quick(tmp_path, model=shortened), 2, torch.device("cpu"))
    assert list(sides) == ["ours"]
    with pytest.raises(ConfigError, match=r"^transformers is not installed, and this compares with it: pip install tr"):
        benchmark_sides.inference(quick(tmp_path, model=plain), 2, torch.device("cpu"))


def test_nobody_else_need_take_part(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    wanted = {"sides": ("ours", "hourglass"), "hourglass": ("[1,(2,2),1]",)}
    assert [row["side"] for row in measure.main(quick(tmp_path, **wanted))] == ["ours", "hourglass"]


@pytest.mark.parametrize("task", ["inference", "pretraining", "finetuning"])
@pytest.mark.parametrize("kind", ["base", "large"])
def test_several_hourglasses_are_compared_in_one_run(task, kind, tmp_path, capsys):
    model = small_config(kind, labels=())
    wanted = {"sides": ("ours", "hourglass"), "hourglass": ("[1,(2,2),1]", "[1,(2,3),1]"), "model": model}
    n_batches = 1 if task == "inference" else 2
    rows = measure.main(quick(tmp_path, task=task, concat_batches=n_batches, seconds=1.0, **wanted))
    assert [row["side"] for row in rows] == ["ours", "hourglass 2", "hourglass 3"]
    assert [row["hourglass"] for row in rows] == ["", *wanted["hourglass"]]
    for row in rows:
        assert row["times_real_time"] == pytest.approx(n_batches * 2 * 1.0 / row["mean"] * 1e3, abs=0.006)  # rounded
        assert row["memory_mib"] >= row["peak_memory_mib"]
        assert len(row["times_faster"]) == 2
        assert row.get("memory_percent_of_ours", 100) > 0
    assert "s of audio per s" in capsys.readouterr().out


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("task", ["inference", "pretraining", "finetuning"])
def test_every_precision_is_measured(task, precision, tmp_path):
    (row,) = measure.main(quick(tmp_path, task=task, sides=("ours",), precision=precision))
    assert row["precision"] == precision


def test_a_step_of_training_learns(tmp_path):
    cfg = quick(tmp_path, sides=("ours",), seconds=1.0)
    for task in (benchmark_sides.pretraining, benchmark_sides.finetuning):
        (side,) = task(cfg, 2, torch.device("cpu")).values()
        before = [tensor.clone() for tensor in side.kept()]
        side.call()
        after = list(side.kept())
        assert len(after) > len(before)  # moments of Adam
        assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=False))
        assert all(tensor.isfinite().all() for tensor in after)


def test_each_batch_size_has_its_rows(tmp_path):
    rows = measure.main(quick(tmp_path, sides=("ours",), batch_sizes=(1, 3)))
    assert [row["batch"] for row in rows] == [1, 3]


def test_a_side_that_does_not_fit_into_the_memory_is_told_and_left_out(capsys):
    def too_much():
        raise torch.OutOfMemoryError("CUDA out of memory")

    sides = {"ours": Side(lambda: 1), "hourglass": Side(too_much), "transformers": Side(lambda: 2)}
    assert list(measure.fitting(sides, 16)) == ["ours", "transformers"]
    assert capsys.readouterr().err == "hourglass: out of memory with a batch of 16; left out\n"


def test_memory_is_what_is_kept_and_what_a_call_takes_beside_that_of_ours(tmp_path):
    def megabytes(n: int) -> torch.Tensor:
        return torch.zeros(n, 2**18)

    kept = {"ours": megabytes(6), "hourglass": megabytes(1)}
    sides = {name: Side(lambda: megabytes(2).sum(), lambda name=name: [kept[name]]) for name in kept}
    timings = {name: Timings([1.0]) for name in kept}
    ours, hourglass = measure.rows_of(quick(tmp_path), 2, sides, timings, torch.device("cpu"))
    assert (ours["peak_memory_mib"], ours["memory_mib"], hourglass["memory_mib"]) == (2, 8, 3)
    assert hourglass["memory_percent_of_ours"] == pytest.approx(37.5, abs=0.1)


def test_speech_comes_from_recordings_that_are_long_enough(tmp_path):
    for i, seconds in enumerate((0.4, 0.6, 0.7)):
        soundfile.write(tmp_path / f"{i}.wav", [0.1 * i] * round(16000 * seconds), 16000)
    audio_BN = benchmark_sides.speech(quick(tmp_path, audio=tmp_path), 2)
    assert audio_BN[:, 0].tolist() == pytest.approx([0.1, 0.2], abs=1e-4)
    with pytest.raises(ConfigError, match=r": 2 recordings of 0\.5 s; expected 3$"):
        benchmark_sides.speech(quick(tmp_path, audio=tmp_path), 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_sizes": (0,)}, r"^batch_sizes = \(0,\): expected numbers above 0$"),
        ({"batch_sizes": ()}, r"^batch_sizes = \(\): expected numbers above 0$"),
        ({"warmup": -1}, r"^warmup = -1: expected a number of at least 0$"),
        ({"seconds": math.nan}, r"^seconds = nan: expected a number above 0$"),
        ({"concat_batches": 2}, r"^concat_batches = 2: inference has no sub-batches; leave it out$"),
        ({"sides": ()}, r"^sides: expected at least one of ours, hourglass, transformers$"),
    ],
)
def test_impossible_measurements_are_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        quick(tmp_path, **options)


def test_sides_that_there_cannot_be_are_told(tmp_path):
    with pytest.raises(ConfigError, match=r"^no side takes part: name some with --sides, and --hourglass for hour"):
        measure.main(quick(tmp_path, sides=("hourglass",)))
    with pytest.raises(ConfigError, match=r"has 12 layers; layers = 4; leave hourglass out of sides, or give another"):
        measure.main(quick(tmp_path, hourglass=("[2,(8,4),2]",)))

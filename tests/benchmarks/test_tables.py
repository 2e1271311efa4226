import json
import runpy
from pathlib import Path

import pytest

from benchmarks import tables
from benchmarks.columns import TABLES
from benchmarks.table import Table
from benchmarks.tables import TablesError

SIMPLE = Table(source="things", keys={"batch": "batch"}, cells={"ms": "{p50:.1f}", "MiB": "{memory:,}"})
SPREAD = Table(source="things", keys={"batch": "batch"}, spread="mode", cells={"{} ms": "{p50:.1f}"})


def write_rows(folder: Path, name: str, rows: list[dict]) -> None:
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def training_row(**values) -> dict:
    row = {"device": "G", "config": "toy", "precision": "bf16", "seconds_of_audio": 16.7, "batch": 64, "processes": 1}
    return row | {"utterances_per_second": 150.0, "times_real_time": 2505.0, "p50": 400, "p99": 410} | values


def test_a_line_per_key_in_order_and_the_newest_row_counts():
    rows = [{"batch": 8, "p50": 9.0}, {"batch": 1, "p50": 2.0, "memory": 1024}, {"batch": 8, "p50": 4.04}]
    assert tables.rendered(SIMPLE, rows) == (
        "| batch | ms | MiB |\n| --- | --: | --: |\n| 1 | 2.0 | 1,024 |\n| 8 | 4.0 | – |\n"
    )


def test_values_of_a_field_are_spread_over_columns():
    rows = [{"batch": 1, "mode": "eager", "p50": 2.0}, {"batch": 1, "mode": "fused", "p50": 1.0}]
    rows.append({"batch": 2, "mode": "fused", "p50": 1.5})
    assert tables.rendered(SPREAD, rows) == (
        "| batch | eager ms | fused ms |\n| --- | --: | --: |\n| 1 | 2.0 | 1.0 |\n| 2 | – | 1.5 |\n"
    )


AUDIO = Table(source="things", keys={"device": "device", "seconds_of_audio": "seconds"}, cells={"ms": "{p50:.0f}"})


def shown(rows: list[dict]) -> list[float]:
    tables.tell.cache_clear()
    return [row["p50"] for row in tables.published(AUDIO, [{"device": "G"} | row for row in rows])]


@pytest.mark.parametrize(
    ("times", "kept"),
    [
        ({2.0: 2600, 8.36: 904}, []),  # which of the two is wrong nobody knows
        ({2.0: 100, 8.36: 300, 16.8: 590}, [100, 300, 590]),
        ({2.0: 700, 8.36: 300, 16.8: 590}, [300, 590]),  # two neighbours outvote one
        ({2.0: 29, 7.0: 77, 14.0: 160, 16.7: 900}, [29, 77, 160]),  # more than attention takes
        ({2.0: 104, 4.0: 100}, [104, 100]),  # padded to the same length
    ],
)
def test_a_row_that_its_neighbours_contradict_is_left_out_and_told(times, kept, capsys):
    assert shown([{"seconds_of_audio": seconds, "p50": ms} for seconds, ms in times.items()]) == kept
    assert capsys.readouterr().err.count("contradicts it; measure it again") == len(times) - len(kept)


def test_only_rows_that_differ_in_one_size_are_neighbours():
    rows = [{"seconds_of_audio": 2.0, "p50": 900}, {"device": "H", "seconds_of_audio": 8.0, "p50": 100}]
    assert shown(rows) == [900, 100]


@pytest.mark.parametrize("row", [{"spread": 0.6}, {"p90": 4422, "p99": 4422}])
def test_a_row_whose_repeats_lie_far_apart_is_noise(row, capsys):
    assert shown([{"seconds_of_audio": 8.36, "p50": 904} | row]) == []
    assert "of their median apart; measure it again" in capsys.readouterr().err


@pytest.mark.parametrize("commit", ["1234abcde-dirty", "unknown"])
def test_rows_of_code_that_is_not_committed_are_not_published(commit):
    rows = [{"batch": 1, "p50": 2.0, "commit": "1234abcde"}, {"batch": 1, "p50": 1.0, "commit": commit}]
    assert "| 1 | 2.0 | – |" in tables.rendered(SIMPLE, rows)


def test_rows_of_before_the_state_was_told_are_marked():
    assert "| 1 † | 2.0 | – |" in tables.rendered(SIMPLE, [{"batch": 1, "p50": 2.0, "unverified": True}])


def test_the_summary_has_the_range_over_the_machines_and_the_machines_have_their_limits(tmp_path):
    limits = {"peak_gflops": 240.0, "copy_gb_per_second": 20.0, "processor_flags": "avx2"}
    row = {"metric": "latency_ms", "frames": 835, "labels": 200, "classes": 29, "batch": 32, "lengths": "full"}
    half, full = ({"device": f"AMD family {family} model 1", **limits, **row} for family in (25, 26))
    rows = [half | {"times_torch_pooled": 70.0}, full | {"times_torch_pooled": 138.4, "peak_gflops": 250.0}]
    rows += [half | {"times_torch_pooled": 81.0}, full | {"times_torch_pooled": 900.0, "commit": "1-dirty"}]
    write_rows(tmp_path, "ctc_loss", rows)
    (line,) = (line for line in tables.summary(tmp_path).splitlines() if line.startswith("| CTC loss"))
    assert "| 81 to 138× | AMD family 25 model 1; AMD family 26 model 1 |" in line
    assert tables.machines(tmp_path).splitlines()[2:] == [
        "| AMD family 25 model 1 | avx2 | 240 | 20 |", "| AMD family 26 model 1 | avx2 | 250 | 20 |"
    ]  # fmt: skip


def test_no_row_of_the_repository_says_that_its_code_was_not_committed():
    for path in tables.RESULTS.glob("*.jsonl"):
        assert "-dirty" not in path.read_text(), path


def test_no_rows_are_said_to_be_none():
    assert tables.rendered(SIMPLE, []) == "No rows yet in benchmarks/results/things.jsonl.\n"


def test_what_is_not_measured_is_a_dash():
    assert tables.rendered(SIMPLE, [{"batch": 1, "p50": None}]).splitlines()[-1] == "| 1 | – | – |"


def test_stale_table_fails_the_check_and_rendering_mends_it(tmp_path, capsys):
    write_rows(tmp_path, "jasper_training", [training_row()])
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- table:jasper_training -->\nold\n<!-- /table -->\nafter\n")
    assert tables.main([page], check=True, folder=tmp_path) == 1
    assert capsys.readouterr().err == (
        f"{page}: a table is not what benchmarks/results says; run python benchmarks/tables.py\n"
    )
    assert "old" in page.read_text()
    assert tables.main([page], check=False, folder=tmp_path) == 0
    assert tables.main([page], check=True, folder=tmp_path) == 0
    assert page.read_text().startswith("before\n<!-- table:jasper_training -->\n| device | model |")
    assert "| G | toy | bf16 | 16.7 | 64 | 1 | 150.0 | 2505 | 400 / 410 | – |" in page.read_text()
    assert page.read_text().endswith("<!-- /table -->\nafter\n")


def test_unknown_table_is_named_with_its_line(tmp_path):
    with pytest.raises(TablesError, match=r"README.md:2: <!-- table:nope -->: no such table; known: jasper_network, "):
        tables.updated("\n<!-- table:nope -->\n<!-- /table -->\n", Path("README.md"), tmp_path)


def test_table_without_an_end_is_named_with_its_line(tmp_path):
    with pytest.raises(
        TablesError, match=r"README.md:1: <!-- table:optim -->: expected a line <!-- /table --> after it"
    ):
        tables.updated("<!-- table:optim -->\n", Path("README.md"), tmp_path)


def test_every_table_of_the_repository_can_be_rendered():
    for table in TABLES.values():
        assert tables.rendered(table, tables.read_rows(table.source)).endswith("\n")


def test_command_line_tells_a_missing_file_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["tables.py", "--check", str(tmp_path / "none.md")])
    with pytest.raises(SystemExit) as exit_:
        runpy.run_path(tables.__file__, run_name="__main__")
    assert exit_.value.code == f"error: [Errno 2] No such file or directory: '{tmp_path / 'none.md'}'"


def test_the_summary_takes_the_newest_row_and_the_ratio_of_the_same_run(tmp_path):
    both = {
        "config": "base",
        "precision": "fp32",
        "batch": 1,
        "seconds_of_audio": 10.0,
        "device": "G",
        "date": "2026-01-02",
    }
    rows = [
        both | {"side": "transformers", "p50": 1000.0, "date": "2026-01-01"},
        both | {"side": "ours", "p50": 100.0},
        both | {"side": "transformers", "p50": 150.0},
    ]
    write_rows(tmp_path, "wav2vec2_inference", rows)
    lines = tables.summary(tmp_path).splitlines()
    ours = next(line for line in lines if line.startswith("| wav2vec 2.0 Base"))
    assert ours.startswith(
        "| wav2vec 2.0 Base, 10 s of audio | transformers | 1.50× | G | `python -m wav2vec2.benchmark"
    )
    assert "| HiFi-GAN V1, 8 s of audio | the published generator | – | – |" in "\n".join(lines)

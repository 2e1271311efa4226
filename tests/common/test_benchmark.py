import itertools
import json

import pytest
import torch

from common import benchmark
from common.benchmark import Timings
from common.threads import torch_threads
from tests.timing import quickest

CPU = torch.device("cpu")


def test_percentiles_are_those_of_single_calls():
    timings = Timings([float(ms) for ms in range(100, 0, -1)])
    assert [timings.percentile(p) for p in (50, 90, 95, 99, 100)] == [50, 90, 95, 99, 100]
    summary = {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "mean": 50.5, "n": 100, "spread": 1.0}
    assert timings.summary() == summary
    assert benchmark.spread(Timings([2.0] * 4), Timings([1.0, 2.0, 2.0, 2.2])) == 0.5
    assert Timings([3.0]).percentile(99) == 3.0


def test_warm_up_is_not_counted_and_sides_take_turns():
    order = []
    timings = benchmark.compare(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")}, device=CPU, warmup=2, repeats=3
    )
    assert order == ["a", "b"] * 5
    assert len(timings["a"].milliseconds) == len(timings["b"].milliseconds) == 3


def test_a_ratio_is_the_median_over_the_turns():
    assert benchmark.ratio(Timings([10.0, 20.0, 90.0]), Timings([5.0, 5.0, 1.0])) == 4.0


def test_a_call_is_timed_in_milliseconds():
    clock = itertools.count(step=0.01)
    timings = benchmark.compare({"a": lambda: None}, device=CPU, warmup=0, repeats=3, clock=lambda: next(clock))["a"]
    assert timings.milliseconds == pytest.approx([10, 10, 10])


def test_rows_are_appended_with_date_device_and_commit(tmp_path):
    benchmark.append_row("things", {"batch": 1, "p50": 2.0}, device=CPU, folder=tmp_path)
    benchmark.append_row("things", {"batch": 1, "p50": 1.0}, device=CPU, folder=tmp_path)
    benchmark.append_row("things", {"batch": 2, "p50": 3.0}, device=CPU, folder=tmp_path)
    rows = benchmark.read_rows("things", folder=tmp_path)
    assert [json.loads(line) for line in (tmp_path / "things.jsonl").read_text().splitlines()] == rows
    assert {"date", "device", "commit", "torch", "peak_gflops", "copy_gb_per_second"} <= set(rows[0])
    assert [row["p50"] for row in benchmark.newest(rows, ["batch"])] == [1.0, 3.0]
    assert benchmark.read_rows("others", folder=tmp_path) == []


def test_the_commit_of_rows_is_that_of_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr("common.machine.commit", lambda: "changed-dirty")
    assert benchmark.append_row("things", {}, device=CPU, folder=tmp_path)["commit"] == benchmark.COMMIT


def test_the_limits_of_a_machine_are_not_below_what_torch_reaches():
    a = torch.randn(512, 512)

    def share() -> float:
        """What torch reaches of the limit, measured anew: others may slow down the one or the other."""
        with torch_threads(1):
            limits = benchmark.limits(CPU)
            times = benchmark.compare({"product": lambda: a @ a}, device=CPU, warmup=5, repeats=20)
        assert limits["peak_gflops"] < 1000
        assert limits["copy_gb_per_second"] > 0.5
        return 2 * 512**3 / min(times["product"].milliseconds) / 1e6 / limits["peak_gflops"]

    assert quickest(1.1, share) < 1.1


@pytest.mark.parametrize("n", [1, 2, 7])
def test_the_highest_percentile_is_the_slowest_call(n):
    assert Timings([float(i) for i in range(n)]).percentile(99) == n - 1


def test_the_peak_of_memory_counts_what_is_alive_at_once_and_the_profiler_says_nothing(capfd):
    def call():
        a = torch.zeros(2**20)
        del a
        return torch.zeros(2**21).sum()

    assert round(benchmark.peak_memory(call, torch.device("cpu")) / 2**20) == 8
    assert benchmark.peak_memory_mib(call, torch.device("cpu")) is None
    assert capfd.readouterr() == ("", "")

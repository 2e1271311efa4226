from dataclasses import replace

import pytest
import torch

from common import benchmark as rows_of
from common.config import ConfigError
from common.convolution import native, products
from common.machine import processor_flags
from jasper import benchmark
from jasper.benchmark import BenchmarkConfig
from tests.jasper.tiny import DENSE, run, save_tiny

QUICK = BenchmarkConfig(model=DENSE, device="cpu", batch_sizes=(2,), seconds=(1.0,), repeats=3, warmup=1, name="tiny")


def test_inference_is_measured_by_part_and_mode(tmp_path, capsys):
    rows = benchmark.main(replace(QUICK, results=tmp_path))
    found = {(row["part"], row["mode"]) for row in rows}
    assert found == {("features", ""), *((p, m) for p in ("network", "both") for m in ("eager", "fused"))}
    for row in rows:
        assert (row["config"], row["precision"], row["batch"], row["seconds_of_audio"]) == ("tiny", "fp32", 2, 1.0)
        assert 0 < row["p50"] <= row["p90"] <= row["p95"] <= row["p99"]
        assert row["n"] == 3
        assert row["utterances_per_second"] == pytest.approx(2e3 / row["mean"], rel=0.01)
        assert row["times_real_time"] == pytest.approx(row["utterances_per_second"] * 1.0, abs=0.02)
    assert rows_of.read_rows("jasper_inference", folder=tmp_path) == rows
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(rows)


def test_inputs_are_the_same_in_every_run_and_never_silent():
    audio_BN, samples_B = benchmark.noise(3, 0.5, QUICK, torch.device("cpu"))
    again_BN, _ = benchmark.noise(3, 0.5, QUICK, torch.device("cpu"))
    assert audio_BN.shape == (3, 8000)
    assert samples_B.tolist() == [8000] * 3
    assert torch.equal(audio_BN, again_BN)
    assert (audio_BN == 0).float().mean() < 0.01


def test_only_what_is_asked_for_is_measured(tmp_path):
    cfg = replace(QUICK, results=tmp_path, parts=("network",), modes=("fused",), precisions=("fp32", "bf16"))
    assert [(row["part"], row["mode"], row["precision"]) for row in benchmark.main(cfg)] == [
        ("network", "fused", "fp32"),
        ("network", "fused", "bf16"),
    ]


def test_fewer_bits_are_measured_beside_the_published_network_in_float32(tmp_path):
    cfg = replace(QUICK, results=tmp_path, parts=("network",), modes=("published", "fused"), precisions=("bf16",))
    published, fused = benchmark.main(cfg)
    assert published["times_faster_than_published"] == 1.0
    assert fused["times_faster_than_published"] > 0
    assert fused["times_faster_than_eager"] is None
    assert fused["instructions"] == "automatic"
    assert rows_of.read_rows("jasper_published", folder=tmp_path) == [published, fused]
    assert fused["processor_flags"] == processor_flags()


@pytest.mark.skipif(native.load() is None, reason="the native library was never built")
def test_int8_is_measured_beside_the_fused_network_in_float32_with_the_memory_of_its_weights(tmp_path):
    exact, fused = benchmark.main(replace(QUICK, results=tmp_path, parts=("network",), precisions=("int8",)))
    assert [row["mode"] for row in (exact, fused)] == ["fused_fp32", "fused"]
    assert exact["times_faster_than_fused_fp32"] == 1.0
    assert fused["times_faster_than_fused_fp32"] > 0
    assert exact["weights_mib"] >= fused["weights_mib"] >= 0
    with pytest.raises(ConfigError, match="int8 is for inference; take fp32, tf32, bf16 or fp16"):
        benchmark.main(replace(QUICK, task="training", results=tmp_path, precisions=("int8",)))


def test_graphs_are_refused_without_a_gpu(tmp_path):
    message = "modes: graph needs a CUDA device, and this run is on cpu; take eager and fused"
    with pytest.raises(ConfigError, match=message):
        benchmark.main(replace(QUICK, results=tmp_path, modes=("graph",)))


@pytest.mark.skipif(native.load() is None, reason="the native library was never built")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"precisions": ("int8",), "modes": ("eager",)},
            "modes: eager has no int8; take fused, fused_fp32 and published",
        ),
        (
            {"instructions": "avx512_bf16"},
            "instructions: avx512_bf16.*(bf16 alone; take automatic|this processor has .* at most)",
        ),
    ],
)
def test_what_an_arithmetic_does_not_have_is_refused(options, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        benchmark.main(replace(QUICK, results=tmp_path, **options))


def test_no_repeats_are_refused():
    with pytest.raises(ValueError, match="repeats = 0: expected at least 1"):
        replace(QUICK, repeats=0)


def test_training_step_is_measured_on_utterances_of_one_length(tmp_path):
    rows = benchmark.main(replace(QUICK, task="training", results=tmp_path, batch_sizes=(2, 4), precisions=("bf16",)))
    assert [(row["batch"], row["precision"], row["processes"]) for row in rows] == [(2, "bf16", 1), (4, "bf16", 1)]
    assert rows[0]["utterances_per_second"] == pytest.approx(2e3 / rows[0]["mean"], rel=0.01)
    assert rows_of.read_rows("jasper_training", folder=tmp_path) == rows


def test_training_step_takes_turns_with_that_of_plain_convolutions(tmp_path, monkeypatch):
    took, plain_update = [], benchmark.update

    def update(*given):
        took.append("torch" if products.left else "ours")
        return plain_update(*given)

    monkeypatch.setattr(benchmark, "update", update)
    cfg = replace(QUICK, task="training", results=tmp_path, batch_sizes=(2,), modes=("published",))
    (row,) = benchmark.main(cfg)
    assert took == ["torch", "ours"] * (QUICK.warmup + QUICK.repeats)
    assert row["times_faster_than_published"] > 0


def test_training_that_diverges_is_no_result(tmp_path):
    optim = replace(QUICK.optim, lr=1e30)
    schedule = replace(QUICK.schedule, warmup=0)
    cfg = replace(QUICK, task="training", results=tmp_path, optim=optim, schedule=schedule)
    with pytest.raises(ConfigError, match=r"the loss of step 4 is \w+: what was timed is no training"):
        benchmark.main(cfg)


def test_command_line_names_rows_after_the_configuration_or_the_checkpoint(tmp_path, capsys):
    quick = ("--device", "cpu", "--batch_sizes", 1, "--seconds", 1, "--repeats", 1, "--parts", "network")
    quick += ("--modes", "fused", "--results", tmp_path)
    assert run(capsys, "jasper.benchmark", "configs/jasper/toy.toml", *quick).status == 0
    path = save_tiny(tmp_path / "mine.pt")
    assert run(capsys, "jasper.benchmark", "--checkpoint", path, *quick).status == 0
    assert [row["config"] for row in rows_of.read_rows("jasper_inference", folder=tmp_path)] == ["toy", "mine"]


def test_missing_checkpoint_is_one_line(tmp_path, capsys):
    said = run(capsys, "jasper.benchmark", "--checkpoint", tmp_path / "none.pt", "--device", "cpu")
    assert (said.status, said.err) == (2, [f"error: {tmp_path / 'none.pt'}: no such checkpoint"])


@pytest.mark.gpu
def test_all_modes_are_measured_on_a_gpu(tmp_path):
    rows = benchmark.main(replace(QUICK, device="cuda", results=tmp_path, precisions=("fp16", "bf16")))
    assert {row["mode"] for row in rows} == {"", "eager", "fused", "graph"}
    assert all(row["peak_memory_mib"] is not None for row in rows)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_training_step_runs_in_reduced_precision_on_a_gpu(tmp_path, precision):
    cfg = replace(QUICK, task="training", device="cuda", results=tmp_path, precisions=(precision,))
    (row,) = benchmark.main(cfg)
    assert row["precision"] == precision
    assert row["peak_memory_mib"] is not None

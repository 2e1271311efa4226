from dataclasses import replace

import pytest
import torch

from common import benchmark as rows_of
from common.config import ConfigError
from common.features import TTS
from fastpitch import benchmark
from fastpitch.benchmark import BenchmarkConfig
from tests.fastpitch.vocoders.small import ISTFT, save_hifigan
from tests.jasper.tiny import run

QUICK = BenchmarkConfig(device="cpu", batch_sizes=(2,), vocoders=(), symbols=10, seconds=0.5, repeats=3, warmup=1)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The model of the tests in place of the published size."""
    from tests.fastpitch.tiny import SMALL

    monkeypatch.setattr(benchmark, "ModelConfig", lambda: SMALL)


@pytest.fixture(scope="module")
def vocoder(tmp_path_factory) -> str:
    return str(save_hifigan(tmp_path_factory.mktemp("vocoder") / "light.pt", ISTFT))


def test_fastpitch_is_measured_alone_and_with_every_vocoder(tmp_path, vocoder, capsys):
    rows = benchmark.main(replace(QUICK, vocoders=(vocoder,), batch_sizes=(1, 2), results=tmp_path))
    assert [(row["what"], row["batch"]) for row in rows] == [
        *[("FastPitch", 1), ("FastPitch", 2), ("FastPitch + light", 1), ("FastPitch + light", 2)]
    ]
    for row in rows:
        assert (row["mode"], row["precision"], row["symbols"], row["seconds_of_audio"]) == ("eager", "fp32", 10, 0.5)
        assert 0 < row["p50"] <= row["p90"] <= row["p95"] <= row["p99"]
        assert row["n"] == 3
        assert row["times_real_time"] == pytest.approx(row["batch"] * 0.5 / row["p50"] * 1e3, rel=0.01)
    assert rows_of.read_rows("fastpitch_inference", folder=tmp_path) == rows
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(rows)


def test_every_utterance_has_the_length_that_is_asked_for():
    text = benchmark.random_text(BenchmarkConfig(), 3, 148, torch.device("cpu"))
    assert text.tokens_BT.shape == text.durations_BT.shape == (3, 128)
    assert text.durations_BT.sum(1).tolist() == [693.0] * 3
    assert text.durations_BT.min() >= 5
    assert int(text.tokens_BT.min()) > 0
    assert 693 * TTS.hop_samples / TTS.sample_rate == pytest.approx(8.05, abs=0.01)


@pytest.mark.parametrize("name", benchmark.RANDOM)
def test_every_vocoder_that_is_offered_is_the_published_one(name):
    with torch.device("meta"):
        if name == "istft":
            return  # our own
        generator = benchmark.RANDOM[name]()
    published = {"hifigan": 13_926_017, "waveglow": 87_731_816, "waveglow_512": 267_999_848}
    found = sum(parameter.numel() for parameter in generator.parameters())
    assert found == published.get(name, found)
    assert generator.hop_samples == TTS.hop_samples


@pytest.mark.parametrize("denoising", [0.0, 0.01])
def test_hifigan_is_measured_with_the_denoiser_that_is_asked_for(tmp_path, denoising):
    path = save_hifigan(tmp_path / "hifigan.pt")
    rows = benchmark.main(replace(QUICK, vocoders=(str(path),), denoising=denoising, results=tmp_path))
    assert [row["denoising"] for row in rows] == [0.0, denoising]


def test_graphs_are_refused_without_a_gpu(tmp_path):
    with pytest.raises(
        ConfigError, match="mode graph needs a CUDA device, and this model is on cpu; take eager or comp"
    ):
        benchmark.main(replace(QUICK, modes=("eager", "graph"), results=tmp_path))


def test_a_vocoder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(
        ConfigError, match="vocoders: hifi: no such file; expected a checkpoint or one of istft, hifigan"
    ):
        benchmark.main(replace(QUICK, vocoders=("hifi",), results=tmp_path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repeats": 0}, r"repeats = 0, symbols = 10, batch_sizes = \(2,\): expected at least 1"),
        ({"seconds": 0.1}, "0.1 s for 10 symbols: expected at least a frame for each"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        replace(QUICK, **options)


def test_a_mistake_is_told_in_one_line(tmp_path, capsys):
    flags = ["--device", "cpu", "--symbols", 10, "--seconds", 0.5, "--repeats", 2, "--batch_sizes", 1]
    said = run(capsys, "fastpitch.benchmark", *flags, "--vocoders", "none.pt", "--results", tmp_path)
    assert said.status == 2
    assert said.err[0].startswith("error: vocoders: none.pt: no such file")

"""The few lines of the first page's table of speed: which row, against which, and how to measure it again."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class SummaryLine:
    """A line: the rows of `table`, one of each machine, that have the values of `where`."""

    what: str
    against: str
    table: str
    where: dict[str, Any]
    ratio: str = ""
    """The field that is shown. None: the p50 of the same run's row with `other` in place of `where`, by this row's."""
    other: dict[str, Any] = field(default_factory=dict)
    shape: str = "{:.0f}×"
    command: str


LATENCY = {"metric": "latency_ms"}
LINES = [
    SummaryLine(
        what="CTC loss and gradient, Jasper's shape", against="torch", table="ctc_loss", ratio="times_torch_pooled",
        where=LATENCY | {"frames": 835, "labels": 200, "batch": 32, "lengths": "full"},
        command="python benchmarks/ctc_loss.py",
    ),
    SummaryLine(
        what="RNN-T loss and gradient in place, 8 x 200 x 50 x 1024", against="torch by anti-diagonals",
        table="transducer_loss", ratio="in_place_times_faster",
        where={"metric": "loss and gradient", "loss": "RNN-T", "classes": 1024},
        command="python benchmarks/transducer_loss.py",
    ),
    SummaryLine(
        what="TDT decoding, 8 recordings at once", against="label-looping in torch", table="transducer_decoder",
        ratio="times_faster", where={"head": "TDT", "batch": 8}, shape="{:.1f}×",
        command="python benchmarks/transducer_decoder.py",
    ),
    SummaryLine(
        what="Jasper 10x5, 8.4 s of audio", against="the published layers", table="jasper_published",
        ratio="times_faster_than_published", shape="{:.1f}×",
        where={
            "config": "jasper10x5dr", "mode": "fused", "precision": "fp32", "seconds_of_audio": 8.36,
            "instructions": "automatic",
        },
        command="python -m jasper.benchmark configs/jasper/jasper10x5dr.toml --modes published fused",
    ),
    SummaryLine(
        what="QuartzNet 15x5, 7 s of audio", against="the published layers", table="jasper_published",
        ratio="times_faster_than_published", shape="{:.1f}×",
        where={"config": "quartznet15x5", "mode": "fused", "precision": "fp32", "seconds_of_audio": 7.0},
        command="python -m jasper.benchmark configs/jasper/quartznet15x5.toml --modes published fused",
    ),
    SummaryLine(
        what="HiFi-GAN V1, 8 s of audio", against="the published generator", table="vocoders",
        ratio="times_faster_than_plain",
        where={"vocoder": "v1", "mode": "fused", "precision": "fp32", "batch": 1, "seconds_of_audio": 8.046},
        shape="{:.1f}×",
        command="python -m fastpitch.vocoders.benchmark --vocoders v1",
    ),
    SummaryLine(
        what="wav2vec 2.0 Base, 10 s of audio", against="transformers", table="wav2vec2_inference", shape="{:.2f}×",
        where={"config": "base", "side": "ours", "seconds_of_audio": 10.0, "precision": "fp32", "batch": 1},
        other={"side": "transformers"}, command="python -m wav2vec2.benchmark configs/wav2vec2/base.toml",
    ),
    SummaryLine(
        what="FastPitch, 128 symbols", against="real time", table="fastpitch_inference",
        ratio="times_real_time", where={"what": "FastPitch", "batch": 1, "mode": "eager"},
        command="python -m fastpitch.benchmark",
    ),
    SummaryLine(
        what="FastPitch and the light vocoder", against="real time", table="fastpitch_inference",
        ratio="times_real_time", where={"what": "FastPitch + istft", "batch": 1, "mode": "eager"},
        command="python -m fastpitch.benchmark --vocoders istft",
    ),
]  # fmt: skip

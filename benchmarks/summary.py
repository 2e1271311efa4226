"""The few lines of the first page's table of speed: which row, against which, and how to measure it again."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.benchmark import read_rows

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line: the newest row of `source` that has the values of `where`."""

    what: str
    against: str
    source: str
    where: dict[str, Any]
    ratio: str = ""
    """The row's own ratio. None: the p50 of the row that has `other` in place of `where`, by that of this row."""
    other: dict[str, Any] = field(default_factory=dict)
    shape: str = "{:.0f}×"
    command: str


LATENCY = {"metric": "latency_ms"}
LINES = [
    Line(
        what="CTC loss and gradient, Jasper's shape", against="torch", source="ctc_loss", ratio="times_torch_pooled",
        where=LATENCY | {"frames": 835, "labels": 200, "batch": 32}, command="python benchmarks/ctc_loss.py",
    ),
    Line(
        what="RNN-T loss and gradient in place, 8 x 200 x 50 x 1024", against="torch by anti-diagonals",
        source="transducer_loss", ratio="in_place_times_faster",
        where={"metric": "loss and gradient", "loss": "RNN-T", "classes": 1024},
        command="python benchmarks/transducer_loss.py",
    ),
    Line(
        what="TDT decoding, 8 recordings at once", against="label-looping in torch", source="transducer_decoder",
        ratio="times_faster", where={"head": "TDT", "batch": 8}, shape="{:.1f}×",
        command="python benchmarks/transducer_decoder.py",
    ),
    Line(
        what="Jasper 10x5, 8.4 s of audio", against="the published layers", source="jasper_published",
        ratio="times_faster_than_published", shape="{:.1f}×",
        where={
            "config": "jasper10x5dr", "mode": "fused", "precision": "fp32", "seconds_of_audio": 8.36,
            "instructions": "automatic",
        },
        command="python -m jasper.benchmark configs/jasper/jasper10x5dr.toml --modes published fused",
    ),
    Line(
        what="QuartzNet 15x5, 7 s of audio", against="the published layers", source="jasper_published",
        ratio="times_faster_than_published", shape="{:.1f}×",
        where={"config": "quartznet15x5", "mode": "fused", "precision": "fp32", "seconds_of_audio": 7.0},
        command="python -m jasper.benchmark configs/jasper/quartznet15x5.toml --modes published fused",
    ),
    Line(
        what="HiFi-GAN V1", against="the published generator", source="vocoders", ratio="times_faster_than_plain",
        where={"vocoder": "v1", "mode": "fused", "precision": "fp32"}, shape="{:.1f}×",
        command="python -m fastpitch.vocoders.benchmark --vocoders v1",
    ),
    Line(
        what="wav2vec 2.0 Base, 10 s of audio", against="transformers", source="wav2vec2_inference", shape="{:.2f}×",
        where={"config": "base", "side": "ours", "seconds_of_audio": 10.0, "precision": "fp32"},
        other={"side": "transformers"}, command="python -m wav2vec2.benchmark configs/wav2vec2/base.toml",
    ),
    Line(
        what="contrastive loss of pre-training", against="gather and cosine, as published", source="wav2vec2_contrast",
        where={"config": "base", "side": "ours", "batch": 6}, other={"side": "published"},
        command="python -m wav2vec2.benchmark configs/wav2vec2/base.toml --task contrast --batch_sizes 6",
    ),
    Line(
        what="FastPitch, 128 symbols", against="real time", source="fastpitch_inference",
        ratio="times_real_time", where={"what": "FastPitch", "batch": 1, "mode": "eager"},
        command="python -m fastpitch.benchmark",
    ),
    Line(
        what="FastPitch and the light vocoder", against="real time", source="fastpitch_inference",
        ratio="times_real_time", where={"what": "FastPitch + istft", "batch": 1, "mode": "eager"},
        command="python -m fastpitch.benchmark --vocoders istft",
    ),
]  # fmt: skip


def summary(folder: Path) -> str:
    """The table as Markdown, a newline at its end; a dash where nothing was measured."""
    lines = ["| what | against | faster | on | measured by |\n", "| --- | --- | --: | --- | --- |\n"]
    for line in LINES:
        rows = read_rows(line.source, folder=folder)
        row = _newest(rows, line.where)
        value = None if row is None else _ratio(line, row, rows)
        shown = "–" if value is None else line.shape.format(value)
        device = row["device"] if row is not None else "–"
        lines.append(f"| {line.what} | {line.against} | {shown} | {device} | `{line.command}` |\n")
    return "".join(lines)


def _ratio(line: Line, row: Row, rows: Iterable[Row]) -> float | None:
    if line.ratio:
        return row.get(line.ratio)
    same_run = line.where | {"date": row["date"], "device": row["device"]} | line.other
    other = _newest(rows, same_run)
    return None if other is None else other["p50"] / row["p50"]


def _newest(rows: Iterable[Row], where: Mapping[str, Any]) -> Row | None:
    """Rows are appended, so the newest is the last."""
    found = [row for row in rows if all(row.get(name) == value for name, value in where.items())]
    return found[-1] if found else None

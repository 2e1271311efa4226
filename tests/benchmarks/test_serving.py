"""The commands that measure servers and bulk jobs, on toy models."""

import json

import pytest

from benchmarks import bulk_workers, serving
from common.config import ConfigError
from tests.trt.conftest import clips, jasper, once, voice  # noqa: F401  fixtures


def test_what_clients_wait_for_is_measured(jasper, voice, clips, capsys):  # noqa: F811
    cfg = serving.ServingConfig(
        model=jasper.with_suffix(".onnx"),
        inputs=(clips[2],),
        name="toy",
        tts=voice / "tts.onnx",
        vocoder=voice / "v.onnx",
        clients=2,
        seconds=2.0,
    )
    assert serving.main(cfg) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [row["what"] for row in rows] == [
        "1 client, delay 0 ms",
        "1 client, delay 20 ms",
        "2 clients",
        "captions, word final",
        "first sound of a sentence",
        "last sound of a sentence",
    ]
    assert all(row["p50_ms"] > 0 for row in rows)


def test_two_workers_are_measured_beside_two_jobs(jasper, clips, capsys):  # noqa: F811
    cfg = bulk_workers.BulkWorkersConfig(model=jasper.with_suffix(".onnx"), folder=clips[0].parent, repeat=2, rounds=1)
    assert bulk_workers.main(cfg) == 0
    assert json.loads(capsys.readouterr().out)["recordings"] == 12


def test_a_folder_without_recordings_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"no .flac or .wav files in it"):
        bulk_workers.main(bulk_workers.BulkWorkersConfig(model=tmp_path / "m.onnx", folder=tmp_path))

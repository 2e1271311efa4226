"""The documented variables of both published versions become flags; `python` is a script that shows its arguments."""

import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from common.data.manifest import Utterance, write_jsonl
from tests.jasper.tiny import run, save_tiny
from tests.scripts.calls import Folder

FOLDER = Folder("jasper")
call, flags = FOLDER.call, FOLDER.flags


def test_predictions_and_logits_go_where_they_went(python, tmp_path):
    (tmp_path / "dev-clean").mkdir()
    data = {"CHECKPOINT": "/c.pt", "DATA_DIR": str(tmp_path), "DATASET": "dev-clean"}
    assert flags("inference.sh", python, **data, RESULT_DIR="/r", PREDICTION_FILE="/p")[4:] == ["--output", "/p"]
    assert flags("inference.sh", python, **data, LOGITS_FILE="/l")[4:] == ["--save_logits", "/l"]
    assert flags("evaluation.sh", python, **data, OUTPUT_DIR="/r")[4:] == ["--hypotheses", "/r/dev-clean.jsonl"]


def test_the_positions_of_2019_and_of_2021_are_told_apart(python, tmp_path):
    (tmp_path / "dev-clean").mkdir()
    toml, data = "configs/jasper10x5dr.toml", str(tmp_path)
    ours = ["--config", "configs/jasper/jasper10x5dr.toml"]
    old = [data, "dev-clean", toml, "/r", "/c.pt", "true", "false", "fp16", "-1", "0", "64", "none", "/p"]
    assert flags("inference.sh", python, *old, "--ema", "false")[2:] == [
        *["/c.pt", f"{data}/dev-clean", *ours, "--batch_size", "64", "--precision", "fp16", "--output", "/p"],
        *["--ema", "false"],
    ]
    assert flags("inference.sh", python, data, toml, "/r", "/c.pt", DATASET="dev-clean")[2:] == [
        *["/c.pt", f"{data}/dev-clean", *ours, "--output", "/r/dev-clean.predictions"],
    ]
    old = [data, "dev-clean", toml, "/r", "/c.pt", "true", "false", "8", "fp32", "-1", "0", "64"]
    assert flags("evaluation.sh", python, *old)[:9] == [
        *["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "8", "-m", "jasper.evaluation"],
        *["/c.pt", f"{data}/dev-clean"],
    ]


@pytest.fixture
def librispeech(tmp_path: Path) -> Path:
    utterances = []
    for i, text in enumerate(("one", "two three", "four"), start=1):
        path = tmp_path / f"{i}.flac"
        soundfile.write(path, np.random.default_rng(i).normal(0, 0.1, i * 8_000), 16_000)
        utterances.append(Utterance(id=str(i), audio=path, seconds=i / 2, text=text))
    write_jsonl(tmp_path / "librispeech-dev-clean.jsonl", utterances)
    return tmp_path


def test_the_scripts_run_and_two_processes_find_what_one_finds(python, librispeech, tmp_path, capsys):
    checkpoint = save_tiny(tmp_path / "tiny.pt")
    data = {"CHECKPOINT": str(checkpoint), "DATA_DIR": str(librispeech), "DATASET": "dev-clean", "CPU": "true"}
    transcribed = call("inference.sh", sys.executable, **data, OUTPUT_DIR=str(tmp_path / "out"))
    assert transcribed.returncode == 0, transcribed.stderr
    assert transcribed.stderr.startswith("WER ")
    assert len((tmp_path / "out" / "dev-clean.predictions").read_text().splitlines()) == 3
    two = call("evaluation.sh", sys.executable, "--workers", "0", **data, NUM_GPUS="2")
    assert two.returncode == 0, two.stderr
    one = run(capsys, *flags("evaluation.sh", python, "--workers", "0", **data)[1:])
    assert one.out == two.stdout.splitlines()
    assert one.out[0] == "utterances 3"

"""Several jobs over one list of recordings: nothing is lost, nothing twice, whatever is killed."""

import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from common.audio import waveform
from common.recognition.sources.inputs import InputRecording
from tests.jasper.tiny import run, save_tiny
from tests.trt.serving.running import noise

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    for i in range(24):
        waveform.write(folder / f"{i:02}.wav", noise(0.5 + 0.1 * (i % 7), seed=i), 16_000)
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model") / "m.pt")


def job(checkpoint, corpus, output, *flags, **settings) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "jasper.inference", str(checkpoint), str(corpus), "--format", "json"]
    command += ["--output", str(output), "--device", "cpu", *flags]
    return subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, **settings)


def test_two_workers_one_of_them_killed_write_what_one_writes(checkpoint, corpus, tmp_path, capsys):
    one, output = tmp_path / "one.jsonl", tmp_path / "all.jsonl"

    def here(output, *flags):  # a job that nothing happens to needs no process of its own
        words = ("--format", "json", "--output", output, "--device", "cpu", *flags)
        return run(capsys, "jasper.inference", checkpoint, corpus, *words)

    assert here(one).status == 0
    workers = [job(checkpoint, corpus, output, "--shard", f"{i}/2", "--batch_size", "1") for i in (1, 2)]
    while not list(tmp_path.glob(".all.jsonl.1-of-2.*")) and workers[0].poll() is None:
        time.sleep(0.002)  # its part has been begun
    workers[0].send_signal(signal.SIGKILL)
    assert workers[1].wait() == 0
    workers[0].wait()
    parts = {path.name for path in tmp_path.glob("all.jsonl.*")}
    if parts == {"all.jsonl.2-of-2"}:
        refused = here(output, "--merge").err[-1]
        assert "1 of 2 parts are missing: all.jsonl.1-of-2; run those shards again" in refused
    assert here(output, "--shard", "1/2").status == 0
    assert "all.jsonl.2-of-2: is there already" in here(output, "--shard", "2/2").err[-1]
    environment = {**os.environ, "SPEECH_PYTHON": sys.executable, "SLURM_SUBMIT_DIR": str(REPOSITORY)}
    script = ["bash", str(REPOSITORY / "scripts/bulk/slurm_array.sh"), "merge", "jasper", checkpoint, corpus, output]
    assert subprocess.run(script, env=environment, check=False).returncode == 0
    assert output.read_text() == one.read_text()


def test_the_array_script_names_its_shard(tmp_path):
    (tmp_path / "python").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "python").chmod(0o755)
    environment = {**os.environ, "SPEECH_PYTHON": str(tmp_path / "python")}
    script = [
        "bash",
        str(REPOSITORY / "scripts/bulk/slurm_array.sh"),
        "trt.run",
        "m.onnx",
        "in",
        "out.jsonl",
        "--threads",
        "1",
    ]
    for job in ({"SLURM_ARRAY_TASK_COUNT": "8"}, {"SLURM_ARRAY_TASK_COUNT": "2", "SHARDS": "8"}):
        settings = {**environment, "SLURM_ARRAY_TASK_ID": "3", **job}
        told = subprocess.run(script, env=settings, capture_output=True, text=True, check=True).stdout
        assert told == "-m trt.run m.onnx in --format json --output out.jsonl --threads 1 --shard 3/8\n"
    refused = subprocess.run(script[:4], env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "usage: slurm_array.sh [merge] FAMILY CHECKPOINT INPUT OUTPUT [flags]; found 2 words" in refused.stderr


def test_a_worker_of_ray_lists_what_it_cannot_read(checkpoint, corpus, tmp_path):
    (tmp_path / "b.wav").write_bytes(b"no sound")
    items = [InputRecording(path, path.stem, None) for path in (corpus / "00.wav", tmp_path / "b.wav")]
    worker = runpy.run_path(str(REPOSITORY / "scripts/bulk/ray_transcribe.py"))["Worker"](str(checkpoint), 1)
    found = worker({"place": [0, 1], "item": items})
    assert [bool(line) for line in found["line"]] == [True, False]
    assert "b.wav" in found["error"][1]


@pytest.mark.nightly
def test_ray_gives_what_the_command_gives(checkpoint, corpus, tmp_path):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    one, output = tmp_path / "one.jsonl", tmp_path / "all.jsonl"
    assert job(checkpoint, corpus, one).wait() == 0
    command = [sys.executable, "scripts/bulk/ray_transcribe.py", str(checkpoint), str(corpus), "--output", str(output)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run([*command, "--block", "5"], cwd=REPOSITORY, env=environment, check=True)
    assert output.read_text() == one.read_text()

import errno
import gc
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import tqdm

from common.machine import commit, environment
from common.runs.logging import RunLogger, read_events


def test_every_event_is_one_line_in_the_format_of_dllogger(tmp_path):
    log = RunLogger(tmp_path, tensorboard=False, stream=io.StringIO())
    log.parameters({"lr": 0.1})
    log.log("train", (1, 3, 48), {"loss": 2.5, "wer": 0.5}, global_step=3)
    log.log("dev_ema", (1,), {"wer": 0.25}, global_step=48)
    log.close()
    lines = (tmp_path / "nvlog.json").read_text().splitlines()
    records = [json.loads(line.removeprefix("DLLL ")) for line in lines]
    assert all(line.startswith("DLLL {") for line in lines)
    assert set(records[0]) == {"timestamp", "datetime", "elapsedtime", "type", "step", "data"}
    assert [r["step"] for r in records] == ["PARAMETER", [1, 3, 48], [1]]
    assert [r["data"] for r in records] == [{"lr": 0.1}, {"train_loss": 2.5, "train_wer": 0.5}, {"dev_ema_wer": 0.25}]


class ClosedTerminal(io.StringIO):
    def isatty(self):
        return True

    def write(self, text):
        raise OSError(errno.EIO, "Input/output error")


def test_a_terminal_that_was_closed_does_not_end_the_run(tmp_path):
    log = RunLogger(tmp_path, tensorboard=False, stream=ClosedTerminal())
    log.event("first")
    log.advance()
    log.event("second")
    log.close()
    assert [event["data"]["event"] for event in read_events(tmp_path / "nvlog.json")] == ["first", "second"]


class ClosingTerminal(io.StringIO):
    """A terminal that is there for so many writes."""

    def __init__(self, writes: int):
        super().__init__()
        self.left = writes

    def isatty(self):
        return True

    def write(self, text):
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.EIO, "Input/output error")
        return len(text)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("writes", [0, 1, 2, 3, 5])
def test_a_progress_bar_on_a_terminal_that_is_closed_sometime_does_not_end_the_run(tmp_path, writes, monkeypatch):
    log = RunLogger(tmp_path, tensorboard=False, stream=ClosingTerminal(writes))
    monkeypatch.setattr(tqdm.tqdm, "monitor_interval", 0)
    log.progress(100, 0)
    for _ in range(20):
        if log.bar is not None:
            log.bar.last_print_t -= 10  # as if the last refresh were long ago
        log.advance()
        log.event("a step")
    log.close()
    gc.collect()
    assert len(read_events(tmp_path / "nvlog.json")) == 20


def test_lines_that_cannot_be_read_are_left_out(tmp_path):
    log = RunLogger(tmp_path, tensorboard=False)
    log.event("first")
    log.close()
    with (tmp_path / "nvlog.json").open("ab") as file:
        file.write(b"DLLL {\nDLLL \xff\n\0\0\nDLLL " + b"[" * 50_000)
    assert [event["data"]["event"] for event in read_events(tmp_path / "nvlog.json")] == ["first"]


def test_a_run_without_standard_output_logs_to_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    log = RunLogger(tmp_path, tensorboard=False)
    log.progress(3, 0)
    log.event("first")
    log.close()
    assert len(read_events(tmp_path / "nvlog.json")) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_raises_where_it_is_written_to_and_not_again_at_the_end(tmp_path):
    (tmp_path / "nvlog.json").symlink_to("/dev/full")
    log = RunLogger(tmp_path, tensorboard=False, stream=io.StringIO())
    with pytest.raises(OSError, match="No space left"):
        log.event("first")
    log.close()


def test_the_terminal_shows_epoch_iteration_and_values(tmp_path):
    stream = io.StringIO()
    log = RunLogger(tmp_path, tensorboard=False, stream=stream)
    log.log("train", (1, 3, 48), {"loss": 2.5, "lrate": 0.01}, global_step=3)
    log.log("dev_ema", (1,), {"wer": 0.25}, global_step=48)
    log.close()
    first, second = stream.getvalue().splitlines()
    assert first.startswith("DLL 2")
    assert first.endswith(" - epoch    1 | iter    3/48 | loss   2.500 | lrate 1.00e-02")
    assert second.endswith(" - epoch    1 | dev ema | wer 25.00%")


def test_tensorboard_events_lie_in_one_folder_per_phase(tmp_path):
    log = RunLogger(tmp_path, stream=io.StringIO())
    for phase in ("train", "dev", "dev_ema"):
        log.log(phase, (1,), {"loss": 1.0}, global_step=1)
    log.close()
    assert all(list((tmp_path / phase).glob("events.out.tfevents.*")) for phase in ("train", "dev", "dev_ema"))


def test_tensorboard_reads_what_was_logged_of_all_jobs_of_a_run(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for step in (1, 2):
        log = RunLogger(tmp_path, stream=io.StringIO())
        log.log("train", (1, step, 2), {"loss": step + 0.5, "wer": 0.25}, global_step=step)
        log.close()
    shown = EventAccumulator(str(tmp_path / "train")).Reload()
    assert set(shown.Tags()["scalars"]) == {"loss", "wer"}
    assert [(event.step, event.value) for event in shown.Scalars("loss")] == [(1, 1.5), (2, 2.5)]


def test_events_that_cannot_be_written_raise_where_they_are_logged(tmp_path):
    log = RunLogger(tmp_path, stream=io.StringIO())
    (tmp_path / "train").touch()
    with pytest.raises(OSError, match="File exists"):
        log.log("train", (1, 1, 2), {"loss": 1.5}, global_step=1)
    log.close()


def test_a_second_process_writes_nothing(tmp_path):
    stream = io.StringIO()
    log = RunLogger(tmp_path / "run", enabled=False, stream=stream)
    log.log("train", (1,), {"loss": 1.0}, global_step=1)
    log.event("x")
    log.close()
    assert not (tmp_path / "run").exists()
    assert stream.getvalue() == ""


def test_a_resumed_run_appends_and_a_line_cut_short_is_left_out(tmp_path):
    for _ in range(2):
        log = RunLogger(tmp_path, tensorboard=False, stream=io.StringIO())
        log.event("started")
        log.close()
        with (tmp_path / "nvlog.json").open("a") as file:
            file.write('DLLL {"timestamp": "17", "data": {}')
    assert [e["data"] for e in read_events(tmp_path / "nvlog.json")] == [{"event": "started"}] * 2


def test_the_environment_names_versions_device_and_commit():
    told = environment(torch.device("cpu"))
    assert told["torch"] == torch.__version__
    assert all(told[key] for key in ("python", "device", "commit", "threads"))


@pytest.mark.parametrize(
    ("path", "is_dirty"),
    [
        ("benchmarks/results/x.jsonl", False), ("README.md", False), ("common/a.py", True), ("configs/a.toml", True),
        ("new/b.py", True), ("data/new.wav", False),
    ],
)  # fmt: skip
def test_rows_and_pages_do_not_make_a_commit_dirty_but_code_does(path, is_dirty, tmp_path):
    def git(*arguments):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=t", "-c", "user.email=t@t", *arguments], check=True)

    for name in ("benchmarks/results/x.jsonl", "README.md", "common/a.py", "configs/a.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    clean = commit(tmp_path / "common")
    assert len(clean) == 9
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text("b\n")
    assert commit(tmp_path / "common") == clean + "-dirty" * is_dirty


def test_a_processor_is_told_from_others_of_its_name(monkeypatch):
    told = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: told)
    assert environment(torch.device("cpu"))["device"].startswith("AMD EPYC family 25 model 17")


@pytest.mark.parametrize(
    ("aten", "onednn", "gained"),
    [("", "", ""), ("avx2", "AVX2", " (AVX2 forced)"), ("avx2", "", " (ATen AVX2, oneDNN -)")],
)
def test_the_device_tells_of_vectors_that_are_held_back(aten, onednn, gained, monkeypatch):
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    before = environment(torch.device("cpu"))["device"]
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", aten)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", onednn)
    assert environment(torch.device("cpu"))["device"] == before + gained

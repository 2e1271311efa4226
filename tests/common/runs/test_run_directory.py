import errno
import fcntl
import json
import os
import socket
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from common import config
from common.config import ConfigError
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from common.runs.run_directory import LOCK, changed_settings, check_same_settings, locked, started
from tests.training import events

HOST = socket.gethostname()


@dataclass(frozen=True, kw_only=True)
class Optim:
    kind: str = "adamw"
    lr: float = 0.02


@dataclass(frozen=True, kw_only=True)
class Settings:
    output_dir: Path = Path("runs/m")
    optim: Optim = field(default_factory=Optim)
    checkpoint: Path | None = None
    device: str = "cpu"
    precision: str = "fp32"
    tensorboard: bool = False
    resume: bool = True


def saved(cfg: Settings, step: int = 3) -> dict:
    return {"config": config.to_dict(cfg), "progress": {"step": step}}


def save(folder: Path, step: int) -> Path:
    path = checkpoint.step_path(folder, "m", step)
    checkpoint.save(path, saved(Settings(output_dir=folder), step))
    return path


def test_a_new_run_has_nothing_to_go_on_from_and_a_later_job_the_newest(tmp_path):
    cfg = Settings(output_dir=tmp_path / "run")
    with started(cfg, "m") as directory:
        assert directory.saved is None
        assert directory.safe_step() == "no checkpoint was saved yet"
        directory.save_step(3, saved(cfg), milestones=[])
    with started(cfg, "m") as directory:
        assert directory.saved == saved(cfg)
        assert directory.safe_step() == "the last checkpoint is that of step 3"


def test_later_steps_of_others_are_never_a_reason_to_delete(tmp_path):
    save(tmp_path, 100)
    for step in (101, 102):
        save(tmp_path, step).write_bytes(b"PK, and damaged")
    with started(replace(Settings(output_dir=tmp_path)), "m") as directory:
        for step in (1, 2, 3):
            directory.save_step(step, {}, milestones=[])
    assert [step for step, _ in checkpoint.saved_steps(tmp_path, "m")] == [2, 3, 100]


def test_what_a_killed_job_left_half_written_is_removed(tmp_path):
    for folder in ("pitch", "another_run"):
        (tmp_path / folder).mkdir()
    (tmp_path / "another_run" / ".lock").touch()
    for name in (".m_step00000009.pt.77.tmp", ".config.toml.8.tmp", "pitch/.a.pt.9.tmp", "another_run/.x.pt.9.tmp"):
        (tmp_path / name).write_bytes(b"half")
    with started(Settings(output_dir=tmp_path), "m"):
        pass
    assert [path.name for path in tmp_path.rglob(".*.tmp")] == [".x.pt.9.tmp"]


def test_damaged_checkpoints_are_moved_aside(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 2).write_bytes(b"PK damaged")
    with started(Settings(output_dir=tmp_path), "m") as directory:
        assert directory.saved["progress"]["step"] == 1
    assert sorted(path.name for path in tmp_path.glob("*.pt*")) == ["m_step00000001.pt", "m_step00000002.pt.damaged"]
    assert any("damaged, moved to m_step00000002.pt.damaged; taking the one before" in e for e in events(tmp_path))


HOLDER = "import sys; from pathlib import Path; from common.runs.run_directory import locked\n"
HOLDER += "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"


def test_the_lock_of_a_live_process_holds_and_that_of_a_dead_one_does_not(tmp_path):
    import sys

    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    expected = (
        rf"{tmp_path}: process {holder.pid} on host {HOST} \(since .*\) is writing there; take another --output_dir"
    )
    with pytest.raises(ConfigError, match=expected), locked(tmp_path):
        pass
    holder.kill()
    holder.wait()
    with locked(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["process"] == os.getpid()


@pytest.mark.parametrize(
    ("holder", "is_free"),
    [
        ({"host": HOST, "process": 2**22 + 1, "since": "then"}, True),
        ({"host": HOST, "process": os.getpid(), "since": "then"}, False),
        ({"host": "elsewhere", "process": 2**22 + 1, "since": "then"}, False),
        ("damaged", True),
        (b"\xff", True),
        ({"host": HOST, "process": "\0", "since": "then"}, True),
    ],
)
def test_where_a_file_system_has_no_locks_the_process_itself_is_looked_for(tmp_path, monkeypatch, holder, is_free):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", no_locks)
    (tmp_path / LOCK).write_bytes(holder if isinstance(holder, bytes) else json.dumps(holder).encode())
    if is_free:
        with locked(tmp_path):
            return
    with pytest.raises(
        ConfigError, match="this file system has no locks to tell; take another --output_dir, or remove"
    ):
        locked(tmp_path).__enter__()


def test_a_line_for_each_setting_that_changed():
    before = Settings()
    after = replace(before, optim=replace(before.optim, lr=0.5), precision="bf16", output_dir=Path("elsewhere"))
    assert changed_settings(saved(before), after, depends_on=()) == ["optim.lr 0.02 -> 0.5", "precision fp32 -> bf16"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optim": Optim(kind="lamb")}, "does not fit this configuration: optim.kind adamw -> lamb; take another"),
        ({"checkpoint": Path("b.pt")}, "holds a run that did not start from there: checkpoint none -> b.pt; take"),
    ],
)
def test_what_the_weights_depend_on_is_refused(change, message):
    with pytest.raises(CheckpointError, match=message):
        changed_settings(saved(Settings()), replace(Settings(), **change), depends_on=("optim.kind",))


def test_a_checkpoint_without_a_configuration_is_one_line():
    with pytest.raises(
        CheckpointError, match="its newest checkpoint is not of this model: unknown key|.*unknown key x"
    ):
        changed_settings({"config": {"x": 1}}, Settings(), depends_on=())


def test_a_finished_run_takes_no_other_settings_but_those_of_where_and_how_often():
    before = saved(Settings())
    check_same_settings(before, replace(Settings(), output_dir=Path("moved"), device="cuda"))
    with pytest.raises(ConfigError, match=r"finished, and was made with other settings: optim.lr 0.02 -> 0.5; take"):
        check_same_settings(before, replace(Settings(), optim=Optim(lr=0.5)))


def test_a_network_takes_what_fits_of_a_checkpoint_and_the_log_says_what_did_not(tmp_path):
    network, path = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)), Path("a.pt")
    weights = {name: weight + 1 for name, weight in network.state_dict().items() if "num_batches" not in name}
    with started(Settings(output_dir=tmp_path), "m") as directory:
        directory.start_from(network, weights, path)
        directory.start_from(network, weights | {"0.bias": torch.zeros(4)}, path)
        directory.left_out(["utterance b: no such file"])
    assert events(tmp_path) == [
        "a.pt: taken",
        "a.pt: 0.bias: (4,) in the checkpoint, (3,) here, starts anew",
        "left out: utterance b: no such file",
    ]
    assert torch.equal(network.state_dict()["0.bias"], weights["0.bias"])


def test_a_job_that_goes_on_reads_the_newest_checkpoint_once(tmp_path, monkeypatch):
    for step in (1, 2):
        save(tmp_path, step)
    read, load = [], checkpoint.load
    monkeypatch.setattr(checkpoint, "load", lambda path: [load(path), read.append(path.name)][0])
    with started(Settings(output_dir=tmp_path), "m") as directory:
        assert directory.last_saved == 2
    assert read == ["m_step00000002.pt"]

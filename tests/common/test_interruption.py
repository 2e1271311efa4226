import contextlib
import os
import signal
import subprocess
import sys

import pytest

from common.interruption import STOPPING, Interrupted, ended_by_the_user, termination
from tests.training import REPOSITORY


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_is_noted_and_the_handlers_are_put_back(number):
    before = signal.getsignal(number)
    with termination() as signals:
        assert not signals.came
        os.kill(os.getpid(), number)
        assert signals.came
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_processes_at_once_leaves_a_training_its_workers(number):
    code = f"""import os
from torch.utils.data import DataLoader
from common.interruption import leave_group, termination
with termination() as signals:
    for i, _ in enumerate(DataLoader(range(60), num_workers=2, worker_init_fn=leave_group)):
        if i == 2:
            os.killpg(0, {int(number)})
    print(i, signals.came)"""
    told = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, cwd=REPOSITORY, check=False, timeout=60, start_new_session=True,
    )  # fmt: skip
    assert (told.returncode, told.stdout) == (0, "59 True\n"), told.stderr


def test_ctrl_c_is_one_line_and_the_status_of_the_shell(capsys):
    with pytest.raises(SystemExit, match=r"^130$"), ended_by_the_user():
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "interrupted\n"


def test_a_reader_who_leaves_ends_the_program_without_a_traceback():
    code = """from common.config import reported
with reported():
    for _ in range(100_000):
        print("text", flush=True)"""
    told = subprocess.run(
        ["bash", "-c", f"{sys.executable} -c '{code}' | head -n 1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True, cwd=REPOSITORY, check=False, timeout=60,
    )  # fmt: skip
    assert (told.returncode, told.stdout, told.stderr) == (141, "text\n", "")


def test_a_signal_that_was_ignored_still_is():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with termination() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not signals.came
    finally:
        signal.signal(signal.SIGHUP, before)


def work(signals, went_on, *, is_held: bool) -> None:
    with signals.raising():
        with signals.held() if is_held else contextlib.nullcontext():
            went_on.append("before")
            os.kill(os.getpid(), signal.SIGTERM)
            went_on.append("after")
        went_on.append("much later")


@pytest.mark.parametrize(("is_held", "expected"), [(False, ["before"]), (True, ["before", "after"])])
def test_what_need_not_be_finished_is_ended_at_once_unless_it_is_held(is_held, expected):
    went_on = []
    with termination() as signals, pytest.raises(Interrupted):
        work(signals, went_on, is_held=is_held)
    assert went_on == expected


def test_a_signal_that_came_before_ends_what_need_not_be_finished_where_it_was_held():
    went_on = []
    with termination() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted):
            work(signals, went_on, is_held=True)
    assert went_on == ["before", "after"]

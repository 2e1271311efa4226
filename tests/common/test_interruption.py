import os
import signal
import subprocess
import sys

import pytest

from common.interruption import ended_by_the_user, termination
from tests.training import REPOSITORY


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_noted_and_the_handlers_are_put_back(number):
    before = signal.getsignal(number)
    with termination() as came:
        assert came == []
        os.kill(os.getpid(), number)
        assert came == [number]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_processes_at_once_leaves_a_training_its_workers(number):
    code = f"""import os
from torch.utils.data import DataLoader
from common.interruption import leave_group, termination
with termination() as came:
    for i, _ in enumerate(DataLoader(range(60), num_workers=2, worker_init_fn=leave_group)):
        if i == 2:
            os.killpg(0, {int(number)})
    print(i, came)"""
    told = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, cwd=REPOSITORY, check=False, timeout=60, start_new_session=True,
    )  # fmt: skip
    assert (told.returncode, told.stdout) == (0, f"59 [{int(number)}]\n"), told.stderr


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

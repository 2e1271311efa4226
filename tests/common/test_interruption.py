import contextlib
import os
import signal
import subprocess
import sys

import pytest

from common import starting
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
        capture_output=True, text=True, cwd=REPOSITORY, check=False, start_new_session=True,
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
        capture_output=True, text=True, cwd=REPOSITORY, check=False,
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


@pytest.mark.parametrize("module", ["jasper.inference", "fastpitch.inference", "trt.run", "ctc.ngram"])
def test_ctrl_c_while_a_command_is_imported_is_one_line(module, tmp_path):
    """numpy, which all of them import, stands for torch: here it takes until the signal comes."""
    (tmp_path / "numpy.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n")
    told = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=REPOSITORY, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{REPOSITORY}"},
    )  # fmt: skip
    assert (told.returncode, told.stdout, told.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize("where", ["typing", "numpy"], ids=["at its start", "while a command is imported"])
def test_ctrl_c_at_the_start_of_the_installed_command_is_one_line(where, tmp_path):
    """Its first import of another module that is slow, and that of the command that does the work."""
    (tmp_path / f"{where}.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    )
    (tmp_path / "speech").write_text(
        "import sys\nsys.modules.pop('typing', None)\nfrom speech.__main__ import main\nmain()\n"
    )
    (tmp_path / "bin").mkdir()
    script = (tmp_path / "speech").rename(tmp_path / "bin" / "speech")
    told = subprocess.run(
        [sys.executable, script, "data", "write", "x"], cwd=REPOSITORY, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{REPOSITORY}"},
    )  # fmt: skip
    assert (told.returncode, told.stdout, told.stderr) == (130, "", "interrupted\n")


def test_programs_of_others_that_import_a_package_are_left_alone():
    code = "import signal, common, ctc; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    told = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert told.stdout == "True\n"


def test_a_command_that_has_begun_gets_ctrl_c_as_an_exception(capsys):
    before = signal.signal(signal.SIGINT, starting.end_at_once)
    try:
        with pytest.raises(SystemExit, match=r"^130$"), ended_by_the_user():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        (["trt.export", "--help"], "onnx", "onnx"),
        (["trt.run", "m.onnx", "a.wav"], "onnxruntime", "onnx"),
        (["trt.serve", "--help"], "uvicorn", "serve"),
        (["speech", "export", "m.pt"], "onnx", "onnx"),
    ],
)
def test_a_command_without_its_extra_says_so_in_one_line(tmp_path, command, package, extra):
    (tmp_path / f"{package}.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{package}'\", name='{package}')"
    )
    told = subprocess.run(
        [sys.executable, "-m", *command], env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, cwd=REPOSITORY, check=False,
    )  # fmt: skip
    assert (told.returncode, told.stderr) == (
        2, f"error: No module named '{package}'; it comes with the extra {extra}: pip install -e '.[{extra}]'\n"
    )  # fmt: skip

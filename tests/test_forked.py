"""Tests in several processes say what they say in one."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.forked import shares
from tests.training import REPOSITORY

TESTS = """
import os, signal, warnings
import pytest

@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with open(os.environ["MADE"], "a") as file:
        print(os.getpid(), tmp_path_factory.mktemp("x"), file=file)

@pytest.mark.parametrize("i", range(20))
def test_passes(made, i):
    pass

def test_fails():
    print("what it said")
    os.system("echo and its child")
    assert {"a": 1} == {"a": 2}

def test_warns():
    class OwnWarning(UserWarning): ...
    warnings.warn("look out", OwnWarning)

def test_is_skipped():
    pytest.skip("not here")

@pytest.mark.xfail
def test_is_expected_to_fail():
    assert False

def test_dies():
    os.kill(os.getpid(), signal.SIGKILL)

@pytest.mark.parametrize("i", range(3))
def test_passes_after_it(made, i):
    pass
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text(TESTS if name == "b" else TESTS.replace("test_dies", "dies"))
    monkeypatch.setenv("MADE", str(tmp_path / "made"))
    return tmp_path


def run(folder: Path, processes: int, *more: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-p", "tests.forked", "-p", "no:cacheprovider", "-c", "/dev/null"]
    command += ["--rootdir", str(folder), "--processes", str(processes), *more, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    return done.returncode, done.stdout + done.stderr


def test_what_became_of_each_is_told_as_by_one_process_and_one_that_dies_fails_its_test(folder):
    status, told = run(folder, 3, "-q", "-rsxf")
    assert status == 1, told
    assert "4 failed, 72 passed, 3 skipped, 3 xfailed, 3 warnings" in told.replace("\n", " "), told
    assert re.search(r"process-\d ended with exit status -9 in this test", told)
    assert told.count("\nwhat it said\n") == told.count("\nand its child\n") == 3
    assert told.count("Differing items:") == 3
    assert "OwnWarning: look out" in told
    assert "not here" in told
    made = [line.split() for line in (folder / "made").read_text().splitlines()]
    assert 3 <= len({process for process, _ in made}) <= len(made) <= 8
    assert len({path for _, path in made}) == len(made)


def test_a_first_failure_ends_the_run_where_that_is_asked_for(folder):
    status, told = run(folder, 2, "-q", "-x")
    assert status == 1
    assert re.search("stopping after [1-3] failures", told)
    assert int(re.search(r"(\d+) passed", told)[1]) < 60


def test_what_no_process_collects_is_an_error_of_all(folder):
    (folder / "test_d.py").write_text("import nothing_of_the_kind")
    status, told = run(folder, 3, "-q")
    assert status == 2
    assert "1 error during collection" in told
    (folder / "test_d.py").unlink()
    assert run(folder, 3, "-q", "-k", "no_test_at_all")[0] == 5


def test_tests_of_the_stand_in_device_are_a_process_s_own():
    items = [SimpleNamespace(path=REPOSITORY / "tests" / name / "test_a.py") for name in ("common", "device", "trt")]
    assert shares(items * 2, 2) == [([1, 4], True), ([0, 2], False), ([3, 5], False)]
    assert shares(items[:1], 3) == [([0], False)]

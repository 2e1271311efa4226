"""What a user has of his own beside these packages, and an interpreter that is too old: one line, no traceback."""

import os
import subprocess
import sys

import pytest

from tests.training import REPOSITORY


@pytest.mark.parametrize("package", ["jasper", "fastpitch", "wav2vec2", "fastconformer", "trt", "speech"])
def test_a_module_of_the_users_own_is_named(tmp_path, package):
    (tmp_path / "common.py").write_text("")
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {package}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False,
                          env={**os.environ, "PYTHONPATH": str(REPOSITORY)})  # fmt: skip
    told = f"error: {tmp_path / 'common.py'} is in the way of the package `common`: rename it, or start elsewhere\n"
    assert (done.returncode, done.stderr) == (1, told)


@pytest.mark.parametrize(
    ("beside", "told"),
    [
        ("ctc.py", "{}/ctc.py is in the way of the package `ctc`: rename it, or pip uninstall speech-ctc"),
        (
            "ctc/_build/left",
            "the package `ctc` is missing, as after pip uninstall speech-ctc; install these ones again",
        ),
    ],
)
def test_another_ctc_or_none_is_one_line(tmp_path, beside, told):
    (tmp_path / beside).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / beside).write_text("")
    (tmp_path / "common").symlink_to(REPOSITORY / "common")
    done = subprocess.run([sys.executable, "-S", "-c", "import common"], capture_output=True, text=True, cwd=tmp_path,
                          check=False, env={**os.environ, "PYTHONPATH": str(tmp_path)})  # fmt: skip
    assert (done.returncode, done.stderr) == (1, f"error: {told.format(tmp_path)}\n")


def test_an_older_python_is_named():
    code = "import sys; sys.version_info = (3, 10, 4); import common"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY, check=False)
    told = f"error: {sys.executable} is Python 3.10.4; expected 3.11 or newer (see SPEECH_PYTHON)\n"
    assert (done.returncode, done.stderr) == (1, told)

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


def test_an_older_python_is_named():
    code = "import sys; sys.version_info = (3, 10, 4); import common"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY, check=False)
    told = f"error: {sys.executable} is Python 3.10.4; expected 3.11 or newer (see SPEECH_PYTHON)\n"
    assert (done.returncode, done.stderr) == (1, told)

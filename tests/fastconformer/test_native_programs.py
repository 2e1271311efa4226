"""The C++ tests of the losses and of the decoder pass under sanitizers."""

import os
import subprocess
import sys

import pytest

from ctc.native import find_compiler
from fastconformer.transducer._library import PACKAGE


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_the_c_tests_pass_under_sanitizers():
    environment = os.environ | {"PYTHON": sys.executable}
    script = PACKAGE.parents[1] / "ctc" / "csrc" / "test" / "sanitize.sh"
    done = subprocess.run(
        ["bash", str(script), "6", "fastconformer.transducer"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tests = list((PACKAGE / "csrc" / "test").glob("*_test.cpp"))
    assert done.stdout.count("all passed") == 2 * len(tests) > 0, done.stdout

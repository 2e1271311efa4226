"""What shares threads in a server, while garbage is collected wherever it can be: in the start of a thread, under a
lock, within a callback. A finaliser that waits there, or takes a lock that is held, stops the process for good."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
TESTS = (
    "tests/common/test_ahead.py", "tests/trt/serving/test_batching.py", "tests/trt/serving/test_metrics.py",
    "tests/trt/serving/admission/test_forms.py", "tests/trt/serving/admission/test_guard.py",
    "tests/trt/serving/streams", "tests/fastconformer/hearing/streaming/test_pool.py",
)  # fmt: skip


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_serving_stack_survives_garbage_that_is_collected_everywhere():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.collecting", "-p", "no:cacheprovider", *TESTS]
    found = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert not found.returncode, found.stdout[-4000:] + found.stderr[-2000:]

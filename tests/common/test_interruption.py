import os
import signal

import pytest

from common.interruption import termination


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_noted_and_the_handlers_are_put_back(number):
    before = signal.getsignal(number)
    with termination() as came:
        assert came == []
        os.kill(os.getpid(), number)
        assert came == [number]
    assert signal.getsignal(number) is before

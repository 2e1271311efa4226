"""Ctrl-C while a command that `python -m` starts is still being imported. Imports as little as it can: it comes first.

Importing torch takes seconds, may turn an exception into others, and Python would show where in it. So a signal ends
the process at once, in one line, with status 130. From `common.interruption.ended_by_the_user` on it is an exception.
"""

import os
import signal
import sys


def end_at_once(number: int, _frame: object) -> None:
    """For `signal.signal`. No `X | None` here: an old Python is to read on, to where its version is checked."""
    os.write(2, b"interrupted\n")
    os._exit(128 + number)


def begin() -> None:
    """The command is imported: from now on Ctrl-C is an exception."""
    if signal.getsignal(signal.SIGINT) is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# So Python calls a program as long as it imports the packages around it; nothing is done to programs of others.
if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, end_at_once)

"""Ends that users of this package's commands ask for. Imports as little as it can: it is imported first.

While a command that `python -m` starts is imported, Ctrl-C ends it at once, in one line and with status 130.
"""

import os
import signal
import sys
from types import FrameType, TracebackType


def _end_at_once(number: int, _frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(128 + number)


class EndedByTheUser:
    """Within it Ctrl-C ends a command as an exception does, but in one line and with status 130.

    A reader of the output who left, as `head` does, ends it without a word, with status 141.
    """

    def __enter__(self) -> None:
        if signal.getsignal(signal.SIGINT) is _end_at_once:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            print("interrupted", file=sys.stderr)
            raise SystemExit(128 + signal.SIGINT) from None
        if kind is not None and issubclass(kind, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python still has to flush
            raise SystemExit(128 + signal.SIGPIPE) from None


# So Python calls a program as long as it imports the packages around it; nothing is done to programs of others.
_NAMED = sys.orig_argv[-len(sys.argv)] if sys.argv[:1] == ["-m"] else ""  # "-mctc.ngram", too; no program of others
if _NAMED.rpartition("-m")[2].split(".")[0] == "ctc" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end_at_once)

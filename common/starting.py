"""Ctrl-C and missing packages while a command that `python -m` starts is imported. Imports as little as it can.

Importing torch takes seconds, may turn an exception into others, and Python would show where in it. So a signal ends
the process at once, in one line, with status 130. From `common.interruption.ended_by_the_user` on it is an exception.
"""

import os
import signal
import sys

TYPE_CHECKING = False  # as in typing, which need not be imported here
if TYPE_CHECKING:
    from typing import Any

# The extra of pyproject.toml that brings a package which commands import at their top.
EXTRAS = dict.fromkeys(("onnx", "onnxruntime", "onnxscript"), "onnx")
EXTRAS.update(dict.fromkeys(("fastapi", "starlette", "uvicorn", "websockets", "prometheus_client"), "serve"))


def what_to_install(error: BaseException) -> str:
    """What to do where a package that an extra brings is not installed; empty for all other errors."""
    extra = EXTRAS.get(str(error.name).split(".")[0]) if isinstance(error, ModuleNotFoundError) else None
    return f"{error}; it comes with the extra {extra}: pip install -e '.[{extra}]'" if extra else ""


def end_in_one_line(kind: type, error: BaseException, trace: "Any") -> None:
    """For `sys.excepthook`: a package that is missing is said in one line, with status 2."""
    if what_to_install(error):
        os.write(2, f"error: {what_to_install(error)}\n".encode())
        os._exit(2)
    sys.__excepthook__(kind, error, trace)


def end_at_once(number: int, _frame: object) -> None:
    """For `signal.signal`. No `X | None` here: an old Python is to read on, to where its version is checked."""
    os.write(2, b"interrupted\n")
    os._exit(128 + number)


def arm() -> None:
    """A command is imported from now on: Ctrl-C ends the process, in one line, until `begin`."""
    try:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, end_at_once)
            sys.excepthook = end_in_one_line
    except ValueError:  # not in the main thread, which alone gets signals
        pass


def begin() -> None:
    """The command is imported: from now on Ctrl-C is an exception."""
    if sys.excepthook is end_in_one_line:
        sys.excepthook = sys.__excepthook__
    if signal.getsignal(signal.SIGINT) is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


PACKAGES = ("speech", "trt", "jasper", "fastpitch", "wav2vec2", "fastconformer", "common", "ctc", "benchmarks")


def is_ours() -> bool:
    """Whether a command of these packages is what runs; nothing is done to programs of others, whatever their names.

    Python calls a program "-m" as long as it imports the packages around it; the installed command imports its `main`.
    """
    name = "".join(sys.argv[:1])
    if name == "-m":
        given = sys.orig_argv[-len(sys.argv)] if hasattr(sys, "orig_argv") else PACKAGES[0]  # "-mjasper.train", too
        return given.rpartition("-m")[2].split(".")[0] in PACKAGES
    frame = sys._getframe() if name.rpartition(os.sep)[2] in ("speech", "speech.exe") else None
    while frame is not None:
        if frame.f_globals.get("__name__") == "__main__" and "speech.__main__" in frame.f_code.co_names:
            return True
        frame = frame.f_back
    return False


if is_ours():
    arm()

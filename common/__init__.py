"""Parts that two models need and neither owns: configuration, audio, features, text, data, training.

Every package imports this one first, so that Ctrl-C ends also a command that is still being imported in one line, and
so does what is wrong with an installation.
"""

from common import starting as starting

# isort: split
import sys
from importlib.util import find_spec
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036
    found = ".".join(map(str, sys.version_info[:3]))
    raise SystemExit(f"error: {sys.executable} is Python {found}; expected 3.11 or newer (see SPEECH_PYTHON)")
ctc = find_spec("ctc")
if ctc is None or ctc.origin is None:
    raise SystemExit("error: the package `ctc` is missing, as after pip uninstall speech-ctc; install these ones again")
if Path(ctc.origin).resolve().parents[1] != Path(__file__).resolve().parents[1]:
    raise SystemExit(f"error: {ctc.origin} is in the way of the package `ctc`: rename it, or pip uninstall speech-ctc")
del ctc

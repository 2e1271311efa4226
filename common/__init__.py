"""Parts that two models need and neither owns: configuration, audio, features, text, data, training.

Every package imports this one first, so that Ctrl-C ends also a command that is still being imported in one line.
"""

import sys

from common import starting as starting

if sys.version_info < (3, 11):  # noqa: UP036
    found = ".".join(map(str, sys.version_info[:3]))
    raise SystemExit(f"error: {sys.executable} is Python {found}; expected 3.11 or newer (see SPEECH_PYTHON)")

"""The door: one command and one function for every model of this repository.

    speech transcribe MODEL a.flac b.wav
    asr = speech.load("nvidia/parakeet-tdt-0.6b-v2")

No other package imports this one.
"""

import common

# isort: split
from typing import TYPE_CHECKING

if not hasattr(common, "starting"):  # somebody else's, found before that of these packages
    raise SystemExit(f"error: {common.__file__} is in the way of the package `common`: rename it, or start elsewhere")

if TYPE_CHECKING:
    from speech.models import find, load

__all__ = ["find", "load"]


def __getattr__(name: str) -> object:
    """`load` and what it gives, imported when they are first asked for: a command imports only what it runs."""
    if name in __all__:
        from speech import models

        return getattr(models, name)
    raise AttributeError(f"module 'speech' has no attribute {name!r}; it has {', '.join(__all__)}")

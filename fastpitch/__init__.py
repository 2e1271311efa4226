"""FastPitch and its vocoders: text to speech with control of pace, pitch and energy. See fastpitch/README.md.

`load` and `load_vocoder` are imported when they are first used: preparing data needs no network.
"""

import common

# isort: split
import importlib
from typing import TYPE_CHECKING, Any

if not hasattr(common, "starting"):  # somebody else's, found before that of these packages
    raise SystemExit(f"error: {common.__file__} is in the way of the package `common`: rename it, or start elsewhere")

if TYPE_CHECKING:
    from fastpitch.speaking.synthesizer import Spoken, Synthesizer, load
    from fastpitch.speaking.voicing import Voice, VoicingConfig
    from fastpitch.vocoders.vocoder import Denoiser, Vocoder, load_vocoder

__all__ = ["Denoiser", "Spoken", "Synthesizer", "Vocoder", "Voice", "VoicingConfig", "load", "load_vocoder"]

_MODULES = {
    "speaking.synthesizer": ("Spoken", "Synthesizer", "load"),
    "vocoders.vocoder": ("Denoiser", "Vocoder", "load_vocoder"),
    "speaking.voicing": ("Voice", "VoicingConfig"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"fastpitch.{module}"), name)
    raise AttributeError(f"module 'fastpitch' has no attribute {name!r}; it has {', '.join(__all__)}")

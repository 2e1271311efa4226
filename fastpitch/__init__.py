"""FastPitch and its vocoders: text to speech with control of pace, pitch and energy. See fastpitch/README.md.

`load` and `load_vocoder` are imported when they are first used: preparing data needs no network.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastpitch.synthesizer import Spoken, Synthesizer, load
    from fastpitch.vocoder import Denoiser, Vocoder, load_vocoder
    from fastpitch.voicing import Voice, VoicingConfig

__all__ = ["Denoiser", "Spoken", "Synthesizer", "Vocoder", "Voice", "VoicingConfig", "load", "load_vocoder"]

_MODULES = {
    "synthesizer": ("Spoken", "Synthesizer", "load"),
    "vocoder": ("Denoiser", "Vocoder", "load_vocoder"),
    "voicing": ("Voice", "VoicingConfig"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"fastpitch.{module}"), name)
    raise AttributeError(f"module 'fastpitch' has no attribute {name!r}; it has {', '.join(__all__)}")

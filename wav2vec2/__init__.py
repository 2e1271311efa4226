"""wav2vec 2.0 and the Hourglass Transformer: pre-training, fine-tuning, recognition. See wav2vec2/README.md."""

import common

# isort: split
from typing import TYPE_CHECKING, Any

if not hasattr(common, "starting"):  # somebody else's, found before that of these packages
    raise SystemExit(f"error: {common.__file__} is in the way of the package `common`: rename it, or start elsewhere")

if TYPE_CHECKING:
    from wav2vec2.recognizer import Recognizer, load

__all__ = ["Recognizer", "load"]


def __getattr__(name: str) -> Any:
    """`load` and `Recognizer`, imported when first asked for, so that configurations can be read without torch."""
    if name not in __all__:
        raise AttributeError(f"module 'wav2vec2' has no attribute {name!r}; it has {', '.join(__all__)}")
    from wav2vec2 import recognizer

    return getattr(recognizer, name)

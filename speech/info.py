"""What a model is, in a few lines: its family, size, rate, labels, languages and what takes it."""

from collections.abc import Iterator
from typing import Any

from speech.models import RECOGNISERS, find, load


def described(model: str) -> Iterator[tuple[str, Any]]:
    """Names and values of what is known of a model. Raises CheckpointError and ModelError."""
    found = find(model)
    yield "file", found.path
    yield "family", found.family
    if found.family.startswith("onnx-"):
        yield "use", f"python -m trt.speak --help, speech serve --tts {found.path}"
        return
    loaded: Any = load(found.path, **({} if found.family == "onnx" else {"device": "cpu"}))
    parts: list[Any] = [loaded, getattr(loaded, "vocoder", None)]
    parameters = sum(getattr(part, "n_parameters", 0) for part in parts)
    if parameters:
        yield "parameters", f"{parameters:,}"
    if found.family in RECOGNISERS:
        yield "sample rate", f"{loaded.sample_rate:,} Hz"
        yield "languages", ", ".join(loaded.languages) or "not said"
        yield "chunks", f"{loaded.chunk_seconds:g} s"
        yield "use", f"speech transcribe {model} a.flac"
    else:
        yield "sample rate", f"{(getattr(loaded, 'vocoder', None) or loaded.features).sample_rate:,} Hz"
        yield "use", f'speech speak "Hello." --voice {model}'

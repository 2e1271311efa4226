"""Which model a path or a name means, found in what the file says of itself, and the model ready for use."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fastpitch import voices
from trt.facts import ModelError

if TYPE_CHECKING:
    from common.recognition.recognizer import SpeechRecognizer
    from fastpitch import Synthesizer, Vocoder

ONNX = (".onnx", ".engine")
RECOGNISERS = ("jasper", "wav2vec2", "fastconformer", "onnx")


class FoundModel(NamedTuple):
    """A model: where it lies, and its family.

    `family` is the package that reads it, "voice" for a folder with an acoustic model and a vocoder, or for ONNX
    files "onnx" (a recogniser), "onnx-fastpitch" or "onnx-vocoder".
    """

    path: Path
    family: str


def find(model: str | Path) -> FoundModel:
    """The model at a path, of that name on the Hugging Face hub, or the voice of that name.

    Raises CheckpointError and ModelError for what is missing, damaged or of no known family.
    """
    path = Path(model)
    if path.suffix in ONNX:
        from trt.runtime.loading import network

        kinds = {"recognition": "onnx", "synthesis": "onnx-fastpitch", "vocoding": "onnx-vocoder"}
        return FoundModel(path, kinds.get(network(path).facts.get("task", "recognition"), "onnx"))
    if (path / voices.ACOUSTIC).is_file() or (voices.is_name(path) and _is_voice(path)):
        return FoundModel(path, "voice")
    from trt.export import families

    return FoundModel(*families.located(path))


def _is_voice(name: Path) -> bool:
    return any((folder / name / voices.ACOUSTIC).is_file() for folder in voices.folders())


def load(
    model: str | Path, *, vocoder: str | Path | None = None, device: str = "auto", **options: Any
) -> "SpeechRecognizer | Synthesizer | Vocoder":
    """The recogniser or voice at a path or of a name: ours, DeepLearningExamples', Fairseq's, NeMo's, a folder of
    transformers, an ONNX file, or a packed voice.

    Recognisers have the methods of `common.recognition.recognizer`; a voice says texts by `say`. `vocoder`: of an
    acoustic model that is not packed with one. `options`: those of the family's own `load`. Raises CheckpointError
    and ModelError.
    """
    found = find(model)
    if found.family == "onnx":
        from trt.runtime.loading import load as load_onnx

        return load_onnx(found.path, **options)
    if found.family in ("onnx-fastpitch", "onnx-vocoder"):
        raise ModelError(f"{found.path}: a part of a voice; python -m trt.speak says texts with both of its files")
    if found.family in RECOGNISERS:
        return importlib.import_module(found.family).load(found.path, device=device, **options)
    import fastpitch

    if found.family == "vocoder":
        return fastpitch.load_vocoder(found.path, device=device, **options)
    spoken = fastpitch.load(found.path, device=device, **options)
    if vocoder is not None or found.family == "voice":
        spoken.vocoder = fastpitch.load_vocoder(vocoder or found.path, device=device)
    return spoken

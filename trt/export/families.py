"""Which package reads a checkpoint: the one place that decides it, for export, for the server, for all of `trt`.

What a file, an archive or a folder says of itself decides, not its name.
"""

from pathlib import Path
from typing import Any, Literal

from common.published import hub
from common.published.model_folder import read_json
from common.published.nemo.archive import opened
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from fastconformer.checkpoints.huggingface import ATTENTION, TRANSDUCERS
from fastconformer.checkpoints.own import FORMAT as FASTCONFORMER
from fastpitch.acoustic.checkpoints.own import FORMAT as FASTPITCH
from fastpitch.vocoders.checkpoints import hifigan, waveglow
from jasper.checkpoints import nemo
from jasper.checkpoints.own import FORMAT as JASPER
from wav2vec2.checkpoints.huggingface import BACKBONES
from wav2vec2.checkpoints.own import FORMAT as WAV2VEC2
from wav2vec2.checkpoints.pickles import load_foreign

Family = Literal["jasper", "wav2vec2", "fastconformer", "fastpitch", "vocoder"]
FORMATS: dict[str, Family] = {
    JASPER: "jasper",
    WAV2VEC2: "wav2vec2",
    FASTCONFORMER: "fastconformer",
    FASTPITCH: "fastpitch",
    hifigan.FORMAT: "vocoder",
    waveglow.FORMAT: "vocoder",
}


def located(path: Path) -> tuple[Path, Family]:
    """Where the checkpoint at `path`, or of that name on the hub, lies, and which family it is of. Of a training's
    directory it is the best one.

    Raises CheckpointError for what is missing or damaged, and for a model of no family that is known.
    """
    path = hub.located(path)
    if not path.exists():
        raise CheckpointError(f"{path}: no such checkpoint")
    path, form = hub.stored(next(iter(sorted(path.glob("*_best.pt"))), path))
    with checkpoint.usable(path):
        match form:
            case "folder":
                return path, _of_folder(path)
            case "archive":
                return path, _of_archive(path)
            case "file":
                return path, _of_state(load_foreign(path), path)


def _of_folder(folder: Path) -> Family:
    kind = read_json(folder / "config.json").get("model_type")
    if kind in BACKBONES:
        return "wav2vec2"
    if kind in (*TRANSDUCERS, *ATTENTION):
        return "fastconformer"
    known = ", ".join([*BACKBONES, *TRANSDUCERS, *ATTENTION])
    raise CheckpointError(f"{folder}: config.json says model_type {kind!r}; known are {known}")


def _of_archive(path: Path) -> Family:
    """The family of a .nemo archive, by its class: Jasper and QuartzNet write letters, FastConformers pieces."""
    with opened(path) as archive:
        target = str(archive.config().get("target", nemo.TARGET)).rpartition(".")[2]
    return "jasper" if target == nemo.TARGET else "fastconformer"


def _of_state(state: dict[str, Any], path: Path) -> Family:
    """The family of a .pt file of this repository, DeepLearningExamples or Fairseq; Jasper's for other kinds."""
    if hifigan.is_checkpoint(state) or waveglow.is_checkpoint(state):
        return "vocoder"
    kind = state.get("format")
    if kind is not None:
        if kind not in FORMATS:
            raise CheckpointError(f"{path}: is of {kind}, which is not known; known are {', '.join(FORMATS)}")
        return FORMATS[kind]
    described, weights = state.get("config"), state.get("model")
    if isinstance(described, dict) and "n_mel_channels" in described:
        return "fastpitch"
    if isinstance(weights, dict) and any(name.endswith("post_extract_proj.weight") for name in weights):
        return "wav2vec2"
    return "jasper"

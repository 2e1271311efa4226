"""A voice to pass on: FastPitch and a vocoder in one folder, in half precision, with checksums.

    python -m fastpitch.pack NAME --fastpitch runs/voice/fastpitch_best.pt --vocoder runs/vocoder/hifigan_final.pt

Only what speaks is kept: averaged weights where there are any, no aligner, of a refiner the one step that speech takes;
matrices in half precision, vectors in float32, the configuration without the paths of the training.
`fastpitch.load("NAME")` and `load_vocoder` find it (`fastpitch/voices.py` says where).
"""

from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor
from tyro.conf import Positional, arg

from common import config
from common.files import atomic
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError, Imported
from fastpitch import voices
from fastpitch.acoustic.checkpoints import own, reading
from fastpitch.acoustic.config import Config
from fastpitch.vocoders.checkpoints import hifigan
from fastpitch.vocoders.checkpoints.waveglow import is_checkpoint as is_waveglow
from fastpitch.vocoders.config import HifiganRun
from fastpitch.vocoders.vocoder import VocoderError, load_vocoder


@dataclass(frozen=True, kw_only=True)
class PackConfig:
    """A voice to pack."""

    name: Annotated[str, Positional, arg(metavar="NAME")]
    """Name of the voice, and of its folder."""
    fastpitch: Path
    """Checkpoint of FastPitch, or a voice's name."""
    vocoder: Path
    """Checkpoint of HiFi-GAN or of the light vocoder, trained on the same mel frames, or a voice's name."""
    corrections: int | None = None
    """Corrections of the light vocoder, in place of those of its checkpoint; with 16 the quickstart's takes three times
    as long."""
    phases: Literal["network", "pulses"] | None = None
    """Phases of the light vocoder, in place of those of its checkpoint: pulses need no training."""
    folder: Path | None = None
    """Folder of voices; the first of SPEECH_VOICES, or ~/.cache/speech-models/voices, by default."""

    def __post_init__(self) -> None:
        if not voices.NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r}: expected a name of letters, digits, - and _")


def main(cfg: PackConfig) -> Path:
    """Writes the voice; its folder. Raises CheckpointError, VocoderError and OSError."""
    folder = (cfg.folder or voices.folders()[0]) / cfg.name
    acoustic_path = voices.located(cfg.fastpitch, voices.ACOUSTIC)
    vocoder_path = voices.located(cfg.vocoder, voices.VOCODER)
    with checkpoint.usable(acoustic_path):
        acoustic = reading.read(acoustic_path)
    with checkpoint.usable(vocoder_path):
        state = checkpoint.load(vocoder_path)
        if is_waveglow(state):
            raise CheckpointError(f"{vocoder_path}: is a WaveGlow; expected HiFi-GAN or the light vocoder")
        vocoder = hifigan.read(state, vocoder_path)
        if hifigan.delay_samples(state, vocoder.config):
            raise CheckpointError(f"{vocoder_path}: is of another repository, half a hop late; fine-tune it here first")
        spoken, weights = as_spoken(acoustic, acoustic_path)
    settings = corrected(vocoder.config, cfg.corrections, cfg.phases, vocoder_path)
    load_vocoder(vocoder_path, device="cpu").require(acoustic.config.features, owner=str(acoustic_path))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / voices.SUMS).unlink(missing_ok=True)  # what is there is no longer what was packed
    parts: dict[voices.Part, dict[str, Any]] = {
        voices.ACOUSTIC: {"format": own.FORMAT, "weights": halved(weights), "ema": None, "config": described(spoken)},
        voices.VOCODER: {
            "format": hifigan.FORMAT, "generator": halved(vocoder.ema or vocoder.weights), "generator_ema": None,
            "config": described(settings),
        },
    }  # fmt: skip
    for part, packed in parts.items():
        checkpoint.save(folder / part, packed)
    sums = {part: voices.checksum(folder / part) for part in parts}
    atomic.write_text(folder / voices.SUMS, "".join(f"{found}  {part}\n" for part, found in sums.items()))
    for part, found in sums.items():
        print(f"{folder / part}: {(folder / part).stat().st_size / 1e6:.1f} MB, SHA-256 {found}")
    return folder


def corrected(
    settings: HifiganRun, corrections: int | None, phases: Literal["network", "pulses"] | None, path: Path
) -> HifiganRun:
    """`settings` with these, None for its own. Raises CheckpointError where it cannot have them."""
    changes = {name: value for name, value in (("corrections", corrections), ("phases", phases)) if value is not None}
    if not changes:
        return settings
    if settings.generator != "istft":
        told = ", ".join(f"{name} = {value}" for name, value in changes.items())
        raise CheckpointError(f"{path}: {told}: is a HiFi-GAN; the light vocoder alone has them")
    try:
        return replace(settings, istft=replace(settings.istft, **changes))  # type: ignore[arg-type]
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from None


def as_spoken(found: Imported[Config], path: Path) -> tuple[Config, dict[str, Tensor]]:
    """Configuration and weights of a model that says the same, without what only training needs.

    Raises CheckpointError where the weights are not those of the configuration.
    """
    sizes, weights = found.config.model.refiner, checkpoint.widened(found.ema or found.weights)
    weights = {name: weight for name, weight in weights.items() if not name.startswith("aligner.")}
    if sizes.layers:
        part, refiner = "refiner.", reading.refiner_of(found, path).as_spoken()
        sizes = refiner.config
        weights = {name: weight for name, weight in weights.items() if not name.startswith(part)}
        weights |= {f"{part}{name}": weight for name, weight in refiner.state_dict().items()}
    return replace(found.config, model=replace(found.config.model, aligner=False, refiner=sizes)), weights


def halved(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Matrices in half precision; vectors and numbers, which are few and of any size, as they are."""
    return {name: weight.to(torch.float16) if weight.ndim > 1 else weight.clone() for name, weight in weights.items()}


def described(cfg: Any) -> dict[str, Any]:
    """The configuration as checkpoints have it, with the defaults in place of all paths."""
    return config.to_dict(_without_paths(cfg))


def _without_paths(cfg: Any) -> Any:
    changes = {}
    for each in fields(cfg):
        value = getattr(cfg, each.name)
        if is_dataclass(value):
            changes[each.name] = _without_paths(value)
        elif isinstance(value, Path) or each.name in ("train", "validation"):
            changes[each.name] = each.default
    return replace(cfg, **changes)


if __name__ == "__main__":
    config.run(main, PackConfig, __doc__, CheckpointError, VocoderError, OSError)

"""A voice to pass on: FastPitch and a vocoder in one folder, in half precision, with checksums.

    python -m fastpitch.pack NAME --fastpitch runs/voice/fastpitch_best.pt --vocoder runs/vocoder/hifigan_final.pt

Only what speaks is kept: averaged weights where there are any, matrices in half precision, vectors in float32, the
configuration without the paths of the training. `fastpitch.load("NAME")` and `load_vocoder` find it
(`fastpitch/voices.py` says where).
"""

import sys
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor
from tyro.conf import Positional, arg

from common import checkpoint, config, files
from common.checkpoint import CheckpointError
from fastpitch import voices
from fastpitch.acoustic import checkpoint_import
from fastpitch.vocoders import hifigan_import
from fastpitch.vocoders.vocoder import VocoderError, load_vocoder
from fastpitch.vocoders.waveglow_import import is_checkpoint as is_waveglow


@dataclass(frozen=True, kw_only=True)
class PackConfig:
    """A voice to pack."""

    name: Annotated[str, Positional, arg(metavar="NAME")]
    """Name of the voice, and of its folder."""
    fastpitch: Path
    """Checkpoint of FastPitch."""
    vocoder: Path
    """Checkpoint of HiFi-GAN or of the light vocoder, trained on the same mel frames."""
    corrections: int | None = None
    """Corrections of the light vocoder, in place of those of its checkpoint; 16 leave it 50 times real time."""
    folder: Path | None = None
    """Folder of voices; the first of SPEECH_VOICES, or ~/.cache/speech-models/voices, by default."""

    def __post_init__(self) -> None:
        if not voices.NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r}: expected a name of letters, digits, - and _")


def main(cfg: PackConfig) -> Path:
    """Writes the voice; its folder. Raises CheckpointError and VocoderError."""
    folder = (cfg.folder or voices.folders()[0]) / cfg.name
    with checkpoint.usable(cfg.fastpitch):
        acoustic = checkpoint_import.read(checkpoint.load(cfg.fastpitch), cfg.fastpitch)
    with checkpoint.usable(cfg.vocoder):
        state = checkpoint.load(cfg.vocoder)
        if is_waveglow(state):
            raise CheckpointError(f"{cfg.vocoder}: is a WaveGlow; expected HiFi-GAN or the light vocoder")
        vocoder = hifigan_import.read(state, cfg.vocoder)
        if vocoder.delay_samples:
            raise CheckpointError(f"{cfg.vocoder}: is of another repository, half a hop late; fine-tune it here first")
        settings = vocoder.config
        if cfg.corrections is not None:
            settings = replace(settings, istft=replace(settings.istft, corrections=cfg.corrections))
    load_vocoder(cfg.vocoder, device="cpu").require(acoustic.config.features, owner=str(cfg.fastpitch))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / voices.SUMS).unlink(missing_ok=True)  # what is there is no longer what was packed
    checkpoint.save(
        folder / voices.ACOUSTIC,
        {
            "format": checkpoint_import.FORMAT,
            "weights": halved(acoustic.ema or acoustic.weights),
            "ema": None,
            "config": described(acoustic.config),
        },
    )
    checkpoint.save(
        folder / voices.VOCODER,
        {
            "format": hifigan_import.FORMAT,
            "generator": halved(vocoder.ema or vocoder.weights),
            "generator_ema": None,
            "config": described(settings),
        },
    )
    sums = {part: voices.checksum(folder / part) for part in (voices.ACOUSTIC, voices.VOCODER)}
    files.write_text(folder / voices.SUMS, "".join(f"{found}  {part}\n" for part, found in sums.items()))
    for part, found in sums.items():
        print(f"{folder / part}: {(folder / part).stat().st_size / 1e6:.1f} MB, SHA-256 {found}")
    return folder


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
    with config.reported(CheckpointError, VocoderError):
        main(config.parse_flags(PackConfig, None, sys.argv[1:], description=__doc__ or ""))

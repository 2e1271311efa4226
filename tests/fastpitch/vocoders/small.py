"""Small vocoders with random weights, as checkpoints, and the reference outputs."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import config
from common.features import TTS, LogMelConfig
from common.runs import checkpoint
from fastpitch.vocoders.build import build_generator
from fastpitch.vocoders.config import HifiganRun, WaveglowRun
from fastpitch.vocoders.networks.config import HifiganConfig, IstftConfig, WaveglowConfig
from fastpitch.vocoders.networks.waveglow import Waveglow
from fastpitch.vocoders.vocoder import Vocoder, load_vocoder
from tests.data import shared

HIFIGAN = HifiganRun(hifigan=HifiganConfig(channels=16))
ISTFT = HifiganRun(generator="istft", istft=IstftConfig(channels=16, layers=2))
WAVEGLOW = WaveglowRun(
    model=WaveglowConfig(flows=5, channels=8, layers=2),
    features=LogMelConfig(**(config.to_dict(TTS) | {"mel_bins": 16})),  # its upsampling grows with their square
)


def random_mel(*shape: int, seed: int = 0) -> torch.Tensor:
    """Values like those of log-mel spectrograms, utterances [B, M, T]."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draw) * 1.5 - 5


def loud(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """`module` with weights that keep the size of what passes, so that small differences show."""
    torch.manual_seed(seed)
    for name, parameter in module.named_parameters():
        if name.endswith("end.weight"):
            torch.nn.init.normal_(parameter, 0.0, 0.02)
        elif name.endswith("weight") and parameter.ndim == 3 and not name.startswith(("convinv", "upsample")):
            torch.nn.init.normal_(parameter, 0.0, parameter[0].numel() ** -0.5)
    return module


def save_hifigan(path: Path, cfg: HifiganRun = HIFIGAN, *, ema: bool = False) -> Path:
    torch.manual_seed(0)
    generator = build_generator(cfg)
    weights = (loud(generator) if cfg.generator == "hifigan" else generator).state_dict()
    averaged = {name: weight * 0.9 for name, weight in weights.items()} if ema else None
    state = {"format": "hifigan", "config": config.to_dict(cfg), "generator": weights, "generator_ema": averaged}
    checkpoint.save(path, state)
    return path


def save_waveglow(path: Path, cfg: WaveglowRun = WAVEGLOW) -> Path:
    torch.manual_seed(0)
    network = loud(Waveglow(cfg.model, cfg.features.mel_bins, cfg.features.hop_samples))
    state = {"format": "waveglow", "config": config.to_dict(cfg), "weights": network.state_dict(), "ema": None}
    checkpoint.save(path, state)
    return path


def golden(name: str) -> dict[str, Any]:
    """The arrays of shared/golden/tts/NAME as tensors."""
    with np.load(shared(f"golden/tts/{name}")) as arrays:
        return {key: torch.from_numpy(arrays[key]) for key in arrays}


def of_every_kind(folder: Path) -> dict[str, Vocoder]:
    """A vocoder of each kind, from its checkpoint."""
    paths = {
        "hifigan": save_hifigan(folder / "hifigan.pt"),
        "istft": save_hifigan(folder / "istft.pt", ISTFT),
        "waveglow": save_waveglow(folder / "waveglow.pt"),
    }
    return {kind: load_vocoder(path, device="cpu") for kind, path in paths.items()}

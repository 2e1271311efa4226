"""The generator that a configuration names."""

from fastpitch.vocoders.config import HifiganRun
from fastpitch.vocoders.networks.hifigan import HifiganGenerator
from fastpitch.vocoders.networks.istft import IstftGenerator


def build_generator(cfg: HifiganRun, *, normalized: bool = False) -> HifiganGenerator | IstftGenerator:
    """With initial weights; `normalized`, for training, with weight normalisation where the generator has any."""
    if cfg.generator == "istft":
        return IstftGenerator(cfg.istft, cfg.features)
    return HifiganGenerator(cfg.hifigan, cfg.features.mel_bins, normalized=normalized)

"""The generator that a configuration names."""

from fastpitch.hifigan.config import Config
from fastpitch.hifigan.generator import HifiganGenerator
from fastpitch.hifigan.istft import IstftGenerator


def build_generator(cfg: Config, *, normalized: bool = False) -> HifiganGenerator | IstftGenerator:
    """With initial weights; `normalized`, for training, with weight normalisation where the generator has any."""
    if cfg.generator == "istft":
        return IstftGenerator(cfg.istft, cfg.features)
    return HifiganGenerator(cfg.hifigan, cfg.features.mel_bins, normalized=normalized)

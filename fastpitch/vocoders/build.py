"""The network that a configuration names."""

from fastpitch.vocoders.config import HifiganRun, WaveglowRun
from fastpitch.vocoders.networks.hifigan import HifiganGenerator
from fastpitch.vocoders.networks.istft import IstftGenerator
from fastpitch.vocoders.networks.waveglow import Waveglow


def build_generator(
    cfg: HifiganRun | WaveglowRun, *, normalized: bool = False
) -> HifiganGenerator | IstftGenerator | Waveglow:
    """With initial weights; `normalized`, for training, with weight normalisation where the generator has any."""
    features = cfg.features
    if isinstance(cfg, WaveglowRun):
        return Waveglow(cfg.model, features.mel_bins, features.hop_samples, normalized=normalized)
    if cfg.generator == "istft":
        return IstftGenerator(cfg.istft, features)
    return HifiganGenerator(cfg.hifigan, features.mel_bins, normalized=normalized)

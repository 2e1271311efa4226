"""Log-mel features as NeMo describes them in `preprocessor`."""

import torch

from common.features import LogMelConfig, mel_filters
from common.published.nemo.settings import NemoSettings
from common.runs.checkpoint import CheckpointError


def features_of(s: NemoSettings) -> LogMelConfig:
    """Those of the section `s`. Raises CheckpointError for what is not known."""
    rate = s.number("sample_rate", 16_000, most=192_000)
    window = round(s.real("window_size", 0.02) * rate)
    highest = s.real("highfreq", 0.0) or rate / 2
    s.expect("window", "hann")
    s.expect("log", True)
    s.expect("frame_splicing", 1)
    s.expect("mag_power", 2.0)
    s.expect("log_zero_guard_type", "add")
    s.expect("exact_pad", False)
    s.expect("mel_norm", "slaney")
    s.expect("pad_value", 0.0, 0)
    s.of_class("AudioToMelSpectrogramPreprocessor")
    s.ignore(("pad_to", "use_torchaudio", "nb_augmentation_prob", "nb_max_freq", "stft_exact_pad"))
    s.ignore(("stft_conv", "sync_max_audio_length"))
    floor = s.real("log_zero_guard_value", 2**-24)
    features = LogMelConfig(
        sample_rate=rate,
        n_fft=s.number("n_fft", 2 ** (window - 1).bit_length()),
        window_samples=window,
        hop_samples=max(1, round(s.real("window_stride", 0.01) * rate)),
        mel_bins=s.number("features", 64, most=1024),
        lowest_hz=s.real("lowfreq", 0.0),
        highest_hz=highest,
        preemphasis=s.real("preemph", 0.97),
        noise_floor=max(s.real("dither", 0.0), LogMelConfig.noise_floor),
        log_floor=floor,
        normalize=s.choice(
            "normalize", "NA", {"per_feature": "per_feature", "all_features": "all_features", "NA": "none"}
        ),
        edges="zeros",
        frame_count="floor",
        pad_to_multiple=1,
    )
    s.done()
    return features


def check_filters(weights: dict[str, torch.Tensor], features: LogMelConfig, source: str) -> None:
    """Raises CheckpointError where the file's own mel filters are not what its description makes of them."""
    theirs = weights.get("preprocessor.featurizer.fb")
    if theirs is None:
        return
    ours = torch.from_numpy(mel_filters(features))
    if theirs.squeeze(0).shape != ours.shape or not torch.allclose(
        theirs.squeeze(0).float(), ours, rtol=1e-2, atol=1e-6
    ):
        raise CheckpointError(f"{source}: its mel filters are not those that it describes")

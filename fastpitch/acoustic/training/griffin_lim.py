"""Sound of mel frames without a vocoder, to hear how training goes (Griffin and Lim 1984; Perraudin et al. 2013).

Shapes: B utterances, M mel bins, K frequencies, T frames, N samples.
"""

import torch
from torch import Tensor

from common.features import LogMelConfig, mel_filters

MOMENTUM = 0.99  # of the fast algorithm


@torch.no_grad()
def griffin_lim(mel_BMT: Tensor, cfg: LogMelConfig, *, iterations: int = 32) -> Tensor:
    """[B, N] audio whose log-mel frames are near mel_BMT, with N = (T - 1) hop. Needs `spectrum = "magnitude"`.

    The magnitudes are those of least norm that give the mel values; phases begin at zero, so it is deterministic.
    """
    device = mel_BMT.device
    window = torch.hann_window(cfg.window_samples, device=device)
    inverse_KM = torch.linalg.pinv(torch.from_numpy(mel_filters(cfg)).to(device))
    magnitude_BKT = (inverse_KM @ mel_BMT.float().exp()).clamp(min=0)
    samples = (mel_BMT.shape[2] - 1) * cfg.hop_samples
    missing = cfg.n_fft // cfg.hop_samples + 1 - mel_BMT.shape[2]  # frames, so that there is something to reflect
    magnitude_BKT = torch.nn.functional.pad(magnitude_BKT, (0, max(0, missing)))
    frames = (cfg.n_fft, cfg.hop_samples, cfg.window_samples, window)
    spectrum_BKT = magnitude_BKT.to(torch.complex64)
    before_BKT = torch.zeros_like(spectrum_BKT)
    for _ in range(iterations):
        audio_BN = torch.istft(spectrum_BKT, *frames)
        consistent_BKT = torch.stft(audio_BN, *frames, return_complex=True)
        ahead_BKT = consistent_BKT + MOMENTUM * (consistent_BKT - before_BKT)
        spectrum_BKT = magnitude_BKT * ahead_BKT / ahead_BKT.abs().clamp(min=1e-8)
        before_BKT = consistent_BKT
    return torch.istft(spectrum_BKT, *frames)[:, :samples]

"""SpecAugment and cutout: parts of the features set to zero, batched, on their device, without waiting for it.

Legend: B utterances, T frames, F mel bins, M masks.

Every random number comes from a seed that the caller gives.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from common.config import check_not_negative
from common.lengths import utterances_per_block

# Utterances are taken in blocks of about this many values, which stay in the cache of a CPU from one pass to the next.
AUGMENT_BLOCK = {"cpu": 2**18}


@dataclass(frozen=True, kw_only=True)
class SpecAugmentConfig:
    """Bands of frequencies and of frames that are set to zero (Park et al. 2019). Width uniform from min to max."""

    freq_masks: int = 2
    """Number of bands of mel bins; 0 for none."""
    min_freq: int = 0
    """Least width of a band, in mel bins; the same as `max_freq` for bands of one width."""
    max_freq: int = 20
    """Greatest width of a band, in mel bins."""
    time_masks: int = 2
    """Number of bands of frames; 0 for none."""
    min_time: int = 0
    """Least width of a band, in frames."""
    max_time: int = 75
    """Greatest width of a band, in frames."""
    max_time_fraction: float = 0.0
    """Greatest width of a band of frames as a part of its utterance, in place of max_time; 0 for max_time."""

    def __post_init__(self) -> None:
        check_not_negative(self, "freq_masks", "time_masks")
        _check_widths("SpecAugmentConfig", self.min_freq, self.max_freq, self.min_time, self.max_time)
        if not 0 <= self.max_time_fraction <= 1:
            raise ValueError(f"SpecAugmentConfig: max_time_fraction = {self.max_time_fraction}: expected 0 to 1")


@dataclass(frozen=True, kw_only=True)
class CutoutConfig:
    """Rectangles that are set to zero (DeVries and Taylor 2017)."""

    masks: int = 0
    """Number of rectangles per utterance."""
    min_freq: int = 20
    """Least height, in mel bins."""
    max_freq: int = 20
    """Greatest height, in mel bins."""
    min_time: int = 5
    """Least width, in frames."""
    max_time: int = 5
    """Greatest width, in frames."""

    def __post_init__(self) -> None:
        check_not_negative(self, "masks")
        _check_widths("CutoutConfig", self.min_freq, self.max_freq, self.min_time, self.max_time)


def spec_augment(
    features_BFT: Tensor, frames_B: Tensor, cfg: SpecAugmentConfig, *, seed: int, out: Tensor | None = None
) -> Tensor:
    """Features with bands set to zero, which is their mean; positions uniform within the frames of each utterance.

    The same bands on every device. `out` may be `features_BFT`, which halves the time of this memory-bound work.
    """
    if not (cfg.freq_masks or cfg.time_masks):
        return features_BFT if out is None or out is features_BFT else out.copy_(features_BFT)
    draw = torch.Generator().manual_seed(seed)
    freq_BMF, time_BMT = _bands(
        features_BFT, frames_B, cfg.freq_masks, cfg.time_masks, cfg, draw, time_fraction=cfg.max_time_fraction
    )
    keep_BF1 = (~freq_BMF.any(1))[:, :, None].to(features_BFT.dtype)
    keep_B1T = (~time_BMT.any(1))[:, None, :].to(features_BFT.dtype)
    result_BFT = torch.empty_like(features_BFT) if out is None else out
    step = utterances_per_block(features_BFT, AUGMENT_BLOCK)
    for features, freq, time, result in zip(
        *(x.split(step) for x in (features_BFT, keep_BF1, keep_B1T, result_BFT)), strict=True
    ):
        torch.mul(features, freq, out=result).mul_(time)
    return result_BFT


def cutout(features_BFT: Tensor, frames_B: Tensor, cfg: CutoutConfig, *, seed: int) -> Tensor:
    """Features with rectangles set to zero; positions uniform within the frames of each utterance."""
    if not cfg.masks:
        return features_BFT
    # Another stream than SpecAugment's, which may have the same seed.
    draw = torch.Generator().manual_seed(seed ^ 0x5EED)
    freq_BMF, time_BMT = _bands(features_BFT, frames_B, cfg.masks, cfg.masks, cfg, draw)
    hits_BFT = torch.bmm(freq_BMF.mT.to(features_BFT.dtype), time_BMT.to(features_BFT.dtype))
    return features_BFT * (hits_BFT == 0).to(features_BFT.dtype)


def _bands(
    features_BFT: Tensor,
    frames_B: Tensor,
    freq_masks: int,
    time_masks: int,
    cfg: SpecAugmentConfig | CutoutConfig,
    draw: torch.Generator,
    *,
    time_fraction: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Bands of mel bins [B, M, F] and bands of frames [B, M, T], true inside.

    With `time_fraction` the greatest width of a band of frames is that part of the utterance, whatever `cfg` says.
    """
    n_utterances, n_bins, n_frames = features_BFT.shape
    least_M = torch.tensor([cfg.min_freq] * freq_masks + [cfg.min_time] * time_masks)
    greatest_M = torch.tensor([cfg.max_freq] * freq_masks + [cfg.max_time] * time_masks)
    width_BM, position_BM = torch.rand(2, n_utterances, freq_masks + time_masks, generator=draw)
    part_BM = width_BM[:, freq_masks:]
    width_BM = least_M + (width_BM * (greatest_M - least_M + 1)).floor()
    # Drawn on the CPU, so that every device gets the same; a non-blocking copy does not wait for the device.
    width_BM, position_BM = torch.stack([width_BM, position_BM]).to(features_BFT.device, non_blocking=True)
    if time_fraction:
        most_B1 = (frames_B.to(features_BFT.device) * time_fraction).floor()[:, None]
        part_BM = part_BM.to(features_BFT.device, non_blocking=True)
        width_BM = torch.cat([width_BM[:, :freq_masks], (part_BM * (most_B1 + 1)).floor()], 1)
    bins_BM = torch.full((n_utterances, freq_masks), n_bins, device=features_BFT.device)
    limit_BM = torch.cat([bins_BM, frames_B.to(features_BFT.device)[:, None].expand(-1, time_masks)], 1)
    room_BM = (limit_BM - width_BM).clamp(min=0)
    start_BM = torch.minimum((position_BM * (room_BM + 1)).floor(), room_BM)
    end_BM = torch.minimum(start_BM + width_BM, limit_BM)
    freq_BMF = _between(start_BM[:, :freq_masks], end_BM[:, :freq_masks], n_bins)
    return freq_BMF, _between(start_BM[:, freq_masks:], end_BM[:, freq_masks:], n_frames)


def _between(start_BM: Tensor, end_BM: Tensor, size: int) -> Tensor:
    place = torch.arange(size, device=start_BM.device, dtype=start_BM.dtype)
    return (place >= start_BM[:, :, None]) & (place < end_BM[:, :, None])


def _check_widths(owner: str, min_freq: int, max_freq: int, min_time: int, max_time: int) -> None:
    if not (0 <= min_freq <= max_freq and 0 <= min_time <= max_time):
        raise ValueError(
            f"{owner}: widths of {min_freq} to {max_freq} mel bins and {min_time} to {max_time} frames; "
            "expected 0 <= min <= max"
        )

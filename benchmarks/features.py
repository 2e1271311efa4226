"""Feature extraction and augmentation against a loop over utterances that does the same.

    python benchmarks/features.py [folder of FLAC files]

One thread on a CPU. Appends a row per comparison to benchmarks/results/features.jsonl.
"""

import argparse
import random
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from common.audio import waveform
from common.augmentation import SpecAugmentConfig, spec_augment
from common.benchmark import append_row, compare, ratio, spread
from common.features import LogMel, LogMelConfig, normalize

B, F, T = 64, 64, 1680


def normalize_in_a_loop(features_BFT: Tensor, frames: list[int]) -> Tensor:
    result_BFT = torch.zeros_like(features_BFT)
    for result, features, n in zip(result_BFT, features_BFT, frames, strict=True):
        valid = features[:, :n]
        result[:, :n] = (valid - valid.mean(1, keepdim=True)) / (valid.std(1, keepdim=True) + 1e-5)
    return result_BFT


def bands(cfg: SpecAugmentConfig, frames: list[int], draw: random.Random) -> list[list[tuple[slice, slice]]]:
    """What to zero in each utterance."""
    per_utterance = []
    for n in frames:
        spans = [(F, cfg.min_freq, cfg.max_freq)] * cfg.freq_masks + [(n, cfg.min_time, cfg.max_time)] * cfg.time_masks
        widths = [draw.randint(least, greatest) for _, least, greatest in spans]
        starts = [draw.randint(0, size - width) for (size, _, _), width in zip(spans, widths, strict=True)]
        slices = [slice(start, start + width) for start, width in zip(starts, widths, strict=True)]
        whole, k = slice(None), cfg.freq_masks
        per_utterance.append([(s, whole) for s in slices[:k]] + [(whole, s) for s in slices[k:]])
    return per_utterance


def spec_augment_by_mask_in_a_loop(features_BFT: Tensor, frames: list[int], cfg: SpecAugmentConfig) -> Tensor:
    """With a boolean mask of the size of the features, then `masked_fill`."""
    mask_BFT = torch.zeros(features_BFT.shape, dtype=torch.bool, device=features_BFT.device)
    for mask, rectangles in zip(mask_BFT, bands(cfg, frames, random.Random(0)), strict=True):
        for rectangle in rectangles:
            mask[rectangle] = True
    return features_BFT.masked_fill(mask_BFT, 0)


def spec_augment_by_slice_in_a_loop(features_BFT: Tensor, frames: list[int], cfg: SpecAugmentConfig) -> Tensor:
    """The best loop: zeros written into a copy."""
    result_BFT = features_BFT.clone()
    for result, rectangles in zip(result_BFT, bands(cfg, frames, random.Random(0)), strict=True):
        for rectangle in rectangles:
            result[rectangle] = 0
    return result_BFT


def compare_augmentation(device: torch.device) -> list[dict[str, object]]:
    draw = torch.Generator().manual_seed(0)
    features_BFT = torch.randn((B, F, T), generator=draw).to(device)
    frames_B = torch.randint(T // 2, T + 1, (B,), generator=draw)
    frames, frames_B = frames_B.tolist(), frames_B.to(device)
    cfg, scratch_BFT = SpecAugmentConfig(), features_BFT.clone()
    calls = {
        "normalize loop": lambda: normalize_in_a_loop(features_BFT, frames),
        "normalize": lambda: normalize(features_BFT, frames_B),
        "spec_augment mask loop": lambda: spec_augment_by_mask_in_a_loop(features_BFT, frames, cfg),
        "spec_augment slice loop": lambda: spec_augment_by_slice_in_a_loop(features_BFT, frames, cfg),
        "spec_augment": lambda: spec_augment(features_BFT, frames_B, cfg, seed=0),
        "spec_augment in place": lambda: spec_augment(scratch_BFT, frames_B, cfg, seed=0, out=scratch_BFT),
    }
    torch.testing.assert_close(calls["normalize"](), calls["normalize loop"](), rtol=0, atol=1e-5)
    times = compare(calls, device=device)
    pairs = [
        ("normalize", "normalize loop"),
        ("spec_augment", "spec_augment mask loop"),
        ("spec_augment", "spec_augment slice loop"),
        ("spec_augment in place", "spec_augment mask loop"),
    ]
    return [
        {
            "metric": "latency_ms",
            "what": what,
            "against": loop,
            "shape": [B, F, T],
            "times_faster": round(ratio(times[loop], times[what]), 2),
            "against_p50": round(times[loop].percentile(50), 3),
            **times[what].summary(),
        }
        for what, loop in pairs
    ]


def measure_real_time(folder: Path, device: torch.device, batch: int = 8) -> dict[str, object]:
    """How many seconds of FLAC are read and turned into features in a second."""
    paths = sorted(folder.rglob("*.flac"))
    seconds = sum(waveform.info(path).seconds for path in paths)
    log_mel = LogMel().eval().to(device)

    def read() -> list[np.ndarray]:
        return [waveform.read(path, sample_rate=LogMelConfig().sample_rate).samples for path in paths]

    def extract(clips: list[np.ndarray]) -> None:
        for first in range(0, len(clips), batch):
            some = [torch.from_numpy(clip) for clip in clips[first : first + batch]]
            audio_BN = torch.nn.utils.rnn.pad_sequence(some, batch_first=True).to(device)
            log_mel(audio_BN, torch.tensor([len(clip) for clip in some], device=device))

    clips = sorted(read(), key=len)
    calls = {"both": lambda: extract(sorted(read(), key=len)), "features": lambda: extract(clips)}
    both, features = compare(calls, device=device, warmup=1, repeats=5).values()
    return {
        "metric": "times_real_time",
        "what": "FLAC to features",
        "batch": batch,
        "seconds_of_audio": round(seconds, 1),
        "spread": spread(both, features),
        "reading_and_features": round(seconds / both.percentile(50) * 1e3),
        "features": round(seconds / features.percentile(50) * 1e3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="folder of FLAC files whose reading is measured too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = compare_augmentation(device)
    if arguments.folder:
        rows.append(measure_real_time(arguments.folder, device))
    for row in rows:
        print(row)
        append_row("features", row, device=device)


if __name__ == "__main__":
    main()

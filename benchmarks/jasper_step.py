"""An optimiser step of Jasper in training on a CPU, forward and backward, against the published formulation.

    python benchmarks/jasper_step.py
    python benchmarks/jasper_step.py configs/jasper/jasper10x5dr.toml --batch 4 --seconds 8.36 --repeats 3

The other side is the same network with plain convolutions (torch's `conv1d`), channels before frames, as published.
Both take turns in one thread; what counts is the time of the processor. The row says by how much the gradients differ,
as a part of the greatest of each tensor. Without options: the quickstart's model. Appends a row to
benchmarks/results/jasper_step.jsonl.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

import ctc
from common import config
from common.benchmark import RESULTS, append_row
from common.logging import processor_flags
from jasper import model as network
from jasper.config import Config
from jasper.model import Jasper

LETTERS_PER_SECOND = 14


def step_of(model: Jasper, batch: tuple[Tensor, ...], *, is_plain: bool) -> Callable[[], None]:
    """Loss and gradients, of plain convolutions or of those that `model` chooses."""
    features_BFT, frames_B, targets_BU, lengths_B = batch
    chosen = network.can_be_trained

    def step() -> None:
        network.can_be_trained = (lambda *_: False) if is_plain else chosen
        try:
            model.zero_grad(set_to_none=True)
            log_probs_BSV, output_frames_B = model(features_BFT, frames_B)
            ctc.ctc_loss(
                log_probs_BSV,
                targets_BU,
                output_frames_B,
                lengths_B,
                blank=log_probs_BSV.shape[2] - 1,
                batch_first=True,
            ).backward()
        finally:
            network.can_be_trained = chosen

    return step


def gradients(model: Jasper, step: Callable[[], None]) -> list[Tensor]:
    """Those that a step leaves; without dropout, which draws in the order in which values lie in memory."""
    for block in model.blocks:
        block.dropout = 0.0
    step()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def measure(path: Path, batch: int, seconds: float, repeats: int) -> dict[str, object]:
    """The row."""
    cfg = config.load(Config, path)
    torch.manual_seed(0)
    model = Jasper(cfg.model, cfg.features.mel_bins).train()
    frames = cfg.features.frames(round(seconds * cfg.features.sample_rate))
    frames_B = (torch.linspace(0.8, 1, batch) * frames).long()
    lengths_B = (torch.linspace(0.8, 1, batch) * seconds * LETTERS_PER_SECOND).long()
    targets_BU = torch.randint(0, len(cfg.model.labels), (batch, int(lengths_B.max())))
    given = (torch.randn(batch, cfg.features.mel_bins, frames), frames_B, targets_BU, lengths_B)
    steps = {name: step_of(model, given, is_plain=name == "published") for name in ("published", "ours")}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(repeats + 1):
        for name, step in steps.items():
            start = time.process_time()
            step()
            if turn:  # the first warms up
                times[name].append(time.process_time() - start)
    plain, ours = (gradients(model, steps[name]) for name in ("published", "ours"))
    differences = [(a - b).abs().max() / a.abs().max().clamp(min=1e-12) for a, b in zip(plain, ours, strict=True)]
    return {
        "metric": "processor_ms", "config": path.stem, "batch": batch, "seconds_of_audio": seconds, "frames": frames,
        "p50": round(1e3 * median(times["ours"]), 1), "published_p50": round(1e3 * median(times["published"]), 1),
        "times_faster": round(median(p / o for p, o in zip(times["published"], times["ours"], strict=True)), 2),
        "greatest_gradient_difference": float(f"{max(map(float, differences)):.2g}"),
        "processor_flags": processor_flags(),
    }  # fmt: skip


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", type=Path, default=Path("configs/jasper/quickstart.toml"))
    parser.add_argument("--batch", type=int, default=8, help="utterances of a step")
    parser.add_argument("--seconds", type=float, default=2.5, help="length of the longest utterance, in seconds")
    parser.add_argument("--repeats", type=int, default=21, help="timed steps of either side")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the file that the row is appended to")
    given = parser.parse_args()
    torch.set_num_threads(1)
    row = measure(given.config, given.batch, given.seconds, given.repeats)
    print(row)
    append_row("jasper_step", row, device=torch.device("cpu"), folder=given.results)


if __name__ == "__main__":
    main()

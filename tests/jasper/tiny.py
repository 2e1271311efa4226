"""Small models with random weights, and the way to run an entry point as the command line does."""

import runpy
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from common import config
from common.runs import checkpoint
from jasper.checkpoints.own import FORMAT
from jasper.config import BlockConfig, Config, ModelConfig
from jasper.network.model import Jasper

DENSE = ModelConfig(
    blocks=(
        BlockConfig(filters=12, kernel=5, stride=2),
        BlockConfig(filters=12, kernel=5, repeat=2, residual="dense"),
        BlockConfig(filters=16, kernel=7, repeat=2, residual="dense"),
        BlockConfig(filters=16, kernel=5, dilation=2),
        BlockConfig(filters=16, kernel=1),
    )
)


def tiny_config(**data: Any) -> Config:
    cfg = Config(model=DENSE, device="cpu")
    return replace(cfg, data=replace(cfg.data, **data))


def random_weights(cfg: Config, seed: int = 0) -> dict[str, torch.Tensor]:
    """Weights whose greedy text is a long and lively one, so that small differences show."""
    return randomised(cfg.model, cfg.features.mel_bins, seed).state_dict()


def randomised(cfg: ModelConfig, n_mels: int = 8, seed: int = 0) -> Jasper:
    torch.manual_seed(seed)
    model = Jasper(cfg, n_mels).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            module.weight.data.uniform_(0.5, 2)
            module.bias.data.normal_()
    return model


def save_tiny(path: Path, cfg: Config | None = None, *, ema: bool = True) -> Path:
    cfg = cfg or tiny_config()
    averaged = random_weights(cfg, seed=1) if ema else None
    state = {"format": FORMAT, "config": config.to_dict(cfg), "weights": random_weights(cfg), "ema": averaged}
    checkpoint.save(path, state)
    return path


class Said:
    """How a command ended, and the lines that it wrote to its two outputs."""

    def __init__(self, status: int, out: str, err: str):
        self.status, self.out, self.err = status, out.splitlines(), err.splitlines()


def run(capsys: pytest.CaptureFixture[str], module: str, *arguments: object) -> Said:
    """Runs `python -m module arguments…` in this process."""
    capsys.readouterr()
    before, sys.argv = sys.argv, [module, *map(str, arguments)]
    try:
        with warnings.catch_warnings(action="ignore"):  # runpy's: the module is imported already
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as exit_:
        status = int(exit_.code or 0)
    finally:
        sys.argv = before
    return Said(status, *capsys.readouterr())

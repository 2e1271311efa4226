"""Reference outputs of NeMo 3.0.0 and transformers 5.23 for attention decoders."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tests.data import shared

MODELS = ("canary2_agg", "canary_hf")


def folder() -> Path:
    """Where the reference outputs are; skips the test where they are not."""
    return shared("golden/attention")


def path(name: str) -> Path:
    """The checkpoint."""
    return next(p for p in (folder() / f"{name}.nemo", folder() / name) if p.exists())


@cache
def arrays(name: str) -> dict[str, np.ndarray]:
    """The arrays of a model, or of inputs."""
    return dict(np.load(folder() / f"{name}.npz"))


@cache
def facts(name: str) -> dict:
    """What the file of that name says about the arrays."""
    return json.loads((folder() / f"{name}.json").read_text())


def features(name: str) -> tuple[Tensor, Tensor]:
    """features_BFT and frames_B of the four clips."""
    file = folder() / f"{name}_inputs.npz"
    found = arrays(file.stem if file.is_file() else "inputs")
    frames_B = torch.from_numpy(found["feature_lens"])
    features_BFT = torch.zeros(len(frames_B), 128, int(frames_B.max()))
    for b, row_FT in enumerate(features_BFT):
        row_FT[:, : frames_B[b]] = torch.from_numpy(found[f"features_{b}"])
    return features_BFT, frames_B


def tokens(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """tokens_BL, padded with what must not matter, and lengths_B."""
    lengths_B = torch.tensor([len(row) for row in rows])
    tokens_BL = torch.full((len(rows), int(lengths_B.max())), 2)
    for b, row in enumerate(rows):
        tokens_BL[b, : len(row)] = torch.tensor(row)
    return tokens_BL, lengths_B


def flacs() -> list[Path]:
    """The recordings of the four clips."""
    said = json.loads((folder() / "meta.json").read_text())["models"]["canary2_agg"]["utterances"]
    return [shared("data") / utterance["flac"] for utterance in said]

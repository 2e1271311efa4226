"""Reading WaveGlow checkpoints: ours, and those of NVIDIA DeepLearningExamples (FastPitch, Tacotron 2) as they are."""

from pathlib import Path
from typing import Any

from torch import Tensor

from common import config
from common.config import ConfigError
from common.runs.checkpoint import CheckpointError, Imported, own_description
from fastpitch.vocoders.config import WaveglowRun
from fastpitch.vocoders.networks.config import WaveglowConfig

FORMAT = "waveglow"  # what our checkpoints say they are

_PUBLISHED_NAMES = {
    "n_flows": "flows",
    "n_group": "group",
    "n_early_every": "early_every",
    "n_early_size": "early_channels",
}
_PUBLISHED_NETWORK_NAMES = {"n_layers": "layers", "kernel_size": "kernel", "n_channels": "channels"}


def read(state: dict[str, Any], path: Path) -> Imported[WaveglowRun]:
    """What the loaded checkpoint `state` holds; `path` is for messages. Raises CheckpointError."""
    if state.get("format") == FORMAT:
        with own_description(path):
            return Imported(state["weights"], state["ema"], config.build(WaveglowRun, state["config"], str(path)))
    if not is_checkpoint(state):
        raise CheckpointError(
            f"{path}: not a WaveGlow checkpoint of this repository or of DeepLearningExamples: expected weights named "
            f"WN.0.* and upsample.* under state_dict, found {', '.join(map(str, list(state)[:5])) or 'nothing'}"
        )
    weights = {k.removeprefix("module."): w.float() for k, w in state["state_dict"].items() if isinstance(w, Tensor)}
    return Imported(weights, None, _config(state.get("config") or {}, weights, path))


def is_checkpoint(state: dict[str, Any]) -> bool:
    """Whether `read` can be asked to read it."""
    weights = state.get("state_dict")
    is_published = isinstance(weights, dict) and any(key.removeprefix("module.").startswith("WN.0.") for key in weights)
    return is_published or state.get("format") == FORMAT


def _config(described: dict[str, Any], weights: dict[str, Tensor], path: Path) -> WaveglowRun:
    if "upsample.weight" not in weights:
        raise CheckpointError(f"{path}: a WaveGlow checkpoint without upsample.weight")
    bins, _, span = weights["upsample.weight"].shape
    network = described.get("WN_config") or {"n_channels": weights["WN.0.end.weight"].shape[1]}
    known = {ours: described[theirs] for theirs, ours in _PUBLISHED_NAMES.items() if theirs in described}
    known |= {ours: network[theirs] for theirs, ours in _PUBLISHED_NETWORK_NAMES.items() if theirs in network}
    try:
        model = config.build(WaveglowConfig, known, str(path), "model.")
        features = config.to_dict(WaveglowRun().features) | {"mel_bins": bins, "hop_samples": span // 4}
        return config.build(WaveglowRun, {"model": config.to_dict(model), "features": features}, str(path))
    except ConfigError as error:
        raise CheckpointError(f"{path}: its description of the network cannot be used: {error}") from None

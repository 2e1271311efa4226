"""Checkpoints of NVIDIA DeepLearningExamples (Jasper 2019 and later, QuartzNet) as they are.

They hold weights but no configuration, so the blocks are read off the weights' names and shapes. What leaves no
trace there is taken from the published models: stride 2 in the first block, dilation 2 in the last but one, the
English labels, and silence cut off the ends, which began after 2019.
"""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from common.runs.checkpoint import CheckpointError, Imported, contents
from jasper.config import BlockConfig, Config, DataConfig, ModelConfig

ASSUMED = (
    "assumed are stride 2 in the first block, dilation 2 in the last but one, ReLU, published features and letters"
)

_RENAMED_2019 = (("jasper_encoder.encoder.", "encoder.layers."), ("jasper_decoder.decoder_layers.", "decoder.layers."))
_NOT_WEIGHTS = ("audio_preprocessor.", "acoustic_model.")
_ENCODER_KEY = re.compile(r"encoder\.layers\.(\d+)\.(m?conv\.(\d+)|res\.(\d+)\.(\d+))\.(\w+)")


def read(
    state: dict[str, Any], path: Path, *, configuration: Config | None = None, is_start: bool = False
) -> Imported[Config]:
    """What the loaded checkpoint `state` holds; `path` is for messages. Raises CheckpointError.

    `configuration` is taken in place of what can be read off its weights.
    `is_start`: its labels need not be known, since they are those of the training that starts from it.
    """
    if not isinstance(state.get("state_dict"), dict):
        raise CheckpointError(
            f"{path}: not a checkpoint of this repository or of DeepLearningExamples' Jasper or QuartzNet; "
            f"{contents(state)}"
        )
    weights = _published_names(state["state_dict"])
    layout = _checked_layout(weights, path)
    ema = state.get("ema_state_dict")
    return Imported(
        weights=_rename(weights, layout),
        ema=_rename(_published_names(ema), layout) if ema else None,
        config=configuration or _config(state, weights, layout, path, is_start=is_start),
        assumed=() if configuration is not None else (f"{path}: does not describe itself; {ASSUMED}",),
    )


def published_weights(weights: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Our names for those of DeepLearningExamples. Raises CheckpointError."""
    return _rename(weights, _checked_layout(weights, path))


def _checked_layout(weights: dict[str, Tensor], path: Path) -> list["_BlockLayout"]:
    if "decoder.layers.0.weight" not in weights or not any(_ENCODER_KEY.match(key) for key in weights):
        raise CheckpointError(
            f"{path}: not a Jasper or QuartzNet checkpoint: expected weights named encoder.layers.* and "
            f"decoder.layers.*, found {', '.join(list(weights)[:3]) or 'none'}"
        )
    layout = _layout(weights)
    for b, block in enumerate(layout):
        if not block.layers or any(len(layer) not in (2, 3) for layer in block.layers):
            raise CheckpointError(
                f"{path}: expected under encoder.layers.{b}.{block.stem} convolution, or depthwise and pointwise "
                f"convolution, and batch normalisation in turns; found sub-blocks of {list(map(len, block.layers))}"
            )
    return layout


class _BlockLayout(NamedTuple):
    """For one block: the indices under `conv` of each sub-block's (depthwise), convolution and normalisation."""

    layers: list[list[int]]
    residuals: int
    stem: str  # conv or mconv


def _published_names(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    named = {}
    for key, tensor in weights.items():
        key = key.removeprefix("module.")
        for old, new in _RENAMED_2019:
            key = new + key.removeprefix(old) if key.startswith(old) else key
        if isinstance(tensor, Tensor) and not key.startswith(_NOT_WEIGHTS):
            named[key] = tensor
    return named


def _layout(weights: dict[str, Tensor]) -> list[_BlockLayout]:
    indices: dict[int, set[int]] = defaultdict(set)
    residuals: dict[int, int] = defaultdict(int)
    stems: dict[int, str] = {}
    for key in weights:
        if found := _ENCODER_KEY.match(key):
            block = int(found[1])
            if found[3] is not None:
                indices[block].add(int(found[3]))
                stems[block] = found[2].split(".")[0]
            else:
                residuals[block] = max(residuals[block], int(found[4]) + 1)
    blocks = []
    for block in sorted(indices):
        layers, layer = [], []
        for index in sorted(indices[block]):
            layer.append(index)
            if f"encoder.layers.{block}.{stems[block]}.{index}.running_mean" in weights:
                layers.append(layer)
                layer = []
        blocks.append(_BlockLayout(layers, residuals[block], stems[block]))
    return blocks


def _rename(weights: dict[str, Tensor], layout: list[_BlockLayout]) -> dict[str, Tensor]:
    modules = {"decoder.layers.0": "decoder"}
    for b, block in enumerate(layout):
        for i, indices in enumerate(block.layers):
            for index, part in zip(reversed(indices), ("norm", "conv", "depthwise"), strict=False):
                modules[f"encoder.layers.{b}.{block.stem}.{index}"] = f"blocks.{b}.layers.{i}.{part}"
        for p in range(block.residuals):
            modules[f"encoder.layers.{b}.res.{p}.0"] = f"blocks.{b}.residuals.{p}.conv"
            modules[f"encoder.layers.{b}.res.{p}.1"] = f"blocks.{b}.residuals.{p}.norm"
    renamed = {}
    for key, tensor in weights.items():
        module, _, parameter = key.rpartition(".")
        if module in modules:
            renamed[f"{modules[module]}.{parameter}"] = tensor
    return renamed


def _config(
    state: dict[str, Any], weights: dict[str, Tensor], layout: list[_BlockLayout], path: Path, *, is_start: bool
) -> Config:
    n_labels = weights["decoder.layers.0.weight"].shape[0] - 1
    if n_labels != len(ModelConfig.labels) and not is_start:
        raise CheckpointError(
            f"{path}: writes {n_labels} labels and does not say which; expected the {len(ModelConfig.labels)} English "
            "ones; name a configuration with model.labels"
        )
    dense = max(block.residuals for block in layout) > 1
    blocks = []
    for b, block in enumerate(layout):
        convolutions = block.layers[0][:-1]
        shapes = [weights[f"encoder.layers.{b}.{block.stem}.{index}.weight"].shape for index in convolutions]
        blocks.append(
            BlockConfig(
                filters=shapes[-1][0],
                kernel=shapes[0][2],
                repeat=len(block.layers),
                stride=2 if b == 0 else 1,
                dilation=2 if b == len(layout) - 2 else 1,
                residual="none" if not block.residuals else "dense" if dense else "block",
                separable=len(convolutions) == 2,
            )
        )
    is_of_2019 = any(key.removeprefix("module.").startswith(_RENAMED_2019[0][0]) for key in state["state_dict"])
    return Config(model=ModelConfig(blocks=tuple(blocks)), data=DataConfig(trim_silence=not is_of_2019))

"""What a checkpoint gives, whoever wrote it, checked before anything is made of it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from torch import Tensor

from common.runs.checkpoint import CheckpointError
from common.text.language import Language
from wav2vec2.checkpoints import naming
from wav2vec2.network.config import ModelConfig


class DescribedWeights(NamedTuple):
    """Weights under our names, the architecture they fit, and the part of the model that they are for."""

    weights: dict[str, Tensor]
    config: ModelConfig
    kind: Literal["pretraining", "ctc", "backbone"]
    language: Language = "auto"
    """Language of the texts that it was fine-tuned on."""
    assumed: tuple[str, ...] = ()
    """What the checkpoint does not say, in lines for the user."""


def headless(imported: DescribedWeights) -> DescribedWeights:
    """Without the CTC head, if there is one."""
    if imported.kind != "ctc":
        return imported
    weights = {name: weight for name, weight in imported.weights.items() if not name.startswith("head.")}
    architecture = replace(imported.config, labels=(), blank=0)
    return imported._replace(weights=weights, config=architecture, kind="backbone")


def checked(weights: dict[str, Tensor], architecture: ModelConfig, path: Path) -> DescribedWeights:
    """The model that these weights are, of which part. Raises CheckpointError unless they fit `architecture`."""
    if f"{naming.BACKBONE}mask_embedding" not in weights:
        raise CheckpointError(f"{path}: holds no weights of a wav2vec 2.0 model")
    if strange := [name for name in weights if not name.startswith((naming.BACKBONE, "head.", *naming.PRETRAINING))]:
        raise CheckpointError(f"{path}: has weights that no part of the model is for: {', '.join(strange[:3])[:200]}")
    has_codes = "quantizer.codes_GVE" in weights
    for name, shape in _sizes(architecture, has_codes=has_codes):
        found = tuple(weights[name].shape) if name in weights else "missing"
        if found != shape:
            raise CheckpointError(f"{path}: does not fit its description: {name} is {found}, expected {shape}")
    if "head.weight" in weights:
        # Some checkpoints keep what only pre-training needs.
        weights = {name: weight for name, weight in weights.items() if not name.startswith(naming.PRETRAINING)}
        return DescribedWeights(weights, architecture, "ctc")
    return DescribedWeights(weights, architecture, "pretraining" if has_codes else "backbone")


def _sizes(cfg: ModelConfig, *, has_codes: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Weights whose sizes bound what a model of `cfg` allocates: a description alone could ask for anything."""
    widths = (1, *(channels for channels, _, _ in cfg.conv_layers))
    for i, (channels, kernel, _) in enumerate(cfg.conv_layers):
        yield f"{naming.BACKBONE}extractor.layers.{i}.weight", (channels, kernel, widths[i])
    yield f"{naming.BACKBONE}projection.weight", (cfg.dim, widths[-1])
    taps = (cfg.dim, cfg.dim // cfg.pos_groups, cfg.pos_kernel)
    positions = [f"layers.{i}.weight" for i in range(cfg.pos_layers)] or ["direction"]
    yield from ((f"{naming.BACKBONE}encoder.positions.{name}", taps) for name in positions)
    if cfg.relative_buckets:
        yield f"{naming.BACKBONE}encoder.relative.embedding", (cfg.relative_buckets, cfg.heads)
    for i in range(cfg.layers):
        yield f"{naming.BACKBONE}encoder.layers.{i}.fc1.weight", (cfg.ffn_dim, cfg.dim)
        if cfg.adapter_dim:
            yield f"{naming.BACKBONE}encoder.layers.{i}.adapter.down.weight", (cfg.adapter_dim, cfg.dim)
    if has_codes:
        yield "quantizer.codes_GVE", (cfg.codebooks, cfg.codebook_size, cfg.width_of_codes // cfg.codebooks)
        yield "project_codes.weight", (cfg.final_dim, cfg.width_of_codes)

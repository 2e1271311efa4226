"""NVIDIA NeMo's Jasper and QuartzNet: .nemo archives, read in place; nothing in them is executed."""

import re
from pathlib import Path
from typing import Any

from torch import Tensor

from common.published.nemo.archive import opened
from common.published.nemo.features import check_filters, features_of
from common.published.nemo.settings import NemoSettings
from common.runs.checkpoint import CheckpointError, Imported
from jasper.checkpoints.published import published_weights
from jasper.config import BlockConfig, Config, DataConfig, ModelConfig

TARGET = "EncDecCTCModel"
MOST_LABELS = 50_000


def read(path: Path, *, configuration: Config | None = None) -> Imported[Config]:
    """The model in the archive at `path`, with its own or another `configuration`.

    Raises CheckpointError for everything that is not known here.
    """
    with opened(path) as archive:
        described, source = archive.config(), str(path)
        target = str(described.get("target", TARGET)).rpartition(".")[2]
        if target != TARGET:
            raise CheckpointError(
                f"{source}: is a {target} of NeMo; Jasper and QuartzNet are {TARGET}, and FastConformer is for "
                "python -m fastconformer.inference"
            )
        features = features_of(NemoSettings(described.get("preprocessor"), "preprocessor", source))
        encoder = NemoSettings(described.get("encoder"), "encoder", source)
        encoder.expect("feat_in", features.mel_bins)
        encoder.expect("conv_mask", True)
        encoder.of_class("ConvASREncoder", "ConvASREncoderAdapter")
        encoder.ignore(("frame_splicing", "init_mode"))
        encoder.expect("normalization_mode", "batch")
        encoder.expect("residual_mode", "add")
        encoder.expect("norm_groups", -1)
        activation = encoder.choice("activation", "relu", {"relu": "relu", "selu": "selu"})
        sections = encoder.take("jasper")
        if not isinstance(sections, list):
            raise CheckpointError(f"{source}: encoder.jasper is {type(sections).__name__}; expected a list of blocks")
        blocks = tuple(_block(NemoSettings(block, f"encoder.jasper.{b}", source)) for b, block in enumerate(sections))
        encoder.done()
        labels = _labels(NemoSettings(described.get("decoder"), "decoder", source))
        weights = archive.weights()
    check_filters(weights, features, source)
    try:
        model = ModelConfig(blocks=blocks, labels=labels, activation=activation)
    except ValueError as error:
        raise CheckpointError(f"{source}: {error}") from None
    cfg = Config(model=model, features=features, data=DataConfig(trim_silence=False))
    return Imported(published_weights(_plain_names(weights), path), None, configuration or cfg)


def _block(s: NemoSettings) -> BlockConfig:
    kernel, stride, dilation = (_one(s, key) for key in ("kernel", "stride", "dilation"))
    s.expect("groups", 1)
    s.expect("heads", -1)
    s.expect("se", False)
    s.expect("kernel_size_factor", 1, 1.0)
    s.expect("residual_mode", "add")
    s.expect("stride_last", False)
    s.ignore(("se_reduction_ratio", "se_context_window", "se_interpolation_mode"))
    dense, residual = s.flag("residual_dense", False), s.flag("residual", True)
    try:
        block = BlockConfig(
            filters=s.number("filters"),
            kernel=kernel,
            repeat=s.number("repeat", 3),
            stride=stride,
            dilation=dilation,
            dropout=s.real("dropout", 0.2),
            residual=("dense" if dense else "block") if residual else "none",
            separable=s.flag("separable", False),
        )
    except ValueError as error:
        raise CheckpointError(f"{s.source}: {s.name}: {error}") from None
    s.done()
    return block


def _one(s: NemoSettings, key: str) -> int:
    """A setting that NeMo writes as a list of one number, or as a number."""
    value = s.take(key, 11 if key == "kernel" else 1)
    number = value[0] if isinstance(value, list) and len(value) == 1 else value
    if type(number) is not int or not 1 <= number <= 10_000:
        raise CheckpointError(f"{s.source}: {s.name}.{key} = {value!r}: expected one whole number")
    return number


def _labels(s: NemoSettings) -> str:
    s.of_class("ConvASRDecoder")
    vocabulary: Any = s.take("vocabulary")
    if not isinstance(vocabulary, list) or not 0 < len(vocabulary) <= MOST_LABELS:
        raise CheckpointError(f"{s.source}: decoder.vocabulary: expected a list of letters")
    if long := [label for label in vocabulary if not isinstance(label, str) or len(label) != 1]:
        raise CheckpointError(f"{s.source}: decoder.vocabulary has {long[0]!r}; expected single letters")
    return "".join(vocabulary)


def _plain_names(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """DeepLearningExamples' names for NeMo's."""
    named = {}
    for name, tensor in weights.items():
        name = re.sub(r"^encoder\.encoder\.", "encoder.layers.", name)
        name = re.sub(r"^decoder\.decoder_layers\.", "decoder.layers.", name)
        name = re.sub(r"(\.\d+)\.conv\.(weight|bias)$", r"\1.\2", name)
        if not name.startswith("preprocessor."):
            named[name] = tensor
    return named

"""Reading checkpoints: ours, and FastPitch 1.1 of NVIDIA DeepLearningExamples as they are."""

import re
from pathlib import Path
from typing import Any

from torch import Tensor

from common.checkpoint import CheckpointError
from fastpitch.config import ModelConfig, PredictorConfig, TransformerConfig

_LAYERS = {
    "dec_attn.qkv_net": "attention.query_key_value",
    "dec_attn.o_net": "attention.out",
    "dec_attn.layer_norm": "attention_norm",
    "pos_ff.CoreNet.0": "widen",
    "pos_ff.CoreNet.2": "narrow",
    "pos_ff.layer_norm": "convolution_norm",
}
_MODULES = {
    "encoder.word_emb": "symbols",
    "speaker_emb": "speakers",
    "pitch_emb": "pitch_embedding",
    "energy_emb": "energy_embedding",
    "proj": "projection",
    "attention.query_proj.0.conv": "aligner.query_wide",
    "attention.query_proj.2.conv": "aligner.query_middle",
    "attention.query_proj.4.conv": "aligner.query_out",
    "attention.key_proj.0.conv": "aligner.key_wide",
    "attention.key_proj.2.conv": "aligner.key_out",
    "attention.attn_proj": "aligner.unused",
}
_PREDICTOR = re.compile(r"(duration|pitch|energy)_predictor\.(?:layers\.(\d+)\.(conv|norm)|fc)")
_TRANSFORMER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)")
_COMPUTED = "pos_emb.inv_freq"  # positions are computed here


def published_weights(state: dict[str, Any], path: Path) -> dict[str, Tensor]:
    """The weights of a DeepLearningExamples checkpoint under this repository's names. Raises CheckpointError."""
    renamed: dict[str, Tensor] = {}
    for key, tensor in state.items():
        key = key.removeprefix("module.")
        if key.endswith(_COMPUTED):
            continue
        module, _, parameter = key.rpartition(".")
        name = key if key in ("pitch_mean", "pitch_std") else f"{_renamed(module, path)}.{parameter}"
        renamed[name] = tensor.float()
    return renamed


def _renamed(module: str, path: Path) -> str:
    if module in _MODULES:
        return _MODULES[module]
    if (found := _TRANSFORMER.fullmatch(module)) and found[3] in _LAYERS:
        return f"{found[1]}.layers.{found[2]}.{_LAYERS[found[3]]}"
    if found := _PREDICTOR.fullmatch(module):
        part = "out" if found[2] is None else f"{'convolutions' if found[3] == 'conv' else 'norms'}.{found[2]}"
        return f"{found[1]}.{part}"
    raise CheckpointError(f"{path}: not a FastPitch 1.1 checkpoint: it holds {module}, which that model does not have")


def model_config(published: dict[str, Any], path: Path) -> ModelConfig:
    """The model that the constructor arguments in a DeepLearningExamples checkpoint describe."""
    try:
        return ModelConfig(
            channels=published["symbols_embedding_dim"],
            encoder=_transformer(published, "in"),
            decoder=_transformer(published, "out"),
            duration=_predictor(published, "dur"),
            pitch=_predictor(published, "pitch"),
            energy=_predictor(published, "energy"),
            uses_energy=published["energy_conditioning"],
            pitch_kernel=published["pitch_embedding_kernel_size"],
            energy_kernel=published["energy_embedding_kernel_size"],
            speakers=published["n_speakers"],
            speaker_weight=published["speaker_emb_weight"],
        )
    except KeyError as error:
        raise CheckpointError(
            f"{path}: the configuration in it lacks {error}; expected that of FastPitch 1.1"
        ) from None


def _transformer(published: dict[str, Any], side: str) -> TransformerConfig:
    return TransformerConfig(
        layers=published[f"{side}_fft_n_layers"],
        heads=published[f"{side}_fft_n_heads"],
        head_channels=published[f"{side}_fft_d_head"],
        filter_channels=published[f"{side}_fft_conv1d_filter_size"],
        kernel=published[f"{side}_fft_conv1d_kernel_size"],
        dropout=published[f"p_{side}_fft_dropout"],
        attention_dropout=published[f"p_{side}_fft_dropatt"],
        input_dropout=published[f"p_{side}_fft_dropemb"],
    )


def _predictor(published: dict[str, Any], name: str) -> PredictorConfig:
    return PredictorConfig(
        layers=published[f"{name}_predictor_n_layers"],
        filter_channels=published[f"{name}_predictor_filter_size"],
        kernel=published[f"{name}_predictor_kernel_size"],
        dropout=published[f"p_{name}_predictor_dropout"],
    )

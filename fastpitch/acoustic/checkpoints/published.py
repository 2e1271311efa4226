"""Checkpoints of FastPitch 1.1 of NVIDIA DeepLearningExamples as they are."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from common import config
from common.features import TTS, LogMelConfig
from common.runs.checkpoint import CheckpointError, Imported, contents
from fastpitch.acoustic.config import Config, ModelConfig, PredictorConfig, TransformerConfig
from fastpitch.acoustic.pitch import PitchConfig
from fastpitch.front.symbols import TextConfig, TextProcessor

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

_PITCH_WITHOUT_STATISTICS = {"pitch_mean": 218.14, "pitch_std": 67.24}  # what the published inference assumes
_FEATURES = {
    "sampling_rate": "sample_rate",
    "filter_length": "n_fft",
    "win_length": "window_samples",
    "hop_length": "hop_samples",
    "mel_fmin": "lowest_hz",
    "mel_fmax": "highest_hz",
}


def read(state: dict[str, Any], path: Path) -> Imported[Config]:
    """What the loaded checkpoint `state` holds; `path` is for messages. Raises CheckpointError."""
    if not isinstance(state.get("state_dict"), dict) or not isinstance(state.get("config"), dict):
        raise CheckpointError(
            f"{path}: not a checkpoint of this repository or of DeepLearningExamples' FastPitch; {contents(state)}"
        )
    weights, ema = published_weights(state["state_dict"], path), state.get("ema_state_dict")
    imported = Imported(weights, published_weights(ema, path) if ema else None, _config(state, weights, path))
    found, symbols = len(weights["symbols.weight"]), TextProcessor(imported.config.text).symbols
    if found != len(symbols):
        raise CheckpointError(
            f"{path}: has embeddings of {found} symbols; expected the {len(symbols)} of its symbol set, "
            f"{imported.config.text.symbol_set}"
        )
    return imported


def _config(state: dict[str, Any], weights: dict[str, Tensor], path: Path) -> Config:
    setup, model = state.get("train_setup") or {}, model_config(state["config"], path)
    space = weights.get("aligner.key_out.bias")  # nothing else says how wide it is
    model = dataclasses.replace(model, aligner=space is not None, aligner_channels=0 if space is None else len(space))
    given = {ours: setup[theirs] for theirs, ours in _FEATURES.items() if theirs in setup}
    settings = config.to_dict(dataclasses.replace(TTS, mel_bins=state["config"]["n_mel_channels"])) | given
    try:
        features = config.build(LogMelConfig, settings, str(path))
        pitch = PitchConfig(sample_rate=features.sample_rate, hop_samples=features.hop_samples)
        return Config(model=model, text=_text(setup), features=features, pitch=pitch)
    except ValueError as error:
        raise CheckpointError(f"{path}: its training setup cannot be used here: {error}") from None


def _text(setup: dict[str, Any]) -> TextConfig:
    """As the published code read text; words that CMUdict does not have, letter by letter."""
    cleaners = setup.get("text_cleaners") or ["none"]
    return TextConfig(
        symbol_set=setup.get("symbol_set", "english_basic"),
        cleaners=cleaners[-1],
        p_arpabet=setup.get("p_arpabet", 0.0),
        unknown_words="letters",
        tone_sandhi=False,
        prepend_space=setup.get("prepend_space_to_text", False),
        append_space=setup.get("append_space_to_text", False),
    )


def published_weights(state: dict[str, Any], path: Path) -> dict[str, Tensor]:
    """The weights of a DeepLearningExamples checkpoint under this repository's names. Raises CheckpointError."""
    renamed: dict[str, Tensor] = {}
    for key, tensor in state.items():
        key = key.removeprefix("module.")
        if key.endswith(_COMPUTED):
            continue
        module, _, parameter = key.rpartition(".")
        if key in _PITCH_WITHOUT_STATISTICS:
            renamed[key] = torch.where(tensor.float() > 0, tensor.float(), _PITCH_WITHOUT_STATISTICS[key])
        else:
            renamed[f"{_renamed(module, path)}.{parameter}"] = tensor.float()
    if "speakers.weight" in renamed:  # one pair of statistics for all speakers
        for name in _PITCH_WITHOUT_STATISTICS:
            renamed[name] = renamed[name].expand(len(renamed["speakers.weight"])).clone()
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

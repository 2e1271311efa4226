"""Reading vocoder checkpoints: ours, DeepLearningExamples' HiFi-GAN and the original ones of jik876, as they are.

The latter two hold a generator under `generator`. DeepLearningExamples' also describe it; of the others the layout is
read off the weights, and what leaves no trace there (rates, dilations) is that of the published V1, V2 and V3.
"""

import re
from pathlib import Path
from typing import Any

from torch import Tensor

from common import config
from common.config import ConfigError
from common.runs.checkpoint import CheckpointError, Imported, own_description
from fastpitch.vocoders.config import HifiganRun
from fastpitch.vocoders.networks.config import HifiganConfig

FORMAT = "hifigan"  # what our checkpoints say they are, also of an `istft` generator

_PUBLISHED_NAMES = {
    "upsample_rates": "upsample_rates",
    "upsample_kernel_sizes": "upsample_kernels",
    "upsample_initial_channel": "channels",
    "resblock": "resblock",
    "resblock_kernel_sizes": "resblock_kernels",
    "resblock_dilation_sizes": "resblock_dilations",
}
_DILATIONS = {("1", 3): (1, 3, 5), ("2", 3): (1, 2), ("2", 5): (2, 6), ("2", 7): (3, 12)}  # of V1 to V3
_FLAT_BLOCK = re.compile(r"resblocks\.(\d+)\.(convs\w*\..*)")


def read(state: dict[str, Any], path: Path) -> Imported[HifiganRun]:
    """What the loaded checkpoint `state` holds of a generator; `path` is for messages. Raises CheckpointError."""
    if state.get("format") == FORMAT:
        with own_description(path):
            own = config.build(HifiganRun, state["config"], str(path))
            return Imported(state["generator"], state["generator_ema"], own)
    weights = state.get("generator")
    if not isinstance(weights, dict):
        raise CheckpointError(
            f"{path}: not a HiFi-GAN checkpoint of this repository, of DeepLearningExamples or of jik876: expected "
            f"weights under generator, found {', '.join(map(str, list(state)[:5])) or 'nothing'}"
        )
    return _published(state, weights, path)


def read_discriminators(state: dict[str, Any], path: Path) -> dict[str, Tensor]:
    """The discriminators' weights in the loaded checkpoint `state`, ours or DeepLearningExamples'; CheckpointError."""
    if state.get("format") == FORMAT and isinstance(state.get("discriminators"), dict):
        return state["discriminators"]
    if not {"mpd", "msd"} <= set(state):
        raise CheckpointError(
            f"{path}: no discriminators: expected weights under mpd and msd, "
            f"found {', '.join(map(str, list(state)[:5])) or 'nothing'}"
        )
    named = {}
    for part in ("mpd", "msd"):
        for key, tensor in state[part].items():
            key = f"{part}.{key.removeprefix('module.').removeprefix('discriminators.')}"
            named[_spectral_name(key)] = tensor.float()
    return named


def _spectral_name(key: str) -> str:
    """The first scale has spectral normalisation, whose vectors are u and v."""
    if not key.startswith("msd.0."):
        return key
    for old, new in (("weight_orig", "original"), ("weight_u", "0._u"), ("weight_v", "0._v")):
        if key.endswith(f".{old}"):
            return f"{key.removesuffix(old)}parametrizations.weight.{new}"
    return key


def is_checkpoint(state: dict[str, Any]) -> bool:
    """Whether `read` can be asked to read it."""
    return state.get("format") == FORMAT or "generator" in state


def delay_samples(state: dict[str, Any], cfg: HifiganRun) -> int:
    """How much later than the centres of its mel frames the audio of a generator comes.

    The published framing has frame t at samples [t hop - 384, t hop + 640): its centre is half a hop later.
    """
    is_centred = state.get("format") == FORMAT or (state.get("train_setup") or {}).get("fine_tuning")
    return 0 if is_centred else cfg.features.hop_samples // 2


def _published(state: dict[str, Any], weights: dict[str, Tensor], path: Path) -> Imported[HifiganRun]:
    weights = _renamed(weights)
    if not any(key.startswith("conv_pre.") for key in weights) or not any(k.startswith("ups.0.") for k in weights):
        raise CheckpointError(
            f"{path}: not a HiFi-GAN generator: expected weights named conv_pre.* and ups.*, "
            f"found {', '.join(list(weights)[:3]) or 'none'}"
        )
    described = state.get("config") or _read_off(weights, path)
    kernels = len(described["resblock_kernel_sizes"])
    ema = state.get("gen_ema")
    averaged = _nested(_renamed(ema), kernels) if ema else None
    return Imported(_nested(weights, kernels), averaged, _config(described, weights, path))


def _renamed(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Without the prefix of data parallel training, float32, and 1-dimensional (a layout of 2021 had 2)."""
    named = {key.removeprefix("module."): tensor.float() for key, tensor in weights.items()}
    return {key: tensor.flatten(2) if tensor.ndim == 4 else tensor for key, tensor in named.items()}


def _nested(weights: dict[str, Tensor], kernels: int) -> dict[str, Tensor]:
    """jik876 counts residual blocks through all stages; the second kind of block calls its convolutions `convs`."""
    named = {}
    for key, tensor in weights.items():
        if flat := _FLAT_BLOCK.fullmatch(key):
            key = f"resblocks.{int(flat[1]) // kernels}.{int(flat[1]) % kernels}.{flat[2]}"
        named[key.replace(".convs.", ".convs1.")] = tensor
    return named


def _used(described: dict[str, Any]) -> dict[str, Any]:
    """What the published code looks at of a published description: the first kernels and dilations of every list."""
    first = {"upsample_kernel_sizes": "upsample_rates", "resblock_dilation_sizes": "resblock_kernel_sizes"}
    used = {n: described[n][: len(described.get(by, described[n]))] for n, by in first.items() if n in described}
    dilations = 3 if str(described.get("resblock", "1")) == "1" else 2
    if "resblock_dilation_sizes" in used:
        used["resblock_dilation_sizes"] = [own[:dilations] for own in used["resblock_dilation_sizes"]]
    return described | used


def _config(described: dict[str, Any], weights: dict[str, Tensor], path: Path) -> HifiganRun:
    described = _used(described)
    known = {ours: described[theirs] for theirs, ours in _PUBLISHED_NAMES.items() if theirs in described}
    first = next(weights[k] for k in ("conv_pre.weight_v", "conv_pre.weight") if k in weights)
    try:
        generator = config.build(HifiganConfig, known, str(path), "hifigan.")
        features: dict[str, float] = {"mel_bins": first.shape[1], "hop_samples": generator.hop_samples}
        if generator.hop_samples == 512:  # the published preset for 44.1 kHz
            features |= {"sample_rate": 44_100, "n_fft": 2048, "window_samples": 2048, "highest_hz": 22_050.0}
        whole: dict[str, Any] = {"generator": "hifigan", "hifigan": config.to_dict(generator)}
        return config.build(
            HifiganRun, whole | {"features": config.to_dict(HifiganRun().features) | features}, str(path)
        )
    except ConfigError as error:
        raise CheckpointError(f"{path}: its description of the generator cannot be used: {error}") from None


def _read_off(weights: dict[str, Tensor], path: Path) -> dict[str, Any]:
    """The description of a generator that has none, from the shapes of its weights."""
    shapes = {k.rpartition(".")[0]: tuple(w.shape) for k, w in weights.items() if k.endswith((".weight", ".weight_v"))}
    stages = sum(key.startswith("ups.") for key in shapes)
    resblock = "1" if any(".convs1." in key for key in shapes) else "2"
    block = re.compile(
        r"resblocks\.(?:0\.)?(\d+)\.convs1?\.0" if _is_nested(shapes) else r"resblocks\.(\d+)\.convs1?\.0"
    )
    kernels = [shape[2] for key, shape in shapes.items() if block.fullmatch(key)]
    kernels = kernels if _is_nested(shapes) else kernels[: len(kernels) // stages]
    try:
        dilations = [_DILATIONS[resblock, 3 if resblock == "1" else kernel] for kernel in kernels]
    except KeyError:
        raise CheckpointError(
            f"{path}: does not describe its generator, and residual blocks of {kernels} samples are not those of V1, "
            "V2 or V3; add its config to the file"
        ) from None
    upsample = [shapes[f"ups.{stage}"][2] for stage in range(stages)]
    return {
        "upsample_rates": [kernel // 2 for kernel in upsample],
        "upsample_kernel_sizes": upsample,
        "upsample_initial_channel": shapes["conv_pre"][0],
        "resblock": resblock,
        "resblock_kernel_sizes": kernels,
        "resblock_dilation_sizes": dilations,
    }


def _is_nested(shapes: dict[str, tuple[int, ...]]) -> bool:
    """Whether residual blocks are counted within their stage (resblocks.STAGE.BLOCK.convs1.0)."""
    return any(re.match(r"resblocks\.\d+\.\d+\.convs", key) for key in shapes)

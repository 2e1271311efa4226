"""NeMo's archives of Jasper and QuartzNet, made here of our own models under NeMo's names."""

import io
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import jasper
import jasper.recognizer
from common.features import LogMelConfig
from common.runs.checkpoint import CheckpointError
from jasper.checkpoints import reading
from jasper.config import BlockConfig, Config, ModelConfig
from jasper.network.model import Jasper
from tests.jasper.tiny import random_weights, tiny_config

QUARTZNET = ModelConfig(
    blocks=(
        BlockConfig(filters=12, kernel=5, stride=2, separable=True),
        BlockConfig(filters=12, kernel=7, repeat=3, residual="block", separable=True),
        BlockConfig(filters=16, kernel=9, repeat=2, residual="block", separable=True),
        BlockConfig(filters=16, kernel=5, dilation=2, separable=True),
        BlockConfig(filters=16, kernel=1),
    ),
    labels=" abcdefghijklmnopqrstuvwxyzäöüß",
)


def description(cfg: Config) -> dict[str, Any]:
    """The model as NeMo's model_config.yaml has it."""
    blocks = [
        {
            "filters": b.filters, "repeat": b.repeat, "kernel": [b.kernel], "stride": [b.stride],
            "dilation": [b.dilation], "dropout": b.dropout, "residual": b.residual != "none", "separable": b.separable,
            "residual_dense": b.residual == "dense",
        }
        for b in cfg.model.blocks
    ]  # fmt: skip
    features = {"sample_rate": 16000, "window_size": 0.02, "window_stride": 0.01, "window": "hann", "features": 64}
    features |= {"n_fft": 512, "frame_splicing": 1, "dither": 1e-5, "normalize": "per_feature", "stft_conv": False}
    return {
        "target": "nemo.collections.asr.models.ctc_models.EncDecCTCModel",
        "preprocessor": {"_target_": "nemo.AudioToMelSpectrogramPreprocessor", **features},
        "encoder": {"_target_": "nemo.ConvASREncoder", "feat_in": 64, "activation": "relu", "conv_mask": True,
                    "jasper": blocks},
        "decoder": {"feat_in": 16, "num_classes": len(cfg.model.labels), "vocabulary": list(cfg.model.labels)},
        "optim": {"name": "novograd"},
    }  # fmt: skip


def nemo_names(weights: dict[str, torch.Tensor], cfg: Config) -> dict[str, torch.Tensor]:
    """Weights under NeMo's names: convolution, normalisation, activation and dropout are numbered in turns."""
    named = {}
    for name, tensor in weights.items():
        if found := re.fullmatch(r"blocks\.(\d+)\.layers\.(\d+)\.(depthwise|conv|norm)\.(\w+)", name):
            block, layer, part, kind = int(found[1]), int(found[2]), found[3], found[4]
            parts = ("depthwise", "conv", "norm") if cfg.model.blocks[block].separable else ("conv", "norm")
            index = layer * (len(parts) + 2) + parts.index(part)
            middle = "" if part == "norm" else "conv."
            name = f"encoder.encoder.{block}.mconv.{index}.{middle}{kind}"
        elif found := re.fullmatch(r"blocks\.(\d+)\.residuals\.(\d+)\.(conv|norm)\.(\w+)", name):
            middle = "conv." if found[3] == "conv" else ""
            name = f"encoder.encoder.{found[1]}.res.{found[2]}.{int(found[3] == 'norm')}.{middle}{found[4]}"
        else:
            name = name.replace("decoder.", "decoder.decoder_layers.0.")
        named[name] = tensor
    return named


def write(path: Path, described: Any, weights: Any, *, mode: str = "w:gz") -> Path:
    stream = io.BytesIO()
    torch.save(weights, stream)
    with tarfile.open(path, mode) as tar:
        for name, content in (
            ("model_config.yaml", yaml.dump(described).encode()),
            ("model_weights.ckpt", stream.getvalue()),
        ):
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def model_of(kind: str) -> Config:
    cfg = tiny_config()
    return replace(cfg, model=QUARTZNET) if kind == "quartznet" else cfg


@pytest.mark.parametrize("kind", ["quartznet", "jasper"])
@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_an_archive_gives_the_model_it_was_made_of(kind, mode, tmp_path):
    cfg = model_of(kind)
    weights = random_weights(cfg)
    path = write(tmp_path / "model.nemo", description(cfg), nemo_names(weights, cfg), mode=mode)
    found = reading.read(path)
    assert found.config.model == cfg.model
    assert found.config.data.trim_silence is False
    assert found.config.features == LogMelConfig(
        log_floor=2**-24, edges="zeros", frame_count="floor", pad_to_multiple=1
    )  # as NeMo computes them
    assert found.weights.keys() == {name for name in weights if not name.endswith("num_batches_tracked")} | {
        name for name in found.weights if name.endswith("num_batches_tracked")
    }
    own = Jasper(cfg.model, 64).eval()
    own.load_state_dict(weights)
    theirs, _ = reading.read_model(path)
    features_BFT = torch.randn(2, 64, 90, generator=torch.Generator().manual_seed(0))
    frames_B = torch.tensor([90, 61])
    torch.testing.assert_close(theirs(features_BFT, frames_B).log_probs_BSV, own(features_BFT, frames_B).log_probs_BSV)


def test_it_transcribes_and_says_its_letters(tmp_path):
    cfg = model_of("quartznet")
    path = write(tmp_path / "stt_de_quartznet.nemo", description(cfg), nemo_names(random_weights(cfg), cfg))
    asr = jasper.load(path, device="cpu")
    assert "".join(asr.vocabulary.labels) == QUARTZNET.labels
    audio_N = 0.1 * torch.randn(16000, generator=torch.Generator().manual_seed(0)).numpy()
    assert set(asr.transcribe([audio_N])[0].text) <= set(QUARTZNET.labels)


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        ("", {"target": "nemo.EncDecRNNTBPEModel"}, "is a EncDecRNNTBPEModel of NeMo; Jasper and Q"),
        ("encoder", {"jasper": "x"}, "encoder.jasper is str; expected a list of blocks"),
        ("encoder", {"activation": "swish"}, "encoder.activation = 'swish' is not known; expected 'relu' or 'selu'"),
        ("encoder", {"conv_mask": False}, "encoder.conv_mask = False is not known; expected True"),
        ("encoder", {"other": 3}, "encoder.other: a setting that is not known"),
        ("encoder", {"jasper": [{"filters": 8, "se": True}]}, r"encoder.jasper.0.se = True is not known"),
        ("encoder", {"jasper": [{"filters": 8, "kernel": [3, 3]}]}, r"kernel = \[3, 3\]: expected one whole number"),
        ("encoder", {"jasper": [{"filters": 8, "kernel": [4]}]}, "kernel = 4: expected an odd number of frames"),
        ("decoder", {"vocabulary": ["▁a", "b"]}, "decoder.vocabulary has '▁a'; expected single letters"),
        ("decoder", {"vocabulary": []}, "decoder.vocabulary: expected a list of letters"),
        ("decoder", {"vocabulary": ["a", "a"]}, "a character stands there twice"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_named(section, changes, message, tmp_path):
    cfg = model_of("quartznet")
    described = description(cfg)
    (described[section] if section else described).update(changes)
    path = write(tmp_path / "model.nemo", described, nemo_names(random_weights(cfg), cfg))
    with pytest.raises(CheckpointError, match=message):
        reading.read(path)


def packed(path: Path, files: dict[str, bytes | None]) -> Path:
    """A tar of these files, and of folders where there are no bytes."""
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            member.size = len(content or b"")
            tar.addfile(member, io.BytesIO(content or b""))
    return path


@pytest.fixture(scope="module")
def parts() -> tuple[Config, dict[str, Any], dict[str, bytes]]:
    """A model, its description, and the files of its archive."""
    cfg = model_of("quartznet")
    stream = io.BytesIO()
    torch.save(nemo_names(random_weights(cfg), cfg), stream)
    described = description(cfg)
    return cfg, described, {"model_config.yaml": yaml.dump(described).encode(), "model_weights.ckpt": stream.getvalue()}


def test_archives_as_people_pack_them_are_read(parts, tmp_path):
    _, _, files = parts
    wanted = reading.read(packed(tmp_path / "a.nemo", files))
    around = {"._model_config.yaml": b"\0", ".DS_Store": b"\0", "__MACOSX": None, "__MACOSX/._x": b"\0"}
    for names in (
        {f"QuartzNet/{name}": content for name, content in files.items()},
        {"./": None, "./my": None} | {f"./my/{name}": content for name, content in files.items()},
        around | files,
    ):
        found = reading.read(packed(tmp_path / "b.nemo", names))
        assert found.config == wanted.config
        assert all(torch.equal(found.weights[name], weight) for name, weight in wanted.weights.items())
    for names in ({"a/x": b""} | files, {f"a/{n}": c for n, c in files.items()} | {"b/x": b""}):
        with pytest.raises(CheckpointError, match=r"refused: .* in it is not a file of its one folder$"):
            reading.read(packed(tmp_path / "b.nemo", names))


def test_an_unpacked_archive_is_read(parts, tmp_path):
    cfg, _, files = parts
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for path in (tmp_path, *(tmp_path / name for name in files)):
        assert reading.read(path).config.model == cfg.model
    (tmp_path / "model_weights.ckpt").unlink()
    with pytest.raises(CheckpointError, match=r"expected model_weights.ckpt in it, found model_config.yaml$"):
        reading.read(tmp_path)


def test_descriptions_of_other_days_mean_the_same(parts, tmp_path):
    cfg, described, files = parts
    classes = {
        "preprocessor": "AudioToMelSpectrogramPreprocessor", "encoder": "ConvASREncoder", "decoder": "ConvASRDecoder",
    }  # fmt: skip
    before_1 = described | {
        name: {"cls": f"nemo.{cls}", "params": {k: v for k, v in described[name].items() if k != "_target_"}}
        for name, cls in classes.items()
    }
    refers = described | {"labels": list(cfg.model.labels), "rate": "${model.sr}", "sr": 16000}
    refers |= {"decoder": described["decoder"] | {"vocabulary": "${labels}"}}
    refers |= {"preprocessor": described["preprocessor"] | {"sample_rate": "${rate}", "highfreq": 0}}
    for other in (before_1, refers, {"model": described, "trainer": {"devices": 1}}):
        path = packed(tmp_path / "a.nemo", files | {"model_config.yaml": yaml.dump(other).encode()})
        found = reading.read(path).config
        assert (found.model, found.features.sample_rate, found.features.highest_hz) == (cfg.model, 16000, 8000)
    for loop in ({"a": ["${a}"], "rate": "${a}"}, {"rate": "${rate}"}, {"rate": "${none.there}"}):
        other = described | loop | {"preprocessor": described["preprocessor"] | {"sample_rate": "${rate}"}}
        path = packed(tmp_path / "a.nemo", files | {"model_config.yaml": yaml.dump(other).encode()})
        with pytest.raises(CheckpointError, match=r"sample_rate = |more than 500000 values"):
            reading.read(path)


def test_weights_that_were_all_halved_are_read(parts, tmp_path):
    cfg, _, files = parts
    stream = io.BytesIO()
    torch.save({name: w.half() for name, w in nemo_names(random_weights(cfg), cfg).items()}, stream)
    path = packed(tmp_path / "a.nemo", files | {"model_weights.ckpt": stream.getvalue()})
    assert jasper.load(path, device="cpu").config.model == cfg.model

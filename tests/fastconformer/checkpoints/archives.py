"""Archives to be read: whole ones, and such as nobody should trust."""

import io
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import yaml

from common.text.pieces import train_pieces
from tests.fastconformer import tiny

TEXTS = ["the cat sat on the mat, and the dog sat too.", "a dog and a cat met on a mat", "what did the cat do then?"]


def description() -> dict[str, Any]:
    """A TDT model of two narrow blocks with a CTC head, as NeMo describes it."""
    return {
        "target": "nemo.collections.asr.models.hybrid_rnnt_ctc_bpe_models.EncDecHybridRNNTCTCBPEModel",
        "tokenizer": {"type": "bpe", "model_path": "nemo:1_tokenizer.model"},
        "preprocessor": {"sample_rate": 16000, "window_size": 0.025, "window_stride": 0.01, "features": 16,
                         "n_fft": 512, "normalize": "per_feature", "highfreq": None,
                         "_target_": "nemo.AudioToMelSpectrogramPreprocessor"},
        "encoder": {"feat_in": 16, "n_layers": 2, "d_model": 16, "n_heads": 4, "subsampling": "dw_striding",
                    "subsampling_factor": 8, "subsampling_conv_channels": 6, "conv_kernel_size": 5, "xscaling": False,
                    "att_context_size": [-1, -1], "dropout": 0.1},
        "decoder": {"vocab_size": 24, "blank_as_pad": True, "prednet": {"pred_hidden": 10, "pred_rnn_layers": 2}},
        "joint": {"num_classes": 24, "num_extra_outputs": 5, "jointnet": {"joint_hidden": 14, "activation": "relu"}},
        "model_defaults": {"tdt_durations": [0, 1, 2, 3, 4]},
        "optim": {"anything": 1},
    }  # fmt: skip


def weights(**encoder: Any) -> dict[str, torch.Tensor]:
    """Random weights of that model under NeMo's names."""
    from dataclasses import replace

    model = tiny.model(replace(tiny.config(**encoder), pieces=24))
    return nemo_names(model.state_dict())


def nemo_names(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights, or what else has their names and shapes, under NeMo's names."""
    named: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        for ours, theirs in _NAMES:
            name = name.replace(ours, theirs)
        name = re.sub(r"layers\.(\d+)\.norm\.", r"layers.\1.norm_out.", name)
        if "self_attn.qkv" in name:
            for part, piece in zip("qkv", tensor.chunk(3), strict=True):
                named[name.replace("qkv", f"linear_{part}")] = piece
        else:
            named[name] = tensor[:, :, None] if "pointwise_conv" in name and name.endswith("weight") else tensor
    return named


_NAMES = (
    ("encoder.subsampling.project", "encoder.pre_encode.out"),
    ("encoder.subsampling.first", "encoder.pre_encode.conv.0"),
    ("encoder.subsampling.depthwise.0", "encoder.pre_encode.conv.2"),
    ("encoder.subsampling.pointwise.0", "encoder.pre_encode.conv.3"),
    ("encoder.subsampling.depthwise.1", "encoder.pre_encode.conv.5"),
    ("encoder.subsampling.pointwise.1", "encoder.pre_encode.conv.6"),
    ("encoder.blocks", "encoder.layers"),
    ("feed_forward_in.norm", "norm_feed_forward1"),
    ("feed_forward_in.enter", "feed_forward1.linear1"),
    ("feed_forward_in.leave", "feed_forward1.linear2"),
    ("feed_forward_out.norm", "norm_feed_forward2"),
    ("feed_forward_out.enter", "feed_forward2.linear1"),
    ("feed_forward_out.leave", "feed_forward2.linear2"),
    ("attention_norm", "norm_self_att"),
    ("attention.content_bias_HD", "self_attn.pos_bias_u"),
    ("attention.position_bias_HD", "self_attn.pos_bias_v"),
    ("attention.positions", "self_attn.linear_pos"),
    ("attention.leave", "self_attn.linear_out"),
    ("attention.qkv", "self_attn.qkv"),
    ("convolution.norm_in", "norm_conv"),
    ("convolution.enter", "conv.pointwise_conv1"),
    ("convolution.depthwise", "conv.depthwise_conv"),
    ("convolution.norm", "conv.batch_norm"),
    ("convolution.leave", "conv.pointwise_conv2"),
    ("prediction.embedding", "decoder.prediction.embed"),
    ("prediction.rnn", "decoder.prediction.dec_rnn.lstm"),
    ("joint.encoder", "joint.enc"),
    ("joint.prediction", "joint.pred"),
    ("joint.output", "joint.joint_net.2"),
    ("ctc.", "ctc_decoder.decoder_layers.0."),
)


def files(**changed: bytes | None) -> dict[str, bytes]:
    """The files of an archive by name; None leaves one out. Names are model_config, model_weights and tokenizer."""
    buffer = io.BytesIO()
    torch.save(weights(), buffer)
    found: dict[str, bytes | None] = {
        "model_config": yaml.safe_dump(description()).encode(),
        "model_weights": buffer.getvalue(),
        "tokenizer": train_pieces(TEXTS, size=24).model,
    }
    names = {
        "model_config": "model_config.yaml",
        "model_weights": "model_weights.ckpt",
        "tokenizer": "1_tokenizer.model",
    }
    return {names[name]: data for name, data in (found | changed).items() if data is not None}


def write(path: Path, contents: Mapping[str, bytes], *, mode: str = "w", extra: tarfile.TarInfo | None = None) -> Path:
    """An archive of these files, and of one member more."""
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, data in contents.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        if extra is not None:
            archive.addfile(extra, io.BytesIO(b"\0" * extra.size))
    return path

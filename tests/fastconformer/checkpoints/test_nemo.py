"""NeMo's archives are read in place; what is hostile, damaged or not known ends in one line, and does nothing."""

import io
import os
import pickle
import random
import re
import sys
import tarfile
import zipfile

import pytest
import torch
import yaml

from common.published.nemo import archive
from common.runs.checkpoint import CheckpointError
from fastconformer.checkpoints import nemo
from fastconformer.checkpoints.reading import read_model
from fastconformer.network.model import Model
from tests.fastconformer import golden, tiny
from tests.fastconformer.checkpoints import archives


@pytest.mark.parametrize("name", ["ctc", *golden.TRANSDUCERS])
def test_the_parameters_of_a_checkpoint_are_all_read(name):
    imported = nemo.read(golden.folder() / f"{name}.nemo")
    model = Model(imported.model, imported.features.mel_bins)
    missing, unexpected = model.load_state_dict(imported.weights, strict=False)
    assert not unexpected
    assert all(key.endswith("num_batches_tracked") for key in missing)
    assert sum(p.numel() for p in model.parameters()) == golden.facts(name)["parameters"]
    assert imported.pieces.encode(golden.facts(name)["target_text"][0]) == golden.facts(name)["targets"][0]


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
@torch.no_grad()
def test_an_archive_is_read_compressed_or_not(tmp_path, mode):
    imported = nemo.read(archives.write(tmp_path / "model.nemo", archives.files(), mode=mode))
    theirs = tiny.model(imported.model)
    theirs.load_state_dict(imported.weights, strict=False)
    ours = tiny.model(imported.model)
    for name, tensor in ours.state_dict().items():
        torch.testing.assert_close(theirs.state_dict()[name], tensor)


CHANGES = {
    "encoder.rotary": "encoder.rotary: a setting that is not known",
    "encoder.subsampling": "encoder.subsampling = 'x' is not known; expected 'dw_striding'",
    "encoder.self_attention_model": "self_attention_model = 'x' is not known; expected 'rel_pos'",
    "encoder.conv_context_size": "encoder.conv_context_size = 'x' is not known; expected 'causal'",
    "encoder.att_context_size": "encoder.att_context_size = 'x': expected two numbers of frames",
    "encoder.att_context_style": "att_context_style = 'x' is not known; expected 'regular' or 'chunked_limited'",
    "encoder.conv_norm_type": "conv_norm_type = 'x' is not known; expected 'batch_norm' or 'layer_norm'",
    "encoder.d_model": "encoder.d_model = 'x': expected a whole number from 1 to 65536",
    "encoder": "expected settings under encoder, found str",
    "preprocessor.log": "preprocessor.log = 'x' is not known; expected True",
    "preprocessor.frequencies": "preprocessor.frequencies: a setting that is not known",
    "decoder.normalization_mode": "decoder.normalization_mode = 'x' is not known; expected None",
    "decoder.vocab_size": "decoder.vocab_size = 'x' is not known; expected 24 or -1",
    "joint.jointnet": "expected settings under joint.jointnet, found str",
    "joint.num_extra_outputs": "joint.num_extra_outputs = 'x': expected a whole number from 0 to 65536",
    "model_defaults.tdt_durations": "says nothing of its durations; expected model_defaults.tdt_durations",
    "tokenizer": "has no tokenizer: expected tokenizer.model_path",
    "tokenizer.type": "tokenizer.type = 'x' is not known; expected 'bpe'",
    "tokenizer.model_path": "expected x in it, found model_config.yaml, model_weights.ckpt, 1_tokenizer.model",
    "target": "is a x of NeMo; known are EncDecCTCModelBPE, EncDecRNNTBPEModel, EncDecHybridRNNTCTCBPEModel",
}


@pytest.mark.parametrize("setting", CHANGES)
def test_what_is_not_known_is_named(tmp_path, setting):
    described = archives.description()
    section, _, key = setting.partition(".")
    if key:
        described[section][key] = "x"
    else:
        described[section] = "x"
    path = archives.write(tmp_path / "a.nemo", archives.files(model_config=yaml.safe_dump(described).encode()))
    _refused(path, re.escape(CHANGES[setting]))


@pytest.mark.parametrize(
    ("section", "found"),
    [
        ("encoder", "nemo.collections.asr.modules.SqueezeformerEncoder"),
        ("encoder", "nemo.collections.asr.modules.ConformerMultiLayerFeatureExtractor"),
        ("decoder", "nemo.collections.asr.modules.StatelessTransducerDecoder"),
        ("joint", "nemo.collections.asr.modules.SampledRNNTJoint"),
        ("joint", "nemo.collections.asr.modules.HATJoint"),
        ("preprocessor", "nemo.collections.asr.modules.AudioToMFCCPreprocessor"),
        ("aux_ctc", "my.Head"),
    ],
)
def test_a_class_that_computes_something_else_from_the_same_weights_is_refused(tmp_path, section, found):
    described = archives.description()
    if section == "aux_ctc":
        described |= {"aux_ctc": {"decoder": {"_target_": found}}}
    else:
        described[section]["_target_"] = found
    path = archives.write(tmp_path / "a.nemo", archives.files(model_config=yaml.safe_dump(described).encode()))
    _refused(path, rf"{section}\.(decoder\.)?_target_ = '{found}' is not known; expected ")


def test_durations_are_those_that_nemo_decodes_with_and_other_copies_are_told(tmp_path):
    described = archives.description() | {"decoding": {"durations": [0, 1, 2, 3, 4]}}
    described["loss"] = {"loss_name": "tdt", "tdt_kwargs": {"durations": [0, 1, 2, 4, 8]}}
    path = archives.write(tmp_path / "a.nemo", archives.files(model_config=yaml.safe_dump(described).encode()))
    with pytest.warns(UserWarning, match=r"_durations = \[0, 1, 2, 3, 4\] differs from loss.*= \[0, 1, 2, 4, 8\]"):
        assert nemo.read(path).model.durations == (0, 1, 2, 4, 8)
    described["loss"] = {"loss_name": "multiblank_rnnt"}
    path = archives.write(tmp_path / "b.nemo", archives.files(model_config=yaml.safe_dump(described).encode()))
    _refused(path, "loss.loss_name = 'multiblank_rnnt' with num_extra_outputs is not known; expected 'tdt'")


def test_a_description_without_a_target_is_told(tmp_path):
    described = archives.description()
    del described["target"]
    path = archives.write(tmp_path / "a.nemo", archives.files(model_config=yaml.safe_dump(described).encode()))
    _refused(path, "its description names no target; known are EncDecCTCModelBPE")


def test_durations_that_do_not_fit_their_outputs_are_named(tmp_path):
    described = archives.description()
    described["model_defaults"]["tdt_durations"] = [0, 1]
    path = archives.write(tmp_path / "a.nemo", archives.files(model_config=yaml.safe_dump(described).encode()))
    _refused(path, r"joint.num_extra_outputs = 5, but durations are \[0, 1\]")


def test_weights_that_are_not_known_or_do_not_fit_are_named(tmp_path):
    def saved(weights):
        buffer = io.BytesIO()
        torch.save(weights, buffer)
        return archives.write(tmp_path / "a.nemo", archives.files(model_weights=buffer.getvalue()))

    weights = archives.weights()
    _refused(
        saved(weights | {"adapter.weight": torch.ones(1)}), "'adapter.weight': weights of a layer that is not known"
    )
    name = "encoder.layers.0.self_attn.linear_k.weight"
    without = {key: value for key, value in weights.items() if key != name}
    _refused(saved(without), "linear_q.*|attention.q.weight: expected k and v of the same shape")
    filters = {"preprocessor.featurizer.fb": torch.ones(1, 16, 257)}
    _refused(saved(weights | filters), "its mel filters are not those that it describes")
    _refused(saved([torch.ones(1)]), "expected tensors by name in its model_weights.ckpt")
    _refused(saved({"a": 3}), "expected tensors by name in its model_weights.ckpt")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../evil", "'../evil' in it is not a file of its one folder"),
        ("/tmp/evil", "'/tmp/evil' in it is not a file of its one folder"),
        ("..\\evil", "in it is not a file of its one folder"),
        ("folder/file", "'folder/file' in it is not a file of its one folder"),
    ],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path, name, message):
    path = archives.write(tmp_path / "a.nemo", archives.files(), extra=tarfile.TarInfo(name))
    _refused(path, "refused: .*" + re.escape(message))
    assert [found.name for found in tmp_path.iterdir()] == ["a.nemo"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path, kind):
    link = tarfile.TarInfo("model_weights.ckpt")
    link.type, link.linkname = kind, "/etc/passwd"
    path = archives.write(tmp_path / "a.nemo", archives.files(model_weights=None), extra=link)
    _refused(path, "refused: 'model_weights.ckpt' in it is a link or device")


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("saves", [pickle.dumps, None], ids=["bare pickle", "torch.save"])
def test_code_in_the_weights_is_not_run(tmp_path, saves):
    buffer = io.BytesIO()
    torch.save({"w": Evil(tmp_path / "evil")}, buffer)
    data = saves({"w": Evil(tmp_path / "evil")}, protocol=2) if saves else buffer.getvalue()
    path = archives.write(tmp_path / "a.nemo", archives.files(model_weights=data))
    _refused(path, r"refused: model_weights.ckpt: it wants to run (posix|nt)\.mkdir")
    assert not (tmp_path / "evil").exists()


def test_tags_in_the_description_are_not_followed(tmp_path):
    evil = f"target: !!python/object/apply:os.mkdir ['{tmp_path / 'evil'}']\n".encode()
    path = archives.write(tmp_path / "a.nemo", archives.files(model_config=evil))
    _refused(
        path, "refused: its model_config.yaml wants more than values: could not determine a constructor for the tag"
    )
    assert not (tmp_path / "evil").exists()


def _bomb() -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_bomb(), "refused: its model_config.yaml has more than 500000 values"),
        (b"a: " + b"[" * 5000, "model_config.yaml is nested too deeply"),
        (b"a: " + b"[" * 200_000, "model_config.yaml is nested too deeply"),
        (b"{a: " * 200_000, "model_config.yaml is nested too deeply"),
        (b"a: &a [*a]", "model_config.yaml has more than 500000 values"),
        (b"a: [1", "its model_config.yaml is no YAML"),
        (b"\xff\xfe\x00", "its model_config.yaml is no YAML"),
        (b"- a", "expected sections in its model_config.yaml, found list"),
        (
            b" " * (archive.MOST_CONFIG_BYTES + 1),
            "refused: model_config.yaml of 8388609 bytes; expected 8388608 at most",
        ),
    ],
)
def test_descriptions_that_are_none_are_refused(tmp_path, text, message):
    _refused(archives.write(tmp_path / "a.nemo", archives.files(model_config=text)), message)


def test_compressed_bombs_are_refused(tmp_path):
    path = archives.write(tmp_path / "a.nemo", archives.files(model_weights=bytes(2**25)), mode="w:gz")
    _refused(path, "refused: model_weights.ckpt of 33554432 bytes in a file of")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("archive/data/0", bytes(2**25))
    _refused(
        archives.write(tmp_path / "b.nemo", archives.files(model_weights=buffer.getvalue())), "unpacks to 33554432"
    )


def test_what_is_absent_or_damaged_is_named(tmp_path):
    _refused(tmp_path / "no.nemo", "no such checkpoint")
    (tmp_path / "text.nemo").write_text("rubbish")
    _refused(tmp_path / "text.nemo", "damaged or not a .nemo archive")
    _refused(archives.write(tmp_path / "a.nemo", {}), "expected model_config.yaml in it, found nothing")
    for part, message in [
        ("model_weights", "expected model_weights.ckpt in it"),
        ("tokenizer", "expected 1_tokenizer.model in it"),
    ]:
        _refused(archives.write(tmp_path / "a.nemo", archives.files(**{part: None})), message)
    _refused(
        archives.write(tmp_path / "a.nemo", archives.files(model_weights=b"x" * 99)),
        "model_weights.ckpt in it is damaged|refused",
    )
    _refused(
        archives.write(tmp_path / "a.nemo", archives.files(tokenizer=b"rubbish")),
        "1_tokenizer.model: .*not a SentencePiece",
    )
    whole = archives.write(tmp_path / "b.nemo", archives.files()).read_bytes()
    for cut in (len(whole) // 2, 700, 100):
        (tmp_path / "c.nemo").write_bytes(whole[:cut])
        _refused(tmp_path / "c.nemo", "damaged|expected|refused")


def test_a_long_tokenizer_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(nemo, "MOST_TOKENIZER_BYTES", 100)
    _refused(
        archives.write(tmp_path / "a.nemo", archives.files()), "refused: 1_tokenizer.model of .* expected 100 at most"
    )


def _refused(path, message):
    with pytest.raises(CheckpointError, match=message) as caught:
        nemo.read(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("encoder", "n_heads", 3, "describes no model that is known: width = 16, heads = 3"),
        ("encoder", "n_layers", 10**9, "encoder.n_layers = 1000000000: expected a whole number from 1 to 1000"),
        ("encoder", "dropout", "much", "encoder.dropout = 'much': expected a number of at least 0"),
        ("preprocessor", "window_stride", float("nan"), "window_stride = nan: expected a number of at least 0"),
        (
            "preprocessor",
            "features",
            10**9,
            "preprocessor.features = 1000000000: expected a whole number from 1 to 1024",
        ),
        (
            "preprocessor",
            "n_fft",
            100,
            "describes no model that is known: LogMelConfig: window_samples 400 and n_fft 100",
        ),
        ("model_defaults", "tdt_durations", ["x"], r"model_defaults.tdt_durations = \['x'\]: expected whole numbers"),
        ("model_defaults", "tdt_durations", [4, 3, 2, 1, 0], r"describes no model that is known: durations = \(4, 3"),
    ],
)
def test_numbers_that_no_model_has_are_named(tmp_path, section, key, value, message):
    described = archives.description()
    described[section][key] = value
    path = archives.write(tmp_path / "a.nemo", archives.files(model_config=yaml.safe_dump(described).encode()))
    with pytest.raises(CheckpointError, match=message):
        read_model(path)


def test_archives_with_flipped_bytes_are_read_or_refused_in_one_line(tmp_path):
    whole, draw = archives.write(tmp_path / "a.nemo", archives.files()).read_bytes(), random.Random(0)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(draw.choice([1, 4, 30])):
            data[draw.randrange(draw.choice([3000, 9000, len(data)]))] = draw.randrange(256)
        (tmp_path / "b.nemo").write_bytes(data[: draw.choice([len(data), draw.randrange(len(data))])])
        said = ""
        try:
            read_model(tmp_path / "b.nemo")
        except CheckpointError as error:
            said = str(error)
        assert "\n" not in said


def test_packages_that_are_missing_are_named(tmp_path, monkeypatch):
    path = archives.write(tmp_path / "small.nemo", archives.files())
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(CheckpointError, match=r"^\.nemo archives need the package PyYAML: pip install pyyaml$"):
        read_model(path)

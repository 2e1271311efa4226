from pathlib import Path

import numpy as np
import pytest
import torch

import wav2vec2
from common import config
from common.audio.waveform import AudioError
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from tests.data import shared
from tests.wav2vec2.checkpoints.files import OPTIONS, PUBLISHED_LAYERS, fairseq_weights, same_output, save
from tests.wav2vec2.small import LABELS, audio_batch, ctc_model, pretraining_model, small_config
from wav2vec2.checkpoints import naming
from wav2vec2.checkpoints.loading import build, for_finetuning
from wav2vec2.checkpoints.own import FORMAT
from wav2vec2.checkpoints.pickles import load_foreign
from wav2vec2.checkpoints.published import options_of, parse_conv_layers
from wav2vec2.checkpoints.reading import read
from wav2vec2.corpus.letters import LIBRISPEECH_LABELS


@pytest.mark.parametrize("kind", ["base", "hourglass", "large"])
def test_published_checkpoints_give_the_published_representations_and_logits(kind):
    golden = shared(f"golden/wav2vec2/{kind}")
    expected = np.load(golden / "expected.npz")
    pretrained = wav2vec2.load(golden / "wav2vec2_update200.pt", device="cpu")
    finetuned = wav2vec2.load(golden / "wav2vec2_finetuned.pt", device="cpu")
    clips = [torch.from_numpy(expected[f"audio_{i}"]) for i in range(2)]
    samples_B = torch.tensor([len(clip) for clip in clips])
    audio_BN = torch.nn.utils.rnn.pad_sequence(clips, batch_first=True, padding_value=1.0)
    x_BSC, frames_B = pretrained.encode(audio_BN, samples_B)
    logits_BSV, _ = finetuned.logits(audio_BN, samples_B)
    for i, frames in enumerate(frames_B):
        np.testing.assert_allclose(x_BSC[i, :frames], expected[f"encoder_out_{i}"], atol=1e-4, rtol=0)
        np.testing.assert_allclose(logits_BSV[i, :frames], expected[f"ctc_logits_{i}"], atol=1e-4, rtol=0)
        alone = pretrained.encode(clips[i][None], samples_B[i : i + 1]).x_BSC[0]
        np.testing.assert_allclose(alone, expected[f"encoder_out_{i}"], atol=1e-4, rtol=0)
    assert finetuned.config.labels == LIBRISPEECH_LABELS


@pytest.mark.parametrize("kind", ["base", "large", "base hourglass", "large linear"])
def test_checkpoints_of_deeplearningexamples_load(kind, tmp_path):
    model = pretraining_model(kind, labels=())
    args = OPTIONS | {"layer_norm_first": "large" in kind, "normalize": "large" in kind, "mode": "pretrain"}
    if kind not in ("base", "large"):
        resample = "linear" if "linear" in kind else "naive"
        args |= {"hourglass_transformer": "[1,(2,4),1]", "hourglass_resample": resample}
    state = {"best_val_wer": np.float64(3.5), "epoch": 3}  # numpy's as of several processes
    path = save(tmp_path / "x.pt", args=args, model=fairseq_weights(model), train_state=state, optimizer={})
    imported = read(path)
    assert imported.kind == "pretraining"
    assert imported.config == model.wav2vec2.config
    same_output(path, model)


def test_a_fine_tuned_checkpoint_tells_its_labels(tmp_path):
    model = ctc_model()
    weights = fairseq_weights(model, naming.CTC_BACKBONE)
    path = save(tmp_path / "x.pt", args=OPTIONS, model=weights, output_labels="| 9\nE 8\nT 7\nA 6\nO 5\nN 4\n")
    assert read(path).config.labels == LABELS
    same_output(path, model)
    path = save(tmp_path / "y.pt", args=OPTIONS, model=weights)
    (tmp_path / "dict.ltr.txt").write_text("| 9\nE 8\nT 7\nA 6\nO 5\nN 4\n")
    assert read(path).config.labels == LABELS
    (tmp_path / "dict.ltr.txt").unlink()
    assert read(path).config.labels == ("<0>", "<1>", "<2>", "<3>", "<4>", "<5>", "<6>", "<7>", "<8>", "<9>")
    assert read(path, labels=tuple("0123456789")).config.labels == tuple("0123456789")


def test_a_checkpoint_of_several_processes_loads(tmp_path):
    model = pretraining_model(labels=())
    weights = {f"module.{name}": tensor for name, tensor in fairseq_weights(model).items()}
    same_output(save(tmp_path / "x.pt", args=OPTIONS, model=weights), model)


def test_options_that_a_checkpoint_lacks_are_those_of_the_published_models(tmp_path):
    model = pretraining_model("large", dim=128, heads=2, labels=())
    path = save(tmp_path / "x.pt", args=None, model=fairseq_weights(model))
    assert read(path).config == model.wav2vec2.config


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"state_dict": {}}, "not a wav2vec 2.0 checkpoint of this repository, Fairseq or DeepLearningExamples; it "),
        ({}, "not a wav2vec 2.0 checkpoint of this repository, Fairseq or DeepLearningExamples; it holds nothing"),
        ({"model": {"a.b": torch.zeros(1)}}, "its weights are not those of a wav2vec 2.0 model: expected post_extra"),
        ({"format": FORMAT}, "its own description cannot be read: 'config'"),
        ({"format": FORMAT, "config": {"model": {"x": 1}}}, "its own description cannot be read: "),
        ({"format": FORMAT, "config": {"model": {}}, "weights": {}}, "holds no weights of a wav2vec 2.0 model"),
    ],
)
def test_what_is_no_such_checkpoint_is_told(state, message, tmp_path):
    with pytest.raises(CheckpointError) as error:
        read(save(tmp_path / "x.pt", **state))
    assert str(error.value).startswith(f"{tmp_path / 'x.pt'}: {message}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation_fn": "selu"}, "describes no model that is known: activation = 'selu': expected one of"),
        ({"rotary_embeddings": True}, "has rotary_embeddings = True; only False is known"),
        ({"hourglass_transformer": "[1,(2,4),1]"}, "hourglass_transformer = '[1,(2,4),1]', but 0 layers are in an h"),
        ({"conv_feature_layers": "__import__('os')"}, 'describes no model that is known: conv_feature_layers = "__im'),
        (
            {"encoder_attention_heads": 5},
            "describes no model that is known: ModelConfig: heads = 5 does not divide dim = 32",
        ),
        ({"encoder_attention_heads": 4.0}, "describes no model that is known: heads = 4.0: expected int, found float"),
        ({"latent_groups": 0}, "describes no model that is known: integer division or modulo by zero"),
        ({"latent_groups": "2"}, "describes no model that is known: unsupported operand"),
        ({"latent_groups": 4}, "does not fit its description: project_codes.weight is (16, 16), expected (16, 32)"),
        ({"conv_feature_layers": [[24, 10, 5]]}, "describes no model that is known: 'list' object has no"),
        (
            {"conv_feature_layers": PUBLISHED_LAYERS.replace("10", "1" + "0" * 30)},
            f"does not fit its description: wav2vec2.extractor.layers.0.weight is (24, 10, 1), expected (24, {10**30}",
        ),
    ],
)
def test_options_that_are_not_known_are_told(options, message, tmp_path):
    path = save(tmp_path / "x.pt", args=OPTIONS | options, model=fairseq_weights(pretraining_model(labels=())))
    with pytest.raises(CheckpointError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        (
            "encoder.layers.99999999999.fc1.weight",
            torch.zeros(64, 32),
            "has weights that no part of the model is for: ",
        ),
        (
            "encoder.layers.9.fc1.weight",
            torch.zeros(64, 32),
            "does not fit its description: wav2vec2.encoder.layers.4.",
        ),
        (
            "encoder.layers.0.adapter.W",
            torch.zeros(3),
            "has weights that no part of the model is for: encoder.layers.0.",
        ),
        ("post_extract_proj.weight", torch.tensor(1.0), "describes no model that is known: len() of a 0-d tensor"),
        ("encoder.pos_conv.0.weight_v", torch.zeros(32, 0, 16), "describes no model that is known: integer division"),
        ("quantizer.vars", torch.zeros(1, 25, 8), "describes no model that is known: shape '[2, 12, -1]' is invalid"),
    ],
)
def test_weights_that_no_model_has_are_told_at_once(name, tensor, message, tmp_path):
    weights = fairseq_weights(pretraining_model(labels=())) | {name: tensor}
    path = save(tmp_path / "x.pt", args=OPTIONS, model=weights)
    with pytest.raises(CheckpointError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert len(str(error.value)) < 400


def test_weights_that_fine_tuned_models_do_not_know_are_not_dropped_in_silence(tmp_path):
    weights = fairseq_weights(ctc_model(), naming.CTC_BACKBONE)
    path = save(tmp_path / "x.pt", args=OPTIONS, model=weights | {"w2v_encoder.w2v_model.encoder.x": torch.zeros(1)})
    with pytest.raises(CheckpointError, match=r"x\.pt: has weights that no part of the model is for: encoder\.x$"):
        read(path)
    unused = {"w2v_encoder.w2v_model.project_q.bias": torch.zeros(16)}  # but these are of no use to them
    assert read(save(tmp_path / "y.pt", args=OPTIONS, model=weights | unused)).kind == "ctc"


def test_the_place_of_an_hourglass_must_be_that_of_its_layers(tmp_path):
    weights = fairseq_weights(pretraining_model("base hourglass", labels=()))
    path = save(tmp_path / "x.pt", args=OPTIONS | {"hourglass_transformer": "[2,(1,4),1]"}, model=weights)
    with pytest.raises(
        CheckpointError, match=r"'\[2,\(1,4\),1\]', but 2 layers are in an hourglass, 1 before it and 1 af"
    ):
        read(path)
    options = OPTIONS | {"hourglass_transformer": "[1,(2,4),1]", "hourglass_resample": "attention"}
    path = save(tmp_path / "y.pt", args=options, model=weights)
    with pytest.raises(CheckpointError, match=r"hourglass_resample = 'attention': expected one of 'naive', 'linear'"):
        read(path)


def test_an_hourglass_without_layers_before_it_loads(tmp_path):
    model = pretraining_model("base hourglass", labels=(), hourglass="[0,(3,4),1]")
    weights = {}
    for name, tensor in naming.to_fairseq(model.state_dict(), model.wav2vec2.config).items():
        name = name.replace("encoder.layers.3.", "encoder.post_layers.0.")
        weights[name.replace("encoder.layers.", "encoder.hourglass_layers.")] = tensor
    path = save(tmp_path / "x.pt", args=OPTIONS | {"hourglass_transformer": "[0,(3,4),1]"}, model=weights)
    same_output(path, model)


def test_options_that_refer_to_others_do_not_hide_them(tmp_path):
    model = pretraining_model(labels=())
    cfg = {"task": {"normalize": False}, "model": OPTIONS | {"normalize": "${task.normalize}", "w2v_args": None}}
    path = save(tmp_path / "x.pt", cfg=cfg, args=None, model=fairseq_weights(model))
    assert options_of(load_foreign(path)) == OPTIONS
    same_output(path, model)


@pytest.mark.parametrize("state", [{"args": [1]}, {"cfg": "x"}, {"cfg": {"model": [1], "task": 5}}])
def test_options_of_another_kind_are_as_good_as_none(state):
    assert options_of(state) == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": 10**9}, "does not fit its description: wav2vec2.encoder.layers.4.fc1.weight is missing, expected"),
        ({"ffn_dim": 10**18}, "does not fit its description: wav2vec2.encoder.layers.0.fc1.weight is (64, 32), expec"),
        ({"codebook_size": 10**15}, "does not fit its description: quantizer.codes_GVE is (2, 12, 8), expected (2, "),
    ],
)
def test_a_description_that_asks_for_more_than_there_is_allocates_nothing(changes, message, tmp_path):
    model = pretraining_model(labels=())
    described = {"model": config.to_dict(model.wav2vec2.config) | changes}
    path = save(tmp_path / "x.pt", format=FORMAT, config=described, weights=model.state_dict())
    with pytest.raises(CheckpointError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: {message}")


def test_a_dictionary_that_cannot_be_read_is_told(tmp_path):
    weights = fairseq_weights(ctc_model(), naming.CTC_BACKBONE)
    (tmp_path / "dict.ltr.txt").write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match=r"dict\.ltr\.txt: cannot be read as a dictionary: "):
        read(save(tmp_path / "x.pt", args=OPTIONS, model=weights))
    with pytest.raises(CheckpointError, match=r"x\.pt: output_labels:1: found 'a b c'; expected a symbol and how of"):
        read(save(tmp_path / "x.pt", args=OPTIONS, model=weights, output_labels="a b c"))


def test_labels_that_do_not_fit_are_told(tmp_path):
    weights = fairseq_weights(ctc_model(), naming.CTC_BACKBONE)
    path = save(tmp_path / "x.pt", args=OPTIONS, model=weights, output_labels="| 1\n")
    with pytest.raises(CheckpointError, match=r"x\.pt: writes 10 labels, and its dictionary has 5$"):
        read(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[(1,2,3)]*1000000000",
        "[(1,2,3)]*100*100*100*100*100*100",
        "[" + "-" * 900 + "1]",
        "[(" * 499,
        "[(1,2)]",
        "[(1,2,'3')]",
        "[(1,2,True)]",
        "[1]",
        "f()",
        "(" * 500,
        "[0]+" * 400,
    ],
)
def test_layers_of_the_extractor_are_parsed_and_never_evaluated(text):
    with pytest.raises(ValueError, match=r"^conv_feature_layers = .*: expected lists of \(channels, kernel, stride\)$"):
        parse_conv_layers(text)
    assert parse_conv_layers(PUBLISHED_LAYERS) == ctc_model().wav2vec2.config.conv_layers


@pytest.mark.parametrize("kind", ["base hourglass", "large"])
def test_our_own_checkpoints_load(kind, tmp_path):
    for model in (pretraining_model(kind), ctc_model(kind)):
        described = {"model": config.to_dict(model.wav2vec2.config)}
        state = {"format": FORMAT, "config": described, "weights": model.state_dict()}
        checkpoint.save(tmp_path / "x.pt", state)
        same_output(tmp_path / "x.pt", model)


def test_labels_that_are_named_are_those_of_our_own_checkpoints_too(tmp_path):
    model = ctc_model()
    described = {"model": config.to_dict(model.wav2vec2.config)}
    path = save(tmp_path / "own.pt", format=FORMAT, config=described, weights=model.state_dict())
    assert read(path).config.labels == LABELS
    assert read(path, labels=tuple("0123456789")).config.labels == tuple("0123456789")


def test_fine_tuning_starts_from_the_pre_trained_network_and_a_new_head(tmp_path):
    pretrained = pretraining_model(labels=())
    path = save(tmp_path / "x.pt", args=OPTIONS, model=fairseq_weights(pretrained))
    model = for_finetuning(path, LABELS, blank=1)
    assert model.wav2vec2.config == small_config(blank=1)
    ours, theirs = model.wav2vec2.state_dict(), pretrained.wav2vec2.state_dict()
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())
    assert model.head.weight.shape == (len(LABELS), 32)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_weights_that_do_not_fit_their_description_are_told(tmp_path):
    imported = read(save(tmp_path / "x.pt", args=OPTIONS, model=fairseq_weights(pretraining_model(labels=()))))
    del imported.weights["wav2vec2.norm.bias"]
    with pytest.raises(CheckpointError, match=r'^x\.pt: does not fit its configuration: .*"wav2vec2\.norm\.bias"'):
        build(imported, Path("x.pt"))


def test_a_model_without_a_head_has_no_logits_and_audio_must_fit(tmp_path):
    path = save(tmp_path / "x.pt", args=OPTIONS, model=fairseq_weights(pretraining_model(labels=())))
    model = wav2vec2.load(path, device="cpu")
    audio_BN, samples_B = audio_batch()
    with pytest.raises(
        CheckpointError, match=r"^the model is pre-trained only and has no CTC head: fine-tune it first$"
    ):
        model.logits(audio_BN, samples_B)
    with pytest.raises(AudioError, match=r"^an utterance has 399 samples; the model needs 400 for its first frame$"):
        model.encode(audio_BN, torch.tensor([16000, 399, 400]))
    for wrong in (samples_B[:2], samples_B + 1):
        with pytest.raises(
            AudioError, match=r"^audio of shape \(3, 16000\) with .* samples: expected \[B, N\] and B n"
        ):
            model.encode(audio_BN, wrong)
    with pytest.raises(AudioError, match=r"^audio of torch\.int64: expected floating-point samples from -1 to 1$"):
        model.encode(audio_BN.long(), samples_B)
    damaged_BN = audio_BN.clone()
    damaged_BN[1, 100], damaged_BN[1, -1] = torch.nan, torch.inf
    with pytest.raises(AudioError, match=r"^utterance 1 of the batch has samples that are not finite$"):
        model.encode(damaged_BN, samples_B)
    damaged_BN[1, 100] = 0.0  # what is left lies in the padding
    assert model.encode(damaged_BN, samples_B).x_BSC.isfinite().all()
    with pytest.raises(ValueError, match=r"^layers = 5: expected 0 to 4, or None for the whole model$"):
        model.encode(audio_BN, samples_B, layers=5)
    assert model.encode(audio_BN, samples_B, layers=2).x_BSC.shape == (3, 49, 32)


def test_the_package_offers_what_it_says_and_nothing_else():
    with pytest.raises(AttributeError, match=r"^module 'wav2vec2' has no attribute 'lod'; it has Recognizer, load$"):
        wav2vec2.lod  # noqa: B018

"""Against `transformers`, which is slow to import; nothing else of these tests imports it."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from common.config import ConfigError
from common.lengths import inside
from common.runs.checkpoint import CheckpointError
from tests.wav2vec2.small import LABELS, audio_batch, ctc_model, lively, pretraining_model
from wav2vec2.checkpoints import huggingface, naming
from wav2vec2.checkpoints.loading import load_model
from wav2vec2.checkpoints.reading import read
from wav2vec2.contrastive.masking import MaskConfig, draw_targets
from wav2vec2.contrastive.objective import ObjectiveConfig
from wav2vec2.contrastive.quantizer import gumbel_noise
from wav2vec2.network.config import ModelConfig
from wav2vec2.network.extractor import n_frames
from wav2vec2.network.model import Wav2Vec2, normalized

transformers = pytest.importorskip("transformers")
NOTHING_RANDOM = {"mask_time_prob": 0.0, "layerdrop": 0.0, "feat_quantizer_dropout": 0.0}
NOTHING_RANDOM |= dict.fromkeys(("hidden_dropout", "attention_dropout", "activation_dropout", "feat_proj_dropout"), 0.0)


def exported(folder: Path, model: torch.nn.Module, cls: type, **options: Any) -> torch.nn.Module:
    huggingface.export(folder, model.state_dict(), model.wav2vec2.config)
    theirs, about = cls.from_pretrained(folder, output_loading_info=True, **(NOTHING_RANDOM | options))
    assert not any(about[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return theirs.eval()


# transformers adds 1e-7 to the variance of the audio, Fairseq and this repository 1e-5: both sides get the latter here.
def test_padded_batches_of_a_large_model_are_those_of_transformers(tmp_path):
    model = ctc_model("large")
    theirs = exported(tmp_path, model, transformers.Wav2Vec2ForCTC, mask_time_prob=0.1)
    audio_BN, samples_B = audio_batch()
    is_heard_BN = inside(samples_B, audio_BN.shape[1]).long()
    expected = theirs(normalized(audio_BN, samples_B, 1e-5), attention_mask=is_heard_BN).logits
    logits_BSV, frames_B = model(audio_BN, samples_B)
    for mine, other, frames in zip(logits_BSV, expected, frames_B, strict=True):
        torch.testing.assert_close(mine[:frames], other[:frames], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["base", "large"])
@pytest.mark.parametrize("has_head", [False, True])
def test_a_round_trip_through_a_folder_changes_nothing(kind, has_head, tmp_path):
    model = ctc_model(kind) if has_head else pretraining_model(kind, labels=())
    huggingface.export(tmp_path / "ours", model.state_dict(), model.wav2vec2.config)
    cls = transformers.Wav2Vec2ForCTC if has_head else transformers.Wav2Vec2ForPreTraining
    theirs = cls.from_pretrained(tmp_path / "ours", mask_time_prob=0.1)
    theirs.save_pretrained(tmp_path / "theirs")  # leaves out what it takes for granted
    for name in ("preprocessor_config.json", "vocab.json"):
        if (tmp_path / "ours" / name).exists():
            (tmp_path / "theirs" / name).write_text((tmp_path / "ours" / name).read_text())
    for folder in ("ours", "theirs"):
        found = load_model(tmp_path / folder)
        weights = found.state_dict()
        assert weights.keys() == model.state_dict().keys()
        assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
        renamed = ("<pad>", "<s>", *LABELS[2:])  # the blank is <pad> there
        assert read(tmp_path / folder).config.labels == (renamed if has_head else ())


def test_a_bare_model_and_a_pickled_one_load(tmp_path):
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    shape |= {"conv_dim": (16,) * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
    theirs = transformers.Wav2Vec2Model(transformers.Wav2Vec2Config(**shape, **NOTHING_RANDOM)).eval()
    audio_BN, _ = audio_batch((8000,))
    theirs.save_pretrained(tmp_path / "safe")
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled" / "config.json").write_text((tmp_path / "safe" / "config.json").read_text())
    old_names = {
        name.replace("parametrizations.weight.original0", "weight_g").replace(
            "parametrizations.weight.original1", "weight_v"
        ): t
        for name, t in theirs.state_dict().items()
    }
    torch.save(old_names, tmp_path / "pickled" / "pytorch_model.bin")
    for folder in ("safe", "pickled"):
        model = load_model(tmp_path / folder).eval()
        assert isinstance(model, Wav2Vec2)
        torch.testing.assert_close(model(audio_BN).x_BSD, theirs(audio_BN).last_hidden_state, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["base", "large"])
def test_the_loss_of_pretraining_and_its_gradients_are_those_of_transformers(kind, tmp_path, monkeypatch):
    model = pretraining_model(kind, labels=(), normalize_audio=False).train()
    theirs = exported(tmp_path, model, transformers.Wav2Vec2ForPreTraining, mask_time_prob=0.1).train()
    theirs.set_gumbel_temperature(1.5)
    audio_BN, _ = audio_batch((16000, 16000, 16000))
    frames = n_frames(16000, model.wav2vec2.config.conv_layers)
    targets = draw_targets([frames] * 3, MaskConfig(time_length=4), distractors=9, seed=0)
    noise_BSGV = gumbel_noise(torch.empty(3, frames, 2, 12))

    def gumbel_softmax(logits: torch.Tensor, *, tau: float, hard: bool) -> torch.Tensor:
        soft = ((logits + noise_BSGV.view_as(logits)) / tau).softmax(-1)
        return torch.nn.functional.one_hot(soft.argmax(-1), soft.shape[-1]) + (soft - soft.detach())

    monkeypatch.setattr(torch.nn.functional, "gumbel_softmax", gumbel_softmax)
    found = model(
        audio_BN, None, [targets], objective=ObjectiveConfig(penalty=0.0), temperature=1.5,
        noise_QGV=noise_BSGV[targets.mask_BS],
    )  # fmt: skip
    negatives_BSK = torch.zeros(3, frames, 9, dtype=torch.long)
    for b, (positions_M, distractors_MK) in enumerate(zip(targets.positions_BM, targets.distractors_BMK, strict=True)):
        negatives_BSK[b, positions_M] = b * frames + positions_M[distractors_MK]
    expected = theirs(audio_BN, mask_time_indices=targets.mask_BS, sampled_negative_indices=negatives_BSK)
    assert found.total.item() == pytest.approx(expected.loss.item(), rel=1e-5)
    assert found.contrastive.item() == pytest.approx(expected.contrastive_loss.item(), rel=1e-5)
    assert found.diversity.item() == pytest.approx(expected.diversity_loss.item(), rel=1e-5)
    (found.total / found.frames).backward()
    (expected.loss / found.frames).backward()
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    mine = {name: parameter.grad for name, parameter in model.named_parameters()}
    for name, gradient in naming.to_huggingface(mine, model.wav2vec2.config).items():
        assert (gradient - gradients[name]).norm() <= 1e-4 * gradients[name].norm() + 1e-6, name


@pytest.mark.parametrize("name", ["base", "large"])
def test_the_published_shapes_give_what_transformers_gives(name, tmp_path):
    large = {"conv_bias": True, "extractor_norm": "layer", "layers": 24, "dim": 1024, "ffn_dim": 4096, "heads": 16}
    config = ModelConfig(**(large | {"pre_norm": True, "final_dim": 768} if name == "large" else {}))
    model = SimpleNamespace(wav2vec2=lively(Wav2Vec2(config)).eval())
    model.state_dict = lambda: {f"wav2vec2.{k}": v for k, v in model.wav2vec2.state_dict().items()}
    theirs = exported(tmp_path, model, transformers.Wav2Vec2Model, mask_time_prob=0.1)
    audio_BN, _ = audio_batch((24000,))
    with torch.inference_mode():
        found, expected = model.wav2vec2(audio_BN).x_BSD, theirs(audio_BN).last_hidden_state
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_an_hourglass_cannot_be_exported(tmp_path):
    model = ctc_model("base hourglass")
    with pytest.raises(ConfigError, match=r"^transformers has no Hourglass Transformer: this model cannot be exported"):
        huggingface.export(tmp_path, model.state_dict(), model.wav2vec2.config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bert"}, "config.json says model_type 'bert'; known are wav2vec2, "),
        (
            {"hidden_act": "prelu"},
            "config.json describes no model that is known: activation = 'prelu': expected one of",
        ),
        ({"add_adapter": True}, "config.json has add_adapter = True; only False is known"),
        (
            {"layer_norm_eps": 0.0},
            "config.json describes no model that is known: ModelConfig: norm_epsilon = 0.0: expe",
        ),
        (
            {"num_attention_heads": 5},
            "config.json describes no model that is known: ModelConfig: heads = 5 does not divide dim = 32",
        ),
        ({"hidden_size": 32.0}, "config.json describes no model that is known: dim = 32.0: expected int, found float"),
        (
            {"feat_extract_norm": "batch"},
            "config.json describes no model that is known: extractor_norm = 'batch': expec",
        ),
        ({"hidden_size": 10**12}, "does not fit its description: wav2vec2.projection.weight is (32, 24), expected ("),
        ({"num_hidden_layers": 10**9}, "does not fit its description: wav2vec2.encoder.layers.4.fc1.weight is missing"),
        ({"conv_dim": [1]}, "config.json describes no model that is known: zip()"),
    ],
)
def test_a_folder_that_describes_another_model_is_told(changes, message, tmp_path):
    model = ctc_model()
    huggingface.export(tmp_path, model.state_dict(), model.wav2vec2.config)
    described = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(described | changes))
    with pytest.raises(CheckpointError) as error:
        read(tmp_path)
    assert str(error.value).startswith(f"{tmp_path}: {message}")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.json", '{"a": 10}', ": vocab.json numbers 'a' 10; the head writes 0 to 9"),
        ("added_tokens.json", '{"a": 10}', ": vocab.json numbers 'a' 10; the head writes 0 to 9"),
        ("preprocessor_config.json", '{"sampling_rate": 8000}', ": takes audio at 8000 Hz; only 16000 is known"),
    ],
)
def test_a_file_of_a_folder_that_does_not_fit_is_told(name, content, message, tmp_path):
    model = ctc_model()
    huggingface.export(tmp_path, model.state_dict(), model.wav2vec2.config)
    (tmp_path / name).write_text(content)
    with pytest.raises(CheckpointError) as error:
        read(tmp_path)
    assert str(error.value).startswith(f"{tmp_path}{message}")


def test_nothing_in_a_description_is_as_good_as_no_key(tmp_path):
    model = ctc_model()
    huggingface.export(tmp_path, model.state_dict(), model.wav2vec2.config)
    described = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(described | {"pad_token_id": None, "do_stable_layer_norm": None}))
    found = read(tmp_path).config
    assert found == replace(model.wav2vec2.config, code_dim=16, audio_epsilon=1e-7, labels=found.labels)


@pytest.mark.parametrize("kind", ["base", "large"])
def test_what_a_processor_of_transformers_says_of_audio_and_labels_is_heard(kind, tmp_path):
    """Its tokenizer adds <s> and </s>, which a head may write or not; audio is normalised whatever the architecture."""
    labels = ("_", "a", "b", "[UNK]", "[PAD]", "<s>", "</s>")
    (tmp_path / "vocab").mkdir()
    (tmp_path / "vocab" / "vocab.json").write_text(json.dumps({label: i for i, label in enumerate(labels[:5])}))
    options = {"unk_token": "[UNK]", "pad_token": "[PAD]", "word_delimiter_token": "_"}
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(tmp_path / "vocab" / "vocab.json"), **options)
    extractor = transformers.Wav2Vec2FeatureExtractor(do_normalize=kind == "base")
    processor = transformers.Wav2Vec2Processor(feature_extractor=extractor, tokenizer=tokenizer)
    assert len(tokenizer) == 7
    for n_labels in (7, 5):
        model, folder = ctc_model(kind, labels=labels[:n_labels], blank=4), tmp_path / str(n_labels)
        huggingface.export(folder, model.state_dict(), model.wav2vec2.config)
        (folder / "preprocessor_config.json").unlink()
        processor.save_pretrained(folder)
        found = read(folder).config
        assert found.normalize_audio == (kind == "base")
        assert found.labels == ("|", *labels[1:n_labels])
        assert found.blank == 4


def test_a_space_that_ends_words_is_kept(tmp_path):
    model = ctc_model(labels=("[PAD]", " ", *"abcdefgh"))
    huggingface.export(tmp_path, model.state_dict(), model.wav2vec2.config)
    (tmp_path / "tokenizer_config.json").write_text('{"word_delimiter_token": " "}')
    assert read(tmp_path).config.labels == model.wav2vec2.config.labels


def test_audio_is_normalised_where_transformers_takes_it_for_granted(tmp_path):
    model = ctc_model()
    huggingface.export(tmp_path, model.state_dict(), model.wav2vec2.config)
    assert not read(tmp_path).config.normalize_audio
    (tmp_path / "preprocessor_config.json").write_text("{}")
    assert transformers.Wav2Vec2FeatureExtractor.from_pretrained(tmp_path).do_normalize
    assert read(tmp_path).config.normalize_audio
    (tmp_path / "preprocessor_config.json").unlink()
    assert not read(tmp_path).config.normalize_audio


@pytest.mark.parametrize("blank", [0, 1])
def test_transformers_decodes_with_the_blank_and_the_word_ends_of_an_export(blank, tmp_path):
    model = ctc_model(blank=blank)
    huggingface.export(tmp_path, model.state_dict(), model.wav2vec2.config)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert len(tokenizer) == len(LABELS)
    spelled = [6, blank, 6, 5, 5, 4, blank, 8, 8, 9]
    assert tokenizer.decode(spelled) == "TTE ON"


def test_labels_that_a_folder_does_not_name_are_numbered(tmp_path):
    model = ctc_model()
    huggingface.export(tmp_path, model.state_dict(), model.wav2vec2.config)
    (tmp_path / "vocab.json").unlink()
    assert read(tmp_path).config.labels[:2] == ("<0>", "<1>")

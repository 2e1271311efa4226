"""transformers' models of this kind, both ways: its folders are read here, and ours there, with the same outputs."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from common.runs.checkpoint import CheckpointError
from tests.wav2vec2.small import audio_batch, lively
from wav2vec2.checkpoints import huggingface
from wav2vec2.checkpoints.loading import for_finetuning, load_model
from wav2vec2.checkpoints.reading import read
from wav2vec2.network.model import Wav2Vec2ForCTC
from wav2vec2.recognizer import load

transformers = pytest.importorskip("transformers")
SHAPE: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 10,
    "conv_dim": (16,) * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "layerdrop": 0.0,
}  # fmt: skip
LARGE = {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True}
DATA2VEC = {"num_conv_pos_embeddings": 3, "conv_pos_kernel_size": 7}
FAR = {"num_buckets": 32, "max_bucket_distance": 20}
CODES = {"num_codevectors_per_group": 8, "codevector_dim": 16, "proj_codevector_dim": 16}
VARIANTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "base": ("Wav2Vec2", "ForCTC", {}),
    "large": ("Wav2Vec2", "ForCTC", LARGE),
    "layer norm in the extractor alone": ("Wav2Vec2", "ForCTC", {"feat_extract_norm": "layer"}),
    "pre-norm alone": ("Wav2Vec2", "ForCTC", {"do_stable_layer_norm": True}),
    "bias in the extractor": ("Wav2Vec2", "ForCTC", {"conv_bias": True}),
    "layer norm without bias": ("Wav2Vec2", "ForCTC", LARGE | {"conv_bias": False}),
    "pad last, as XLSR": ("Wav2Vec2", "ForCTC", LARGE | {"pad_token_id": 9}),
    "pad last, base": ("Wav2Vec2", "ForCTC", {"pad_token_id": 9}),
    "odd positions": ("Wav2Vec2", "ForCTC", {"num_conv_pos_embeddings": 15}),
    "one group of positions": ("Wav2Vec2", "ForCTC", {"num_conv_pos_embedding_groups": 1}),
    "one head": ("Wav2Vec2", "ForCTC", {"num_attention_heads": 1}),
    "an extractor of three layers": (
        "Wav2Vec2",
        "ForCTC",
        {"conv_dim": (16, 24, 8), "conv_kernel": (20, 8, 4), "conv_stride": (10, 8, 4), "num_feat_extract_layers": 3},
    ),
    "adapters, as MMS": ("Wav2Vec2", "ForCTC", LARGE | {"adapter_attn_dim": 6}),
    "pre-trained base": ("Wav2Vec2", "ForPreTraining", CODES),
    "pre-trained large": ("Wav2Vec2", "ForPreTraining", LARGE | CODES),
    "bare base": ("Wav2Vec2", "Model", {}),
    "bare large": ("Wav2Vec2", "Model", LARGE),
    "HuBERT base": ("Hubert", "ForCTC", {}),
    "HuBERT large": ("Hubert", "ForCTC", LARGE),
    "HuBERT bare": ("Hubert", "Model", {}),
    "HuBERT without feature norm, as DistilHuBERT": ("Hubert", "ForCTC", {"feat_proj_layer_norm": False}),
    "data2vec": ("Data2VecAudio", "ForCTC", DATA2VEC),
    "data2vec bare": ("Data2VecAudio", "Model", DATA2VEC),
    "data2vec of five layers of 19": ("Data2VecAudio", "ForCTC", {"num_conv_pos_embeddings": 5}),
    "data2vec with an even kernel": ("Data2VecAudio", "ForCTC", DATA2VEC | {"conv_pos_kernel_size": 8}),
    "WavLM base": ("WavLM", "ForCTC", {}),
    "WavLM base plus, bare": ("WavLM", "Model", {}),
    "WavLM large": ("WavLM", "ForCTC", LARGE),
    "WavLM of few buckets": ("WavLM", "ForCTC", FAR),
    "WavLM large, bare": ("WavLM", "Model", LARGE | FAR),
}
assert len(VARIANTS) >= 25


def model_of(family: str, task: str, changes: dict[str, Any]) -> torch.nn.Module:
    config = getattr(transformers, f"{family}Config")(**(SHAPE | changes))
    torch.manual_seed(0)
    return lively(getattr(transformers, f"{family}{task}")(config)).eval()


def saved(folder: Path, theirs: torch.nn.Module, *, normalizes: bool) -> Path:
    theirs.save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor(do_normalize=normalizes).save_pretrained(folder)
    return folder


def output(model: torch.nn.Module, folder: Path, audio_N: torch.Tensor) -> torch.Tensor:
    """What the folder's processor and model give."""
    extractor = transformers.AutoFeatureExtractor.from_pretrained(folder)
    inputs = extractor(audio_N.numpy(), sampling_rate=16000, return_tensors="pt").input_values
    with torch.inference_mode():
        found = model.wav2vec2(inputs) if hasattr(model, "project_hid") else model(inputs)
    return found.logits[0] if "logits" in found else found.last_hidden_state[0]


def ours(model: torch.nn.Module, audio_N: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        if isinstance(model, Wav2Vec2ForCTC):
            return model(audio_N[None]).logits_BSV[0]
        return getattr(model, "wav2vec2", model)(audio_N[None]).x_BSD[0]


@pytest.mark.parametrize("normalizes", [False, True])
@pytest.mark.parametrize("name", VARIANTS)
def test_variants_of_transformers_give_the_same_outputs_both_ways(name, normalizes, tmp_path):
    family, task, changes = VARIANTS[name]
    theirs = model_of(family, task, changes)
    folder = saved(tmp_path / "theirs", theirs, normalizes=normalizes)
    model = load_model(folder).eval()
    network = model if task == "Model" else model.wav2vec2
    prefix = "wav2vec2." if task == "Model" else ""
    weights = {f"{prefix}{name}": tensor for name, tensor in model.state_dict().items()}
    huggingface.export(tmp_path / "ours", weights, network.config)
    auto = {"ForCTC": "AutoModelForCTC", "ForPreTraining": "AutoModelForPreTraining", "Model": "AutoModel"}[task]
    back, about = getattr(transformers, auto).from_pretrained(
        tmp_path / "ours", output_loading_info=True, layerdrop=0.0
    )
    assert not any(about[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), about
    audio_BN, _ = audio_batch((6000,))
    for rms in (0.1, 0.01, 0.001):
        audio_N = audio_BN[0] / audio_BN[0].square().mean().sqrt() * rms
        expected, found = output(theirs, folder, audio_N), ours(model, audio_N)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(output(back.eval(), tmp_path / "ours", audio_N), expected, atol=1e-5, rtol=1e-5)


def drawn(seed: int) -> tuple[str, dict[str, Any]]:
    """A family and a configuration of it, with any of the settings that transformers takes."""
    draw = random.Random(seed)
    family, n_convs, heads = draw.choice(["Wav2Vec2", "Hubert", "Data2VecAudio", "WavLM"]), draw.randint(2, 5), 2
    activations = ["gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "quick_gelu", "relu", "silu", "swish", "mish"]
    strides = [draw.randint(1, 4) for _ in range(n_convs)]
    changes: dict[str, Any] = {
        "hidden_size": 8 * draw.randint(2, 6), "num_hidden_layers": draw.randint(1, 4), "num_attention_heads": heads,
        "intermediate_size": draw.randint(5, 60), "num_conv_pos_embedding_groups": draw.choice([1, 2, 4, 8]),
        "num_conv_pos_embeddings": draw.randint(2, 30), "feat_extract_norm": draw.choice(["group", "layer"]),
        "conv_dim": [draw.randint(4, 20) for _ in strides], "conv_stride": strides,
        "conv_kernel": [stride + draw.randint(0, 8) for stride in strides], "num_feat_extract_layers": n_convs,
        "do_stable_layer_norm": draw.random() < 0.5, "conv_bias": draw.random() < 0.5,
        "hidden_act": draw.choice([*activations, "leaky_relu", "relu6", "sigmoid", "tanh", "linear", "gelu_python"]),
        "feat_extract_activation": draw.choice(activations), "layer_norm_eps": draw.choice([1e-12, 1e-6, 1e-5, 1e-2]),
        "use_weighted_layer_sum": draw.random() < 0.2,
    }  # fmt: skip
    if family in ("Wav2Vec2", "Hubert"):
        changes |= {"adapter_attn_dim": draw.choice([None, 3])}
    if family == "Hubert":
        changes |= {"feat_proj_layer_norm": draw.random() < 0.5}
    if family == "Data2VecAudio":
        changes |= {"num_conv_pos_embeddings": draw.randint(1, 4), "conv_pos_kernel_size": draw.randint(2, 9)}
    if family == "WavLM":
        changes |= {"num_buckets": draw.randint(4, 340), "max_bucket_distance": draw.randint(2, 900)}
    return family, changes


@pytest.mark.parametrize("seed", range(40))
def test_whatever_configuration_transformers_runs_gives_the_same_outputs_both_ways(seed, tmp_path):
    check_both_ways(*drawn(seed), tmp_path)


def test_wavlm_of_more_buckets_than_its_distance_needs_gives_the_same_outputs(tmp_path):
    check_both_ways("WavLM", {"num_buckets": 320, "max_bucket_distance": 64}, tmp_path)


def check_both_ways(family: str, changes: dict[str, Any], folder: Path) -> None:
    theirs = model_of(family, "ForCTC", changes)
    model = load_model(saved(folder / "theirs", theirs, normalizes=True)).eval()
    huggingface.export(folder / "ours", model.state_dict(), model.wav2vec2.config)
    back = transformers.AutoModelForCTC.from_pretrained(folder / "ours", layerdrop=0.0).eval()
    config = model.wav2vec2.config
    audio_BN, _ = audio_batch((config.shortest_audio + 60 * config.samples_per_frame,))
    try:
        expected = output(theirs, folder / "theirs", audio_BN[0])
    except IndexError:  # a distance that is too small for the buckets: transformers fails from some length on
        assert config.relative_distance <= config.relative_buckets // 4
        audio_BN = audio_BN[:, : config.shortest_audio]
        expected = output(theirs, folder / "theirs", audio_BN[0])
    scale = max(1.0, float(expected.abs().max()))
    for found in (ours(model, audio_BN[0]), output(back, folder / "ours", audio_BN[0])):
        torch.testing.assert_close(found, expected, atol=2e-5 * scale, rtol=2e-5)


@pytest.mark.parametrize("name", ["data2vec", "WavLM base", "WavLM large", "adapters, as MMS"])
def test_an_utterance_gives_the_same_alone_and_in_a_padded_batch(name, tmp_path):
    model = load_model(saved(tmp_path, model_of(*VARIANTS[name]), normalizes=True)).eval()
    audio_BN, samples_B = audio_batch((6000, 4000, 2500), padding=float("nan"))
    logits_BSV, frames_B = model(audio_BN, samples_B)
    for row, (samples, frames) in enumerate(zip(samples_B, frames_B, strict=True)):
        alone = model(audio_BN[row : row + 1, :samples]).logits_BSV[0]
        torch.testing.assert_close(logits_BSV[row, :frames], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["pad last, as XLSR", "HuBERT base", "data2vec", "WavLM base"])
def test_any_of_them_is_fine_tuned_to_other_labels(name, tmp_path):
    folder = saved(tmp_path, model_of(*VARIANTS[name]), normalizes=True)
    labels = ("<s>", "<pad>", "</s>", "<unk>", *"|äöü")
    model = for_finetuning(folder, labels).train()
    audio_BN, samples_B = audio_batch((6000, 4000))
    logits_BSV = model(audio_BN, samples_B).logits_BSV
    assert logits_BSV.shape[2] == 8
    logits_BSV.square().mean().backward()
    without = [name for name, p in model.named_parameters() if p.grad is None and "mask_embedding" not in name]
    assert without == []


def vocabulary(folder: Path, tokens: Any, **tokenizer: Any) -> Path:
    (folder / "vocab.json").write_text(json.dumps(tokens))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("base"), model_of(*VARIANTS["base"]), normalizes=False)


SPECIAL = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3}


@pytest.mark.parametrize(
    ("tokens", "tokenizer"),
    [
        (SPECIAL | {"|": 4, "E": 5, "T": 6, "A": 7, "O": 8, "N": 9}, {}),
        (SPECIAL | {"|": 4, "E": 5, "T": 6, "A": 8, "N": 9}, {}),  # 7 is a hole
        (SPECIAL | {"|": 4, "E": 5, "T": 6, "A": 7, "O": 8, "N": 9}, {"do_lower_case": True}),
        (
            {"[PAD]": 9, "[UNK]": 8, "_": 0, **{letter: i + 1 for i, letter in enumerate("abcdefg")}},
            {
                "pad_token": "[PAD]",
                "unk_token": "[UNK]",
                "word_delimiter_token": {"content": "_", "__type": "AddedToken"},
            },
        ),
        (SPECIAL | {"|": 4, "E": 5, "T": 6, "A": 7, "O": 8, "N": 9, "é": 9}, {}),  # one number twice: the last counts
    ],
)
def test_labels_are_decoded_as_the_tokenizer_does(tokens, tokenizer, base):
    folder = vocabulary(base, tokens, **tokenizer)
    w = load(folder, device="cpu")
    special = {"unk_token": "<unk>", "pad_token": "<pad>"} | {
        key: value["content"] if isinstance(value, dict) else value for key, value in tokenizer.items()
    }
    theirs = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"), **special)
    assert w.config.blank == theirs.pad_token_id
    random = torch.Generator().manual_seed(0)
    log_probs_SV = torch.randn(60, 10, generator=random).log_softmax(1)
    log_probs_SV[:, [i for i, label in enumerate(w.config.labels) if label[0] + label[-1] in ("<>", "[]")]] -= 20
    log_probs_SV[:, w.config.blank] += 20
    (reading,) = w.decoder()(log_probs_SV)
    text = " ".join("".join(letter.text for letter in reading.letters).replace("|", " ").split())
    assert text == " ".join(theirs.decode(log_probs_SV.argmax(1)).split())


def test_the_tokenizer_s_pad_counts_more_than_that_of_the_configuration(base):
    vocabulary(base, {"a": 0, "b": 1, "|": 2, "[PAD]": 3}, pad_token={"content": "[PAD]"})
    found = read(base).config
    assert (found.blank, found.labels[:4], found.labels[9]) == (3, ("a", "b", "|", "[PAD]"), "<9>")
    vocabulary(base, {"a": 0, "b": 1, "|": 2}, pad_token=None)
    assert read(base).config.blank == 0  # of config.json
    described = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(described | {"pad_token_id": 33}))
    with pytest.raises(CheckpointError, match="blank = 33: expected the index of one of 10 labels"):
        read(base)
    (base / "config.json").write_text(json.dumps(described))


def test_a_path_to_a_file_of_a_folder_means_the_folder(base):
    vocabulary(base, SPECIAL)
    for name in ("model.safetensors", "config.json", "vocab.json"):
        assert read(base / name).config == read(base).config


def test_what_a_folder_does_not_say_is_told(tmp_path):
    folder = saved(tmp_path, model_of(*VARIANTS["base"]), normalizes=False)
    assert read(folder).assumed == ()
    (folder / "preprocessor_config.json").unlink()
    (told,) = read(folder).assumed
    assert told.endswith("no preprocessor_config.json; audio is assumed to be not normalised, as in such models")


@pytest.fixture(scope="module")
def mms(tmp_path_factory):
    """Adapters and heads of two languages, of which the weights have the first."""
    folder = tmp_path_factory.mktemp("mms")
    vocabularies = {
        "eng": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, **dict(zip("abcde", range(5, 10), strict=True))},
        "fra": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "é": 5, "a": 6},
    }
    for language, seed in (("fra", 1), ("eng", 0)):
        shape = VARIANTS["adapters, as MMS"][2] | {"vocab_size": len(vocabularies[language])}
        theirs = model_of("Wav2Vec2", "ForCTC", shape)
        lively(theirs.lm_head, seed)
        for layer in theirs.wav2vec2.encoder.layers:
            lively(layer.adapter_layer, seed)
        save_file(theirs._get_adapters(), folder / f"adapter.{language}.safetensors")
    saved(folder, theirs, normalizes=True)
    return vocabulary(folder, vocabularies, target_lang="eng")


@pytest.mark.parametrize("language", ["", "eng", "fra"])
def test_a_language_of_mms_is_chosen_by_its_adapter_and_vocabulary(language, mms):
    theirs = transformers.Wav2Vec2ForCTC.from_pretrained(
        mms, target_lang=language or "eng", ignore_mismatched_sizes=True, layerdrop=0.0
    ).eval()
    w = load(mms, device="cpu", target_lang=language)
    assert w.config.labels[4:7] == (("|", "é", "a") if language == "fra" else ("|", "a", "b"))
    audio_N = audio_batch((6000,))[0][0]
    torch.testing.assert_close(ours(w.model, audio_N), output(theirs, mms, audio_N), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("language", "message"),
    [
        ("deu", r"no adapter.deu.safetensors in it; it has adapters for eng, fra$"),
        ("../x", r"no adapter.../x.safetensors in it"),
    ],
)
def test_a_language_that_there_is_not_is_told(language, message, mms):
    with pytest.raises(CheckpointError, match=message):
        read(mms, target_lang=language)


def test_a_language_of_a_model_that_has_but_one_is_refused(base, tmp_path):
    vocabulary(base, SPECIAL)
    with pytest.raises(CheckpointError, match="has no adapters to choose language 'fra' from"):
        read(base, target_lang="fra")
    torch.save({"x": 1}, tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match="has no adapters to choose language 'fra' from"):
        read(tmp_path / "x.pt", target_lang="fra")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bert"}, r"model_type 'bert'; known are wav2vec2, hubert, data2vec-audio, wavlm$"),
        ({"model_type": "wav2vec2-conformer"}, r"model_type 'wav2vec2-conformer'; known are"),
        ({"model_type": "hubert", "conv_pos_batch_norm": True}, "conv_pos_batch_norm = True; only False is known"),
        ({"feat_extract_activation": "relu2"}, "conv_activation = 'relu2': expected one of"),
        (
            {"adapter_attn_dim": 4, "do_stable_layer_norm": True},
            "has adapter_attn_dim, and the weights have no adapters",
        ),
        (
            {"model_type": "wavlm", "num_buckets": 3},
            "relative_buckets = 3, relative_distance = 800: expected at least 4",
        ),
    ],
)
def test_what_is_refused_says_why(changes, message, base, tmp_path):
    for path in base.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    described = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(described | changes))
    with pytest.raises(CheckpointError, match=message):
        read(tmp_path)


def test_labels_beyond_the_head_and_languages_without_a_vocabulary_are_refused(base):
    vocabulary(base, SPECIAL | {"z": 10})
    with pytest.raises(CheckpointError, match="vocab.json numbers 'z' 10; the head writes 0 to 9"):
        read(base)
    vocabulary(base, {"eng": SPECIAL}, target_lang="fra")
    with pytest.raises(CheckpointError, match="vocab.json has no language 'fra'; it has eng$"):
        read(base)

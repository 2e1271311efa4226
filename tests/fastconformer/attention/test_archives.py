"""Archives of NeMo with settings that the references have not.

The arithmetic is that of transformers' Cohere ASR, whose files have NeMo's names; the tokenizers are made here.
"""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import yaml

import fastconformer
from fastconformer.attention.network import sinusoids
from tests.fastconformer.attention import references as golden
from tests.fastconformer.checkpoints import archives

transformers = pytest.importorskip("transformers")
_FIRST = "<|nospeech|> <pad> <|endoftext|> <|startoftranscript|> <|pnc|> <|nopnc|>"
SPECIAL = {
    "canary": f"{_FIRST} <|transcribe|> <|translate|> <|en|> <|es|> <|de|> <|fr|> <|spltoken0|>",
    "canary2": f"{_FIRST} <|startofcontext|> <|itn|> <|noitn|> <|timestamp|> <|notimestamp|> <|diarize|> "
    "<|nodiarize|> <|emo:undefined|> <|unklang|> <|de|> <|en|> <|fr|> <|0|> <|1|> <|2|> <|spk0|> <|spltoken0|>",
}
TEXTS = [*archives.TEXTS, "You didn't want to come?", "Wie geht es dir, und was machst du?", "2 3 5 7"]


def unigram(folder: Path, special: list[str], size: int, kind: str) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 20), model_writer=model, vocab_size=size, model_type=kind, bos_id=-1, eos_id=-1,
        user_defined_symbols=special, hard_vocab_limit=False, minloglevel=9, character_coverage=1.0,
    )  # fmt: skip
    return model.getvalue()


def network(seed: int, *, classes: int, activation: str, encoder_width: int, width: int, positions: int):
    torch.manual_seed(seed)
    encoder = {
        "model_type": "parakeet_encoder", "hidden_size": encoder_width, "num_hidden_layers": 1,
        "num_attention_heads": 4, "intermediate_size": 2 * encoder_width, "subsampling_conv_channels": 8,
        "num_mel_bins": 128, "scale_input": False,
    }  # fmt: skip
    model = transformers.CohereAsrForConditionalGeneration(
        transformers.CohereAsrConfig(
            vocab_size=classes, hidden_size=width, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40,
            hidden_act=activation, max_position_embeddings=positions, tie_word_embeddings=True, encoder_config=encoder,
        )
    ).eval()  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=1.2 * parameter[0].numel() ** -0.5)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
        model.proj_out.bias[3] += 1.0
    return model


def description(encoder: dict[str, Any], decoder: dict[str, Any], classes: int, prompt: str) -> dict[str, Any]:
    with tarfile.open(golden.path("canary2_agg")) as archive:
        file = archive.extractfile(next(m for m in archive.getmembers() if m.name.endswith("model_config.yaml")))
        assert file is not None
        said = yaml.safe_load(file)
    said["prompt_format"] = prompt
    said["encoder"] |= encoder
    said["transf_decoder"]["config_dict"] |= decoder
    said["head"] |= {"hidden_size": decoder["hidden_size"], "num_classes": classes}
    said["model_defaults"] |= {"asr_enc_hidden": encoder["d_model"], "lm_dec_hidden": decoder["hidden_size"]}
    if prompt == "canary":
        del said["prompt_defaults"]
    return said


@pytest.mark.parametrize("learned", [True, False], ids=["learned positions", "sinusoids"])
@pytest.mark.parametrize(
    ("kind", "prompt"), [("unified", "canary2"), ("aggregate", "canary2"), ("aggregate", "canary")]
)
@pytest.mark.parametrize(("activation", "width"), [("gelu", 48), ("relu", 32)])
def test_archives_with_other_settings_are_read(tmp_path, learned, kind, prompt, activation, width):
    files, special = {}, SPECIAL[prompt].split()
    if kind == "unified":
        files["0_tokenizer.model"] = unigram(tmp_path, special, 140, "bpe")
        tokenizer: dict[str, Any] = {"type": "bpe", "model_path": "nemo:0_tokenizer.model", "custom_tokenizer": {
            "_target_": "nemo.tokenizers.CanaryBPETokenizer"}}  # fmt: skip
    else:
        # In the order of the description, which is not that of the alphabet, nor of the files.
        sizes = {"spl_tokens": 0, "fr": 40, "en": 60, "de": 50}
        for i, size in enumerate(sizes.values()):
            files[f"{9 - i}_tokenizer.model"] = (
                unigram(tmp_path, special, 64, "unigram") if not size else unigram(tmp_path, [], size, "bpe")
            )
        langs = {lang: {"type": "bpe", "model_path": f"nemo:{9 - i}_tokenizer.model"} for i, lang in enumerate(sizes)}
        tokenizer = {"type": "agg", "langs": langs, "custom_tokenizer": {
            "_target_": "nemo.tokenizers.CanaryTokenizer", "tokenizers": None}}  # fmt: skip
    parts = [sentencepiece.SentencePieceProcessor(model_proto=model) for model in files.values()]
    count = sum(map(len, parts))
    classes = 8 * (count // 8 + 1)  # some that no piece has
    theirs = network(3, classes=classes, activation=activation, encoder_width=32, width=width, positions=80)
    saved = tmp_path / "saved"
    if width == 32:  # as wide as the encoder: NeMo does not project
        theirs.model.decoder.proj.weight.data = torch.eye(32)
        theirs.model.decoder.proj.bias.data.zero_()
    if not learned:
        theirs.model.decoder.pos_emb.weight.data = sinusoids(torch.arange(80), width)
    theirs.save_pretrained(saved)
    from safetensors.torch import load_file

    weights = {name.removeprefix("model."): w for name, w in load_file(saved / "model.safetensors").items()}
    table = weights.pop("transf_decoder._embedding.position_embedding.pos_enc", None)
    table = theirs.model.decoder.pos_emb.weight.detach().clone() if table is None else table
    dropped = ("position_embedding", *(["encoder_decoder_proj"] if width == 32 else []))
    for name in [name for name in weights if any(part in name for part in dropped)]:
        del weights[name]
    weights["transf_decoder._embedding.position_embedding." + ("weight" if learned else "pos_enc")] = table
    weights.setdefault("log_softmax.mlp.layer0.weight", weights["transf_decoder._embedding.token_embedding.weight"])
    said = description(
        {"d_model": 32, "n_layers": 1, "subsampling_conv_channels": 8, "ff_expansion_factor": 2},
        {"hidden_size": width, "inner_size": 40, "num_layers": 2, "num_attention_heads": 2, "hidden_act": activation,
         "max_sequence_length": 80, "learn_positional_encodings": learned},
        classes, prompt,
    )  # fmt: skip
    buffer = io.BytesIO()
    torch.save(weights, buffer)
    files["model_config.yaml"] = yaml.safe_dump(said | {"tokenizer": tokenizer}, sort_keys=False).encode()
    files["model_weights.ckpt"] = buffer.getvalue()
    asr = fastconformer.load(archives.write(tmp_path / "model.nemo", files), device="cpu")

    # Prompts and texts by the tokenizers themselves.
    number = parts[0].piece_to_id
    named = ["<|startoftranscript|>", "<|en|>", "<|translate|>", "<|de|>", "<|nopnc|>"]
    if prompt == "canary2":
        named = ["<|startofcontext|>", "<|startoftranscript|>", "<|emo:undefined|>", "<|en|>", "<|de|>", "<|nopnc|>",
                 "<|noitn|>", "<|notimestamp|>", "<|nodiarize|>"]  # fmt: skip
    assert asr.prompt("en", "de", punctuation=False) == [number(name) for name in named]
    first = 0
    text = "what did the cat do then?"
    if kind == "aggregate":
        first, text_ids = len(parts[0]) + len(parts[1]), parts[2].encode(text)
        assert set(asr.languages) == {"fr", "en", "de"}
    else:
        text_ids = parts[0].encode(text)
        assert set(asr.languages) == {"de", "en", "fr"}
    assert asr.pieces.encode(text, "en") == [first + i for i in text_ids]
    assert asr.pieces.decode([first + i for i in text_ids]).strip() == text

    features_BFT, frames_B = torch.randn(2, 128, 160), torch.tensor([160, 96])
    tokens_BL = torch.randint(0, classes, (2, 12))
    with torch.no_grad():
        expected = theirs(
            input_features=features_BFT.mT, attention_mask=torch.arange(160) < frames_B[:, None],
            decoder_input_ids=tokens_BL,
        ).logits.log_softmax(-1)  # fmt: skip
    encoded_BSC, encoded_B = asr.encode(features_BFT, frames_B)
    assert encoded_BSC.shape[-1] == width, "projected"
    ours = asr.attention_log_probs(encoded_BSC, encoded_B, tokens_BL, torch.tensor([12, 12]))
    torch.testing.assert_close(ours, expected, rtol=0, atol=2e-5)
    found = asr.decode(encoded_BSC, encoded_B, prompt=asr.prompt("en"), beam=3)
    for one, frames in zip(found, encoded_B.tolist(), strict=True):
        limit = min(80, frames + 50) - len(asr.prompt("en"))
        assert len(one.labels) <= limit
        assert not {*one.labels} & ({*range(count, classes)} | {*asr.pieces.control} - {number("<|nospeech|>")})

"""Attention decoders of others: Canary in NeMo's archives, Canary and Cohere's ASR in folders of transformers."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from common.published.nemo.archive import MOST_TOKENIZER_BYTES, Archive
from common.published.nemo.settings import NemoSettings
from common.runs.checkpoint import CheckpointError
from common.text.pieces import Pieces, read_pieces
from common.text.vocabulary import VocabularyError
from fastconformer.attention.config import AttentionConfig
from fastconformer.attention.network import sinusoids
from fastconformer.attention.pieces import SPECIALS, PromptedPieces, of_parts
from fastconformer.checkpoints.imported import Rules

COHERE_LANGUAGES = ("ar", "de", "el", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "vi", "zh")
"""Languages that Cohere's processor takes; its tokenizer has tokens for more."""
POSITIONS = "transf_decoder._embedding.position_embedding.pos_enc"
_HEAD = "log_softmax.mlp.layer0"
_NEMO_LAYER = r"transf_decoder\.(?:_decoder\.)?layers\.(\d+)\."
NEMO_RULES: Rules = (
    (r"encoder_decoder_proj\.(\w+)", r"attention.project.\1"),
    (r"transf_decoder\.(?:_embedding\.)?token_embedding\.weight", "attention.tokens.weight"),
    (r"transf_decoder\.(?:_embedding\.)?position_embedding\.(?:weight|pos_enc)", "attention.positions.weight"),
    (r"transf_decoder\.(?:_embedding\.)?layer_norm\.(\w+)", r"attention.embedding_norm.\1"),
    (_NEMO_LAYER + r"layer_norm_1\.(\w+)", r"attention.blocks.\1.text_norm.\2"),
    (_NEMO_LAYER + r"layer_norm_2\.(\w+)", r"attention.blocks.\1.sound_norm.\2"),
    (_NEMO_LAYER + r"layer_norm_3\.(\w+)", r"attention.blocks.\1.norm.\2"),
    (_NEMO_LAYER + r"first_sub_layer\.query_net\.(\w+)", r"attention.blocks.\1.text.q.\2"),
    (_NEMO_LAYER + r"first_sub_layer\.key_net\.(\w+)", r"attention.blocks.\1.text.k.\2"),
    (_NEMO_LAYER + r"first_sub_layer\.value_net\.(\w+)", r"attention.blocks.\1.text.v.\2"),
    (_NEMO_LAYER + r"first_sub_layer\.out_projection\.(\w+)", r"attention.blocks.\1.text.leave.\2"),
    (_NEMO_LAYER + r"second_sub_layer\.(query|key|value)_net\.(\w+)", r"attention.blocks.\1.sound.\2.\3"),
    (_NEMO_LAYER + r"second_sub_layer\.out_projection\.(\w+)", r"attention.blocks.\1.sound.leave.\2"),
    (_NEMO_LAYER + r"third_sub_layer\.dense_in\.(\w+)", r"attention.blocks.\1.enter.\2"),
    (_NEMO_LAYER + r"third_sub_layer\.dense_out\.(\w+)", r"attention.blocks.\1.leave.\2"),
    (r"transf_decoder\.(?:_decoder\.)?final_layer_norm\.(\w+)", r"attention.norm.\1"),
    (r"log_softmax\.mlp\.layer0\.weight", "attention.output"),
    (r"log_softmax\.mlp\.layer0\.bias", "attention.bias"),
)
_LAYER = r"decoder\.layers\.(\d+)\."
TRANSFORMERS_RULES: Rules = (
    (r"decoder\.proj\.(\w+)", r"attention.project.\1"),
    (r"decoder\.embed_tokens\.weight", "attention.tokens.weight"),
    (r"decoder\.pos_emb\.weight", "attention.positions.weight"),
    (r"decoder\.embedding_layernorm\.(\w+)", r"attention.embedding_norm.\1"),
    (_LAYER + r"input_layernorm\.(\w+)", r"attention.blocks.\1.text_norm.\2"),
    (_LAYER + r"post_attention_layernorm\.(\w+)", r"attention.blocks.\1.sound_norm.\2"),
    (_LAYER + r"final_layernorm\.(\w+)", r"attention.blocks.\1.norm.\2"),
    (_LAYER + r"self_attn\.([qkv])_proj\.(\w+)", r"attention.blocks.\1.text.\2.\3"),
    (_LAYER + r"self_attn\.o_proj\.(\w+)", r"attention.blocks.\1.text.leave.\2"),
    (_LAYER + r"encoder_attn\.q_proj\.(\w+)", r"attention.blocks.\1.sound.query.\2"),
    (_LAYER + r"encoder_attn\.k_proj\.(\w+)", r"attention.blocks.\1.sound.key.\2"),
    (_LAYER + r"encoder_attn\.v_proj\.(\w+)", r"attention.blocks.\1.sound.value.\2"),
    (_LAYER + r"encoder_attn\.o_proj\.(\w+)", r"attention.blocks.\1.sound.leave.\2"),
    (_LAYER + r"mlp\.fc1\.(\w+)", r"attention.blocks.\1.enter.\2"),
    (_LAYER + r"mlp\.fc2\.(\w+)", r"attention.blocks.\1.leave.\2"),
    (r"decoder\.norm\.(\w+)", r"attention.norm.\1"),
    (r"proj_out\.weight", "attention.output"),
    (r"proj_out\.bias", "attention.bias"),
)
ACTIVATIONS = {"relu": "relu", "gelu": "gelu"}


def of_nemo(described: Mapping[str, Any], source: str) -> AttentionConfig:
    """The decoder that an EncDecMultiTaskModel describes. Raises CheckpointError for what is not known."""
    whole = NemoSettings(described, "", source)
    prompt = whole.choice("prompt_format", None, {"canary": "canary", "canary2": "canary2"})
    if described.get("transf_encoder") is not None:
        whole.section("transf_encoder").expect("num_layers", 0)
    decoder, head = whole.section("transf_decoder"), whole.section("head")
    decoder.of_class("get_nemo_transformer")
    for key in ("model_name", "encoder"):
        decoder.expect(key, None)
    decoder.expect("pre_ln_final_layer_norm", True)
    decoder.ignore(("pretrained", "library"))
    s = decoder.section("config_dict")
    s.expect("num_token_types", 0)
    s.expect("pre_ln", True)
    # The vocabulary is that of the head: what is here is the number of before, or None in letters.
    s.ignore(("vocab_size", "attn_score_dropout", "attn_layer_dropout", "ffn_dropout"))
    head.of_class("TokenClassifier")
    head.expect("num_layers", 1)
    head.expect("log_softmax", True)
    width = s.number("hidden_size")
    head.expect("hidden_size", width)
    head.ignore(("activation", "dropout", "use_transformer_init"))  # `activation` stands between layers
    config = AttentionConfig(
        layers=s.number("num_layers", most=1000),
        width=width,
        heads=s.number("num_attention_heads"),
        inner=s.number("inner_size"),
        activation=s.choice("hidden_act", "relu", ACTIVATIONS),
        positions=s.number("max_sequence_length", 512),
        learned_positions=s.flag("learn_positional_encodings", False),
        classes=head.number("num_classes", most=2**20),
        prompt=prompt,
        language=_default_language(described),
        dropout=s.real("embedding_dropout", 0.0),
    )
    for section in (decoder, s, head):
        section.done()
    return config


def _default_language(described: Mapping[str, Any]) -> str:
    """The language that prompts have where nothing is said, if source and target are the same one."""
    for role in described.get("prompt_defaults") or []:
        if isinstance(role, Mapping) and role.get("role") == "user" and isinstance(slots := role.get("slots"), Mapping):
            found = {str(slots.get(key, "")).strip("<|>") for key in ("source_lang", "target_lang")}
            return found.pop() if len(found) == 1 else ""
    return ""


def nemo_pieces(archive: Archive, tokenizer: Any, source: str) -> PromptedPieces:
    """One tokenizer, or those of several languages in the order of the description. Raises CheckpointError."""
    if not isinstance(tokenizer, Mapping):
        raise CheckpointError(f"{source}: has no tokenizer: expected settings under tokenizer")
    custom = tokenizer.get("custom_tokenizer")
    named = str(custom.get("_target_") if isinstance(custom, Mapping) else "").rpartition(".")[2]
    kind = tokenizer.get("type", "bpe")
    known = {"agg": ("CanaryTokenizer", ""), "bpe": ("CanaryBPETokenizer", "")}
    if kind not in known:
        raise CheckpointError(f"{source}: tokenizer.type = {kind!r} is not known; expected 'agg' or 'bpe'")
    if named not in known[kind]:
        told = f"tokenizer.custom_tokenizer._target_ = {named!r} is not known"
        raise CheckpointError(f"{source}: {told}; expected {known[kind][0]!r}")
    parts = tokenizer.get("langs") if kind == "agg" else {"": tokenizer}
    if not isinstance(parts, Mapping) or not parts:
        raise CheckpointError(f"{source}: expected tokenizers of languages under tokenizer.langs")
    if kind == "agg" and SPECIALS not in parts:
        raise CheckpointError(f"{source}: tokenizer.langs has no {SPECIALS}, the tokens that prompts are made of")
    found = []
    for language, settings in parts.items():
        key = f"tokenizer.langs.{language}" if language else "tokenizer"
        name = settings.get("model_path") if isinstance(settings, Mapping) else None
        if not isinstance(name, str):
            raise CheckpointError(f"{source}: says nothing of {key}.model_path")
        if language and settings.get("type", "bpe") != "bpe":
            raise CheckpointError(f"{source}: {key}.type = {settings['type']!r} is not known; expected 'bpe'")
        name = name.removeprefix("nemo:")
        try:
            found.append((str(language), read_pieces(archive.read(name, at_most=MOST_TOKENIZER_BYTES))))
        except VocabularyError as error:
            raise CheckpointError(f"{source}: {name}: {error}") from None
    return prompted(found, source)


def prompted(parts: list[tuple[str, Pieces]], source: str, writes: tuple[str, ...] | None = None) -> PromptedPieces:
    """`of_parts`. Raises CheckpointError."""
    try:
        return of_parts(parts, writes)
    except VocabularyError as error:
        raise CheckpointError(f"{source}: its tokenizer {error}") from None


def of_transformers(s: NemoSettings, kind: str, *, tied: bool) -> AttentionConfig:
    """The decoder of a `canary` or of `cohere_asr`, whose settings these are. Raises CheckpointError."""
    width, heads = s.number("hidden_size"), s.number("num_attention_heads")
    s.expect("num_key_value_heads", heads)
    s.expect("head_dim", width // heads)
    s.expect("attention_bias", True)
    return AttentionConfig(
        layers=s.number("num_hidden_layers", most=1000),
        width=width,
        heads=heads,
        inner=s.number("intermediate_size"),
        activation=s.choice("hidden_act", "relu", ACTIVATIONS),
        positions=s.number("max_position_embeddings"),
        learned_positions=kind == "cohere_asr",  # stored, whatever they were once
        tied=tied,
        projects=kind == "cohere_asr",
        classes=s.number("vocab_size", least=2, most=2**20),
        prompt="canary2" if kind == "canary" else "cohere",
        dropout=s.real("attention_dropout", 0.0),
    )


def without_copies(weights: dict[str, Tensor], config: AttentionConfig, source: str) -> dict[str, Tensor]:
    """Weights under our names, without the output layer where it is the embedding again, and without sinusoids.

    Raises CheckpointError where they are not.
    """
    kept = dict(weights)
    output, tokens = weights.get("attention.output"), weights.get("attention.tokens.weight")
    if config.tied and output is not None:
        if tokens is None or not torch.equal(output, tokens):
            raise CheckpointError(f"{source}: {_HEAD}.weight differs from the token embedding; expected one matrix")
        del kept["attention.output"]
    positions = weights.get("attention.positions.weight")
    if not config.learned_positions and positions is not None:
        ours = sinusoids(torch.arange(config.positions), config.width)
        if positions.shape != ours.shape or not torch.allclose(positions, ours, rtol=0.0, atol=POSITION_ERROR):
            raise CheckpointError(f"{source}: {POSITIONS} is not the sinusoids that it describes")
        del kept["attention.positions.weight"]
    return kept


POSITION_ERROR = 4e-4  # of a table that was saved in bf16, whose values are 1 / sqrt(D) at most
_ROWS = re.compile(r"attention\.(embedding_norm|norm|blocks\.\d+\.(\w*norm|text\.leave|sound\.leave|leave))\.\w+")
_COLUMNS = re.compile(r"attention\.(tokens|blocks\.\d+\.(text\.qkv|sound\.query|enter))\.weight|attention\.output")


def interleaved(weights: dict[str, Tensor], width: int) -> dict[str, Tensor]:
    """Weights of transformers' `canary` in NeMo's order of channels.

    Its positions have all sines before all cosines, so its channels stand in that order: the even ones first.
    """
    order_D = torch.arange(width).view(2, -1).T.flatten()  # our channel c is their order_D[c]
    found = {}
    for name, weight in weights.items():
        if _COLUMNS.fullmatch(name):
            found[name] = weight[:, order_D]
        else:
            found[name] = weight[order_D] if _ROWS.fullmatch(name) else weight
    return found


def folder_pieces(folder: Path, classes: int, kind: str) -> PromptedPieces:
    """The pieces of a folder of transformers, `classes` at most. Raises CheckpointError."""
    for path in (folder / "tokenizer.json", folder / "tokenizer.model"):
        if path.is_file():
            try:
                pieces = read_pieces(path)
            except VocabularyError as error:
                raise CheckpointError(str(error)) from None
            if len(pieces.labels) > classes:
                told = f"{len(pieces.labels)} pieces, and vocab_size = {classes}"
                raise CheckpointError(f"{path}: {told}: expected one class for each piece")
            return prompted([("", pieces)], str(path), COHERE_LANGUAGES if kind == "cohere_asr" else None)
    raise CheckpointError(f"{folder}: has no tokenizer: expected tokenizer.json or tokenizer.model in it")

"""NVIDIA NeMo's checkpoints: FastConformer with CTC, RNN-T, TDT, hybrid and attention heads, over pieces."""

import warnings
from pathlib import Path
from typing import Any

from common.published.nemo.archive import CONFIG, MOST_TOKENIZER_BYTES, WEIGHTS, Archive, opened
from common.published.nemo.features import check_filters, features_of
from common.published.nemo.settings import NemoSettings
from common.runs.checkpoint import CheckpointError
from common.text.pieces import Pieces, read_pieces
from common.text.vocabulary import VocabularyError
from fastconformer.checkpoints import attention
from fastconformer.checkpoints.imported import LAYER, LAYERS, Rules, TrainedModel, renamed
from fastconformer.config import EncoderConfig, ModelConfig

# The classes that are known, by the last part of their path, and which heads they have.
TARGETS = {
    "EncDecCTCModelBPE": "ctc",
    "EncDecRNNTBPEModel": "transducer",
    "EncDecHybridRNNTCTCBPEModel": "hybrid",
    "EncDecMultiTaskModel": "attention",
}
ALIGNER = "timestamps_asr_model"  # in the names of the files of a CTC model that an archive holds besides
RULES: Rules = (
    *LAYERS,
    (r"preprocessor\..*", "-"),
    (r"encoder\.pos_enc\..*", "-"),  # sinusoids, computed here
    (r"encoder\.pre_encode\.out\.(\w+)", r"encoder.subsampling.project.\1"),
    (r"encoder\.pre_encode\.conv\.0\.(?:conv\.)?(\w+)", r"encoder.subsampling.first.\1"),
    (r"encoder\.pre_encode\.conv\.2\.(?:conv\.)?(\w+)", r"encoder.subsampling.depthwise.0.\1"),
    (r"encoder\.pre_encode\.conv\.3\.(\w+)", r"encoder.subsampling.pointwise.0.\1"),
    (r"encoder\.pre_encode\.conv\.5\.(?:conv\.)?(\w+)", r"encoder.subsampling.depthwise.1.\1"),
    (r"encoder\.pre_encode\.conv\.6\.(\w+)", r"encoder.subsampling.pointwise.1.\1"),
    (LAYER + r"self_attn\.pos_bias_u", r"encoder.blocks.\1.attention.content_bias_HD"),
    (LAYER + r"self_attn\.pos_bias_v", r"encoder.blocks.\1.attention.position_bias_HD"),
    (LAYER + r"self_attn\.linear_([qkv])\.(\w+)", r"encoder.blocks.\1.attention.\2.\3"),
    (LAYER + r"self_attn\.linear_pos\.weight", r"encoder.blocks.\1.attention.positions.weight"),
    (LAYER + r"self_attn\.linear_out\.(\w+)", r"encoder.blocks.\1.attention.leave.\2"),
    (LAYER + r"conv\.depthwise_conv\.(?:conv\.)?(\w+)", r"encoder.blocks.\1.convolution.depthwise.\2"),
    (LAYER + r"conv\.batch_norm\.(\w+)", r"encoder.blocks.\1.convolution.norm.\2"),
    (r"decoder\.prediction\.embed\.weight", "prediction.embedding.weight"),
    (r"decoder\.prediction\.dec_rnn\.lstm\.(\w+)", r"prediction.rnn.\1"),
    (r"joint\.enc\.(\w+)", r"joint.encoder.\1"),
    (r"joint\.pred\.(\w+)", r"joint.prediction.\1"),
    (r"joint\.joint_net\.\d\.(\w+)", r"joint.output.\1"),
    (r"(?:ctc_)?decoder\.decoder_layers\.0\.(\w+)", r"ctc.\1"),
    *attention.NEMO_RULES,
)


def read(path: Path, *, aligner: bool = False) -> TrainedModel:
    """The model in the .nemo archive at `path`. Raises CheckpointError for everything that is not known here.

    `aligner`: the CTC model that the archive of an attention decoder holds besides.
    """
    source = str(path)
    with opened(path) as archive:
        names = [archive.named(f"{ALIGNER}_{kind}") for kind in ("config.yaml", "weights.ckpt")]
        if aligner and None in names:
            raise CheckpointError(f"{source}: holds no aligner: expected {ALIGNER}_config.yaml and its weights in it")
        described = archive.config(names[0] or CONFIG) if aligner else archive.config()
        heads = _heads(described, source)
        pieces: Pieces
        if heads == "attention":
            pieces = attention.nemo_pieces(archive, described.get("tokenizer"), source)
        else:
            pieces = _pieces(archive, described, source)
        features = features_of(NemoSettings(described.get("preprocessor"), "preprocessor", source))
        encoder, lookaheads = _encoder(NemoSettings(described.get("encoder"), "encoder", source), features.mel_bins)
        model = _model(described, heads, encoder, pieces, source)
        weights = archive.weights(names[1] or WEIGHTS) if aligner else archive.weights()
    check_filters(weights, features, source)
    ours = renamed(weights, RULES, source)
    if heads == "attention":
        ours = attention.without_copies(ours, model.attention, source)
    has_aligner = heads == "attention" and None not in names
    return TrainedModel(ours, model, features, pieces, lookaheads, path if has_aligner else None)


def _heads(described: dict[str, Any], source: str) -> str:
    target = str(described.get("target", "")).rpartition(".")[2]
    if target not in TARGETS:
        found = f"is a {target} of NeMo" if target else "its description names no target"
        raise CheckpointError(f"{source}: {found}; known are {', '.join(TARGETS)}")
    return TARGETS[target]


def _pieces(archive: Archive, described: dict[str, Any], source: str) -> Pieces:
    tokenizer = described.get("tokenizer")
    if not isinstance(tokenizer, dict) or not isinstance(tokenizer.get("model_path"), str):
        raise CheckpointError(f"{source}: has no tokenizer: expected tokenizer.model_path in its description")
    if tokenizer.get("type", "bpe") != "bpe":  # what NeMo calls every SentencePiece model
        raise CheckpointError(f"{source}: tokenizer.type = {tokenizer['type']!r} is not known; expected 'bpe'")
    name = tokenizer["model_path"].removeprefix("nemo:")
    try:
        return read_pieces(archive.read(name, at_most=MOST_TOKENIZER_BYTES))
    except VocabularyError as error:
        raise CheckpointError(f"{source}: {name}: {error}") from None


def _encoder(s: NemoSettings, mel_bins: int) -> tuple[EncoderConfig, tuple[int, ...]]:
    """The encoder, and the lookaheads that it was trained with."""
    s.of_class("ConformerEncoder", "ConformerEncoderAdapter")
    s.expect("feat_in", mel_bins)
    s.expect("feat_out", -1)
    s.expect("subsampling", "dw_striding")
    s.expect("reduction", None)
    s.expect("self_attention_model", "rel_pos", "rel_pos_local_attn")
    s.expect("untie_biases", True)
    s.expect("global_tokens", 0)
    s.ignore(("reduction_position", "reduction_factor", "pos_emb_max_len", "global_tokens_spacing"))
    s.ignore(("dropout_pre_encoder", "dropout_emb", "stochastic_depth_drop_prob", "stochastic_depth_mode"))
    s.ignore(("stochastic_depth_start_layer", "use_pytorch_sdpa", "use_pytorch_sdpa_backends", "att_context_probs"))
    s.ignore(("global_attn_separate", "sync_max_audio_length", "subsampling_conv_chunking_factor"))
    width, kernel = s.number("d_model"), s.number("conv_kernel_size", 31)
    channels = s.number("subsampling_conv_channels", -1, least=-1)
    context = s.take("conv_context_size", None)
    causal = context in ("causal", [kernel - 1, 0])
    if not causal and context not in (None, [kernel // 2, kernel // 2]):
        raise CheckpointError(f"{s.source}: encoder.conv_context_size = {context!r} is not known; expected 'causal'")
    style = s.choice(
        "att_context_style",
        "regular",
        {"regular": "regular", "chunked_limited": "chunked", "chunked_limited_with_rc": "chunked_right"},
    )
    contexts = _contexts(s, style)
    left, right = contexts[0]  # as NeMo does
    config = EncoderConfig(
        width=width,
        layers=s.number("n_layers", most=1000),
        heads=s.number("n_heads", 4),
        subsampling=s.choice("subsampling_factor", 4, {2: 2, 4: 4, 8: 8}),
        subsampling_channels=width if channels == -1 else channels,
        causal_subsampling=s.flag("causal_downsampling", False),
        kernel=kernel,
        causal_convolution=causal,
        norm=s.choice("conv_norm_type", "batch_norm", {"batch_norm": "batch", "layer_norm": "layer"}),
        expansion=s.number("ff_expansion_factor", 4),
        biases=s.flag("use_bias", True),
        scale_input=s.flag("xscaling", True),
        attention=style,
        left_frames=left,
        right_frames=right,
        dropout=s.real("dropout", 0.1),
        attention_dropout=s.real("dropout_att", 0.1),
    )
    s.done()
    return config, tuple(dict.fromkeys(right for _, right in contexts)) if style == "chunked" and right >= 0 else ()


def _contexts(s: NemoSettings, style: str) -> list[tuple[int, int]]:
    """Frames before and after that are seen: one choice or several."""
    context = s.take("att_context_size", [-1, -1])
    if style == "chunked_right":  # without a choice it is the whole recording, and so are its convolutions
        s.ignore(("att_chunk_context_size", "conv_context_style"))
        return [(-1, -1)]
    is_choice = isinstance(context, list) and context and isinstance(context[0], list)
    for one in context if is_choice else [context]:
        if not (isinstance(one, list) and len(one) == 2 and all(type(n) is int and n >= -1 for n in one)):
            raise CheckpointError(f"{s.source}: encoder.att_context_size = {one!r}: expected two numbers of frames")
    return [(left, right) for left, right in (context if is_choice else [context])]


def _model(described: dict[str, Any], heads: str, encoder: EncoderConfig, pieces: Pieces, source: str) -> ModelConfig:
    if heads == "attention":
        reads = attention.of_nemo(described, source)
        if reads.classes < pieces.blank:
            told = f"head.num_classes = {reads.classes}, but its tokenizer has {pieces.blank} pieces"
            raise CheckpointError(f"{source}: {told}")
        return ModelConfig(encoder=encoder, transducer="none", attention=reads, ctc=False, pieces=pieces.blank)
    if heads == "ctc":
        ctc = NemoSettings(described.get("decoder"), "decoder", source)
        ctc.of_class("ConvASRDecoder")
        ctc.expect("num_classes", pieces.blank, -1)
        ctc.expect("feat_in", encoder.width)
        ctc.ignore(("vocabulary", "init_mode"))
        ctc.done()
        return ModelConfig(encoder=encoder, transducer="none", ctc=True, pieces=pieces.blank)
    decoder, joint = (NemoSettings(described.get(name), name, source) for name in ("decoder", "joint"))
    decoder.of_class("RNNTDecoder")
    joint.of_class("RNNTJoint")
    if heads == "hybrid" and isinstance(beside := described.get("aux_ctc"), dict):
        NemoSettings(beside.get("decoder", {}), "aux_ctc.decoder", source).of_class("ConvASRDecoder")
    decoder.expect("vocab_size", pieces.blank, -1)
    decoder.expect("normalization_mode", None)
    decoder.expect("blank_as_pad", True)
    decoder.ignore(("random_state_sampling",))
    prediction = decoder.section("prednet")
    prediction.expect("rnn_hidden_size", -1)
    prediction.ignore(("dropout", "t_max", "forget_gate_bias", "weights_init_scale", "hidden_hidden_bias_scale"))
    extra = joint.number("num_extra_outputs", 0, least=0)
    joint.expect("num_classes", pieces.blank, -1)
    joint.ignore(("log_softmax", "preserve_memory", "fuse_loss_wer", "fused_batch_size", "vocabulary"))
    joint.ignore(("experimental_fuse_loss_wer",))
    joint_net = joint.section("jointnet")
    joint_net.ignore(("dropout", "encoder_hidden", "pred_hidden"))
    durations = _durations(described, source) if extra else (0, 1)
    if extra and len(durations) != extra:
        raise CheckpointError(f"{source}: joint.num_extra_outputs = {extra}, but durations are {list(durations)}")
    config = ModelConfig(
        encoder=encoder,
        transducer="tdt" if extra else "rnnt",
        ctc=heads == "hybrid",
        pieces=pieces.blank,
        durations=durations,
        prediction_width=prediction.number("pred_hidden"),
        prediction_layers=prediction.number("pred_rnn_layers", 1, most=100),
        joint_width=joint_net.number("joint_hidden"),
        joint_activation=joint_net.choice("activation", "relu", {n: n for n in ("relu", "tanh", "sigmoid")}),
    )
    for section in (decoder, prediction, joint, joint_net):
        section.done()
    return config


def _durations(described: dict[str, Any], source: str) -> tuple[int, ...]:
    """Those that NeMo decodes with, which are the loss's: an override of a training's leaves the copies behind."""
    loss = described.get("loss")
    loss = loss if isinstance(loss, dict) else {}
    if (name := loss.get("loss_name", "tdt")) != "tdt":
        raise CheckpointError(
            f"{source}: loss.loss_name = {name!r} with num_extra_outputs is not known; expected 'tdt'"
        )
    copies = {}
    for section, settings, key in (
        ("loss.tdt_kwargs", loss.get("tdt_kwargs"), "durations"),
        ("decoding", described.get("decoding"), "durations"),
        ("model_defaults", described.get("model_defaults"), "tdt_durations"),
    ):
        if isinstance(settings, dict) and isinstance(settings.get(key), list):
            copies[f"{section}.{key}"] = NemoSettings(settings, section, source).numbers(key)
    if not copies:
        raise CheckpointError(f"{source}: says nothing of its durations; expected model_defaults.tdt_durations")
    (first, durations), *others = copies.items()
    for name, other in others:
        if other not in (durations, ()):
            warnings.warn(
                f"{source}: {name} = {list(other)} differs from {first} = {list(durations)}, with which NeMo decodes; "
                "these are taken",
                stacklevel=2,
            )
    return durations

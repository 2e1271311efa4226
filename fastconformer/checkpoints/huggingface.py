"""Hugging Face folders: Parakeet with CTC, RNN-T and TDT heads, the streaming Nemotron ASR with RNN-T, and the
attention decoders Canary and Cohere ASR."""

from pathlib import Path

from common.features import NEMO, LogMelConfig
from common.published import model_folder
from common.published.nemo.settings import NemoSettings
from common.runs.checkpoint import CheckpointError
from common.text.pieces import Pieces, read_pieces
from common.text.vocabulary import VocabularyError
from fastconformer.checkpoints import attention, nemo
from fastconformer.checkpoints.imported import LAYER, LAYERS, Rules, TrainedModel, renamed
from fastconformer.config import EncoderConfig, ModelConfig

TRANSDUCERS = {
    "parakeet_ctc": "none",
    "parakeet_rnnt": "rnnt",
    "parakeet_tdt": "tdt",
    "nemotron_asr_streaming": "rnnt",
}
STREAMING = "nemotron_asr_streaming"
ATTENTION = ("canary", "cohere_asr")
RULES: Rules = (
    *LAYERS,
    (r"encoder\.subsampling\.linear\.(\w+)", r"encoder.subsampling.project.\1"),
    (r"encoder\.subsampling\.(?:layers\.0|conv_in)\.(\w+)", r"encoder.subsampling.first.\1"),
    (r"encoder\.subsampling\.layers\.(\d+)\.(depthwise|pointwise)_conv\.(\w+)", r"encoder.subsampling.\2.\1.\3"),
    (r"encoder\.subsampling\.layers\.2\.(\w+)", r"encoder.subsampling.depthwise.0.\1"),
    (r"encoder\.subsampling\.layers\.3\.(\w+)", r"encoder.subsampling.pointwise.0.\1"),
    (r"encoder\.subsampling\.layers\.5\.(\w+)", r"encoder.subsampling.depthwise.1.\1"),
    (r"encoder\.subsampling\.layers\.6\.(\w+)", r"encoder.subsampling.pointwise.1.\1"),
    (LAYER + r"self_attn\.bias_u", r"encoder.blocks.\1.attention.content_bias_HD"),
    (LAYER + r"self_attn\.bias_v", r"encoder.blocks.\1.attention.position_bias_HD"),
    (LAYER + r"self_attn\.([qkv])_proj\.(\w+)", r"encoder.blocks.\1.attention.\2.\3"),
    (LAYER + r"self_attn\.relative_k_proj\.weight", r"encoder.blocks.\1.attention.positions.weight"),
    (LAYER + r"self_attn\.o_proj\.(\w+)", r"encoder.blocks.\1.attention.leave.\2"),
    (LAYER + r"conv\.depthwise_conv\.(\w+)", r"encoder.blocks.\1.convolution.depthwise.\2"),
    (LAYER + r"conv\.norm\.(\w+)", r"encoder.blocks.\1.convolution.norm.\2"),
    (r"decoder\.embedding\.weight", "prediction.embedding.weight"),
    (r"decoder\.lstm\.(\w+)", r"prediction.rnn.\1"),
    (r"encoder_projector\.(\w+)", r"joint.encoder.\1"),
    (r"decoder\.decoder_projector\.(\w+)", r"joint.prediction.\1"),
    (r"joint\.head\.(\w+)", r"joint.output.\1"),
    (r"ctc_head\.(\w+)", r"ctc.\1"),
)
# Keys of config.json that transformers writes of every model, and what only training or generation needs.
# fmt: off
_GENERAL = (
    "architectures", "dtype", "torch_dtype", "transformers_version", "model_type", "initializer_range",
    "is_encoder_decoder", "auto_map", "max_symbols_per_step", "ctc_loss_reduction", "ctc_zero_infinity",
    "seconds_per_frame", "activation_dropout", "layerdrop", "dropout_positions", "max_position_embeddings",
    "num_key_value_heads", "bos_token_id", "eos_token_id", "_name_or_path", "return_dict", "output_attentions",
)
# fmt: on


def read(folder: Path) -> TrainedModel:
    """The model in a folder of transformers. Raises CheckpointError for everything that is not known here."""
    source = f"{folder}: config.json"
    described = model_folder.read_json(folder / "config.json")
    kind = described.get("model_type")
    if kind not in (*TRANSDUCERS, *ATTENTION):
        known = ", ".join((*TRANSDUCERS, *ATTENTION))
        raise CheckpointError(f"{source}: model_type {kind!r} is not known; known are {known}")
    features = _features(folder, kind)
    if kind in ATTENTION:
        return _attention(folder, NemoSettings(described, "", source), kind, features)
    model = _model(NemoSettings(described, "", source), kind, features.mel_bins)
    weights = renamed(model_folder.read_weights(folder), RULES, str(folder))
    return TrainedModel(weights, model, features, _pieces(folder, model.pieces))


def _attention(folder: Path, s: NemoSettings, kind: str, features: LogMelConfig) -> TrainedModel:
    """A model whose encoder may have NeMo's names too, with or without "model." in front."""
    encoder = _encoder(s.section("encoder_config"), kind, features.mel_bins)
    inner = s.section("decoder_config") if kind == "canary" else s
    tied = s.flag("tie_word_embeddings", kind == "canary")
    config = attention.of_transformers(inner, kind, tied=tied)
    pieces = attention.folder_pieces(folder, config.classes, kind)
    s.expect("vocab_size", config.classes)
    s.expect("eos_token_id", pieces.end)
    for settings in (inner, s):
        settings.ignore((*_GENERAL, "pad_token_id", "use_cache", "decoder_start_token_id"))
        settings.done()
    theirs = {name.removeprefix("model."): weight for name, weight in model_folder.read_weights(folder).items()}
    rules = (*RULES, *nemo.RULES, *attention.TRANSFORMERS_RULES)
    weights = attention.without_copies(renamed(theirs, rules, str(folder)), config, str(folder))
    if kind == "canary":
        weights = attention.interleaved(weights, config.width)
    model = ModelConfig(encoder=encoder, transducer="none", attention=config, ctc=False, pieces=pieces.blank)
    return TrainedModel(weights, model, features, pieces)


def _model(s: NemoSettings, kind: str, mel_bins: int) -> ModelConfig:
    encoder = _encoder(s.section("encoder_config"), kind, mel_bins)
    s.ignore(_GENERAL)
    pieces = s.number("vocab_size", least=2, most=2**20) - 1
    blank = "pad_token_id" if kind == "parakeet_ctc" else "blank_token_id"
    if s.number(blank, pieces, least=0, most=2**20) != pieces:
        raise CheckpointError(f"{s.source}: {blank} is not the last of {pieces + 1}; only that is known")
    if kind == "parakeet_ctc":
        s.done()
        return ModelConfig(encoder=encoder, transducer="none", ctc=True, pieces=pieces)
    s.ignore(("pad_token_id",))
    width = s.number("decoder_hidden_size")
    config = ModelConfig(
        encoder=encoder,
        transducer="tdt" if kind == "parakeet_tdt" else "rnnt",
        ctc=False,
        pieces=pieces,
        durations=s.numbers("durations") if kind == "parakeet_tdt" else (0, 1),
        prediction_width=width,
        prediction_layers=s.number("num_decoder_layers", most=100),
        joint_width=width,
        joint_activation=s.choice("hidden_act", "relu", {n: n for n in ("relu", "tanh", "sigmoid")}),
    )
    s.done()
    return config


def _encoder(s: NemoSettings, kind: str, mel_bins: int) -> EncoderConfig:
    s.ignore(_GENERAL)
    s.expect("num_mel_bins", mel_bins)
    s.expect("hidden_act", "silu", "swish")
    s.expect("subsampling_conv_kernel_size", 3)
    s.expect("subsampling_conv_stride", 2)
    width = s.number("hidden_size")
    biases = s.flag("attention_bias", True)
    s.expect("convolution_bias", biases)
    inner = s.number("intermediate_size")
    if inner % width:
        raise CheckpointError(
            f"{s.source}: intermediate_size = {inner}: expected a multiple of {width}, the hidden size"
        )
    streams = kind == STREAMING
    config = EncoderConfig(
        width=width,
        layers=s.number("num_hidden_layers", most=1000),
        heads=s.number("num_attention_heads"),
        subsampling=s.choice("subsampling_factor", 8, {2: 2, 4: 4, 8: 8}),
        subsampling_channels=s.number("subsampling_conv_channels", 256),
        causal_subsampling=streams,
        kernel=s.number("conv_kernel_size", 9),
        causal_convolution=streams,
        norm="layer" if streams else "batch",
        expansion=inner // width,
        biases=biases,
        scale_input=s.flag("scale_input", True),
        attention="chunked" if streams else "regular",
        left_frames=s.number("sliding_window", 71) - 1 if streams else -1,
        right_frames=s.number("default_num_lookahead_tokens", 13, least=0) if streams else -1,
        dropout=s.real("dropout", 0.1),
        attention_dropout=s.real("attention_dropout", 0.1),
    )
    s.done()
    return config


def _features(folder: Path, kind: str) -> LogMelConfig:
    says = model_folder.of_file(folder / "processor_config.json").get("feature_extractor")  # since transformers 5
    if not isinstance(says, dict):
        says = model_folder.of_file(folder / "preprocessor_config.json")
    s = NemoSettings(says, "feature_extractor", str(folder))
    s.expect("mel_filters_dtype", "float32")
    s.expect("padding_value", 0.0)
    rate = s.number("sampling_rate", NEMO.sample_rate, most=192_000)
    return LogMelConfig(
        sample_rate=rate,
        n_fft=s.number("n_fft", NEMO.n_fft),
        window_samples=s.number("win_length", NEMO.window_samples),
        hop_samples=s.number("hop_length", NEMO.hop_samples),
        mel_bins=s.number("feature_size", NEMO.mel_bins, most=1024),
        preemphasis=s.real("preemphasis", NEMO.preemphasis),
        highest_hz=rate / 2,
        log_floor=NEMO.log_floor,
        normalize="none" if kind == STREAMING else "per_feature",
        edges="zeros",
        frame_count="floor",
        pad_to_multiple=1,
    )


def _pieces(folder: Path, count: int) -> Pieces:
    """`count` pieces from tokenizer.model, or from tokenizer.json."""
    try:
        if (folder / "tokenizer.model").is_file():
            pieces = read_pieces(folder / "tokenizer.model")
            if pieces.blank == count:
                return pieces
        if (folder / "tokenizer.json").is_file():
            return read_pieces(folder / "tokenizer.json", count)
    except VocabularyError as error:
        raise CheckpointError(str(error)) from None
    raise CheckpointError(f"{folder}: has no tokenizer: expected tokenizer.model or tokenizer.json in it")

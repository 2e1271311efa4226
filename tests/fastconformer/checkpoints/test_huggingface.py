"""Folders of transformers, which is the second opinion: the same weights give the same frames and tokens."""

import json

import pytest
import torch
import transformers
from transformers.models import nemotron_asr_streaming, parakeet

from common.runs.checkpoint import CheckpointError
from fastconformer.checkpoints import huggingface
from fastconformer.network.fused import fuse
from fastconformer.network.model import Model
from fastconformer.network.streaming import UNKNOWN, EncoderStreams, lookahead_of
from fastconformer.transducer import reference
from tests.fastconformer import tiny

ENCODER = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "subsampling_conv_channels": 8,
    "num_mel_bins": 80,
}
HEADS = {"vocab_size": 25, "decoder_hidden_size": 20, "num_decoder_layers": 2, "blank_token_id": 24}
BLANK = {"rnnt": 3.0, "tdt": 0.0, "streaming": 1.0}  # so that there are blanks as well as labels
FRAMES = (130, 77, 8, 1)


def _theirs(kind, **encoder):
    transformers.logging.set_verbosity_error()
    torch.manual_seed(1)
    encoder = ENCODER | encoder
    if kind == "ctc":
        config = parakeet.ParakeetCTCConfig(encoder_config=encoder, vocab_size=25, pad_token_id=24)
        model = parakeet.ParakeetForCTC(config)
    elif kind == "streaming":
        config = nemotron_asr_streaming.NemotronAsrStreamingConfig(encoder_config=encoder, **HEADS)
        model = nemotron_asr_streaming.NemotronAsrStreamingForRNNT(config)
    elif kind == "rnnt":
        model = parakeet.ParakeetForRNNT(parakeet.ParakeetRNNTConfig(encoder_config=encoder, **HEADS))
    else:
        model = parakeet.ParakeetForTDT(parakeet.ParakeetTDTConfig(encoder_config=encoder, **HEADS))
    tiny.randomize(model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:  # what transformers starts from is so small that one frame is like another
                parameter.normal_(std=1.5 * parameter[0].numel() ** -0.5)
        if kind != "ctc":
            model.joint.head.bias[24] += BLANK[kind]
    return model.eval()


def folder_of(tmp_path, kind, **encoder):
    model = _theirs(kind, **encoder)
    model.save_pretrained(tmp_path)
    pieces = ["<unk>", "▁", *(f"▁{chr(97 + i)}" for i in range(22))]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = {"model": {"type": "BPE", "vocab": vocabulary, "unk_token": "<unk>"}, "added_tokens": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    return model


def _ours(folder):
    imported = huggingface.read(folder)
    model = Model(imported.model, imported.features.mel_bins)
    model.load_state_dict(imported.weights, strict=False)
    return model.eval(), imported


@pytest.mark.parametrize(
    ("kind", "encoder"),
    [
        ("ctc", {}),
        ("rnnt", {"attention_bias": False, "convolution_bias": False, "scale_input": False}),
        ("tdt", {"subsampling_factor": 4}),
        ("streaming", {"sliding_window": 9, "default_num_lookahead_tokens": 1}),
        ("streaming", {"sliding_window": 15, "default_num_lookahead_tokens": 0}),
    ],
)
@torch.no_grad()
def test_encoder_frames_are_those_of_transformers(tmp_path, kind, encoder):
    theirs = folder_of(tmp_path, kind, **encoder)
    model, _ = _ours(tmp_path)
    features_BFT, frames_B = tiny.features(*FRAMES, mel_bins=80)
    mask_BT = torch.arange(features_BFT.shape[2]) < frames_B[:, None]
    features_BFT = features_BFT * mask_BT[:, None]
    expected = theirs.encoder(input_features=features_BFT.mT, attention_mask=mask_BT)
    for prepared in (model, fuse(model)):
        encoded_BSC, encoded_frames_B = prepared(features_BFT, frames_B)
        assert encoded_frames_B.tolist() == expected.attention_mask.sum(1).tolist()
        for b, frames in enumerate(encoded_frames_B.tolist()):
            found, right = encoded_BSC[b, :frames], expected.last_hidden_state[b, :frames]
            torch.testing.assert_close(found, right, rtol=0, atol=5e-5)
    if kind == "ctc":
        expected = theirs(input_features=features_BFT.mT, attention_mask=mask_BT).logits[0]
        torch.testing.assert_close(model.ctc(model(features_BFT, frames_B).encoded_BSC)[0], expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", ["rnnt", "tdt", "streaming"])
@torch.no_grad()
def test_tokens_are_those_of_transformers(tmp_path, kind):
    theirs = folder_of(tmp_path, kind)
    model, _ = _ours(tmp_path)
    for seed in range(3):
        features_BFT, frames_B = tiny.features(400, mel_bins=80, seed=seed)
        extra: dict = {"num_lookahead_tokens": 13} if kind == "streaming" else {}
        if kind == "tdt":  # as its checkpoints say: a duration is no token
            extra = {"suppress_tokens": list(range(25, 30))}
        mask_BT = torch.ones(1, 400, dtype=torch.bool)
        theirs.generation_config.decoder_start_token_id = 24
        sequences = theirs.generate(input_features=features_BFT.mT, attention_mask=mask_BT, **extra)
        sequences = getattr(sequences, "sequences", sequences)
        assert len(sequences[0]) > 10
        (found,) = reference.greedy(*model(features_BFT, frames_B), model.decoder_weights())
        assert found.tokens == [
            token for token in sequences[0].tolist() if token not in (24, theirs.config.pad_token_id)
        ]


def test_features_are_those_that_the_folder_asks_for(tmp_path):
    folder_of(tmp_path, "rnnt", num_mel_bins=128)
    transformers.ParakeetFeatureExtractor(feature_size=128).save_pretrained(tmp_path)
    _, imported = _ours(tmp_path)
    assert (imported.features.mel_bins, imported.features.normalize) == (128, "per_feature")
    assert imported.pieces.decode([2, 3]) == "a b"
    folder_of(tmp_path / "streaming", "streaming")
    assert huggingface.read(tmp_path / "streaming").features.normalize == "none"


def test_a_sentencepiece_model_is_taken_before_its_conversion(tmp_path):
    from common.text.pieces import train_pieces

    folder_of(tmp_path, "ctc")
    pieces = train_pieces(
        ["the cat sat on the mat, and the dog sat too.", "a dog and a cat met on a mat", "what did the cat do then?"],
        size=24,
    )
    (tmp_path / "tokenizer.model").write_bytes(pieces.model)
    assert huggingface.read(tmp_path).pieces == pieces
    (tmp_path / "tokenizer.model").write_bytes(b"rubbish")
    with pytest.raises(CheckpointError, match="damaged or not a SentencePiece model"):
        huggingface.read(tmp_path)


def _change(path, change):
    described = json.loads(path.read_text())
    change(described)
    path.write_text(json.dumps(described))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "config.json",
            lambda d: d.update(model_type="bert"),
            "model_type 'bert' is not known; known are parakeet_ctc",
        ),
        ("config.json", lambda d: d.update(prompt=3), "config.json: prompt: a setting that is not known"),
        ("config.json", lambda d: d.update(blank_token_id=3), "blank_token_id is not the last of 25"),
        ("config.json", lambda d: d.pop("decoder_hidden_size"), "says nothing of decoder_hidden_size"),
        ("config.json", lambda d: d.update(vocab_size=True), "vocab_size = True: expected a whole number from 2"),
        ("config.json", lambda d: d.update(encoder_config=3), "expected settings under encoder_config, found int"),
        ("config.json", lambda d: d.update(hidden_act="gelu"), "hidden_act = 'gelu' is not known; expected 'relu' or"),
        ("config.json", lambda d: d["encoder_config"].update(intermediate_size=65), "expected a multiple of 32"),
        (
            "config.json",
            lambda d: d["encoder_config"].update(hidden_act="relu"),
            "encoder_config.hidden_act = 'relu' is",
        ),
        ("config.json", lambda d: d["encoder_config"].update(scale_input=1), "scale_input = 1: expected true or false"),
        ("tokenizer.json", lambda d: d["model"]["vocab"].popitem(), "names 23 of 24 pieces; expected all"),
        ("tokenizer.json", lambda d: d.update(model=[]), "expected pieces under model.vocab"),
    ],
)
def test_what_is_not_known_is_named(tmp_path, file, change, message):
    folder_of(tmp_path, "tdt")
    _change(tmp_path / file, change)
    with pytest.raises(CheckpointError, match=message):
        huggingface.read(tmp_path)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    folder_of(tmp_path, "ctc")
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no tokenizer: expected tokenizer.model or tokenizer.json"):
        huggingface.read(tmp_path)


@pytest.mark.parametrize("lookahead", [0, 1, 6])
@torch.no_grad()
def test_a_stream_is_encoded_step_by_step_as_by_transformers(tmp_path, lookahead):
    theirs = folder_of(tmp_path, "streaming", sliding_window=15, default_num_lookahead_tokens=lookahead)
    model, imported = _ours(tmp_path)
    assert lookahead_of(imported.model.encoder, imported.features) == lookahead
    streams = EncoderStreams(fuse(model).encoder, lookahead, 80)
    streams.resize(1)
    features_BFT, _ = tiny.features(500, mel_bins=80)
    past = convolutions = None
    ours_BFT = torch.nn.functional.pad(features_BFT, (7, 0))  # theirs starts with less: 1 feature for the first frame
    for done in range(0, 56, streams.frames):
        part_BFT = ours_BFT[:, :, 8 * done : 8 * done + streams.feature_frames]
        expected = theirs.encoder(
            input_features=(part_BFT if done else part_BFT[:, :, 7:]).mT,
            past_key_values=past,
            padding_cache=convolutions,
            use_cache=True,
            num_lookahead_tokens=lookahead,
        )
        past, convolutions = expected.past_key_values, expected.padding_cache
        found_BSC = streams.step(part_BFT, [0], [done], [UNKNOWN])
        torch.testing.assert_close(found_BSC, expected.last_hidden_state, rtol=0, atol=5e-5)

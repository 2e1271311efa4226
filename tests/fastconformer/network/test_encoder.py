"""The encoder computes what NeMo's does, whatever is beside an utterance in its batch."""

import math

import pytest
import torch

from fastconformer.checkpoints import nemo
from fastconformer.config import EncoderConfig, ModelConfig
from fastconformer.network.encoder import by_key, sinusoids, visible
from fastconformer.network.fused import fuse
from fastconformer.network.model import Model
from tests.fastconformer import golden, tiny

STYLES: dict[str, dict] = {
    "regular": {},
    "window": {"left_frames": 3, "right_frames": 1},
    "chunked": {"attention": "chunked", "left_frames": 4, "right_frames": 1, "norm": "layer"},
    "chunked_right": {"attention": "chunked_right", "chunk_frames": 3, "left_frames": 4, "right_frames": 2},
    "causal": {"causal_subsampling": True, "causal_convolution": True, "biases": False, "scale_input": True},
    "subsampling 4": {"subsampling": 4},
    "subsampling 2": {"subsampling": 2, "attention": "chunked", "right_frames": 0},
}


def golden_model(name: str) -> Model:
    imported = nemo.read(golden.folder() / f"{name}.nemo")
    model = Model(imported.model, imported.features.mel_bins)
    model.load_state_dict(imported.weights, strict=False)
    return model.eval()


def golden_features() -> tuple[torch.Tensor, torch.Tensor]:
    arrays = golden.arrays("inputs")
    frames_B = torch.from_numpy(arrays["feature_lens"])
    features_BFT = torch.full((3, 80, int(frames_B.max()) + 5), 3.0)
    for b, frames in enumerate(frames_B.tolist()):
        features_BFT[b, :, :frames] = torch.from_numpy(arrays[f"features_{b}"])
    return features_BFT, frames_B


@pytest.mark.parametrize("name", ["ctc", *golden.TRANSDUCERS])
@pytest.mark.parametrize("prepare", [lambda model: model, fuse], ids=["as trained", "fused"])
@torch.no_grad()
def test_encoder_frames_are_those_of_nemo_alone_and_padded(name, prepare):
    model, arrays, (features_BFT, frames_B) = prepare(golden_model(name)), golden.arrays(name), golden_features()
    encoded_BSC, encoded_frames_B = model(features_BFT, frames_B)
    assert encoded_frames_B.tolist() == arrays["encoder_lens"].tolist()
    for b, frames in enumerate(encoded_frames_B.tolist()):
        alone_BSC, _ = model(features_BFT[b : b + 1, :, : frames_B[b]], frames_B[b : b + 1])
        expected = torch.from_numpy(arrays[f"encoder_alone_{b}"]).T
        for found in (encoded_BSC[b, :frames], alone_BSC[0]):
            torch.testing.assert_close(found, expected, rtol=0, atol=golden.tolerance("encoder"))
    if model.ctc is not None:
        found = model.ctc(encoded_BSC[2, :110]).log_softmax(-1)
        expected = torch.from_numpy(arrays["ctc_log_probs"])[2, :110]
        torch.testing.assert_close(found, expected, rtol=0, atol=golden.tolerance("ctc_log_probs"))


@pytest.mark.parametrize("style", STYLES)
@torch.no_grad()
def test_an_utterance_is_encoded_the_same_alone_and_in_any_batch(style):
    model = tiny.model(tiny.config(**STYLES[style]))
    frames = (1, 2, 8, 9, 17, 31, 64, 100, 0)
    features_BFT, frames_B = tiny.features(*frames, extra=13)
    for prepared in (model, fuse(model)):
        encoded_BSC, encoded_frames_B = prepared(features_BFT, frames_B)
        assert encoded_BSC.isfinite().all()
        for b, n in enumerate(frames[:-1]):
            alone_BSC, alone_frames_B = prepared(features_BFT[b : b + 1, :, :n], frames_B[b : b + 1])
            assert alone_frames_B.tolist() == [encoded_frames_B[b]] == [alone_BSC.shape[1]]
            assert model.encoder.output_frames(n) == alone_BSC.shape[1]
            torch.testing.assert_close(encoded_BSC[b, : encoded_frames_B[b]], alone_BSC[0], rtol=0, atol=1e-5)
        assert encoded_frames_B[-1] == 0


@pytest.mark.parametrize("style", STYLES)
@torch.no_grad()
def test_fusing_does_not_change_the_result(style):
    model = tiny.model(tiny.config(**STYLES[style]))
    features_BFT, frames_B = tiny.features(700, 90)
    expected, fused = model(features_BFT, frames_B), fuse(model)
    for _ in range(2):  # with projected positions made, and kept
        torch.testing.assert_close(fused(features_BFT, frames_B), expected, rtol=1e-4, atol=2e-5)
        fused(features_BFT[:, :, :40], frames_B.clamp(max=40))
    assert model.encoder.blocks[0].share == 0.5


def test_sums_and_positions_stay_in_single_precision_as_long_as_the_weights_are():
    model = tiny.model(tiny.config()).bfloat16()
    encoded_BSC, _ = fuse(model)(*tiny.features(50))
    assert encoded_BSC.dtype == torch.bfloat16
    assert sinusoids(4, 8, torch.device("cpu")).dtype == torch.float32


def test_values_by_distance_become_values_by_key():
    for n in (1, 2, 7):
        x_BHSP = torch.arange(n, -n, -1.0).expand(2, 3, n, 2 * n)  # every value is its distance
        expected = torch.arange(n)[:, None] - torch.arange(n)
        assert torch.equal(by_key(x_BHSP), expected.float().expand(2, 3, n, n))
        past_BHSP = torch.arange(n + 3, -n, -1.0).expand(2, 3, n, 2 * n + 3)  # three frames before these
        expected = torch.arange(3, n + 3)[:, None] - torch.arange(n + 3)
        assert torch.equal(by_key(past_BHSP), expected.float().expand(2, 3, n, n + 3))


@pytest.mark.parametrize(
    ("style", "row", "sees"),
    [
        ({}, 5, range(10)),
        ({"left_frames": 2, "right_frames": 1}, 5, range(3, 7)),
        ({"left_frames": 2}, 5, range(3, 10)),
        ({"attention": "chunked", "right_frames": 1, "left_frames": 4}, 5, range(6)),
        ({"attention": "chunked", "right_frames": 1, "left_frames": 2}, 5, range(2, 6)),
        ({"attention": "chunked", "right_frames": 2}, 4, range(6)),
        ({"attention": "chunked_right", "chunk_frames": 3, "left_frames": 1, "right_frames": 2}, 4, range(2, 8)),
        ({"attention": "chunked_right"}, 4, range(10)),
    ],
)
def test_frames_see_what_their_style_says(style, row, sees):
    seen_SS = visible(torch.arange(10), torch.arange(10), EncoderConfig(**style))
    assert seen_SS[row].nonzero().flatten().tolist() == list(sees)


def test_attention_is_that_of_the_formula():
    torch.manual_seed(0)
    attention = tiny.model(tiny.config()).encoder.blocks[0].attention
    x_BSC, n = torch.randn(1, 6, 16), 6
    q, k, v = attention.qkv(x_BSC)[0].split(16, -1)
    p = attention.positions(sinusoids(n, 16, torch.device("cpu")))  # distances from 6 down to -5
    heads = []
    for h in range(4):
        part = slice(4 * h, 4 * h + 4)
        u, w = attention.content_bias_HD[h], attention.position_bias_HD[h]
        score = torch.stack(
            [
                torch.stack([(q[s, part] + u) @ k[r, part] + (q[s, part] + w) @ p[n - s + r, part] for r in range(n)])
                for s in range(n)
            ]
        )
        heads.append((score / math.sqrt(4)).softmax(-1) @ v[:, part])
    expected = attention.leave(torch.cat(heads, -1))
    found = attention(x_BSC, torch.ones(1, n, n, dtype=torch.bool))[0]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("encoder", "rest", "mel_bins", "millions"),
    [
        (
            (176, 16, 4, 176),
            {"transducer": "rnnt", "ctc": False, "prediction_width": 320, "joint_width": 320},
            80,
            14.03,
        ),
        ((256, 16, 4, 256), {"transducer": "rnnt", "ctc": False}, 80, 31.30),
        ((512, 17, 8, 256), {"transducer": "rnnt", "ctc": False}, 80, 114.10),
        ((512, 17, 8, 256), {}, 80, 114.62),
        ((1024, 24, 8, 256), {"transducer": "rnnt", "ctc": False, "prediction_layers": 2}, 80, 616.69),
        ((1024, 42, 8, 256), {"transducer": "none"}, 80, 1062.5),
        ((1024, 24, 8, 256), {"ctc": False, "prediction_layers": 2, "pieces": 8192}, 128, 627.0),
    ],
)
def test_published_sizes_have_their_number_of_parameters(encoder, rest, mel_bins, millions):
    width, layers, heads, channels = encoder
    biases = mel_bins == 80
    cfg = EncoderConfig(width=width, layers=layers, heads=heads, subsampling_channels=channels, biases=biases)
    with torch.device("meta"):
        model = Model(ModelConfig(encoder=cfg, **rest), mel_bins)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, rel=4e-4)

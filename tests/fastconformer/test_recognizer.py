"""A model in use: what NeMo recognises, whatever is beside it, with words, times and confidence."""

import numpy as np
import pytest
import torch

import fastconformer
from common.config import ConfigError
from common.convolution import native
from common.devices.precision import DTYPES, cast_for_inference
from common.runs.checkpoint import CheckpointError
from fastconformer.hearing.long_audio import ChunkOptions
from fastconformer.hearing.searching import decode_parts
from fastconformer.recognizer import Recognizer
from tests.fastconformer import golden
from tests.fastconformer.checkpoints import archives

MODELS = ["ctc", *golden.TRANSDUCERS]


def asr(name: str, **options) -> Recognizer:
    return fastconformer.load(golden.folder() / f"{name}.nemo", device="cpu", **({"noise_floor": 0.0} | options))


def audio() -> list[np.ndarray]:
    arrays = golden.arrays("inputs")
    return [arrays[f"audio_{i}"].astype(np.float32) / 32768 for i in range(3)]


@pytest.fixture
def small(tmp_path) -> Recognizer:
    return fastconformer.load(archives.write(tmp_path / "small.nemo", archives.files()), device="cpu")


def noise(*samples: int) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    return [draw.normal(0, 0.1, n).astype(np.float32) for n in samples]


@pytest.mark.parametrize("name", MODELS)
def test_texts_tokens_frames_and_durations_are_those_of_nemo_from_the_audio_on(name):
    recognizer, arrays, facts = asr(name), golden.arrays(name), golden.facts(name)
    samples = audio()
    audio_BN = torch.zeros(3, max(map(len, samples)))
    for row, samples_N in zip(audio_BN, samples, strict=True):
        row[: len(samples_N)] = torch.from_numpy(samples_N)
    encoded_BSC, frames_B = recognizer.encode(*recognizer.features(audio_BN, torch.tensor([len(s) for s in samples])))
    for head in [head for head in ("rnnt", "tdt", "ctc") if f"{head}_tokens_0" in arrays]:
        chosen = "ctc" if head == "ctc" else "transducer"
        for b, found in enumerate(recognizer.decode(encoded_BSC, frames_B, head=chosen)):
            assert found.tokens == arrays[f"{head}_tokens_{b}"].tolist()
            if head == "ctc":
                assert found.frames == arrays[f"ctc_start_{b}"].tolist()
                ends = [frame + duration for frame, duration in zip(found.frames, found.durations, strict=True)]
                assert ends == arrays[f"ctc_end_{b}"].tolist()
                continue
            assert found.frames == arrays[f"{head}_frames_{b}"].tolist()
            assert found.durations == (None if head == "rnnt" else arrays[f"tdt_durations_{b}"].tolist())
            assert found.text == facts[f"{head}_greedy"]["text"][b]


def test_word_times_are_those_of_their_pieces():
    recognizer = asr("tdt")
    (found,) = recognizer.decode(torch.from_numpy(golden.arrays("tdt")["encoder_alone_0"]).T[None], [146])
    (transcript,) = recognizer.transcribe(audio()[:1])
    assert transcript.words[0].start == round(found.frames[0] * 0.08, 3)
    assert transcript.text.split() == found.text.split()
    assert recognizer.seconds_per_frame == 0.08


def test_a_long_recording_is_encoded_in_chunks_and_decoded_in_one_go(small):
    (samples_N,) = noise(16_000 * 30)
    whole, parts = (small.transcribe([samples_N], whole_seconds=s)[0] for s in (60.0, 25.0))
    assert parts.seconds == whole.seconds == 30.0
    pieces = small.cut(len(samples_N), ChunkOptions(whole_seconds=25.0))
    assert [(p.first, p.end) for p in pieces] == [(0, 125), (125, 250), (125, 250)]
    assert [p.length / 16_000 for p in pieces] == [14.96, 24.96, 20.0]
    assert len(small.cut(len(samples_N), ChunkOptions())) == 1


@pytest.mark.parametrize("head", ["transducer", "ctc"])
def test_frames_that_come_in_parts_are_decoded_as_those_that_come_at_once(head):
    recognizer = asr("tdt_ctc")
    encoded_BSC = torch.from_numpy(golden.arrays("tdt_ctc")["encoder_alone_0"]).T[None]
    (expected,) = recognizer.decode(encoded_BSC, [146], head=head)
    recognizer.head = head
    for size in (1, 7, 50):
        parts = encoded_BSC[0].split(size)
        found = decode_parts(parts, recognizer.decoding(), None, recognizer.pieces)
        assert found[:4] == expected[:4]
        assert found.confidence == pytest.approx(expected.confidence, abs=1e-5)
        assert found.entropy_confidence == pytest.approx(expected.entropy_confidence, abs=1e-4)
    assert len(expected.tokens) > 10
    assert all(0 <= sure <= 1 for sure in expected.entropy_confidence)


def test_long_and_short_recordings_keep_their_order(small):
    recordings = noise(16_000, 48_000, 8_000, 64_000, 8_000)
    options = {"whole_seconds": 2.0, "chunk_seconds": 0.5, "left_seconds": 0.5, "right_seconds": 0.25}
    together = small.transcribe(recordings, batch_size=2, **options)
    assert [t.seconds for t in together] == [1.0, 3.0, 0.5, 4.0, 0.5]
    alone = [small.transcribe([r], batch_size=2, **options)[0] for r in recordings]
    assert [t.text for t in together] == [t.text for t in alone]
    with torch.no_grad():
        small.model.encoder.blocks[0].norm.weight[0] = float("nan")
    assert all("the network gives NaN" in t.error for t in small.transcribe(recordings, **options))


def test_features_are_normalised_over_a_window_where_that_is_wanted(tmp_path):
    path = archives.write(tmp_path / "small.nemo", archives.files())
    (samples,) = noise(64_000)
    louder = np.concatenate([0.01 * samples, samples])
    given = torch.from_numpy(louder)[None], torch.tensor([len(louder)])
    moving = fastconformer.load(path, device="cpu", normalize_seconds=2.0)
    alone = fastconformer.load(path, device="cpu").features(
        torch.from_numpy(samples)[None], torch.tensor([len(samples)])
    )
    found = moving.features(*given).features_BFT
    quiet, loud = found[..., 100:200], found[..., 600:700]
    assert abs(float(quiet.mean() - loud.mean())) < 0.2
    assert abs(float(loud.mean() - alone.features_BFT[..., 200:300].mean())) < 0.2
    with pytest.raises(ValueError, match="normalize_seconds = -1: expected seconds, or 0 for whole recordings"):
        fastconformer.load(path, device="cpu", normalize_seconds=-1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunk_seconds": 0}, "chunk_seconds = 0: expected seconds above 0"),
        ({"left_seconds": -1}, "left_seconds = -1: expected seconds, at least 0"),
        ({"batch_size": 0}, "batch_size = 0: expected at least 1"),
    ],
)
def test_lengths_that_cannot_be_are_named(small, options, message):
    with pytest.raises(ValueError, match=message):
        small.transcribe(noise(1_600), **options)


def test_words_have_a_confidence_of_either_kind():
    probable, entropic = (asr("tdt", confidence=kind).transcribe(audio()[:1])[0] for kind in ("probability", "entropy"))
    assert [word[:3] for word in probable.words] == [word[:3] for word in entropic.words]
    assert [w.confidence for w in probable.words] != [w.confidence for w in entropic.words]
    assert all(0 <= w.confidence <= 1 for w in entropic.words)


def test_the_shortest_recordings_are_transcribed(small):
    recordings = noise(1, 159, 160, 161, 1279, 1281, 16_000)
    together = small.transcribe(recordings)
    assert together == [small.transcribe([recording])[0] for recording in recordings]
    assert [t.words for t in together[:2]] == [[], []]
    assert small.transcribe([np.zeros(16_000, np.float32)])[0].words == []
    assert small.transcribe([]) == []


def test_heads_that_are_not_there_are_named(tmp_path):
    recognizer = asr("rnnt")
    with pytest.raises(ValueError, match="this model has no CTC head: decode with its transducer"):
        recognizer.ctc_log_probs(torch.zeros(1, 2, 72))
    with pytest.raises(CheckpointError, match="head = ctc: this model has no such head"):
        asr("rnnt", head="ctc")
    with pytest.raises(CheckpointError, match="head = transducer: this model has no such head"):
        asr("ctc", head="transducer")
    assert (
        asr("tdt_ctc", head="ctc").transcribe(audio()[2:])[0].text == golden.facts("tdt_ctc")["ctc_greedy"]["text"][2]
    )


@pytest.mark.parametrize("precision", ["bf16", "fp16", "int8"])
def test_features_are_the_same_in_every_precision(precision):
    samples = torch.from_numpy(audio()[2])[None]
    full, half = asr("tdt"), asr("tdt", precision=precision)
    expected, found = (each.features(samples, torch.tensor([samples.shape[1]])) for each in (full, half))
    assert torch.equal(found.features_BFT, expected.features_BFT)
    encoded, _ = half.encode(*found)
    assert encoded.dtype == torch.float32
    difference = (encoded - full.encode(*expected).encoded_BSC).abs()
    assert difference.max() < (0.05 if precision == "fp16" else 0.5)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_what_is_kept_in_float32_lessens_the_error_of_a_precision(precision):
    full, half = asr("tdt"), asr("tdt", precision=precision)
    samples = torch.from_numpy(audio()[2])[None]
    features = full.features(samples, torch.tensor([samples.shape[1]]))
    expected = full.encode(*features).encoded_BSC
    block, same = half.model.encoder.blocks[0], full.model.encoder.blocks[0]
    assert torch.equal(block.attention_norm.weight, same.attention_norm.weight)
    assert torch.equal(half.model.encoder.subsampling.first.weight, full.model.encoder.subsampling.first.weight)
    assert block.feed_forward_in.enter.weight.dtype == block.attention.content_bias_HD.dtype == DTYPES[precision]
    error = (half.encode(*features).encoded_BSC - expected).square().mean()
    half.model.encoder = cast_for_inference(asr("tdt").model.encoder, precision)
    whole = (half.encode(*features).encoded_BSC - expected).square().mean()
    assert error < 0.8 * whole


def test_linear_layers_of_blocks_multiply_bytes_in_int8_and_all_else_is_float32(monkeypatch):
    encoder = asr("tdt", precision="int8").model.encoder
    packed = {name: own.packed.weights for name, own in encoder.named_modules() if getattr(own, "packed", None)}
    assert [name for name, kind in packed.items() if name.startswith("blocks.1.") and kind == "int8"] == [
        f"blocks.1.{name}" for name in (
            "feed_forward_in.enter", "feed_forward_in.leave", "attention.qkv", "attention.leave", "convolution.enter",
            "convolution.leave", "feed_forward_out.enter", "feed_forward_out.leave",
        )
    ]  # fmt: skip
    assert {own.dtype for own in encoder.parameters()} == {torch.float32}
    monkeypatch.setattr(native, "load", lambda: None)
    with pytest.raises(ConfigError, match=r"^precision = int8 is for .* FastConformers on a CPU.*take bf16 or fp32$"):
        asr("tdt", precision="int8")


def test_weights_that_do_not_fit_their_description_are_named(tmp_path):
    described = archives.description()
    described["encoder"]["n_layers"] = 3
    import yaml

    path = archives.write(tmp_path / "a.nemo", archives.files(model_config=yaml.safe_dump(described).encode()))
    with pytest.raises(CheckpointError, match=r"does not fit its configuration: .*Missing key.*encoder.blocks.2"):
        fastconformer.load(path)


def test_local_attention_hears_the_same_where_it_sees_all_frames():
    samples = audio()
    expected, wide, narrow = (asr("tdt", local_attention=w).transcribe(samples) for w in (None, (150, 150), (3, 3)))
    assert [t.text for t in wide] == [t.text for t in expected]
    assert [t.text for t in narrow] != [t.text for t in expected]


def test_the_package_offers_what_it_says_and_nothing_else(monkeypatch):
    with pytest.raises(
        AttributeError, match=r"^module 'fastconformer' has no attribute 'Hypothesis'; it has .*PieceHyp"
    ):
        fastconformer.Hypothesis  # noqa: B018

    def without_torch(module):
        raise ModuleNotFoundError(name="torch")

    monkeypatch.setattr(fastconformer, "import_module", without_torch)
    with pytest.raises(ImportError, match=r"^fastconformer\.rnnt_loss needs torch: pip install torch$"):
        fastconformer.rnnt_loss  # noqa: B018

import copy
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import ctc
import jasper
from common.audio import waveform
from common.audio.silence import SILENCE_HOP, trim_silence
from common.features import LogMel
from common.recognition.cutting.chunks import AudioChunk
from common.recognition.decoding import DecodingOptions
from ctc.ngram import estimate
from jasper.recognizer import Recognizer
from tests.data import shared
from tests.jasper.tiny import save_tiny, tiny_config

RATE = 16_000


@pytest.fixture(scope="module")
def clips() -> list[Path]:
    """Real sentences of different lengths."""
    return sorted(shared("data/librispeech-mini/LibriSpeech/test-other").rglob("*.flac"))[:5]


@pytest.fixture(scope="module")
def golden() -> Recognizer:
    """A published checkpoint, with random weights: whatever changes its input shows in its text."""
    return jasper.load(shared("golden/jasper") / "Jasper_epoch7_checkpoint.pt", device="cpu")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Recognizer:
    return jasper.load(save_tiny(tmp_path_factory.mktemp("model") / "tiny.pt"), device="cpu")


def without_normalisation(asr: Recognizer) -> Recognizer:
    """The same network on features as they are."""
    other = copy.copy(asr)
    features = replace(asr.config.features, normalize="none")
    other.config = replace(asr.config, features=features, data=replace(asr.config.data, trim_silence=False))
    other.log_mel = LogMel(features).eval()
    return other


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, round(seconds * RATE)).astype(np.float32)


def test_the_documented_steps_give_what_transcribe_gives(golden, clips):
    samples = trim_silence(waveform.read(clips[0], sample_rate=RATE).samples).samples
    features, frames = golden.features(torch.from_numpy(samples)[None], torch.tensor([len(samples)]))
    log_probs, frames = golden.model(features, frames)
    (transcript,) = golden.transcribe([clips[0]], keep_log_probs=True)
    torch.testing.assert_close(log_probs[0, : frames[0]], transcript.log_probs_SV, atol=1e-5, rtol=0)


def test_a_long_recording_in_chunks_gives_what_it_gives_at_once(golden, clips):
    asr = without_normalisation(golden)
    samples = np.concatenate([waveform.read(clip, sample_rate=RATE).samples for clip in clips])[: 30 * RATE]
    (whole,) = asr.transcribe([samples], chunk_seconds=1e6, keep_log_probs=True)
    (chunked,) = asr.transcribe([samples], chunk_seconds=26, batch_size=3, keep_log_probs=True)
    # The context of this model is 8.8 s to each side: of 26 s, 8.3 are kept. Log-probabilities reach -80 without
    # normalised features, where a float32 is 8e-6 wide. In a chunk a frame has another place in the blocks of the
    # convolutions, which are within 1e-4 of the direct sums each.
    torch.testing.assert_close(chunked.log_probs_SV, whole.log_probs_SV, atol=2e-4, rtol=0)
    assert chunked.text == whole.text
    assert chunked.words == whole.words


@pytest.mark.parametrize("seconds", [3.0, 3.001, 7.77, 20.0])
@pytest.mark.parametrize("chunk_seconds", [0.01, 1.0, 2.5])
def test_chunks_leave_no_frame_out(tiny, seconds, chunk_seconds):
    samples = noise(seconds)
    asr = without_normalisation(tiny)
    (transcript,) = asr.transcribe([samples], chunk_seconds=chunk_seconds, keep_log_probs=True)
    assert len(transcript.log_probs_SV) == math.ceil(len(samples) / asr.samples_per_frame)


def test_chunks_of_a_recording_are_equally_long(tiny):
    pieces = tiny.cut(len(noise(10.1)), chunk_seconds=3.0)
    kept = [piece.end - piece.first for piece in pieces]
    assert len(pieces) > 3
    assert max(kept) - min(kept) <= 1
    assert max(piece.length for piece in pieces) <= 3 * RATE


def test_silence_in_front_moves_the_words_by_its_length(golden, clips):
    samples = waveform.read(clips[0], sample_rate=RATE).samples
    silence = np.zeros(32 * SILENCE_HOP, np.float32)  # silence is cut in steps of this
    plain, later = golden.transcribe([np.concatenate([silence, samples]), np.concatenate([silence, silence, samples])])
    assert later.text == plain.text
    seconds = len(silence) / RATE
    for word, moved in zip(plain.words, later.words, strict=True):
        assert moved.start == pytest.approx(word.start + seconds, abs=2e-3)
        assert moved.end == pytest.approx(word.end + seconds, abs=2e-3)


def test_three_samples_are_one_frame(tiny):
    (transcript,) = tiny.transcribe([np.full(3, 0.1, np.float32)], keep_log_probs=True)
    assert transcript.log_probs_SV.shape == (1, 29)
    assert transcript.log_probs_SV.isfinite().all()


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_reduced_precision_takes_the_same_steps(tmp_path, precision):
    path = save_tiny(tmp_path / "a.pt")
    exact, reduced = (jasper.load(path, device="cpu", precision=p) for p in ("fp32", precision))
    samples = noise(1.0)
    log_probs = []
    for asr in (exact, reduced):
        features, frames = asr.features(torch.from_numpy(samples)[None], torch.tensor([RATE]))
        assert features.dtype == torch.float32
        log_probs.append(asr.model(features, frames).log_probs_BSV)
        assert log_probs[-1].dtype == torch.float32
        assert asr.transcribe([samples])[0].seconds == 1.0
    # Six convolutions in a row, each rounded to 8 bits (bf16) or 11 (fp16) of logits of about 10.
    torch.testing.assert_close(log_probs[0], log_probs[1], rtol=0, atol={"bf16": 1.0, "fp16": 0.1}[precision])


def test_a_precision_that_is_too_coarse_for_a_network_says_so(tmp_path):
    asr = jasper.load(save_tiny(tmp_path / "a.pt"), device="cpu", precision="fp16")
    asr.model.decoder.weight_OKI.fill_(6e4)
    (transcript,) = asr.transcribe([noise(0.5)])
    assert transcript.error == "array: the network gives NaN in fp16; take bf16 or fp32"


def test_the_configuration_of_a_checkpoint_decides_whether_silence_is_cut(tmp_path):
    samples = np.concatenate([np.zeros(RATE, np.float32), noise(1.0)])
    kept, cut = (
        jasper.load(save_tiny(tmp_path / "a.pt", tiny_config(trim_silence=trim)), device="cpu")
        .transcribe([samples], keep_log_probs=True)[0]
        .log_probs_SV
        for trim in (False, True)
    )
    assert len(kept) == 100
    assert 50 <= len(cut) < 60


def sounding(asr: Recognizer, *texts: str, share: float = 0.6) -> torch.Tensor:
    """Log-probabilities of the first text, frame by frame, where the others are heard almost as loudly."""
    blank = asr.vocabulary.blank
    probs_SV = torch.full((2 * len(texts[0]), blank + 1), 1e-4)
    for text, part in zip(texts, (share, 1 - share), strict=False):
        frames = [label for letter in text for label in (asr.vocabulary.encode(letter)[0], blank)]
        probs_SV[range(len(frames)), frames] += part
    return (probs_SV / probs_SV.sum(1, keepdim=True)).log()


def test_a_language_model_and_hot_words_are_heard_as_by_wav2vec2(tiny, monkeypatch, tmp_path):
    log_probs_SV = sounding(tiny, "the cot sat", "the cat sat", share=0.55)
    monkeypatch.setattr(
        tiny.__class__, "log_probs", lambda self, samples: log_probs_SV[None].repeat(len(samples), 1, 1)
    )
    monkeypatch.setattr(tiny.__class__, "cut", lambda *_: [AudioChunk(0, len(noise(1)), 0, len(log_probs_SV))])
    arpa = tmp_path / "words.arpa"
    ctc.write_arpa(arpa, estimate([["the", "cat", "sat"]], order=2))

    def text(**options):
        return tiny.transcribe([noise(1)], decoder=tiny.decoder(DecodingOptions(**options)))[0]

    assert text().text == text(beam=20).text == "the cot sat"
    assert text(language_model=arpa).text == text(hot_words=("cat sat",)).text == "the cat sat"
    several = text(n_best=3)
    assert several.text == "the cot sat"
    assert several.alternatives[0].text == "the cat sat"
    assert [word.text for word in several.alternatives[0].words] == ["the", "cat", "sat"]
    times = [(0.0, 0.12), (0.12, 0.28), (0.28, 0.44)]  # of 20 ms frames, a letter and a blank
    for found in (text(), text(beam=20), text(language_model=arpa)):
        spans = [(word.start, word.end) for word in found.words]
        assert np.allclose(spans, times, atol=0.021)

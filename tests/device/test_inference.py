import numpy as np
import pytest
import torch

import jasper
from common.features import LogMelConfig
from common.recognition.cutting.tensors import padded
from common.text.pieces import Pieces
from fastconformer.recognizer import Recognizer as TransducerRecognizer
from fastpitch.vocoders.vocoder import Denoiser, load_generator, load_vocoder
from tests.device.mirror import counted
from tests.fastconformer import tiny as transducer_tiny
from tests.fastpitch.tiny import tiny_synthesizer
from tests.fastpitch.vocoders.small import ISTFT, random_mel, save_hifigan, save_waveglow
from tests.jasper.tiny import save_tiny
from tests.wav2vec2.small import ctc_model
from wav2vec2.recognizer import Recognizer

pytestmark = pytest.mark.usefixtures("plain_cpu")


def noise(seconds: float, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, round(seconds * 16_000)).astype(np.float32)


CLIPS = [noise(seconds, seed) for seed, seconds in enumerate((1.0, 0.4, 2.6))]
TEXT = "Hello there. <break time='300ms'/> A second sentence, and it is a longer one!"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_jasper_recognises_what_it_recognises_on_the_cpu(device, tmp_path, precision):
    path = save_tiny(tmp_path / "tiny.pt")
    found = [
        jasper.load(path, device=place, precision=precision).transcribe(CLIPS, chunk_seconds=1.5, keep_log_probs=True)
        for place in ("cpu", "mirror")
    ]
    for here, there in zip(*found, strict=True):
        if precision == "fp32":
            assert np.array_equal(here.log_probs_SV, there.log_probs_SV)
            assert here.words == there.words
        else:  # a CPU computes sums of products in float32 wherever it can
            apart = np.linalg.norm(here.log_probs_SV - there.log_probs_SV) / np.linalg.norm(here.log_probs_SV)
            assert apart < torch.finfo(torch.bfloat16).eps


@pytest.mark.parametrize("kind", ["base", "large", "base hourglass", "large linear"])
def test_wav2vec2_recognises_what_it_recognises_on_the_cpu(device, kind):
    found = [
        Recognizer(ctc_model(kind), device=place).transcribe(CLIPS, chunk_seconds=2, keep_log_probs=True)
        for place in ("cpu", "mirror")
    ]
    for here, there in zip(*found, strict=True):
        torch.testing.assert_close(here.log_probs_SV, there.log_probs_SV, atol=2e-6, rtol=0)  # other stretches
        assert here.text == there.text


@pytest.mark.parametrize("kind", ["jasper", "wav2vec2"])
def test_recognition_waits_for_the_results_of_a_batch_when_the_next_one_was_begun(device, tmp_path, kind):
    if kind == "jasper":
        asr = jasper.load(save_tiny(tmp_path / "tiny.pt"), device="mirror")
    else:
        asr = Recognizer(ctc_model(), device="mirror")
    found = []
    for batches in (2, 5):
        with counted() as counts:
            asr.transcribe([noise(0.4 + i / 2, i) for i in range(batches)], batch_size=1)
        found.append(counts)
    few, many = found
    assert many.copies("from the host, not pinned") == few.copies("from the host, not pinned")
    assert many.copies("from the host, late") - few.copies("from the host, late") == 3 * 2  # samples, how many
    assert many.copies("to the host, late") - few.copies("to the host, late") == 3
    assert many.waits - few.waits == {}


@pytest.mark.parametrize("head", ["transducer", "ctc"])
def test_a_transducer_recognises_what_it_recognises_on_the_cpu(device, head):
    pieces = Pieces(labels=tuple(f"▁{letter}" for letter in "abcdefghijkl"))
    found = []
    for place in ("cpu", "mirror"):
        model = transducer_tiny.model(transducer_tiny.config())
        features = LogMelConfig(mel_bins=transducer_tiny.MEL_BINS)
        asr = TransducerRecognizer(model, features, pieces, device=place, head=head)
        encoded = asr.encode(*asr.features(*padded(CLIPS)))
        found.append((encoded.encoded_BSC.cpu(), encoded.frames_B.cpu(), asr.transcribe(CLIPS)))
    (here_BSC, frames_B, here), (there_BSC, _, there) = found
    for x_SC, y_SC, frames in zip(here_BSC, there_BSC, frames_B.tolist(), strict=True):
        assert torch.equal(x_SC[:frames], y_SC[:frames])
    assert [t.words for t in here] == [t.words for t in there]
    assert any(t.words for t in here)


@pytest.mark.parametrize("kind", ["hifigan", "istft", "waveglow"])
def test_vocoders_say_what_they_say_on_the_cpu_and_wait_once(device, tmp_path, kind):
    path = tmp_path / "vocoder.pt"
    _ = save_waveglow(path) if kind == "waveglow" else save_hifigan(path, *([ISTFT] if kind == "istft" else []))
    here, there = (load_vocoder(path, device=place) for place in ("cpu", "mirror"))
    if kind != "istft":  # on a CPU another layout of the generator speaks
        here.generator = load_generator(path).generator
    mel_BMT, frames_B = random_mel(2, here.features.mel_bins, 20), torch.tensor([20, 9])
    expected_BN = here(mel_BMT, frames_B, sigma=0.5)
    mel_BMT, frames_B = mel_BMT.to(device), frames_B.to(device)
    with counted() as counts:
        found_BN = there(mel_BMT, frames_B, sigma=0.5)
    assert torch.equal(found_BN.cpu(), expected_BN)
    assert counts.waits == {"copy: to the host": 1}  # whether mel spectrogram and lengths can be voiced
    streamed = torch.cat(list(Denoiser(there).stream(mel_BMT, chunk_frames=7)), 1)
    torch.testing.assert_close(streamed.cpu(), Denoiser(here)(mel_BMT.cpu()), atol=1e-5, rtol=0)


def test_a_synthesizer_says_what_it_says_on_the_cpu(device, tmp_path):
    path = save_hifigan(tmp_path / "light.pt", ISTFT)
    said = []
    for place in ("cpu", "mirror"):
        vocoder, tts = load_vocoder(path, device=place), tiny_synthesizer(device=place)
        spoken = tts.say(TEXT, vocoder, pace=0.9, pitch_shift_hz=20)
        chunks = list(tts.stream(TEXT, vocoder=vocoder))
        said.append((spoken, np.concatenate(chunks)))
    (here, stream_here), (there, stream_there) = said
    assert np.array_equal(here.samples_N, there.samples_N)
    assert np.array_equal(stream_here, stream_there)
    for a, b in zip(here.sentences, there.sentences, strict=True):
        assert np.array_equal(a.frames_L, b.frames_L)
        assert np.array_equal(a.pitch_hz_L, b.pitch_hz_L)
        assert torch.equal(a.mel_MT.cpu(), b.mel_MT.cpu())

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import fastpitch
from common import config
from common.features import TTS
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from fastpitch.acoustic.checkpoints.own import FORMAT
from fastpitch.acoustic.config import Config
from fastpitch.front.control import Control, ControlError
from fastpitch.front.symbols import TextConfig
from fastpitch.speaking.synthesizer import SynthesisError, Synthesizer, load
from fastpitch.speaking.voicing import Voice, VoicingConfig
from fastpitch.vocoders.vocoder import Vocoder, VocoderError, load_vocoder
from tests.data import shared
from tests.fastpitch.tiny import LETTERS, SMALL, speakers, tiny_model, tiny_synthesizer
from tests.fastpitch.vocoders.small import ISTFT, save_hifigan

LONG = "Hello there. <break time='300ms'/> A second sentence, and it is a longer one! Is this the last?"


@pytest.fixture(scope="module")
def tts() -> Synthesizer:
    return tiny_synthesizer()


@pytest.fixture(scope="module")
def vocoder(tmp_path_factory) -> Vocoder:
    return load_vocoder(save_hifigan(tmp_path_factory.mktemp("vocoder") / "light.pt", ISTFT), device="cpu")


def save(path: Path) -> Path:
    cfg = Config(model=SMALL, text=LETTERS)
    state = {"format": FORMAT, "config": config.to_dict(cfg), "weights": tiny_model().state_dict(), "ema": None}
    checkpoint.save(path, state)
    return path


def test_a_text_becomes_samples_at_the_rate_of_the_vocoder(tts, vocoder):
    samples_N, rate = tts.synthesize("Hello <break time='300ms'/> world.", vocoder=vocoder, pace=0.9, pitch_shift_hz=20)
    assert rate == 22_050
    assert samples_N.dtype == np.float32
    spoken = tts.say("Hello <break time='300ms'/> world.", vocoder, pace=0.9, pitch_shift_hz=20)
    assert len(spoken.sentences) == 2
    frames = sum(int(sentence.frames_L.sum()) for sentence in spoken.sentences)
    assert len(samples_N) == frames * 256 + 6615
    first = int(spoken.sentences[0].frames_L.sum()) * 256
    assert not samples_N[first : first + 6615].any()
    assert spoken.sentences[1].first_sample == first + 6615


def test_a_stream_is_the_whole(tts, vocoder):
    whole_N = tts.synthesize(LONG, vocoder=vocoder, pace=0.7).samples
    chunks = list(tts.stream(LONG, vocoder=vocoder, pace=0.7))
    assert len(chunks) > 4
    np.testing.assert_allclose(np.concatenate(chunks), whole_N, rtol=0, atol=1e-4)


def test_a_stream_begins_before_the_later_sentences_are_looked_at(tts, vocoder, monkeypatch):
    begun = []
    monkeypatch.setattr(tts.model, "infer", lambda *a, infer=tts.model.infer, **k: (begun.append(1), infer(*a, **k))[1])
    next(tts.stream(LONG, vocoder=vocoder))
    assert len(begun) == 1


def test_texts_share_batches_and_sound_as_they_do_alone(tts, vocoder):
    texts = ["Hi.", LONG, "Something of middling length."] * 3
    together = list(tts.speak([tts.plan(text) for text in texts], Voice(vocoder, VoicingConfig(batch_size=4))))
    for text, spoken in zip(texts, together, strict=True):
        alone_N = tts.synthesize(text, vocoder=vocoder).samples
        np.testing.assert_allclose(spoken.samples_N, alone_N, rtol=0, atol=1e-4)


def test_loudness_is_kept(tts, vocoder):
    quiet = tts.say("Hello there.", Voice(vocoder, VoicingConfig(fade_out=0)))
    sound_N = vocoder(quiet.sentences[0].mel_MT[None])[0].numpy()
    np.testing.assert_allclose(quiet.samples_N, sound_N, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        ({"pitch_flatten": True}, lambda hz, mean: mean + 0 * hz),
        ({"pitch_invert": True}, lambda hz, mean: 2 * mean - hz),
        ({"pitch_amplify": 1.5}, lambda hz, mean: mean + 1.5 * (hz - mean)),
        ({"pitch_shift_hz": 30.0}, lambda hz, mean: hz + 30),
        ({"pitch_curve_hz": ((0.0, 150.0), (1.0, 150.0))}, lambda hz, mean: 150 + 0 * hz),
    ],
)
def test_pitch_is_what_is_asked_for(tts, vocoder, control, expected):
    (plain,), (changed,) = (tts.say("Hello there.", vocoder, **c).sentences for c in ({}, control))
    mean = float(tts.model.pitch_mean[0])
    np.testing.assert_allclose(changed.pitch_hz_L, expected(plain.pitch_hz_L, mean), rtol=1e-4)
    assert np.array_equal(changed.frames_L, plain.frames_L)


def test_a_word_and_a_symbol_can_be_controlled(tts, vocoder):
    plain = tts.say("Hello there.", vocoder).sentences[0]
    changed = tts.say("Hello there.", vocoder, words="there: pitch_shift=40", symbols="1: pitch_shift=-10").sentences[0]
    difference_L = (changed.pitch_hz_L - plain.pitch_hz_L).round(2)
    assert difference_L.tolist() == [-10, 0, 0, 0, 0, 0, 40, 40, 40, 40, 40, 0]


def test_speakers_differ_and_are_checked(vocoder):
    tts = tiny_synthesizer(speakers(2))
    first, second = (tts.synthesize("Hello.", vocoder=vocoder, speaker=speaker).samples for speaker in (0, 1))
    assert first.shape != second.shape or np.abs(first - second).max() > 1e-3
    with pytest.raises(ControlError, match="speaker 2: FastPitch has 0 to 1"):
        tts.plan("Hello.", speaker=2)


def test_a_control_that_is_none_is_named(tts):
    with pytest.raises(ControlError, match="'speed': no control; known: pace, "):
        tts.plan("Hello.", speed=2)
    control = Control(pace=2.0)
    assert set(tts.plan("Hello.", control=control, pitch_shift_hz=1.0)[0].edits.pace_L.tolist()) == {2.0}


def test_a_vocoder_for_other_features_is_refused(tts, vocoder):
    other = replace(TTS, mel_bins=20)
    wrong = Vocoder(vocoder.generator, other, name="other")
    for say in (tts.synthesize, lambda text, vocoder: list(tts.stream(text, vocoder=vocoder))):
        with pytest.raises(
            VocoderError, match="other: takes mel spectrograms with mel_bins 20, but FastPitch has mel_bins 8"
        ):
            say("Hi.", vocoder=wrong)


def test_a_text_that_becomes_no_frames_is_an_error(vocoder):
    tts = tiny_synthesizer()
    with pytest.raises(
        SynthesisError, match="FastPitch gives it no frames; its pace is too fast, or the model is not tr"
    ):
        tts.synthesize("Hello.", vocoder=vocoder, pace=1e6)
    with pytest.raises(SynthesisError, match="gives it no frames"):
        list(tts.stream("Hello.", vocoder=vocoder, pace=1e6))


@pytest.mark.parametrize(
    ("precision", "advice"),
    [("fp32", "its weights are damaged, or a control is far too great"), ("fp16", "take bf16 or fp32")],
)
def test_numbers_that_are_not_finite_are_told_and_spoil_no_other_text(vocoder, precision, advice):
    tts = tiny_synthesizer()
    tts.model.symbols.weight[tts.text.encode("z").tokens[0]] = torch.nan
    tts.precision = precision
    spoken = list(tts.speak([tts.plan("Hello."), tts.plan("Zebra."), tts.plan("You.")], Voice(vocoder)))
    assert [bool(each.error) for each in spoken] == [False, True, False]
    assert spoken[1].error == f"FastPitch gives NaN in {precision}; {advice}"
    assert len(spoken[0].samples_N) > 0


@pytest.mark.parametrize("precision", ["bf16", "fp32", "tf32"])
def test_every_precision_speaks(vocoder, precision):
    samples_N = tiny_synthesizer(precision=precision).synthesize("Hello.", vocoder=vocoder).samples
    assert np.isfinite(samples_N).all()


def test_a_published_checkpoint_says_what_it_said_there():
    golden = shared("golden/tts")
    tts = fastpitch.load(golden / "FastPitch_checkpoint_3.pt", device="cpu")
    with np.load(golden / "fastpitch_expected.npz") as expected:
        tokens_BT, lengths_B = torch.from_numpy(expected["tokens"]), torch.from_numpy(expected["token_lens"])
        said = tts.infer(tokens_BT, lengths_B, pace=1.0, speaker=0, durations_BT=None)
        for row in range(len(tokens_BT)):
            mel_MT = said.mel_BMT[row, :, : int(said.frames_B[row])]
            np.testing.assert_allclose(mel_MT, expected[f"mel_{row}"], rtol=0, atol=1e-4)


def test_a_checkpoint_describes_itself(tmp_path, vocoder):
    tts = load(save(tmp_path / "own.pt"), device="cpu")
    assert tts.text.config == replace(LETTERS, unknown_characters="skip")
    assert tts.features == TTS
    expected = tiny_synthesizer().synthesize("Hello.", vocoder=vocoder).samples
    np.testing.assert_array_equal(tts.synthesize("Hello.", vocoder=vocoder).samples, expected)
    spaced = load(tmp_path / "own.pt", device="cpu", text=replace(LETTERS, append_space=True))
    assert spaced.plan("Hi.")[0].encoded.symbols == ["h", "i", ".", " "]


def test_a_checkpoint_that_does_not_fit_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="own.pt: does not fit its configuration: .*symbols.weight"):
        load(save(tmp_path / "own.pt"), text=TextConfig(symbol_set="english_mandarin_basic"))


def test_the_package_has_what_it_promises():
    assert fastpitch.load is load
    assert fastpitch.load_vocoder is load_vocoder
    assert all(getattr(fastpitch, name) for name in fastpitch.__all__)
    with pytest.raises(AttributeError, match="module 'fastpitch' has no attribute 'lod'; it has Denoiser, "):
        fastpitch.lod  # noqa: B018

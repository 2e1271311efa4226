import numpy as np
import pytest
import torch

import fastpitch
from fastpitch import export
from fastpitch.front.control import Control, ControlError
from fastpitch.front.symbols import EncodedText, TextProcessor
from fastpitch.speaking.sentences import Saying, SynthesisError
from fastpitch.vocoders.spans import CHUNK_FRAMES
from trt.facts import ModelError, facts_in
from trt.runtime.recognizer import OnnxModel
from trt.runtime.voice import Synthesizer, Vocoder

TEXT = "Good morning, {HH AH0 L OW1}. <prosody rate='80%'>How are you</prosody> today?"


@pytest.fixture(scope="module")
def tts(voice) -> Synthesizer:
    return Synthesizer(voice / "tts.onnx", Vocoder(voice / "v.onnx"))


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"speaker": 1, "pace": 1.3, "pitch_shift_hz": 30.0, "words": "how: pace=0.7 energy=2"},
        {"control": Control(pitch_curve_hz=((0.0, 180.0), (1.0, 260.0)), energy=0.5)},
    ],
)
def test_a_text_sounds_as_that_of_the_checkpoint(tts, voice, how):
    theirs = fastpitch.load(voice / "tts.pt", device="cpu")
    expected = theirs.synthesize(TEXT, vocoder=fastpitch.load_vocoder(voice / "v.pt", device="cpu"), **how)
    found = tts.say(TEXT, **how)
    assert found.sample_rate == expected.sample_rate == 22_050
    assert found.samples.shape == expected.samples.shape
    assert np.abs(found.samples - expected.samples).max() < 1e-3 * np.abs(expected.samples).max()


def test_a_stream_is_the_whole_and_begins_before_the_later_sentences_are_made(tts, monkeypatch):
    whole_N = tts.say(TEXT).samples
    made = []
    sentences = tts.sentences
    monkeypatch.setattr(tts, "sentences", lambda pieces: made.extend(pieces) or sentences(pieces))
    stream = tts.stream(TEXT, chunk_frames=16)
    pieces = [next(stream)]
    assert len(made) == 1
    pieces += stream
    assert len(made) == 2
    assert np.abs(np.concatenate(pieces) - whole_N).max() < 1e-5


def test_a_sentence_says_what_its_symbols_got(tts, voice):
    (piece,) = tts.plan("Good morning.", speaker=1)
    sentence = tts.sentence(piece)
    theirs = fastpitch.load(voice / "tts.pt", device="cpu")
    (expected,) = theirs.sentences(theirs.plan("Good morning.", speaker=1), batch_size=1)
    assert sentence.frames_L.tolist() == expected.frames_L.tolist()
    assert np.allclose(sentence.pitch_hz_L, expected.pitch_hz_L, atol=1e-2)
    assert np.allclose(sentence.mel_MT, expected.mel_MT.numpy(), atol=5e-5)


def test_texts_that_are_said_together_are_what_each_is_alone(tts):
    """Texts of different lengths, speakers and controls, with pauses, one of which joins when the others have begun."""
    texts = [(TEXT, {"pace": 1.2}), ("Hello. <break time='120ms'/> You.", {"speaker": 1}), ("Good evening, all.", {})]
    plans = [tts.plan(text, **how) for text, how in texts]
    alone = [np.concatenate(list(tts.stream_pieces(plan))) for plan in plans]
    sayings = [Saying(plan, chunk_frames=CHUNK_FRAMES) for plan in plans]
    found: list[list[np.ndarray]] = [[], [], []]
    under_way = [0, 1]
    while under_way:
        for i, said in zip(under_way, tts.next_sounds([sayings[i] for i in under_way]), strict=True):
            if said is None:
                under_way = [other for other in under_way if other != i]
            else:
                found[i].append(said)
        if not found[2]:
            under_way.append(2)
    for own, expected_N in zip(found, alone, strict=True):
        together_N = np.concatenate(own)
        assert together_N.shape == expected_N.shape
        assert np.abs(together_N - expected_N).max() < 1e-5
    assert len(found[0]) > 2


def test_sentences_in_a_batch_get_the_durations_that_each_gets_alone(tts):
    plan = [piece for text in ("Good morning.", TEXT, "Hi.") for piece in tts.plan(text) if piece.encoded.tokens]
    for piece, together in zip(plan, tts.sentences(plan), strict=True):
        alone = tts.sentence(piece)
        assert together.frames_L.tolist() == alone.frames_L.tolist()
        assert np.allclose(together.mel_MT, alone.mel_MT, atol=1e-5)


def test_what_cannot_be_said_does_not_disturb_what_can(tts):
    good, bad = tts.plan("Good morning."), tts.plan("Hi.", pace=1e6)
    expected = np.concatenate(list(tts.stream_pieces(good)))
    sayings = [Saying(plan, chunk_frames=None) for plan in (bad, good)]
    wrong, right = tts.next_sounds(sayings)
    assert isinstance(wrong, SynthesisError)
    assert np.abs(right - expected[: len(right)]).max() < 1e-5


def test_what_cannot_be_said_is_told(tts):
    with pytest.raises(
        SynthesisError, match=r"tts\.onnx gives it no frames; its pace is too fast, or the model is not"
    ):
        tts.say("Hi.", pace=1e6)
    assert np.isfinite(tts.say("Hi.", pitch_shift_hz=1e38).samples).all()
    with pytest.raises(ControlError, match=r"speaker 2: .*tts\.onnx has 0 to 1"):
        tts.say("Hi.", speaker=2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_spectrogram_that_is_not_finite_is_told_in_one_line(tts, voice, value):
    (piece,) = tts.plan("Hi.")
    for own, made in ((tts, np.asarray), (fastpitch.load(voice / "tts.pt", device="cpu"), torch.from_numpy)):
        said = own.sentence(piece)
        mel_MT = np.asarray(said.mel_MT).copy()
        mel_MT[3, 1] = value
        assert own.problem(said) == ""
        assert "gives NaN in fp32; its weights are damaged" in own.problem(said._replace(mel_MT=made(mel_MT)))


def test_of_pauses_alone_there_is_no_sentence(tts, voice):
    (*_, pause) = tts.plan("Hi. <break time='1s'/>")
    for own in (tts, fastpitch.load(voice / "tts.pt", device="cpu")):
        assert own.sentences([pause._replace(encoded=EncodedText([], [], [], []))]) == []


def test_the_marks_that_a_checkpoint_has_not_learned_are_left_out_as_there(voice, tts, monkeypatch):
    theirs = fastpitch.load(voice / "tts.pt", device="cpu")
    theirs.text = TextProcessor(theirs.text.config, learned=[s for s in theirs.text.symbols if s not in ".,"])
    file = OnnxModel(voice / "tts.onnx")
    file.facts = facts_in(export.graph(theirs).metadata)
    monkeypatch.setattr("trt.runtime.voice.OnnxModel", lambda *_, **__: file)
    own = Synthesizer(voice / "tts.onnx", tts.vocoder)
    for text, said in (("Hi, you.", ["hi you"]), ("Hi! You?", ["hi!", "you?"])):
        found = [piece.encoded for piece in own.plan(text)]
        assert found == [piece.encoded for piece in theirs.plan(text)]
        assert ["".join(each.symbols) for each in found] == said


def test_files_that_do_not_fit_are_told(voice, jasper, tts, monkeypatch):
    with pytest.raises(ModelError, match="takes audio_BN, samples_B; expected a vocoder that trt.export wrote"):
        Vocoder(jasper.with_suffix(".onnx"))
    with pytest.raises(ModelError, match="takes mel_BMT, frames_B; expected a whole FastPitch that trt.export wrote"):
        Synthesizer(voice / "v.onnx", tts.vocoder)
    other = Vocoder(voice / "v.onnx")
    other.features = other.features | {"hop_samples": 300}
    with pytest.raises(ModelError, match=r"v\.onnx: takes mel spectrograms with hop_samples 300, but .* 256; use a"):
        Synthesizer(voice / "tts.onnx", other)

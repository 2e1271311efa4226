"""Sentences that Triton says: their tensors, and the lane of the gateway. `test_triton` has the server itself."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from fastpitch.front.control import Control
from fastpitch.speaking.sentences import Saying
from trt.serve import ServeConfig
from trt.serving.admission.limits import RequestError
from trt.serving.models import load_voice
from trt.serving.triton.asking import RefusalError, RemoteVoice
from trt.serving.triton.sentences import piece_of, tensors_of

TEXTS = [
    "Hello there.",
    "One two three, four. Five!",
    'Go <prosody rate="150%">on now</prosody> <break time="300ms"/> then.',
]


@pytest.fixture(scope="module")
def loaded(voice):
    return load_voice(voice / "tts.onnx", voice / "v.onnx", threads=1)


def planned(loaded, text: str, speaker: int = 1):
    return loaded.planned(text, speaker=speaker, control=Control(pace=1.1))


class Answering:
    """What Triton's model computes, without Triton."""

    def __init__(self, loaded):
        self.loaded, self.asked = loaded, 0

    async def __call__(self, model, inputs, output):
        assert (model, output) == ("voice", "sound")
        self.asked += 1
        arrays = [inputs[name] for name in ("tokens", "edits", "speaker")]
        return self.loaded.whole([[piece_of(*arrays, speakers=self.loaded.speakers)]])[0][None]


def test_a_text_said_sentence_by_sentence_elsewhere_sounds_as_it_does_here(loaded):
    async def said(plan, infer):
        lane, saying, pieces = (
            RemoteVoice(infer, sample_rate=loaded.sample_rate, most=2),
            Saying(plan, chunk_frames=9),
            [],
        )
        while (piece_N := await lane(saying)) is not None:
            pieces.append(piece_N)
        return np.concatenate(pieces)

    for text in TEXTS:
        plan, infer = planned(loaded, text), Answering(loaded)
        expected_N = loaded.whole([plan])[0]
        np.testing.assert_allclose(asyncio.run(said(plan, infer)), expected_N, atol=1e-5)
        assert infer.asked == sum(bool(piece.encoded.tokens) for piece in plan)


def test_a_sentence_that_cannot_be_said_is_the_fault_of_the_request_and_any_other_refusal_of_the_engine(loaded):
    def answer(status: int):
        class Refusing:
            async def __call__(self, model, inputs, output):
                raise RefusalError(status, "it gives NaN")

        saying = Saying(planned(loaded, "Hello."), chunk_frames=9)
        return asyncio.run(RemoteVoice(Refusing(), sample_rate=loaded.sample_rate, most=2)(saying))

    said = answer(400)
    assert isinstance(said, ValueError)
    assert str(said) == "it gives NaN"
    with pytest.raises(RequestError, match="Triton: it gives NaN") as raised:
        answer(500)
    assert raised.value.status == 500


def test_sentences_that_are_said_together_sound_as_they_do_alone(loaded):
    pieces = [piece for text in TEXTS for piece in planned(loaded, text) if piece.encoded.tokens]
    for piece, sound_N in zip(pieces, loaded.whole([[piece] for piece in pieces]), strict=True):
        np.testing.assert_allclose(sound_N, loaded.whole([[piece]])[0], atol=1e-5)


def test_what_cannot_be_said_is_the_reason_in_its_place_and_does_not_harm_others(loaded):
    good, bad = planned(loaded, "Good.")[0], planned(loaded, "Bad.")[0]
    bad = bad._replace(edits=bad.edits._replace(pitch_shift_L=np.full_like(bad.edits.pitch_shift_L, np.nan)))
    found = loaded.whole([[bad], [good]])
    assert "gives NaN" in str(found[0])
    np.testing.assert_allclose(found[1], loaded.whole([[good]])[0], atol=1e-5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tokens": np.zeros((1, 0), np.int64)}, "expected .1, L. and .1, 6, L. of one sentence"),
        ({"edits": np.zeros((1, 6, 3), np.float32)}, "expected .1, L. and .1, 6, L. of one sentence"),
        ({"speaker": np.array([[2]])}, "speaker 2: expected 0 to 1"),
    ],
)
def test_tensors_that_are_no_sentence_are_refused(loaded, changed, message):
    (piece,) = planned(loaded, "Hello.")
    with pytest.raises(ValueError, match=message):
        piece_of(*(tensors_of(piece) | changed).values(), speakers=2)


def test_a_voice_in_triton_needs_both():
    asr, voice = {"asr": Path("m.onnx")}, {"tts": Path("t.onnx"), "vocoder": Path("v.onnx")}
    for how in (asr, asr | {"engine": "triton"}, voice):
        with pytest.raises(ValueError, match="voice_engine triton: expected --engine triton, and a voice with --tts"):
            ServeConfig(voice_engine="triton", **how)

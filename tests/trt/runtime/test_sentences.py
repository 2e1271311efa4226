from types import SimpleNamespace

import numpy as np
import pytest

from fastpitch.front.control import Control
from fastpitch.speaking.sentences import Saying, say_together
from trt.serving.models import load_voice


def test_a_sound_that_cannot_be_made_takes_none_from_the_others():
    """They are asked for again without it, and go on where they were."""
    planned = [SimpleNamespace(name=name, encoded=SimpleNamespace(tokens=(1,)), pause_ms=0) for name in (1.0, 3.0, 5.0)]
    sayings = [Saying([piece], chunk_frames=1) for piece in planned]

    def sounds(speaking):
        if any(saying.sentence == 3.0 and saying.frames_said for saying in speaking):
            raise MemoryError("the device is full")
        return [np.full(2, saying.sentence + saying.frames_said, np.float32) for saying in speaking]

    def said(*sayings):
        found = say_together(
            sayings, sentences=lambda pieces: [(piece.name, 2) for piece in pieces], sounds=sounds, sample_rate=8000
        )
        return [piece if piece is None else piece[0] for piece in found]

    assert said(*sayings) == [1.0, 3.0, 5.0]
    with pytest.raises(MemoryError, match="the device is full"):
        said(*sayings)
    assert said(sayings[0], sayings[2]) == [2.0, 6.0]
    with pytest.raises(MemoryError, match="the device is full"):
        said(sayings[1])
    assert said(sayings[0], sayings[2]) == [None, None]


def test_texts_that_a_checkpoint_says_together_are_what_each_is_alone(talker):
    """Texts of different lengths and paces, one of which joins when the others have begun; one vocoder for all."""
    voice = load_voice(*talker, device="cpu")
    texts = (("good morning all of you", 0.5), ("hi. <break time='90ms'/> you", 1.0), ("who is there", 0.7))
    plans = [voice.planned(text, control=Control(pace=pace)) for text, pace in texts]

    def all_said(plans, late=()):
        sayings = {i: Saying(plan, chunk_frames=16) for i, plan in enumerate(plans)}
        found = [[] for _ in plans]
        waits = set(late)
        while sayings:
            now = [i for i in sayings if i not in waits]
            for i, said in zip(now, voice.next_sounds([sayings[i] for i in now]), strict=True):
                assert not isinstance(said, Exception)
                if said is None:
                    del sayings[i]
                else:
                    found[i].append(said)
            waits.clear()
        return [np.concatenate(pieces) for pieces in found]

    together = all_said(plans, late=[2])
    for plan, found_N in zip(plans, together, strict=True):
        (alone_N,) = all_said([plan])
        assert found_N.shape == alone_N.shape
        assert len(found_N) == sum(map(voice.samples, plan)) > 0
        assert alone_N.any()
        assert np.abs(found_N - alone_N).max() < 1e-5

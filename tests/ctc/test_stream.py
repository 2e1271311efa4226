"""Beam search in chunks: at any time what the whole search would find there."""

import math

import numpy as np
import pytest
import torch

import ctc
from ctc import stream as stream_module
from tests.ctc.test_beam import logits, word_scorer


@pytest.fixture(params=["native", "Python"], autouse=True)
def with_or_without_the_library(request, monkeypatch):
    if request.param == "Python":
        monkeypatch.setattr(stream_module._native, "load", lambda: None)
        monkeypatch.setattr(stream_module._library, "warn_slow", lambda what: None)


@pytest.mark.parametrize("with_scorer", [False, True])
@pytest.mark.parametrize("chunk", [1, 4, 30])
def test_chunks_find_what_the_whole_finds(chunk, with_scorer):
    scorer = word_scorer()[0] if with_scorer else None
    options = ctc.BeamOptions(beam=12, n_best=5)
    log_probs_SV = logits(1, 30, 5)[0]
    stream = ctc.BeamStream(5, blank=4, scorer=scorer, options=options)
    for first in range(0, 30, chunk):
        assert stream.push(log_probs_SV[first : first + chunk])
        frames = stream.frames
        (whole,) = ctc.beam_search(log_probs_SV[None], [frames], blank=4, scorer=scorer, options=options)
        for found in (stream.hypotheses(), stream.hypotheses()):  # asking changes nothing
            assert [h.labels for h in found] == [h.labels for h in whole]
            assert [h.score for h in found] == pytest.approx([h.score for h in whole], abs=1e-5)
            assert [h.start_frames for h in found] == [h.start_frames for h in whole]


def test_a_stream_without_frames_has_read_nothing():
    stream = ctc.BeamStream(3)
    assert stream.hypotheses() == [([], 0.0, 0.0, 0.0, [], [])]
    assert stream.push(torch.zeros(0, 3))


def test_a_stream_takes_arrays_and_keeps_no_hold_of_them():
    log_probs_SV = logits(1, 12, 5)[0].double()
    stream, buffer = ctc.BeamStream(5, blank=4), np.empty((3, 5))
    for first in range(0, 12, 3):
        buffer[:] = log_probs_SV[first : first + 3].numpy()
        assert stream.push(buffer)
    assert stream.hypotheses()[0].labels == ctc.beam_search(log_probs_SV[None], [12], blank=4)[0][0].labels
    for wrong in (buffer[0], buffer[None]):
        with pytest.raises(ValueError, match=r"log_probs_SV: expected \(frame, label\), found shape"):
            stream.push(wrong)


def test_a_stream_ends_where_its_scores_are_no_numbers():
    stream = ctc.BeamStream(5)
    assert stream.push(logits(1, 3, 5)[0])
    assert not stream.push(torch.full((1, 5), math.nan))
    assert not stream.push(logits(1, 3, 5)[0])
    assert stream.hypotheses() == []


def test_a_stream_takes_the_same_memory_however_long_it_is(with_or_without_the_library):
    stream = ctc.BeamStream(5, options=ctc.BeamOptions(beam=4))
    if stream.memory == 0:
        pytest.skip("without the library all frames are kept")
    address, memory = stream._state.ctypes.data, stream.memory
    frames = torch.full((4000, 5), -4.0)
    frames[torch.arange(4000), torch.arange(4000) % 40 // 10] = 0.0
    for _ in range(5):
        assert stream.push(frames)
    assert (stream._state.ctypes.data, stream.memory) == (address, memory)
    assert memory < 3_000_000
    assert stream.hypotheses()[0].labels == [1, 2, 3] * 500


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ctc.BeamStream(5, blank=5), r"blank: expected a label in \[0, 5\), found 5"),
        (lambda: ctc.BeamStream(7, scorer=word_scorer()[0]), "BeamStream: scorer: expected 7 labels, found 4"),
        (lambda: ctc.BeamStream(5).push(torch.zeros(2, 4)), "BeamStream: expected 5 labels, found 4"),
        (
            lambda: ctc.BeamStream(5).push(torch.zeros(4)),
            r"BeamStream: log_probs_SV: expected \(frame, label\), found shape \(4,\)",
        ),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()

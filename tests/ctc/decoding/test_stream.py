"""Beam search in chunks: at any time what the whole search would find there."""

import math

import numpy as np
import pytest
import torch

import ctc
from ctc.decoding import stream as stream_module
from tests.ctc.decoding.test_beam import logits, word_scorer


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


def test_a_stream_takes_the_same_memory_however_long_it_is():
    stream = ctc.BeamStream(5, options=ctc.BeamOptions(beam=4))
    address, memory = stream.stream_state.ctypes.data, stream.memory
    frames = torch.full((4000, 5), -4.0)
    frames[torch.arange(4000), torch.arange(4000) % 40 // 10] = 0.0
    for _ in range(5):
        assert stream.push(frames)
    assert (stream.stream_state.ctypes.data, stream.memory) == (address, memory)
    assert memory < 3_000_000
    assert stream.hypotheses()[0].labels == [1, 2, 3] * 500


def settled(stream: ctc.BeamStream, log_probs_SV, sizes) -> tuple[list, list]:
    """The labels of a stream that gets frames in pieces of these sizes in turn, each with its frames and sums, as they
    are settled and at its end; and how many were settled by then."""
    found: list = [[] for _ in range(5)]
    at, i = 0, 0
    while at < len(log_probs_SV):
        for whole, part in zip(found, stream.settle(log_probs_SV[at : at + sizes[i % len(sizes)]]), strict=True):
            whole += part
        at, i = at + sizes[i % len(sizes)], i + 1
    count = len(found[0])
    for whole, part in zip(found, stream.readings()[0][1], strict=True):
        whole += part
    return found, count


@pytest.mark.parametrize("with_scorer", [False, True])
@pytest.mark.parametrize("sizes", [[1], [7], [300], [2, 40, 0, 11]])
def test_labels_settle_one_after_the_other_and_are_those_of_the_whole(sizes, with_scorer):
    scorer = word_scorer()[0] if with_scorer else None
    options = ctc.BeamOptions(beam=6)
    settled_labels = all_labels = 0
    for seed in range(4):
        draw = torch.Generator().manual_seed(seed)
        log_probs_SV = (3 * torch.randn(300, 5, generator=draw)).log_softmax(1)
        log_probs_SV[100:140, 4] += 8  # a silence
        log_probs_SV = log_probs_SV.log_softmax(1)
        ((whole, *_),) = ctc.beam_search(log_probs_SV[None], [300], blank=4, scorer=scorer, options=options)
        stream = ctc.BeamStream(5, blank=4, scorer=scorer, options=options)
        (labels, start, end, log_probs, entropies), count = settled(stream, log_probs_SV, sizes)
        assert (labels, start, end) == (whole.labels, whole.start_frames, whole.end_frames)
        sums = [float(log_probs_SV[a:b, k].sum()) for k, a, b in zip(labels, start, end, strict=True)]
        assert log_probs == pytest.approx(sums, abs=1e-4)
        entropy_S = -(log_probs_SV.exp() * log_probs_SV).sum(1)
        sums = [float(entropy_S[a:b].sum()) for a, b in zip(start, end, strict=True)]
        assert entropies == pytest.approx(sums, abs=1e-4)
        settled_labels, all_labels = settled_labels + count, all_labels + len(labels)
    assert settled_labels > all_labels / 5  # random paths differ for long


@pytest.mark.parametrize("frames", [8, 20])
def test_where_there_is_no_room_the_most_probable_path_settles_labels_wherever_frames_are_cut(frames):
    log_probs_SV = (0.3 * torch.randn(400, 5, generator=torch.Generator().manual_seed(1))).log_softmax(1)
    options = ctc.BeamOptions(beam=20, token_log_prob=-math.inf, beam_log_prob=-math.inf)
    streams = [ctc.BeamStream(5, blank=4, options=options, frames=frames) for _ in range(3)]
    found = [settled(s, log_probs_SV, sizes)[0] for s, sizes in zip(streams, ([1], [400], [30, 2]), strict=True)]
    assert found[0] == found[1] == found[2]
    assert len(found[0][0]) > 50
    assert found[0][1] == sorted(found[0][1])
    assert all(a < b for a, b in zip(found[0][1], found[0][2], strict=True))


def test_every_hypothesis_has_its_frames_where_there_was_no_room():
    options = ctc.BeamOptions(beam=9, n_best=9)
    for seed in range(20):
        log_probs_SV = (4 * torch.randn(91, 2, generator=torch.Generator().manual_seed(seed))).log_softmax(1)
        streams = [ctc.BeamStream(2, options=options, frames=8) for _ in range(2)]
        streams[0].settle(log_probs_SV)
        for frame in log_probs_SV.split(1):
            streams[1].settle(frame)
        (one, other) = ([labels for _, labels in stream.readings()] for stream in streams)
        assert one == other
        for labels in one:
            ends = [0, *labels.end_frames]
            assert all(a <= b < c for a, b, c in zip(ends, labels.start_frames, labels.end_frames, strict=False))


def test_a_copy_goes_on_by_itself():
    log_probs_SV = logits(1, 40, 5)[0]
    stream = ctc.BeamStream(5, blank=4)
    stream.settle(log_probs_SV[:20])
    before = stream.readings()
    other = stream.copy()
    other.settle(log_probs_SV[20:])
    assert stream.readings() == before
    assert (stream.frames, other.frames) == (20, 40)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ctc.BeamStream(5, blank=5), r"blank: expected a label in \[0, 5\), found 5"),
        (lambda: ctc.BeamStream(7, scorer=word_scorer()[0]), "BeamStream: scorer: expected 7 labels, found 4"),
        (lambda: ctc.BeamStream(5, frames=7), "BeamStream: frames: expected room for 8 to 3000, found 7"),
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


def test_without_the_library_there_are_none(monkeypatch):
    monkeypatch.setattr(stream_module._native, "load", lambda: None)
    assert not ctc.BeamStream.is_available()
    with pytest.raises(ValueError, match="BeamStream: it needs the native library; `python -m ctc.build` makes it"):
        ctc.BeamStream(5)

"""Segmentation of recordings whose sentences lie where we put them."""

import itertools
import math

import numpy as np
import pytest
import torch

import ctc
from ctc.alignment.align import viterbi_native, viterbi_numpy
from ctc.alignment.segmentation import SegmentOptions
from ctc.bindings import _native


def recording(sentences, gaps, *, vocabulary=12, margin=9.0, seed=0):
    """(logits, first and last frame of each sentence): labels every third frame, other labels in the gaps."""
    generator = torch.Generator().manual_seed(seed)
    path, spans = [], []
    for gap, sentence in itertools.zip_longest(gaps, sentences):
        for _ in range(gap):
            path += [0, torch.randint(1, vocabulary, (), generator=generator).item(), 0]
        if sentence is not None:
            spans.append((len(path) + 1, len(path) + 3 * len(sentence) - 1))
            for label in sentence:
                path += [0, label, 0]
    logits_SV = torch.randn(len(path), vocabulary, generator=generator)
    logits_SV[range(len(path)), path] += margin
    return logits_SV, spans


def random_sentences(count, length, vocabulary=12, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(1, vocabulary, (length,), generator=generator).tolist() for _ in range(count)]


def assert_found(segments, spans):
    for found, (start, end) in zip(segments, spans, strict=True):
        assert abs(found.start_frame - start) <= 3
        assert abs(found.end_frame - end) <= 3


def test_sentences_are_found_among_speech_that_is_not_in_the_text():
    sentences = random_sentences(6, 25)
    logits_SV, spans = recording(sentences, [40, 0, 15, 60, 0, 3, 30])
    segments = ctc.segment(logits_SV, sentences)
    assert_found(segments, spans)
    assert all(found.score > -0.5 for found in segments)


def test_a_narrow_window_is_widened_until_the_best_path_fits():
    sentences = random_sentences(12, 40)
    logits_SV, spans = recording(sentences, [200, *[0] * 12])
    wide = ctc.segment(logits_SV, sentences, options=SegmentOptions(window=10_000))
    narrow = ctc.segment(logits_SV, sentences, options=SegmentOptions(window=16))
    assert narrow == wide
    assert_found(wide, spans)


def test_a_sentence_that_was_not_said_has_a_low_score():
    sentences = random_sentences(3, 25)
    logits_SV, _ = recording(sentences, [5, 30, 0, 5])
    sentences[1] = random_sentences(1, 25, seed=9)[0]
    scores = [found.score for found in ctc.segment(logits_SV, sentences)]
    assert scores[1] < -2 < -0.5 < min(scores[0], scores[2])


def test_the_kernel_with_gaps_equals_what_serves_without_a_compiler():
    library = _native.load()
    if library is None:
        pytest.skip("the native library is not built")
    for seed in range(20):
        logits_BSV = (3 * torch.randn(1, 30, 4, generator=torch.Generator().manual_seed(seed)).double()).numpy()
        targets_BU = np.array([[1, 2, 2, 3, 1]], np.int32)
        is_gap = np.array([1, 0, 1, 0, 0, 1], bool)
        lengths = (np.array([30]), np.array([5]))
        options = _native.AlignOptions(blank=0, threads=1, is_gap=is_gap.ctypes.data, gap_log_prob=-0.5)
        native, _ = viterbi_native(library, logits_BSV, targets_BU, *lengths, options)
        slow = viterbi_numpy(logits_BSV, targets_BU, *lengths, 0, gaps=(is_gap, -0.5))
        for found, expected in zip(native, slow, strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_without_gaps_segments_are_the_alignment():
    sentences = random_sentences(4, 10)
    logits_SV, _ = recording(sentences, [0] * 5)
    segments = ctc.segment(logits_SV, sentences, options=SegmentOptions(gap_log_prob=-math.inf))
    alignment = ctc.align(logits_SV[None], [list(itertools.chain(*sentences))], [len(logits_SV)])[0]
    assert [found.start_frame for found in segments] == alignment.start_frames[::10]
    assert [found.end_frame for found in segments] == alignment.end_frames[9::10]


def test_no_sentences_have_no_segments():
    assert ctc.segment(torch.zeros(4, 3), []) == []


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([[1], []], "segment: sentences: item 1: expected labels, found none"),
        ([[1, 1], [1]], "segment: 3 labels need at least 5 frames, found 4"),
        ([[1], [3]], r"segment: sentences: item 1: expected labels in \[0, 3\) other than the blank 0, found 3"),
    ],
)
def test_wrong_sentences_are_named(sentences, message):
    with pytest.raises(ValueError, match=message):
        ctc.segment(torch.zeros(4, 3), sentences)


def test_scores_without_a_path_are_refused():
    with pytest.raises(ValueError, match="segment: log_probs_SV: the best path has log-probability nan"):
        ctc.segment(torch.full((4, 3), math.nan), [[1]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gap_log_prob": 0.5}, "gap_log_prob: expected at most 0, found 0.5"),
        ({"window": 0}, "window: expected at least 1, found 0"),
        ({"score_frames": 0}, "score_frames: expected at least 1, found 0"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        SegmentOptions(**options)

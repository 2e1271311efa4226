"""Greedy decoding against a collapse written as a loop."""

import itertools
import math

import numpy as np
import pytest
import torch

import ctc
from ctc.bindings import _native
from ctc.decoding.greedy import greedy_numpy
from ctc.inputs import host_lengths, on_host


def collapsed(log_probs_SV, frames, blank):
    """(label, start, end, confidence) of every run of the best path, frame by frame."""
    best = [max(range(len(row)), key=row.__getitem__) for row in log_probs_SV.tolist()[:frames]]
    spans, frame = [], 0
    for label, run in itertools.groupby(best):
        end = frame + len(list(run))
        if label != blank:
            log_prob = log_probs_SV[frame:end, label].double().mean().item()
            spans.append((label, frame, end, math.exp(log_prob)))
        frame = end
    return spans


def random_scores(batch, frames, labels, seed=0, dtype=torch.float32, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randint(-3, 4, (batch, frames, labels), generator=generator)  # ties happen, and repeats
    return (coarse * scale).to(dtype)


def assert_same(decoded, expected):
    labels, starts, ends, confidence = zip(*expected, strict=True) if expected else ((), (), (), ())
    assert decoded.labels == list(labels)
    assert decoded.start_frames == list(starts)
    assert decoded.end_frames == list(ends)
    assert decoded.confidence == pytest.approx(list(confidence), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("vocabulary", [1, 2, 3, 17, 29, 33, 300])
def test_greedy_equals_a_loop_over_frames(vocabulary, dtype):
    for blank in {0, vocabulary // 2, vocabulary - 1}:
        logits_BSV = random_scores(5, 23, vocabulary, seed=blank, dtype=dtype)
        frames = [23, 0, 1, 11, 22]
        log_probs_BSV = logits_BSV.double().log_softmax(-1)
        for item, decoded in enumerate(ctc.greedy(logits_BSV, frames, blank=blank)):
            expected = collapsed(log_probs_BSV[item], frames[item], blank)
            assert_same(decoded, expected)


def test_the_numpy_path_and_the_kernel_agree():
    logits_BSV = random_scores(7, 50, 9)
    frames_B = torch.tensor([50, 3, 0, 49, 17, 1, 2])
    by_numpy = greedy_numpy(on_host(logits_BSV), host_lengths(frames_B, 7, 50, name="frames"), 4)
    expected = ctc.greedy(logits_BSV, frames_B, blank=4)
    for left, right in zip(by_numpy, expected, strict=True):
        assert left.runs_3U.tolist() == right.runs_3U.tolist()
        assert left.confidence == pytest.approx(right.confidence, rel=1e-5)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_without_a_compiler_numpy_decodes_and_names_what_is_no_number(value, monkeypatch):
    monkeypatch.setattr(_native, "load", lambda: None)
    scores_BSV = np.eye(4)[[[0, 1, 1, 0, 2], [3, 3, 0, 0, 1]]]
    ctc.bindings._library.warn_slow.cache_clear()
    with pytest.warns(ctc.SlowPathWarning, match="ctc.greedy runs in plain numpy, which is slower"):
        first, second = ctc.greedy(scores_BSV, [5, 4])
    assert (first.labels, first.start_frames, first.end_frames) == ([1, 2], [1, 4], [3, 5])
    assert (second.labels, second.end_frames) == ([3], [2])
    scores_BSV[1, 4] = value
    assert len(ctc.greedy(scores_BSV, [5, 4])) == 2
    with pytest.raises(ValueError, match="greedy: log_probs_BSV: item 1: 1 of its frames hold NaN"):
        ctc.greedy(scores_BSV, [5, 5])


def test_logits_and_log_probs_decode_alike():
    logits_BSV = torch.randn(3, 40, 6, generator=torch.Generator().manual_seed(1)) * 5 + 100
    for left, right in zip(
        ctc.greedy(logits_BSV, [40, 40, 30]), ctc.greedy(logits_BSV.log_softmax(-1), [40, 40, 30]), strict=True
    ):
        assert left.runs_3U.tolist() == right.runs_3U.tolist()
        assert left.confidence == pytest.approx(right.confidence, rel=1e-4)


def test_padding_is_never_decoded_and_may_hold_anything():
    logits_BSV = random_scores(2, 12, 5)
    padded_BSV = torch.cat([logits_BSV, torch.full((2, 6, 5), torch.nan)], dim=1)
    padded_BSV[1, 7:] = torch.inf
    assert ctc.greedy(padded_BSV, [12, 7]) == ctc.greedy(logits_BSV, [12, 7])


def test_an_utterance_decodes_alone_as_in_a_batch():
    logits_BSV = random_scores(4, 31, 8)
    batch = ctc.greedy(logits_BSV, [31, 20, 5, 0], blank=7)
    alone = [ctc.greedy(logits_BSV[i, None, :n], [n], blank=7)[0] for i, n in enumerate([31, 20, 5, 0])]
    assert batch == alone


def test_input_is_not_modified_and_needs_no_special_layout():
    logits_SBV = random_scores(4, 31, 8).transpose(0, 1).contiguous()
    before = logits_SBV.clone()
    transposed = ctc.greedy(logits_SBV.transpose(0, 1), [31, 20, 5, 0])
    assert transposed == ctc.greedy(logits_SBV.transpose(0, 1).contiguous(), [31, 20, 5, 0])
    spread = torch.zeros(4, 31, 16)
    spread[:, :, ::2] = logits_SBV.transpose(0, 1)
    assert transposed == ctc.greedy(spread[:, :, ::2], [31, 20, 5, 0])
    assert torch.equal(before, logits_SBV)


def test_empty_batches_and_recordings_decode_to_nothing():
    assert ctc.greedy(torch.zeros(0, 5, 3), []) == []
    for decoded in ctc.greedy(torch.zeros(2, 0, 3), [0, 0]):
        assert decoded.labels == decoded.start_frames == decoded.end_frames == decoded.confidence == []
        assert len(decoded) == 0


def test_what_is_decoded_compares_and_prints_by_its_values():
    logits_BSV = torch.tensor([[[2.0, 0.0], [2.0, 0.0], [0.0, 2.0]], [[0.0, 2.0]] * 3])
    said, silent = ctc.greedy(logits_BSV, [3, 3], blank=1)
    assert said == ctc.greedy(logits_BSV, [3, 3], blank=1)[0] != silent
    assert said != [0]
    assert repr(said).startswith("Decoded(labels=[0], start_frames=[0], end_frames=[2], confidence=[0.88")


def test_scores_that_need_a_gradient_are_decoded():
    assert ctc.greedy(torch.zeros(1, 2, 3, requires_grad=True), [2], blank=1)[0].labels == [0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (torch.zeros(2, 3), [3, 3]),
            r"greedy: log_probs_BSV: expected \(utterance, frame, label\), found shape \(2, 3\)",
        ),
        ((torch.zeros(2, 3, 4, dtype=torch.int32), [3, 3]), "expected a floating-point type, found torch.int32"),
        ((torch.zeros(2, 3, 4), [3, 4]), "greedy: frames_B: item 1: expected at least 0 and at most 3, found 4"),
        ((torch.zeros(2, 3, 4), [-1, 3]), "greedy: frames_B: item 0: expected at least 0 and at most 3, found -1"),
        (
            (torch.zeros(2, 3, 4), [3]),
            r"greedy: frames_B: expected 2 integers, one per utterance, found int64 of",
        ),
        (
            (torch.zeros(2, 3, 4), [3.0, 3.0]),
            "greedy: frames_B: expected 2 integers, one per utterance, found float64 of",
        ),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ctc.greedy(*arguments)


@pytest.mark.parametrize("blank", [-1, 4])
def test_a_blank_outside_the_vocabulary_is_named(blank):
    with pytest.raises(ValueError, match=rf"blank: expected a label in \[0, 4\), found {blank}"):
        ctc.greedy(torch.zeros(2, 3, 4), [3, 3], blank=blank)


def test_an_utterance_with_nan_is_named():
    log_probs_BSV = torch.zeros(3, 4, 5)
    log_probs_BSV[1, 2, 3] = torch.nan
    log_probs_BSV[2, 3, 3] = torch.nan
    with pytest.raises(ValueError, match="greedy: log_probs_BSV: item 1: 1 of its frames hold NaN"):
        ctc.greedy(log_probs_BSV, [4, 4, 3])


def test_arrays_are_taken_as_tensors_are_and_left_as_they_are():
    log_probs_BSV = torch.randn(2, 9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    given = log_probs_BSV.numpy()
    read_only = given.copy()
    read_only.setflags(write=False)
    forms = [given, given.copy("F"), read_only, given[:, ::-1].copy()[:, ::-1]]
    targets = [[1, 2], [3]]
    for array in forms:
        for decode in (ctc.greedy, ctc.beam_search):
            assert decode(array, np.array([9, 6])) == decode(log_probs_BSV, [9, 6])
        found, expected = (ctc.align(scores, targets, [9, 6]) for scores in (array, log_probs_BSV))
        assert found == expected
        assert ctc.segment(array[0], targets) == ctc.segment(log_probs_BSV[0], targets)
        assert np.array_equal(array, given)
    for dtype in (np.float32, np.float16):
        expected = ctc.greedy(torch.from_numpy(given.astype(dtype)), [9, 6])
        assert ctc.greedy(given.astype(dtype), [9, 6]) == expected


@pytest.mark.parametrize("decode", [ctc.greedy, ctc.beam_search])
def test_what_is_neither_tensor_nor_array_is_named(decode):
    with pytest.raises(TypeError, match=r"expected a torch\.Tensor or a numpy\.ndarray, found builtins\.list"):
        decode([[[0.0, 1.0]]], [1])
    for array in (np.zeros((1, 3, 4), np.int64), np.full((1, 3, 4), None)):
        with pytest.raises(ValueError, match=f"log_probs_BSV: expected a floating-point type, found .*{array.dtype}"):
            decode(array, [3])
    with pytest.raises(ValueError, match=r"log_probs_BSV: expected \(utterance, frame, label\), found shape \(3, 4\)"):
        decode(np.zeros((3, 4)), [3])
    with pytest.raises(TypeError, match="frames_B: expected 1 integers, one per utterance, found None"):
        decode(torch.zeros(1, 3, 4), None)


def test_hot_words_without_what_they_add_are_refused():
    with pytest.raises(TypeError, match="hot_words: expected what each adds to a score, .* found list"):
        ctc.Scorer(["a", "b"], hot_words=["ab"])
    with pytest.raises(TypeError, match="hot_words: expected what each adds to a score, .* found tuple"):
        ctc.Scorer(["a", "b"]).with_hot_words(("ab",))

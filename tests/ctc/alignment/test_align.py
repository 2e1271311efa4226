"""Forced alignment against every alignment there is."""

import itertools
import math

import numpy as np
import pytest
import torch

import ctc
from ctc.alignment.align import viterbi_numpy
from ctc.bindings import _library, _native
from tests.ctc.enumeration import collapse
from tests.data import shared

IMPOSSIBLE = -math.inf


def best_path(log_probs_SV, labels, blank):
    """(log-probability, path) of the best of all V^S paths that spell `labels`."""
    frames, vocabulary = log_probs_SV.shape
    best = (IMPOSSIBLE, ())
    for path in itertools.product(range(vocabulary), repeat=frames):
        if collapse(path, blank) == list(labels):
            log_prob = sum(log_probs_SV[frame, label].item() for frame, label in enumerate(path))
            best = max(best, (log_prob, path))
    return best


def spelled(alignment, labels, frames, blank):
    """The path that an alignment's spans stand for."""
    path = [blank] * frames
    for label, start, end in zip(labels, alignment.start_frames, alignment.end_frames, strict=True):
        path[start:end] = [label] * (end - start)
    return path


CASES = [
    (1, 2, []),
    (1, 2, [1]),
    (5, 2, [1]),
    (5, 2, [1, 1]),
    (5, 2, [1, 1, 1]),
    (6, 3, [1, 2]),
    (6, 3, [1, 1, 2]),
    (6, 3, [2, 1, 2, 1, 2, 1]),
    (6, 3, []),
    (5, 4, [3, 3, 1]),
]


@pytest.mark.parametrize(("frames", "vocabulary", "labels"), CASES)
def test_the_alignment_is_the_best_of_all_paths(frames, vocabulary, labels):
    for blank in range(vocabulary):
        # The case is written for blank 0: exchange the blank's number with 0.
        transcript = [0 if label == blank else label for label in labels]
        logits_BSV = 3 * torch.randn(1, frames, vocabulary, generator=torch.Generator().manual_seed(blank)).double()
        log_probs_SV = logits_BSV.log_softmax(-1)[0]
        alignment = ctc.align(logits_BSV, [transcript], [frames], blank=blank)[0]
        log_prob, path = best_path(log_probs_SV, transcript, blank)
        assert alignment.log_prob == pytest.approx(log_prob, abs=1e-12)
        assert spelled(alignment, transcript, frames, blank) == list(path)
        for label, start, end, score in zip(transcript, *alignment[:3], strict=True):
            assert score == pytest.approx(log_probs_SV[start:end, label].mean().item(), abs=1e-12)


def random_batch(seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    logits_BSV = torch.randn(6, 40, 5, generator=generator, dtype=torch.float64).to(dtype) * 4
    target_lengths = [0, 1, 7, 13, 9, 3]
    frames = [40, 1, 40, 40, 19, 20]
    targets_BU = torch.randint(0, 4, (6, 13), generator=generator)
    return logits_BSV, targets_BU, frames, target_lengths


# A frame's normaliser is taken in fp32 for scores of fp32: its terms have a relative error of 3e-7.
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-12), (torch.float32, 3e-7), (torch.bfloat16, 3e-7)])
def test_the_kernel_equals_what_serves_without_a_compiler(dtype, error, monkeypatch):
    batches = [random_batch(seed, dtype) for seed in range(20)]
    natively = [ctc.align(*batch, blank=4) for batch in batches]
    monkeypatch.setattr(_native, "load", lambda: None)
    monkeypatch.setattr(_library, "warn_slow", lambda what, computes_in: None)
    for batch, expected in zip(batches, natively, strict=True):
        for found, alignment in zip(ctc.align(*batch, blank=4), expected, strict=True):
            assert found[:2] == alignment[:2]
            assert found.log_prob == pytest.approx(alignment.log_prob, abs=40 * error)
            assert found.scores == pytest.approx(alignment.scores, abs=error)


def test_ties_are_resolved_alike_everywhere():
    logits_BSV = torch.zeros(1, 9, 3)
    alignment = ctc.align(logits_BSV, [[1, 2, 2]], [9])[0]
    assert (alignment.start_frames, alignment.end_frames) == ([0, 1, 3], [1, 2, 4])
    spans = viterbi_numpy(logits_BSV.numpy(), *map(np.array, ([[1, 2, 2]], [9], [3])), 0)
    assert (spans.start_BU.tolist(), spans.end_BU.tolist()) == ([[0, 1, 3]], [[1, 2, 4]])


def test_an_utterance_aligns_alone_as_in_a_batch_and_padding_may_hold_anything():
    logits_BSV, targets_BU, frames, target_lengths = random_batch()
    for item, length in enumerate(frames):
        logits_BSV[item, length:] = torch.nan
        targets_BU[item, target_lengths[item] :] = -100
    batch = ctc.align(logits_BSV, targets_BU, torch.tensor(frames), torch.tensor(target_lengths), blank=4)
    for item, (length, n) in enumerate(zip(frames, target_lengths, strict=True)):
        alone = ctc.align(logits_BSV[item, None, :length], [targets_BU[item, :n].tolist()], [length], blank=4)
        assert alone == [batch[item]]


def test_concatenated_targets_are_read_as_the_loss_reads_them():
    logits_BSV, targets_BU, frames, target_lengths = random_batch()
    joined = torch.cat([row[:n] for row, n in zip(targets_BU, target_lengths, strict=True)])
    padded = ctc.align(logits_BSV, targets_BU, frames, target_lengths, blank=4)
    assert ctc.align(logits_BSV, joined, frames, target_lengths, blank=4) == padded


def test_arrays_are_read_as_tensors_and_without_lengths_all_of_each_row_counts():
    logits_BSV, targets_BU, frames, target_lengths = random_batch()
    for targets in (targets_BU, torch.cat([row[:n] for row, n in zip(targets_BU, target_lengths, strict=True)])):
        expected = ctc.align(logits_BSV, targets, frames, target_lengths, blank=4)
        found = ctc.align(logits_BSV, targets.numpy(), frames, np.array(target_lengths), blank=4)
        assert found == expected
    whole = np.array([[1, 2, 3], [2, 0, 1]])
    found = ctc.align(logits_BSV[2:4], whole, [40, 40], blank=4)
    assert found == ctc.align(logits_BSV[2:4], whole.tolist(), [40, 40], blank=4)


def test_logits_and_log_probs_align_alike_in_any_layout():
    logits_BSV, targets_BU, frames, target_lengths = random_batch(dtype=torch.float64)
    log_probs_SBV = logits_BSV.log_softmax(-1).transpose(0, 1).contiguous()
    left = ctc.align(logits_BSV, targets_BU, frames, target_lengths, blank=4)
    right = ctc.align(log_probs_SBV.transpose(0, 1), targets_BU, frames, target_lengths, blank=4)
    for one, other in zip(left, right, strict=True):
        assert one[:2] == other[:2]
        assert one.log_prob == pytest.approx(other.log_prob, rel=1e-12)


def test_a_long_transcript_keeps_its_precision():
    generator = torch.Generator().manual_seed(3)
    targets = torch.randint(1, 30, (1, 600), generator=generator)
    logits_BSV = torch.randn(1, 6000, 30, generator=generator).double() * 100
    alignment = ctc.align(logits_BSV, targets, [6000], [600])[0]
    labels = targets[0].tolist()
    path = torch.tensor(spelled(alignment, labels, 6000, 0))
    assert collapse(path.tolist(), 0) == labels
    log_prob = logits_BSV.log_softmax(-1)[0].gather(1, path[:, None]).sum().item()
    assert alignment.log_prob == pytest.approx(log_prob, rel=1e-12)


def test_empty_batches_and_empty_recordings_align():
    assert ctc.align(torch.zeros(0, 4, 3), [], []) == []
    assert ctc.align(torch.zeros(2, 0, 3), [[], []], [0, 0]) == [([], [], [], 0.0)] * 2


def test_a_transcript_that_does_not_fit_is_named():
    with pytest.raises(ValueError, match="align: targets: item 1: 3 labels need at least 4 frames, found 3"):
        ctc.align(torch.zeros(2, 4, 3), [[1, 2, 1], [1, 1, 2]], [4, 3])


@pytest.mark.parametrize(("value", "found"), [(-math.inf, "-inf"), (math.nan, "nan"), (math.inf, "nan")])
def test_a_transcript_without_a_possible_path_is_named(value, found):
    logits_BSV = torch.zeros(2, 4, 3)
    logits_BSV[1, :, 2] = value
    with pytest.raises(ValueError, match=f"align: log_probs_BSV: item 1: the best path has log-probability {found}"):
        ctc.align(logits_BSV, [[1, 2], [1, 2]], [4, 4])


def test_a_label_that_is_never_used_may_be_impossible():
    logits_BSV = torch.zeros(1, 4, 3)
    logits_BSV[0, :, 2] = -math.inf
    assert ctc.align(logits_BSV, [[1]], [4])[0].log_prob == pytest.approx(4 * math.log(1 / 2))


def test_words_start_with_the_boundary_before_them_and_end_with_their_last_label():
    labels = [2, 3, 1, 2, 1, 1, 3, 1]  # 1 is the boundary
    alignment = ctc.align(peaks([2, 3, 0, 1, 2, 2, 1, 0, 1, 0, 3, 1], 4), [labels], [12])[0]
    assert ctc.word_spans(labels, alignment, boundary=1) == [([2, 3], 0, 2), ([2], 3, 6), ([3], 8, 11)]
    assert ctc.word_spans([], ctc.align(peaks([0], 4), [[]], [1])[0], boundary=1) == []


def peaks(path, vocabulary):
    """Scores [1, S, V] that leave no doubt of `path`."""
    return 20.0 * torch.nn.functional.one_hot(torch.tensor([path]), vocabulary)


def test_spans_of_real_transcripts_are_in_order_and_cover_the_text():
    folder = shared("data/librispeech-mini/LibriSpeech")
    lines = [line.split(maxsplit=1) for path in sorted(folder.rglob("*.trans.txt")) for line in path.open()]
    letters = " ABCDEFGHIJKLMNOPQRSTUVWXYZ'"
    transcripts = [[letters.index(letter) for letter in text.strip()] for _, text in lines]
    frames = [4 * len(labels) for labels in transcripts]
    blank = len(letters)
    logits_BSV = torch.randn(len(lines), max(frames), blank + 1, generator=torch.Generator().manual_seed(0))
    alignments = ctc.align(logits_BSV, transcripts, frames, blank=blank)
    for (_, text), labels, alignment, n in zip(lines, transcripts, alignments, frames, strict=True):
        edges = [edge for span in zip(alignment.start_frames, alignment.end_frames, strict=True) for edge in span]
        assert edges == sorted(edges)
        assert 0 <= edges[0] < edges[-1] <= n
        assert all(start < end for start, end in zip(edges[::2], edges[1::2], strict=True))
        assert collapse(spelled(alignment, labels, n, blank), blank) == labels
        words = ctc.word_spans(labels, alignment, boundary=0)
        assert ["".join(letters[label] for label in word.labels) for word in words] == text.split()
        assert all(left.end_frame <= right.start_frame for left, right in itertools.pairwise(words))


@pytest.mark.parametrize(
    ("targets", "target_lengths", "message"),
    [
        ([[1, 0], [1]], None, r"item 0: expected labels in \[0, 3\) other than the blank 0, found 0"),
        ([[1], [3]], None, r"item 1: expected labels in \[0, 3\) other than the blank 0, found 3"),
        ([[1], [-1]], None, r"item 1: expected labels in \[0, 3\) other than the blank 0, found -1"),
        ([[1]], None, "expected 2 transcripts, one per utterance, found 1"),
        (torch.ones(2, 2, dtype=torch.int64), None, r"expected target_lengths with a tensor of shape \(2, 2\)"),
        (
            torch.ones(2, 2, 2, dtype=torch.int64),
            [1, 1],
            r"expected \[utterance, label\] or all labels in a row, found",
        ),
        (
            torch.ones(2, 2, dtype=torch.int64),
            [1, 3],
            "align: target_lengths: item 1: expected at least 0 and at most 2",
        ),
        (torch.ones(5, dtype=torch.int64), [1, 3], "expected 4 labels in all, as target_lengths say, found 5"),
        (np.ones(5, np.int64), [1, 3], "expected 4 labels in all, as target_lengths say, found 5"),
        ([[1, 2], [2, 2]], [2, 1], "expected a tensor or an array beside target_lengths, or lists of labels without"),
    ],
)
def test_wrong_targets_are_named(targets, target_lengths, message):
    with pytest.raises(ValueError, match=message):
        ctc.align(torch.zeros(2, 4, 3), targets, [4, 4], target_lengths)

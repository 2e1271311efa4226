"""Lengths and labels that are no integers are refused with a message that names them, by every function alike."""

import re

import numpy as np
import pytest
import torch

import ctc
from fastconformer import Decoder
from fastconformer.transducer.beam import BeamSearch
from fastconformer.transducer.loss.losses import rnnt_loss, tdt_loss
from tests.fastconformer.golden import random_weights

SCORES = torch.zeros(2, 5, 4)
LATTICE = torch.zeros(2, 5, 3, 4)
LABELS = torch.ones(2, 2, dtype=torch.int64)
WEIGHTS = random_weights(labels=3)
ENCODED = torch.zeros(2, 5, WEIGHTS.encoder_weight.shape[1])

ODD = [
    ["a", "b"],
    "ab",
    None,
    [None, None],
    [1.5, 2.0],
    torch.tensor([1.5, 2.0], dtype=torch.bfloat16),
    torch.tensor([1.0, 2.0], dtype=torch.complex64),
    [True, True],
    np.array(["1", "2"]),
    np.array([1, None]),
    {1: 2, 3: 4},
    [[1], [1, 2]],
    [2**70, 1],
]
TAKEN = [
    (2, 1),
    np.array([2, 1], np.uint16),
    torch.tensor([2, 1], dtype=torch.int8),
    torch.tensor([2, 1], dtype=torch.uint16),
]
OF_LENGTHS = {
    "greedy": lambda n: ctc.greedy(SCORES, n),
    "beam_search": lambda n: ctc.beam_search(SCORES, n),
    "align, frames": lambda n: ctc.align(SCORES, [[1], [1]], n),
    "align, target_lengths": lambda n: ctc.align(SCORES, LABELS, [5, 5], n),
    "ctc_loss, input_lengths": lambda n: ctc.ctc_loss(SCORES.transpose(0, 1), LABELS, n, [1, 1]),
    "ctc_loss, target_lengths": lambda n: ctc.ctc_loss(SCORES.transpose(0, 1), LABELS, [5, 5], n),
    "rnnt_loss, frames": lambda n: rnnt_loss(LATTICE, LABELS, n, [1, 1]),
    "tdt_loss, target_lengths": lambda n: tdt_loss(LATTICE, 0 * LABELS, [5, 5], n, [0, 1]),
    "fastconformer.Decoder": lambda n: Decoder(WEIGHTS)(ENCODED, n),
    "fastconformer.BeamSearch": lambda n: BeamSearch(WEIGHTS)(ENCODED, n),
    "fastconformer.Decoder of arrays": lambda n: Decoder(WEIGHTS)(ENCODED.numpy(), n),
    "fastconformer.BeamSearch of arrays": lambda n: BeamSearch(WEIGHTS)(ENCODED.numpy(), n),
}


@pytest.mark.parametrize("name", OF_LENGTHS)
def test_lengths_that_are_no_integers_are_named(name):
    for lengths in ODD:
        if lengths is None and "align" in name:
            continue  # it may be left out
        with pytest.raises(
            (TypeError, ValueError), match=r"(frames|lengths)\w*: expected .*(integers|utterances).*found"
        ):
            OF_LENGTHS[name](lengths)
    for lengths in TAKEN:
        OF_LENGTHS[name](lengths)


@pytest.mark.parametrize("wrong", [[1.5], ["a"], [[1]], "a", 3, np.array([1.5]), torch.tensor([1.5])])
def test_labels_that_are_no_integers_are_named(wrong):
    with pytest.raises(TypeError, match="align: targets: item 1: expected integers"):
        ctc.align(SCORES, [[1], wrong], [5, 5])
    with pytest.raises(TypeError, match="segment: sentences: item 0: expected integers"):
        ctc.segment(SCORES[0], [wrong])
    with pytest.raises(TypeError, match="align: targets: expected integers, found torch.float32"):
        ctc.align(SCORES, LABELS + 0.5, [5, 5], [1, 1])
    with pytest.raises(TypeError, match=re.escape("targets: expected integers, found [['a'")):
        rnnt_loss(LATTICE, [["a", "b"], ["c", "d"]], [5, 5], [1, 1])

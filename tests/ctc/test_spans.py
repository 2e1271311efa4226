"""Spans of labels on arrays against the alignment of tensors."""

import numpy as np
import pytest

import ctc
from ctc import _library, _native


@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_spans_are_those_of_the_alignment(seed, is_native, monkeypatch):
    draw = np.random.default_rng(seed)
    frames, labels = int(draw.integers(1, 30)), draw.integers(0, 4, int(draw.integers(0, 9))).tolist()
    log_probs_SV = np.log(draw.dirichlet(np.ones(5), frames)).astype(np.float32)
    try:
        (expected,) = ctc.align(log_probs_SV[None], [labels], [frames], blank=4)
    except ValueError:
        with pytest.raises(ValueError, match="label_spans: .* labels need .* frames, found"):
            ctc.label_spans(log_probs_SV, labels, blank=4)
        return
    if not is_native:
        monkeypatch.setattr(_native, "load", lambda: None)
        monkeypatch.setattr(_library, "warn_slow", lambda what: None)
    found = ctc.label_spans(log_probs_SV, labels, blank=4)
    assert found == list(zip(expected.start_frames, expected.end_frames, strict=True))


def test_a_transcript_without_a_path_is_an_error():
    log_probs_SV = np.full((4, 3), -np.inf, np.float32)
    log_probs_SV[:, 2] = 0.0
    with pytest.raises(ValueError, match="label_spans: the best path has log-probability -inf"):
        ctc.label_spans(log_probs_SV, [0], blank=2)

"""benchmarks/transducer_quality.py: how late words are, and how far from the synthesiser's."""

import numpy as np
import pytest

from benchmarks.transducer_quality import distances, lateness
from common.recognition.transcripts import Transcript, Word


def test_words_are_compared_where_all_of_an_utterance_are_right():
    words = [Word("a", 0.2, 0.5, 1.0), Word("b", 0.6, 0.7, 1.0)]
    right, wrong = (Transcript("", "", each, 1.0) for each in (words, words[:1]))
    spoken = [("a", 0.1, 0.5), ("b", 0.4, 0.8)]
    late_N2 = lateness([right, wrong], [spoken, spoken])
    np.testing.assert_allclose(late_N2, [[100, 0], [200, -100]])
    assert distances(late_N2[:, 0]) == {"words": 2, "late_by": 150.0, "p50": 50.0, "p90": 50.0}
    with pytest.raises(SystemExit, match="not one utterance has all its words right"):
        distances(lateness([wrong], [spoken])[:, 0])

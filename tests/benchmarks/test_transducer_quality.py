"""benchmarks/transducer_quality.py: how late words are, how far from the synthesiser's; and noises."""

import numpy as np
import pytest
import soundfile
import torch

from benchmarks.transducer_quality import distances, lateness, noisy
from common.data.manifest import Utterance
from common.recognition.output.transcripts import Transcript, Word


def test_words_are_compared_where_all_of_an_utterance_are_right():
    words = [Word("a", 0.2, 0.5, 1.0), Word("b", 0.6, 0.7, 1.0)]
    right, wrong = (Transcript("", "", each, 1.0) for each in (words, words[:1]))
    spoken = [("a", 0.1, 0.5), ("b", 0.4, 0.8)]
    late_N2 = lateness([right, wrong], [spoken, spoken])
    np.testing.assert_allclose(late_N2, [[100, 0], [200, -100]])
    assert distances(late_N2[:, 0]) == {"words": 2, "late_by": 150.0, "p50": 50.0, "p90": 50.0}
    with pytest.raises(SystemExit, match="not one utterance has all its words right"):
        distances(lateness([wrong], [spoken])[:, 0])


def test_utterances_come_with_one_noise_after_the_other(tmp_path):
    random = np.random.default_rng(0)
    clean = [random.uniform(-0.5, 0.5, n).astype(np.float32) for n in (4000, 6000)]
    for i, samples_N in enumerate(clean):
        soundfile.write(tmp_path / f"{i}.wav", samples_N, 8000, subtype="FLOAT")
    utterances = [Utterance(id=f"{i}", audio=tmp_path / f"{i}.wav", seconds=0.5, text="a") for i in range(2)]
    found = noisy(utterances, [None, 20.0], 8000)
    assert all(torch.equal(found[i], torch.from_numpy(clean[i])) for i in range(2))
    for i in range(2):
        noise_N = found[2 + i] - found[i]
        assert 20 * torch.log10(found[i].std() / noise_N.std()) == pytest.approx(20, abs=0.5)

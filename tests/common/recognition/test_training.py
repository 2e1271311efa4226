"""What a training step of a recogniser does around its network."""

import pytest
import torch

from common.data.loading import AudioBatch, Failure, SpeechDataset
from common.data.manifest import Utterance
from common.recognition.training import stand_in, weights_of
from common.training_state import TrainingError

EMPTY = torch.zeros(2, 0)
BATCH = AudioBatch(EMPTY, torch.zeros(2), EMPTY, torch.zeros(2), [5, 7], ["a", "b"], [])


def test_an_unfit_utterance_ends_the_run_or_weighs_nothing_and_is_noted():
    skipped: dict[int, str] = {}
    assert weights_of(BATCH, {1: "too short"}, on_error="skip", skipped=skipped).tolist() == [1.0, 0.0]
    assert skipped == {7: "too short"}
    with pytest.raises(TrainingError, match="too short; leave it out, or set --data.on_error skip"):
        weights_of(BATCH, {1: "too short"}, on_error="stop", skipped={})


def test_without_one_readable_utterance_there_is_no_stand_in(tmp_path):
    unread = [Utterance(id="a", audio=tmp_path / "a.wav", text="a", seconds=1.0)]
    with pytest.raises(TrainingError, match="not one utterance can be read: no such file"):
        stand_in(SpeechDataset(unread), 0, [Failure(0, "no such file")])

"""Error rates over a data set: batches, counts, and what is printed."""

import json

import pytest
import torch

from common.data.loading import SpeechDataset
from common.data.manifest import Utterance
from common.devices.distributed import World
from common.recognition.scoring import EvaluationError, ScoredUtterance, batches, check_numbers, report, scored

ALONE = World(rank=0, size=1, device=torch.device("cpu"))


@pytest.fixture
def dataset(tmp_path):
    """Two utterances that can be counted, and not read."""
    utterances = [Utterance(id=name, audio=tmp_path / f"{name}.wav", text=name, seconds=1.0) for name in ("one", "two")]
    return SpeechDataset(utterances, on_error="skip")


def test_batches_of_which_nothing_can_be_read_are_left_out_and_reported(dataset, capsys):
    assert list(batches(dataset, ALONE, batch_size=1, workers=0)) == []
    assert report(scored(dataset.utterances, [], ALONE), dataset, ["one.txt: no text"], ALONE, hypotheses=None) == 1
    printed = capsys.readouterr()
    assert "error: 3 utterances could not be read; the others follow" in printed.err
    assert printed.out.startswith("utterances 0\nWER ")


def test_errors_are_counted_and_hypotheses_written_beside_their_references(dataset, tmp_path, capsys):
    found = scored(dataset.utterances, [ScoredUtterance(1, "too", 2.0), ScoredUtterance(0, "one", 1.0)], ALONE)
    assert (found.words.errors, found.words.length, found.loss) == (1, 2, 1.5)
    assert found.rates == {"loss": 1.5, "wer": 0.5, "cer": pytest.approx(1 / 6)}
    assert report(found, dataset, [], ALONE, hypotheses=tmp_path / "new" / "h.jsonl") == 0
    assert (
        "loss       1.5000\nWER        50.00% (1 of 2: 1 substituted, 0 deleted, 0 inserted)" in capsys.readouterr().out
    )
    last = (tmp_path / "new" / "h.jsonl").read_text().splitlines()[-1]
    assert json.loads(last) == {"id": "two", "reference": "two", "hypothesis": "too"}


def test_without_losses_none_is_logged(dataset):
    found = scored(dataset.utterances, [ScoredUtterance(0, "one"), ScoredUtterance(1, "two")], ALONE)
    assert found.rates == {"wer": 0.0, "cer": 0.0}


def test_a_network_that_gives_nan_is_named_with_its_utterances():
    check_numbers(torch.zeros(2, dtype=torch.bool), ["a", "b"], "fp16")
    with pytest.raises(EvaluationError, match="the network gives NaN in fp16 for one of a, b; take bf16 or fp32"):
        check_numbers(torch.tensor([False, True]), ["a", "b"], "fp16")

"""Utterances of several sources, selected for training or as they are."""

import json

import pytest

from common.data.corpora import read_utterances
from common.data.manifest import ManifestError

WAY: dict = {"on_error": "skip", "purpose": "train", "advice": "name more"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.wav").touch()
    utterances = [(1.0, "p"), (5.0, "p"), (9.0, "q")]
    lines = [json.dumps({"audio_filepath": "a.wav", "duration": n, "text": "x", "speaker": s}) for n, s in utterances]
    (tmp_path / "one.jsonl").write_text("\n".join(lines))
    (tmp_path / "two.jsonl").write_text(lines[0] + "\nrubbish\n")
    return tmp_path


def test_sources_are_read_in_order_and_what_is_left_out_is_told(folder):
    utterances, told = read_utterances(["one.jsonl", "two.jsonl"], root=folder, **WAY)
    assert [u.seconds for u in utterances] == [1.0, 5.0, 9.0, 1.0]
    assert len(told) == 1
    assert "two.jsonl" in told[0]


def test_speakers_and_durations_are_selected(folder):
    utterances, told = read_utterances(
        ["one.jsonl"], root=folder, speakers=("p",), min_seconds=2.0, max_seconds=8.0, **WAY
    )
    assert [u.seconds for u in utterances] == [5.0]
    assert told == ["left out of 2 utterances: 1 shorter than 2 s"]


def test_nothing_to_use_is_an_error(folder):
    with pytest.raises(ManifestError, match=r"no utterance to train on: one.jsonl; name more"):
        read_utterances(["one.jsonl"], root=folder, speakers=("nobody",), **WAY)
    with pytest.raises(ManifestError, match="no utterance to train on: none is named"):
        read_utterances([], root=None, **WAY)

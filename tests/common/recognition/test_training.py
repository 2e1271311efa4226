"""What a training step of a recogniser does around its network."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from common.data.lists.index import Index
from common.data.lists.utterances import Utterances
from common.data.loading import AudioBatch, SpeechDataset
from common.data.manifest import Utterance
from common.devices.distributed import World
from common.recognition.training import WeightedBatch, check_labels, log_letters, weighted
from common.text.language import LanguageError, Spelling
from common.training.state import TrainingError

ALONE = World(rank=0, size=1, device=torch.device("cpu"))


def batch_of(*texts: list[int]) -> AudioBatch:
    """A batch of these targets, of 4 samples each, by the indices 5, 6 …"""
    longest = max(map(len, texts))
    targets_BU = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
    lengths_B = torch.tensor([len(text) for text in texts])
    samples_B = torch.full((len(texts),), 4)
    indices = list(range(5, 5 + len(texts)))
    ids, alone = [f"u{i}" for i in indices], [1] * len(texts)
    return AudioBatch(torch.zeros(len(texts), 4), samples_B, targets_BU, lengths_B, indices, ids, alone, [])


def utterances(count: int) -> SpeechDataset:
    return SpeechDataset([Utterance(id=f"u{i}", audio=Path("a.wav"), text="", seconds=1.0) for i in range(count)])


@pytest.mark.parametrize(("has_transducer", "expected"), [(False, [1.0, 0.0, 0.0, 1.0]), (True, [1.0, 1.0, 1.0, 1.0])])
def test_utterances_whose_labels_do_not_fit_their_frames_weigh_nothing_and_are_noted(has_transducer, expected):
    data = utterances(9)
    data.on_error = "skip"
    batch = batch_of([1, 2], [1, 1], [1, 2, 3], [])
    ((same, weights_B),) = weighted([batch], data, lambda samples_B: samples_B // 2, has_transducer=has_transducer)
    assert same is batch
    assert weights_B.tolist() == expected
    noted = "utterance u6: 2 labels do not fit into the 2 encoder frames of a.wav: they need 3"
    assert data.skipped.get(6) == (None if has_transducer else noted)


def test_each_utterance_counts_as_much_joined_as_alone():
    batch = batch_of([1, 2], [1, 2], [1, 2, 3])._replace(utterances=[4, 1, 1])
    data = utterances(9)
    data.on_error = "skip"
    ((_, weights_B),) = weighted([batch], data, lambda samples_B: samples_B // 2, has_transducer=False)
    assert weights_B.tolist() == [0.5, 0.5, 0.0]  # the mean over rows is the sum over 6 utterances, divided by 6
    assert WeightedBatch(batch, weights_B).counted == 5


def test_an_utterance_whose_labels_do_not_fit_its_frames_ends_the_run():
    with pytest.raises(TrainingError, match="they need 3; leave it out, or set --data.on_error skip"):
        list(weighted([batch_of([1, 1])], utterances(6), lambda samples_B: samples_B // 2, has_transducer=False))


def test_labels_that_cannot_fit_are_found_by_durations_and_texts_before_anything_is_loaded():
    texts = ("aab", "ab", "b", "", "a?" * 9)
    data = SpeechDataset([
        Utterance(id=f"u{i}", audio=Path("absent.wav"), text=text, seconds=0.8) for i, text in enumerate(texts)
    ])  # fmt: skip

    def encode(text: str) -> list[int]:
        return ["ab".index(letter) for letter in text]

    def check(frames: int) -> None:
        check_labels(data, encode, lambda samples_B: samples_B // 8 * frames // 100, 1000, ALONE)

    check(4)
    assert not data.skipped
    expected = (
        r"^utterance u0: 3 labels do not fit into the 0 encoder frames of absent.wav: they need 4"
        r"; leave it out, or set --data.on_error skip; 3 others do not fit either$"
    )
    with pytest.raises(TrainingError, match=expected):
        check(0)
    data.on_error = "skip"
    check(2)
    assert list(data.skipped) == [0]
    data.skipped, data.utterances = {}, Utterances.of(data.utterances)
    (index,) = data.utterances.parts
    content = bytearray(index.source)
    content[content.index(b"u0aab")] = 0xFF
    data.utterances = Utterances([Index(bytes(content))])
    check(2)  # it is told when it is loaded
    assert not data.skipped


def test_without_a_frame_not_even_silence_fits():
    with pytest.raises(TrainingError, match="0 labels do not fit into the 0 encoder frames of a.wav: they need 1"):
        list(weighted([batch_of([])], utterances(6), lambda samples_B: samples_B * 0, has_transducer=True))


def letters_of(texts: list[str], *, unknown_letters: str = "stop", **settings: object) -> list[str]:
    """What is logged of `texts` that are to be written in the labels "abc "."""
    spelling, logged = Spelling("abc ", language="en", unknown_letters=unknown_letters, normalizes=False), []
    for text in texts:
        spelling(text)
    data = SimpleNamespace(**{"train": ("a.tsv",), "validation": ("b.tsv",), "on_error": "stop"} | settings)
    log_letters(spelling, data, logged.append, source="as the test says")
    return logged


def test_letters_that_are_no_labels_end_a_training_or_are_logged():
    assert letters_of(["ab c"], normalize_text=True) == ["texts in the 4 labels 'abc ' (language en), as the test says"]
    with pytest.raises(LanguageError, match=r"a.tsv, b.tsv: 1 letters in 1 texts are none of .*: 'd' 1; take"):
        letters_of(["ab d"], normalize_text=True)
    (_, told) = letters_of(["ab d"], normalize_text=False, on_error="skip")
    assert told.startswith("1 letters in 1 texts are none of the 4 labels")

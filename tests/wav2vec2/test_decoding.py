import math

import numpy as np
import pytest
import torch

import ctc
from common.checkpoint import CheckpointError
from common.config import ConfigError
from common.recognition.transcripts import Letter, words_of
from ctc.ngram import estimate
from tests.wav2vec2.small import LABELS, small_config
from wav2vec2 import decoding
from wav2vec2.decoding import Decoder, DecodingOptions

CONFIG = small_config()
BEAM = DecodingOptions(beam=20)


def spelled(text: str, *, sure: float = 0.9, pause: int = 2) -> torch.Tensor:
    """Log-probabilities of `text`, a frame for a letter and `pause` blanks after it."""
    frames = []
    for letter in text.replace(" ", "|"):
        frames += [LABELS.index(letter), *[0] * pause]
    probs_SV = torch.full((len(frames), len(LABELS)), (1 - sure) / (len(LABELS) - 1))
    probs_SV[range(len(frames)), frames] = sure
    return probs_SV.log()


def text(letters, separator: str = "|") -> str:
    place = {"first_seconds": 0.0, "seconds_per_frame": 0.02, "seconds": math.inf}
    return " ".join(word.text for word in words_of(letters, separator=separator, **place))


@pytest.mark.parametrize("options", [DecodingOptions(), BEAM])
def test_letters_have_their_frames_and_confidence(options):
    letters = Decoder(CONFIG, options)(spelled("TEA ON", sure=0.99))
    assert text(letters) == "TEA ON"
    assert [letter.start_frame for letter in letters] == [0, 3, 6, 9, 12, 15]
    assert [letter.end_frame for letter in letters] == [1, 4, 7, 10, 13, 16]
    assert [letter.confidence for letter in letters] == pytest.approx([0.99] * 6, abs=1e-5)


@pytest.mark.parametrize("options", [DecodingOptions(), BEAM])
def test_special_labels_are_not_written(options):
    log_probs_SV = spelled("TEA")
    log_probs_SV[1] = torch.log_softmax(20.0 * torch.eye(len(LABELS))[LABELS.index("<unk>")], 0)
    assert text(Decoder(CONFIG, options)(log_probs_SV)) == "TEA"


def test_nothing_heard_is_nothing_spelled():
    silence_SV = spelled("T" * 5)[1:2].repeat(40, 1)
    assert Decoder(CONFIG)(silence_SV) == []
    assert Decoder(CONFIG, BEAM)(silence_SV) == []


@pytest.fixture
def arpa(tmp_path):
    path = tmp_path / "lm.arpa.gz"
    ctc.write_arpa(path, estimate([["TEA", "NOTE"], ["NOTE", "TEA"], ["TEA", "TEA"]], order=2))
    return path


def test_a_language_model_mends_a_letter_that_is_hardly_heard(arpa):
    log_probs_SV = spelled("TEO NOTE")
    o, a = LABELS.index("O"), LABELS.index("A")
    log_probs_SV[6, [o, a]] = torch.tensor([0.5, 0.45]).log()
    assert text(Decoder(CONFIG)(log_probs_SV)) == "TEO NOTE"
    assert text(Decoder(CONFIG, DecodingOptions(language_model=arpa))(log_probs_SV)) == "TEA NOTE"
    assert text(Decoder(CONFIG, DecodingOptions(hot_words=("TEA",)))(log_probs_SV)) == "TEA NOTE"


def test_a_language_model_counts_as_much_as_the_options_say(arpa):
    scorer = Decoder(CONFIG, DecodingOptions(language_model=arpa, weight=0.25, word_bonus=-2.0)).scorer
    assert (scorer.options.weight, scorer.options.word_bonus, scorer.options.boundary) == (0.25, -2.0, "|")


def test_long_recordings_are_searched_between_pauses(monkeypatch):
    words = "TEA NOTE EAT ATE TONE NEAT " * 8
    log_probs_SV = torch.cat(
        [torch.cat([spelled(word + " "), spelled("T")[1:2].repeat(25, 1)]) for word in words.split()]
    )
    whole = Decoder(CONFIG, BEAM)(log_probs_SV)
    monkeypatch.setattr(decoding, "LONGEST_STRETCH", 200)
    decoder = Decoder(CONFIG, BEAM)
    bounds = list(decoder._stretches(log_probs_SV, decoder._between_words(log_probs_SV)))
    assert len(bounds) > 5
    assert [first for first, _ in bounds[1:]] == [end for _, end in bounds[:-1]]
    assert all(0 < end - first <= 200 for first, end in bounds)
    cut = decoder(log_probs_SV)
    assert text(cut) == text(whole) == words.strip()
    heard = [[letter.start_frame for letter in letters if letter.text != "|"] for letters in (cut, whole)]
    assert heard[0] == heard[1]


def test_a_word_is_cut_by_no_search_however_slowly_it_is_spoken(monkeypatch):
    monkeypatch.setattr(decoding, "LONGEST_STRETCH", 200)
    drawn_out, quick = spelled("TO", pause=70, sure=0.9999), spelled(" NEAT EAT ATE ", pause=2)
    log_probs_SV = torch.cat([drawn_out, quick] * 4)  # the surest silence is within the words
    decoder = Decoder(CONFIG, BEAM)
    assert text(decoder(log_probs_SV)) == text(Decoder(CONFIG)(log_probs_SV)) == " ".join(["TO NEAT EAT ATE"] * 4)
    between_words_S = decoder._between_words(log_probs_SV)
    starts = [first for first, _ in decoder._stretches(log_probs_SV, between_words_S)][1:]
    assert len(starts) > 2
    assert between_words_S[starts].all()


def test_stretches_between_words_are_words_apart_even_if_a_search_finds_no_end_of_a_word(monkeypatch):
    monkeypatch.setattr(decoding, "LONGEST_STRETCH", 20)
    monkeypatch.setattr(Decoder, "_searched", lambda self, _, first: iter([Letter("A", first, first + 1, 1.0)]))
    decoder = Decoder(CONFIG, BEAM)
    assert text(decoder(spelled("TO NEAT EAT ATE"))).split() == ["AA", "A", "A"]  # NEAT had to be cut


@pytest.mark.parametrize("options", [DecodingOptions(), BEAM])
def test_the_blank_may_be_any_label(options):
    moved = small_config(labels=(*LABELS[1:], LABELS[0]), blank=len(LABELS) - 1)
    log_probs_SV = torch.roll(spelled("TEA ON", sure=0.99), -1, dims=1)
    for found, expected in zip(
        Decoder(moved, options)(log_probs_SV), Decoder(CONFIG, options)(spelled("TEA ON", sure=0.99)), strict=True
    ):
        assert found[:3] == expected[:3]
        assert found.confidence == pytest.approx(expected.confidence, abs=1e-6)


def test_where_no_words_end_letters_stay_together(monkeypatch):
    monkeypatch.setattr(decoding, "LONGEST_STRETCH", 60)
    config = small_config(labels=("<pad>", "a", "b", "c"), blank=0)
    frames = [label for i in range(40) for label in (1 + i % 3, 0, 0, 0)]
    log_probs_SV = (9.0 * torch.eye(4)[frames]).log_softmax(1)
    assert text(Decoder(config, BEAM)(log_probs_SV), separator=" ") == "abc" * 13 + "a"


def test_labels_without_names_cannot_be_written():
    unknown = small_config(labels=tuple(f"<{i}>" for i in range(10)))
    with pytest.raises(CheckpointError, match=r"^the checkpoint does not say what its 10 labels are; name its dictio"):
        Decoder(unknown)


def test_labels_of_hugging_face_models_have_special_ones_too():
    config = small_config(labels=("[PAD]", "[UNK]", "|", "a", "b"), blank=0)
    log_probs_SV = torch.from_numpy(np.eye(5, dtype=np.float32)[[3, 0, 1, 2, 4]] * 9).log_softmax(1)
    assert text(Decoder(config)(log_probs_SV)) == "a b"


def test_options_and_files_that_cannot_be_used_are_told(arpa, tmp_path):
    with pytest.raises(ValueError, match=r"^decoding\.beam = -1: expected a number of sequences, or 0$"):
        DecodingOptions(beam=-1)
    with pytest.raises(ConfigError, match=r"^decoding: .*no\.arpa"):
        Decoder(CONFIG, DecodingOptions(language_model=tmp_path / "no.arpa"))
    (tmp_path / "bad.arpa").write_text("nothing")
    with pytest.raises(ConfigError, match=r"^decoding: .*bad\.arpa"):
        Decoder(CONFIG, DecodingOptions(language_model=tmp_path / "bad.arpa"))
    with pytest.raises(ConfigError, match=r"^decoding: word 'tea': expected characters among the labels, found "):
        Decoder(CONFIG, DecodingOptions(hot_words=("tea",)))
    lower = small_config(labels=("<s>", "|", "x", "y"))
    with pytest.raises(ConfigError, match=r"^decoding: model: the labels '.*' spell none of its words"):
        Decoder(lower, DecodingOptions(language_model=arpa))

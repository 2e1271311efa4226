import math

import numpy as np
import pytest
import torch

import ctc
from common.audio.silence import Cut
from common.config import ConfigError
from common.recognition import decoding
from common.recognition.decoding import CTCDecoder, DecodingOptions
from common.recognition.output.transcripts import Letter, Reading, words_of
from common.recognition.reading import not_finite, transcripts
from common.recognition.sources.recordings import Recording
from ctc.ngram import estimate

LABELS = ("<s>", "<pad>", "</s>", "<unk>", "|", *"ETAON")
BEAM = DecodingOptions(beam=20)
ENDLESS = Recording("", np.zeros(0), math.inf)


def made(options=None, labels=LABELS, *, blank=0, separator="|"):
    return CTCDecoder(labels, blank=blank, separator=separator, options=options)


def spelled(text: str, *, sure: float = 0.9, pause: int = 2) -> torch.Tensor:
    """Log-probabilities of `text`, a frame for a letter and `pause` blanks after it."""
    frames = []
    for letter in text.replace(" ", "|"):
        frames += [LABELS.index(letter), *[0] * pause]
    probs_SV = torch.full((len(frames), len(LABELS)), (1 - sure) / (len(LABELS) - 1))
    probs_SV[range(len(frames)), frames] = sure
    return probs_SV.log()


def best(decoder, log_probs_SV):
    """The letters of the best reading."""
    return decoder(log_probs_SV)[0].letters


def text(letters, separator: str = "|") -> str:
    return " ".join(word.text for word in words_of(letters, ENDLESS, separator=separator, seconds_per_frame=0.02))


@pytest.mark.parametrize("options", [DecodingOptions(), BEAM])
def test_letters_have_their_frames_and_confidence(options):
    letters = best(made(options), spelled("TEA ON", sure=0.99))
    assert text(letters) == "TEA ON"
    assert [letter.start_frame for letter in letters] == [0, 3, 6, 9, 12, 15]
    assert [letter.end_frame for letter in letters] == [1, 4, 7, 10, 13, 16]
    assert [letter.confidence for letter in letters] == pytest.approx([0.99] * 6, abs=1e-5)


@pytest.mark.parametrize("options", [DecodingOptions(), BEAM])
def test_special_labels_are_not_written(options):
    log_probs_SV = spelled("TEA")
    log_probs_SV[1] = torch.log_softmax(20.0 * torch.eye(len(LABELS))[LABELS.index("<unk>")], 0)
    assert text(best(made(options), log_probs_SV)) == "TEA"


def test_nothing_heard_is_nothing_spelled():
    silence_SV = spelled("T" * 5)[1:2].repeat(40, 1)
    assert best(made(), silence_SV) == []
    assert best(made(BEAM), silence_SV) == []


@pytest.fixture
def arpa(tmp_path):
    path = tmp_path / "lm.arpa.gz"
    ctc.write_arpa(path, estimate([["TEA", "NOTE"], ["NOTE", "TEA"], ["TEA", "TEA"]], order=2))
    return path


def test_a_language_model_mends_a_letter_that_is_hardly_heard(arpa):
    log_probs_SV = spelled("TEO NOTE")
    o, a = LABELS.index("O"), LABELS.index("A")
    log_probs_SV[6, [o, a]] = torch.tensor([0.5, 0.45]).log()
    assert text(best(made(), log_probs_SV)) == "TEO NOTE"
    assert text(best(made(DecodingOptions(language_model=arpa)), log_probs_SV)) == "TEA NOTE"
    assert text(best(made(DecodingOptions(hot_words=("TEA",))), log_probs_SV)) == "TEA NOTE"
    assert text(best(made(DecodingOptions(hot_words=("tea",))), log_probs_SV)) == "TEA NOTE"


def test_a_language_model_counts_as_much_as_the_options_say(arpa):
    scorer = made(DecodingOptions(language_model=arpa, weight=0.25, word_bonus=-2.0)).scorer
    assert (scorer.options.weight, scorer.options.word_bonus, scorer.options.boundary) == (0.25, -2.0, "|")


def test_a_decoder_like_another_shares_what_is_the_same_and_reads_what_is_not(arpa, tmp_path):
    other = tmp_path / "other.arpa"
    ctc.write_arpa(other, estimate([["NEAT", "TEA"]], order=2))
    like = made(DecodingOptions(language_model=arpa, weight=0.5, hot_words=("EAT",)))

    def scorer(**asked):
        return CTCDecoder(LABELS, blank=0, separator="|", options=DecodingOptions(**asked), like=like).scorer

    assert scorer(language_model=arpa, weight=0.5, hot_words=("TEA",)).ngram is like.scorer.ngram
    assert scorer(language_model=arpa, weight=0.5).phrases is None
    for weight, bonus in ((3.0, 7.0), (0.5, 7.0)):
        found = scorer(language_model=arpa, weight=weight, word_bonus=bonus)
        assert (found.options.weight, found.options.word_bonus) == (weight, bonus)
    assert scorer(hot_words=("TEA",), weight=0.5).ngram is None
    assert scorer(language_model=other, weight=0.5).ngram is not like.scorer.ngram
    with pytest.raises(ConfigError, match=r"^decoding: .*missing\.arpa"):
        scorer(language_model=tmp_path / "missing.arpa", weight=0.5)


def test_long_recordings_are_searched_between_pauses(monkeypatch):
    words = "TEA NOTE EAT ATE TONE NEAT " * 8
    log_probs_SV = torch.cat(
        [torch.cat([spelled(word + " "), spelled("T")[1:2].repeat(25, 1)]) for word in words.split()]
    )
    whole = best(made(BEAM), log_probs_SV)
    monkeypatch.setattr(decoding, "LONGEST_STRETCH", 200)
    decoder = made(BEAM)
    bounds = [(first, first + len(own_SV)) for first, own_SV, _ in decoder.stretches([log_probs_SV])]
    assert len(bounds) > 5
    assert [first for first, _ in bounds[1:]] == [end for _, end in bounds[:-1]]
    assert all(0 < end - first <= 200 for first, end in bounds)
    cut = best(decoder, log_probs_SV)
    assert text(cut) == text(whole) == words.strip()
    heard = [[letter.start_frame for letter in letters if letter.text != "|"] for letters in (cut, whole)]
    assert heard[0] == heard[1]


def test_a_word_is_cut_by_no_search_however_slowly_it_is_spoken(monkeypatch):
    monkeypatch.setattr(decoding, "LONGEST_STRETCH", 200)
    drawn_out, quick = spelled("TO", pause=70, sure=0.9999), spelled(" NEAT EAT ATE ", pause=2)
    log_probs_SV = torch.cat([drawn_out, quick] * 4)  # the surest silence is within the words
    decoder = made(BEAM)
    assert text(best(decoder, log_probs_SV)) == text(best(made(), log_probs_SV)) == " ".join(["TO NEAT EAT ATE"] * 4)
    between_words_S = decoder.between_words(log_probs_SV)
    starts = [stretch.first for stretch in decoder.stretches([log_probs_SV])][1:]
    assert len(starts) > 2
    assert between_words_S[starts].all()


def test_stretches_between_words_are_words_apart_even_if_a_search_finds_no_end_of_a_word(monkeypatch):
    monkeypatch.setattr(decoding, "LONGEST_STRETCH", 20)
    monkeypatch.setattr(
        CTCDecoder, "searched", lambda self, _, first: [Reading([Letter("A", first, first + 1, 1.0)], 0.0)]
    )
    decoder = made(BEAM)
    assert text(best(decoder, spelled("TO NEAT EAT ATE"))).split() == ["AA", "A", "A"]  # NEAT had to be cut


@pytest.mark.parametrize("options", [DecodingOptions(), BEAM])
def test_the_blank_may_be_any_label(options):
    moved = made(options, (*LABELS[1:], LABELS[0]), blank=len(LABELS) - 1)
    log_probs_SV = torch.roll(spelled("TEA ON", sure=0.99), -1, dims=1)
    for found, expected in zip(
        best(moved, log_probs_SV), best(made(options), spelled("TEA ON", sure=0.99)), strict=True
    ):
        assert found[:3] == expected[:3]
        assert found.confidence == pytest.approx(expected.confidence, abs=1e-6)


def test_where_no_words_end_letters_stay_together(monkeypatch):
    monkeypatch.setattr(decoding, "LONGEST_STRETCH", 60)
    decoder = made(BEAM, ("<pad>", "a", "b", "c"), separator=" ")
    frames = [label for i in range(40) for label in (1 + i % 3, 0, 0, 0)]
    log_probs_SV = (9.0 * torch.eye(4)[frames]).log_softmax(1)
    assert text(best(decoder, log_probs_SV), separator=" ") == "abc" * 13 + "a"


def test_labels_of_hugging_face_models_have_special_ones_too():
    decoder = made(labels=("[PAD]", "[UNK]", "|", "a", "b"))
    log_probs_SV = torch.from_numpy(np.eye(5, dtype=np.float32)[[3, 0, 1, 2, 4]] * 9).log_softmax(1)
    assert text(best(decoder, log_probs_SV)) == "a b"


def test_options_and_files_that_cannot_be_used_are_told(arpa, tmp_path):
    with pytest.raises(ValueError, match=r"^decoding\.beam = -1: expected a number of sequences, or 0$"):
        DecodingOptions(beam=-1)
    for n_best, beam, width in ((0, 0, 100), (101, 0, 100), (4, 3, 3)):
        with pytest.raises(
            ValueError, match=rf"^decoding\.n_best = {n_best}: expected 1 up to the beam, which is {width}$"
        ):
            DecodingOptions(n_best=n_best, beam=beam)
    with pytest.raises(ConfigError, match=r"^decoding: .*no\.arpa"):
        made(DecodingOptions(language_model=tmp_path / "no.arpa"))
    (tmp_path / "bad.arpa").write_text("nothing")
    with pytest.raises(ConfigError, match=r"^decoding: .*bad\.arpa"):
        made(DecodingOptions(language_model=tmp_path / "bad.arpa"))
    with pytest.raises(ConfigError, match=r"^decoding: word 'TUB': expected characters among the labels, found "):
        made(DecodingOptions(hot_words=("tub",)))
    with pytest.raises(ConfigError, match=r"^decoding: model: the labels '.*' spell none of its words"):
        made(DecodingOptions(language_model=arpa), ("<s>", "|", "x", "y"))


def doubtful(*texts):
    """Log-probabilities of texts of the same length, the first of which is likeliest in every letter."""
    share = torch.linspace(1.5, 0.5, len(texts))
    mixed_SV = sum(spelled(each, pause=1).exp() * part for each, part in zip(texts, share, strict=True))
    return (mixed_SV / mixed_SV.sum(1, keepdim=True)).log()


def test_the_best_of_several_readings_is_that_of_one_and_the_others_follow_by_score():
    log_probs_SV = doubtful("TEA NOTE", "TEN NOTA", "TOA NETE")
    readings = made(DecodingOptions(n_best=12, beam=50))(log_probs_SV)
    assert readings[0].letters == best(made(DecodingOptions(beam=50)), log_probs_SV)
    assert len({text(reading.letters) for reading in readings}) == len(readings) == 12
    assert [r.score for r in readings] == sorted((r.score for r in readings), reverse=True)
    assert {"TEA NOTE", "TEN NOTE", "TOA NOTE"} <= {text(reading.letters) for reading in readings}


def test_scores_of_readings_are_log_probabilities_of_all_their_alignments():
    log_probs_SV = doubtful("TEA", "TON")
    for reading in made(DecodingOptions(n_best=5, beam=100))(log_probs_SV):
        labels = torch.tensor([[LABELS.index(letter.text) for letter in reading.letters]])
        loss = ctc.ctc_loss(
            log_probs_SV[None], labels, torch.tensor([len(log_probs_SV)]), torch.tensor([labels.shape[1]]),
            reduction="sum", batch_first=True,
        )  # fmt: skip
        assert reading.score == pytest.approx(-loss.item(), abs=1e-3)


def test_a_thorough_search_scores_readings_by_all_their_alignments_and_never_finds_a_worse_one():
    torch.manual_seed(0)
    for _ in range(20):
        log_probs_SV = (2 * torch.randn(12, len(LABELS))).log_softmax(-1)
        (plain,) = made(DecodingOptions(beam=3, thorough=False))(log_probs_SV)
        (thorough,) = made(DecodingOptions(beam=3, thorough=True))(log_probs_SV)
        assert thorough.score >= plain.score - 1e-4
        assert made(DecodingOptions(beam=3))(log_probs_SV) == [thorough]


@pytest.mark.parametrize(
    ("options", "is_thorough"),
    [({}, True), ({"beam": 1}, True), ({"beam": 100}, True), ({"hot_words": ("x",)}, True)],
)
def test_a_search_is_thorough_unless_told_otherwise(options, is_thorough):
    assert DecodingOptions(**options).is_thorough == is_thorough
    for told in (False, True):
        assert DecodingOptions(**options, thorough=told).is_thorough == told


def test_readings_of_a_long_recording_are_the_best_ways_to_put_those_of_its_stretches_together(monkeypatch):
    pause_SV = spelled("T", sure=1 - 1e-6)[1:2].repeat(25, 1)
    sentences = [  # no two readings are equally likely
        doubtful(*["TEA NOTE "] * 3, "TEN NOTE ", "TEN NOTA "),
        doubtful("EAT ATE ", "EAT ATE ", "EAT ATO "),
        doubtful(*["NEAT "] * 6, "NOAT "),
    ]
    log_probs_SV = torch.cat([part for each in sentences for part in (each, pause_SV)])
    options = DecodingOptions(n_best=4, beam=300)
    whole = made(options)(log_probs_SV)
    monkeypatch.setattr(decoding, "LONGEST_STRETCH", 60)
    cut = made(options)(log_probs_SV)
    assert len(list(made(options).stretches([log_probs_SV]))) > 2
    assert [text(reading.letters) for reading in cut] == [text(reading.letters) for reading in whole]


def test_transcripts_have_words_with_times_alternatives_and_errors():
    recordings = [Recording("a.wav", np.zeros(1), 10.0, cuts=(Cut(0.0, 1.0),)), Recording("b.wav", np.zeros(1), 2.0)]
    recordings.append(Recording("c.wav", np.zeros(0), 0.0, error="c.wav: damaged"))
    found = [[doubtful("TEA NOTE", "TEN NOTA")], [torch.full((4, len(LABELS)), math.nan)], []]
    for options in (DecodingOptions(), DecodingOptions(n_best=3)):
        pairs = zip(recordings, found, strict=True)
        a, b, c = transcripts(pairs, made(options), seconds_per_frame=0.5, precision="fp32")
        assert (a.text, [word.text for word in a.words]) == ("TEA NOTE", ["TEA", "NOTE"])
        assert [(word.start, word.end) for word in a.words] == [(1.0, 3.5), (4.92, 8.5)]
        assert len(a.alternatives) == len(a.record().get("alternatives", [])) == options.n_best - 1
        assert all(len(other.words) == 2 and other.text != "TEA NOTE" for other in a.alternatives)
        assert b.error == "b.wav: the network gives NaN in fp32; its weights are damaged"
        assert (c.error, c.text, c.words) == ("c.wav: damaged", "", [])


def test_numbers_that_are_not_finite_are_named_with_what_to_do():
    assert not_finite("a", torch.zeros(2, 2), "fp16") == ""
    infinite = torch.tensor([[math.inf, 0.0]])
    assert not_finite("a", infinite, "fp16") == "a: the network gives infinity in fp16; take bf16 or fp32"
    assert not_finite("a", infinite * 0, "bf16") == "a: the network gives NaN in bf16; its weights are damaged"


PIECES = {
    "▁": ("▁te", "a", "▁", "▁note", "n", "o", "t", "e", "<unk>", "<blank>"),
    "##": ("te", "##a", "[PAD]", "note", "##n", "##o", "##t", "##e", "[UNK]", "<blank>"),
    " ": ("te", "a ", " ", "note ", "n", "o", "t", "e", "<unk>", "<blank>"),
}


def of_labels(labels, path, *, sure: float = 0.9) -> torch.Tensor:
    probs_SV = torch.full((len(path), len(labels)), (1 - sure) / (len(labels) - 1))
    probs_SV[range(len(path)), [labels.index(label) for label in path]] = sure
    return probs_SV.log()


@pytest.mark.parametrize("options", [DecodingOptions(), BEAM])
@pytest.mark.parametrize("style", PIECES)
def test_pieces_become_words_with_their_times(style, options):
    labels = PIECES[style]
    none, blank = labels[8], labels[9]
    path = [blank, labels[0], labels[0], labels[1], blank, none, labels[3], blank, blank]
    decoder = made(options, labels, blank=9, separator=" ")
    letters = best(decoder, of_labels(labels, path))
    words = words_of(letters, ENDLESS, separator=" ", seconds_per_frame=1.0)
    assert [(word.text, word.start, word.end) for word in words] == [("tea", 1, 4), ("note", 6, 7)]
    assert all(word.confidence == pytest.approx(0.9, abs=1e-3) for word in words)
    between = decoder.between_words(of_labels(labels, [blank, labels[0], labels[0], labels[1], blank, labels[3]]))
    assert between.tolist()[1:5] == [False, False, True, True]
    assert decoder.between_words(torch.zeros(0, 10)).tolist() == []


@pytest.mark.parametrize("style", PIECES)
def test_pieces_are_searched_with_a_model_of_words_and_words_to_favour(tmp_path, style):
    labels = PIECES[style]
    path = tmp_path / "words.arpa"
    ctc.write_arpa(path, estimate([["tea", "note"], ["note", "tea"], ["tea", "tea"]], order=2))
    log_probs_SV = of_labels(labels, [labels[0], labels[9], labels[5], labels[9], labels[3]], sure=0.95)
    log_probs_SV[2, [5, 1]] = torch.tensor([0.5, 0.45]).log()
    assert text(best(made(BEAM, labels, blank=9, separator=" "), log_probs_SV), " ").startswith("teo")
    for options in (DecodingOptions(language_model=path), DecodingOptions(hot_words=("TEA",))):
        assert text(best(made(options, labels, blank=9, separator=" "), log_probs_SV), " ") == "tea note"


def test_long_recordings_of_pieces_are_searched_between_words(monkeypatch):
    labels = PIECES["▁"]
    blank = labels[9]
    path = [label for _ in range(40) for label in (labels[0], labels[1], blank, blank, blank, labels[3], *[blank] * 6)]
    log_probs_SV = of_labels(labels, path, sure=0.99)
    monkeypatch.setattr(decoding, "LONGEST_STRETCH", 100)
    letters = best(made(BEAM, labels, blank=9, separator=" "), log_probs_SV)
    assert text(letters, " ") == " ".join(["tea", "note"] * 40)

"""Decoding with options: beams, language models, words to favour of all recordings or of each, several transcripts."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import ctc
import fastconformer
from common.config import ConfigError
from common.recognition.decoding import CTCDecoder, DecodingOptions
from ctc.ngram import estimate
from fastconformer.hearing.searching import decode_parts
from fastconformer.recognizer import Recognizer
from fastconformer.transducer import beam, decoder
from tests.fastconformer.checkpoints import archives


@pytest.fixture(scope="module")
def asr(tmp_path_factory) -> Recognizer:
    path = archives.write(tmp_path_factory.mktemp("model") / "small.nemo", archives.files())
    return fastconformer.load(path, device="cpu")


@pytest.fixture(scope="module")
def encoded(asr) -> tuple[torch.Tensor, torch.Tensor]:
    return asr.encode(*asr.features(torch.from_numpy(np.stack(noise())), torch.tensor([32_000, 24_000])))


def noise() -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    return [draw.normal(0, 0.1, 32_000).astype(np.float32) for _ in range(2)]


def a_word(asr: Recognizer) -> str:
    """That some piece is alone."""
    return next(label.strip("▁") for label in asr.pieces.labels if label.startswith("▁") and label[1:].isalpha())


@pytest.mark.parametrize("head", ["transducer", "ctc"])
def test_several_hypotheses_come_best_first_with_frames_and_confidence(asr, encoded, head):
    decoder = asr.decoder(DecodingOptions(beam=6, n_best=3), head=head)
    for found in asr.decode(*encoded, decoder=decoder):
        all_of_them = [found, *found.alternatives]
        assert len(all_of_them) == 3
        assert len({tuple(one.tokens) for one in all_of_them}) == 3
        assert [one.score for one in all_of_them] == sorted((one.score for one in all_of_them), reverse=True)
        for one in all_of_them:
            assert len(one.frames) == len(one.confidence) == len(one.entropy_confidence) == len(one.tokens)
            assert one.frames == sorted(one.frames)
            assert all(0 <= p <= 1 for p in [*one.confidence, *one.entropy_confidence])
            assert one.text == asr.pieces.decode(one.tokens)


@pytest.mark.parametrize("head", ["transducer", "ctc"])
@pytest.mark.parametrize("beam", [0, 4])
def test_words_to_favour_are_of_one_recording_or_of_all(asr, encoded, head, beam):
    word = a_word(asr)
    options = DecodingOptions(beam=beam, hot_word_boost=300.0)
    plain = asr.decode(*encoded, decoder=asr.decoder(options, head=head))
    own = asr.decode(*encoded, decoder=asr.decoder(options, head=head), hot_words=[[word], []])
    everywhere = DecodingOptions(beam=beam, hot_word_boost=300.0, hot_words=(word,))
    of_all = asr.decode(*encoded, decoder=asr.decoder(everywhere, head=head))
    assert own[1].tokens == plain[1].tokens
    assert own[0].tokens == of_all[0].tokens != plain[0].tokens
    assert word in of_all[0].text


def test_decoders_of_a_recogniser_pack_its_weights_once(asr, encoded, monkeypatch):
    asr.decode(*encoded)
    expected = asr.decode(*encoded, decoder=asr.decoder(DecodingOptions(beam=2)))

    def packed(*_):
        raise AssertionError("they are packed already")

    monkeypatch.setattr(decoder, "NativeNetwork", packed)
    monkeypatch.setattr(beam, "NativeNetwork", packed)
    asr.decode(*encoded, decoder=asr.decoder(DecodingOptions(hot_words=(a_word(asr),))))
    assert asr.decode(*encoded, decoder=asr.decoder(DecodingOptions(beam=2))) == expected


def test_threads_that_decode_make_what_favours_the_same_words_once(asr, monkeypatch):
    decoder, word, made = asr.decoder(DecodingOptions()), a_word(asr), []
    make = ctc.Scorer.with_hot_words

    def slowly(scorer, boosts):
        made.append(boosts)
        time.sleep(0.1)  # in which the other threads come to it
        return make(scorer, boosts)

    monkeypatch.setattr(ctc.Scorer, "with_hot_words", slowly)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(decoder.scorer_with, [(word,)] * 4))
    assert len(made) == len(set(map(id, found))) == 1


def test_a_language_model_is_of_pieces_or_of_words(asr, encoded, tmp_path):
    labels = [label for label in asr.pieces.labels if label.strip("▁").isalpha()]
    ctc.write_arpa(tmp_path / "pieces.arpa", estimate([labels[i : i + 3] for i in range(0, len(labels), 2)], order=2))
    ctc.write_arpa(tmp_path / "words.arpa", estimate([["cab", a_word(asr), "bad"]], order=2))
    plain = asr.decode(*encoded)
    for name, unit in (("pieces", "token"), ("words", "word")):
        options = DecodingOptions(language_model=tmp_path / f"{name}.arpa", weight=2.0)
        decoder = asr.decoder(options)
        assert decoder.scorer is not None
        assert decoder.scorer.options.unit == unit
        found = asr.decode(*encoded, decoder=decoder)
        if unit == "token":  # whether there is a label is decided without it
            assert [one.tokens for one in found] != [one.tokens for one in plain]


def test_transcripts_have_alternatives_and_words_of_their_own(asr):
    decoder = asr.decoder(DecodingOptions(n_best=2, hot_word_boost=300.0))
    word = a_word(asr)
    found = asr.transcribe(noise(), decoder=decoder, hot_words=[[], [word]], whole_seconds=1.9)
    assert len(found[0].alternatives) == 1
    assert word in found[1].text
    assert found[0].alternatives[0].score <= 0
    assert found[0] == asr.transcribe(noise()[:1], decoder=decoder, whole_seconds=1.9)[0]


def test_a_recording_in_parts_is_searched_as_a_whole(asr, encoded):
    decoder = asr.decoder(DecodingOptions(beam=4, thorough=True), head="ctc")
    encoded_BSC, frames_B = encoded
    rows = [row_SC[: int(n)] for row_SC, n in zip(encoded_BSC, frames_B, strict=True)]
    found = [decode_parts(row_SC.split(5), None, decoder, asr.pieces) for row_SC in rows]
    assert found == asr.decode(encoded_BSC, frames_B, decoder=decoder)
    assert decode_parts([], None, decoder, asr.pieces).tokens == []


def test_a_search_by_ctc_is_thorough_only_if_asked_for(asr):
    for thorough in (None, False):
        decoder = asr.decoder(DecodingOptions(beam=4, thorough=thorough), head="ctc")
        assert not decoder.in_parts.options.thorough
    assert asr.decoder(DecodingOptions(beam=4, thorough=True), head="ctc").in_parts is None


@pytest.mark.parametrize("head", ["transducer", "ctc"])
def test_a_long_recording_has_the_alternatives_of_the_whole(asr, head):
    decoder = asr.decoder(DecodingOptions(beam=4, n_best=3), head=head)
    whole, *_ = asr.transcribe(noise()[:1], decoder=decoder, whole_seconds=60)
    chunks = asr.transcribe(
        noise()[:1], decoder=decoder, whole_seconds=0, chunk_seconds=0.32, left_seconds=9, right_seconds=9
    )
    assert len(whole.alternatives) == 2
    assert [one.text for one in chunks[0].alternatives] == [one.text for one in whole.alternatives]
    assert chunks[0].words == whole.words


@pytest.mark.parametrize("beam", [0, 4])
def test_a_language_model_of_pieces_takes_the_place_of_the_internal_one(asr, encoded, tmp_path, beam):
    labels = [label for label in asr.pieces.labels if label.strip("▁").isalpha()]
    path = tmp_path / "pieces.arpa"
    ctc.write_arpa(path, estimate([labels[i : i + 3] for i in range(0, len(labels), 2)], order=2))

    def tokens(**chosen) -> list[list[int]]:
        decoder = asr.decoder(DecodingOptions(beam=beam, language_model=path, weight=0.5, word_bonus=0.0, **chosen))
        chunks = {"chunk_seconds": 0.32, "left_seconds": 9, "right_seconds": 9}
        whole, *_ = asr.transcribe(noise()[:1], decoder=decoder, whole_seconds=60)
        assert asr.transcribe(noise()[:1], decoder=decoder, whole_seconds=0, **chunks)[0].words == whole.words
        return [one.tokens for one in asr.decode(*encoded, decoder=decoder)]

    assert tokens() == tokens(internal_weight=0.5 / 3)
    assert tokens(internal_weight=8.0) != tokens(internal_weight=0.0)


def test_without_a_language_model_of_a_transducer_there_is_no_internal_weight(asr):
    with pytest.raises(ValueError, match=r"internal_weight = 0.2: expected decoding.language_model with it"):
        DecodingOptions(internal_weight=0.2, hot_words=(a_word(asr),))
    options = DecodingOptions(internal_weight=0.2, language_model=Path("pieces.arpa"))
    refused = pytest.raises(
        ConfigError, match=r"internal_weight = 0.2: expected none, for this model is decoded by CTC"
    )
    with refused:
        asr.decoder(options, head="ctc")
    with refused:
        CTCDecoder(["a", " ", ""], blank=2, options=options)
    with pytest.raises(ValueError, match=r"internal_weight = -0.1: expected a number, at least 0"):
        DecodingOptions(internal_weight=-0.1)


def test_what_cannot_be_used_is_told(asr, encoded):
    with pytest.raises(ConfigError, match=r"^decoding: word '§': expected characters among the labels, found \['§'\]"):
        asr.decode(*encoded, hot_words=[["§"], []])
    with pytest.raises(ValueError, match="hot_words: expected some for each of 2 utterances, found 1"):
        asr.decode(*encoded, hot_words=[["a"]])


def test_a_thorough_search_is_one_by_ctc(asr):
    with pytest.raises(ConfigError, match="^decoding.thorough: expected False, for this model is decoded by its trans"):
        asr.decoder(DecodingOptions(thorough=True), head="transducer")
    asr.decoder(DecodingOptions(thorough=True), head="ctc")

import ctypes
import sys

import numpy as np
import pytest

from common.audio import espeak
from common.audio.espeak import EspeakError, EspeakVoice, speak


def test_a_sentence_becomes_sound_with_a_time_for_every_word():
    speech = speak("the lazy horse waited", EspeakVoice())
    assert speech.samples.dtype == np.float32
    assert 0.5 < len(speech.samples) / espeak.SAMPLE_RATE < 4
    assert 0.05 < np.abs(speech.samples).max() < 1
    assert [word.word for word in speech.words] == ["the", "lazy", "horse", "waited"]


@pytest.mark.parametrize(
    "text", ["in the lake", "she ran out of the house and into the garden", "it's one of the king's"]
)
def test_words_that_espeak_speaks_as_one_have_times_of_their_own(text):
    speech = speak(text, EspeakVoice())
    assert [word.word for word in speech.words] == text.split()
    edges = [edge for word in speech.words for edge in word[1:]]
    assert edges == sorted(edges)
    assert all(word.end_seconds - word.start_seconds > 0.02 for word in speech.words)
    assert edges[-1] <= len(speech.samples) / espeak.SAMPLE_RATE


def test_a_word_is_where_its_sound_is():
    whole, alone = speak("boats", EspeakVoice()), speak("some boats", EspeakVoice())
    for speech in (whole, alone):
        _, start, end = speech.words[-1]
        sound = speech.samples[round(start * espeak.SAMPLE_RATE) : round(end * espeak.SAMPLE_RATE)]
        assert np.abs(sound).max() > 0.1
        assert 0.2 < end - start < 0.6


@pytest.mark.parametrize("variant", ["", "f1", "m1", "Andy", "grandma"])
def test_what_was_said_before_changes_nothing(variant):
    voice = EspeakVoice(variant=variant, language="en-gb-scotland", words_per_minute=150, pitch=60, pitch_range=70)
    first = speak("a quiet river", voice)
    speak("something else altogether", EspeakVoice(variant="f4", words_per_minute=220))
    again = speak("a quiet river", voice)
    assert np.array_equal(first.samples, again.samples)
    assert first.words == again.words


def test_voices_rates_and_pitches_differ():
    slow, fast = (speak("a quiet river", EspeakVoice(words_per_minute=rate)).samples for rate in (100, 250))
    assert len(slow) > 1.5 * len(fast)
    assert not np.array_equal(
        speak("a river", EspeakVoice(pitch=20)).samples, speak("a river", EspeakVoice(pitch=80)).samples
    )
    assert not np.array_equal(
        speak("a river", EspeakVoice(variant="f2")).samples, speak("a river", EspeakVoice(variant="m3")).samples
    )


def test_an_unknown_voice_is_named():
    with pytest.raises(EspeakError, match="espeak-ng has no voice 'en-xx'"):
        speak("hello", EspeakVoice(language="en-xx"))
    with pytest.raises(EspeakError, match="espeak-ng has no voice variant 'nobody'"):
        speak("hello", EspeakVoice(variant="nobody"))


def test_text_without_words_is_an_error():
    with pytest.raises(EspeakError, match="espeak-ng"):
        speak("", EspeakVoice())


def test_a_missing_package_says_what_to_install(monkeypatch):
    espeak.paths.cache_clear()
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(EspeakError, match="espeak-ng is not installed: pip install espeakng-loader"):
        speak("hello", EspeakVoice())


def test_a_library_that_does_not_load_is_named(monkeypatch, tmp_path):
    library = tmp_path / "libespeak-ng.so"
    library.write_bytes(b"no library")
    monkeypatch.setattr(espeak, "paths", lambda: (str(library), str(tmp_path)))
    with pytest.raises(EspeakError, match=r"libespeak-ng.so: espeak-ng's library cannot be loaded"):
        speak("hello", EspeakVoice())


def test_missing_voice_data_is_named(monkeypatch, tmp_path):
    library = espeak.paths()[0]
    monkeypatch.setattr(espeak, "paths", lambda: (library, str(tmp_path)))
    with pytest.raises(EspeakError, match="espeak-ng starts with 0 Hz, expected 22050; is its data complete"):
        speak("hello", EspeakVoice())


def test_a_process_that_uses_espeak_otherwise_is_told_to_speak_elsewhere():
    library = ctypes.CDLL(espeak.paths()[0])
    try:
        with pytest.raises(EspeakError, match="something else in this process uses espeak-ng"):
            speak("hello", EspeakVoice())
    finally:
        espeak.close_library(library)
    speak("hello", EspeakVoice())


def test_words_become_phonemes_of_the_international_alphabet():
    assert espeak.phonemes(["hello", "thirteen"]) == ["h|ə|l|ˈoʊ", "θ|ˈɜː|t|iː|n"]
    assert espeak.phonemes(["schön"], "de") == ["ʃ|ˈøː|n"]
    with pytest.raises(EspeakError, match="espeak-ng has no voice 'en-xx'"):
        espeak.phonemes(["hello"], "en-xx")

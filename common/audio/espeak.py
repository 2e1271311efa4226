"""espeak-ng as a library: text in, speech with the times of its words out, or phonemes.

The shared library and its voice data come with the PyPI package `espeakng-loader`; nothing is looked up on the system.
The C interface is documented in espeak-ng's `speak_lib.h`.
"""

import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SAMPLE_RATE = 22050


class EspeakError(RuntimeError):
    """espeak-ng is not here, or refused what it was asked."""


class WordTime(NamedTuple):
    """A word as it was spoken."""

    word: str
    start_seconds: float
    end_seconds: float


class TimedSpeech(NamedTuple):
    """What espeak said: float32 samples [N] in [-1, 1) at SAMPLE_RATE, and one entry per word of the text."""

    samples: np.ndarray
    words: list[WordTime]


@dataclass(frozen=True, kw_only=True, slots=True)
class EspeakVoice:
    """How espeak speaks."""

    language: str = "en-us"
    """A language of espeak-ng, such as `en-us`, `en` (British) or `en-gb-scotland`."""
    variant: str = ""
    """The shape of the vocal tract: a file of `voices/!v` in espeak's data, such as `f2`; empty: the language's own."""
    words_per_minute: int = 170
    """Speaking rate, 80 to 450."""
    pitch: int = 50
    """0 to 100; 50 is the variant's own pitch."""
    pitch_range: int = 50
    """0 (monotone) to 100; 50 is the variant's own range."""


# Constants of speak_lib.h.
_RETRIEVE_SYNCHRONOUSLY = 2
_PHONEME_EVENTS, _NO_EXIT = 0x0001, 0x8000
_RATE, _PITCH, _RANGE = 1, 3, 4
_BY_CHARACTER, _UTF8 = 1, 1
_LIST_END, _WORD, _PHONEME = 0, 1, 7
_NAMES_OF_PHONEMES, _IPA = 0x00, 0x02
_PHONEME_SEPARATOR = ord("|")


class _EventId(ctypes.Union):
    _fields_ = (("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8))


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", _EventId),
    )


_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


class _Mark(NamedTuple):
    """A WORD or PHONEME event: `text_position` counts characters from 1."""

    type: int
    text_position: int
    sample: int
    phoneme: str


def speak(text: str, voice: EspeakVoice, *, seed: int = 0) -> TimedSpeech:
    """Speak one sentence of plain words.

    A pure function: the library is loaded anew for every sentence, because no call resets its wave phase, flutter and
    noise, which otherwise run on from one sentence into the next (8 ms, most of it in listing the voices).

    Raises EspeakError where the library is missing, the voice unknown, or a word of the text got no time.
    """
    with _loaded() as library:
        _set_voice(library, voice)
        library.espeak_ng_SetRandSeed(ctypes.c_long(seed))
        samples, marks = _synthesize(library, text)
        words = _word_times(text, marks, len(samples), lambda word: _phoneme_count(library, word))
    return TimedSpeech(samples, words)


def phonemes(words: Sequence[str], language: str = "en-us") -> list[str]:
    """How espeak would say each word, in the international phonetic alphabet with | between sounds: h|ə|l|ˈoʊ.

    The library is loaded once for all words. Raises EspeakError where it is missing or the language unknown.
    """
    with _loaded() as library:
        _set_voice(library, EspeakVoice(language=language))
        return [_phonemes(library, word, _IPA) for word in words]


def sentences_in_ipa(texts: Sequence[str], language: str) -> list[str]:
    """How espeak would say each text as a whole, in the international phonetic alphabet, with spaces between words.

    Numbers, abbreviations and symbols are read by espeak's own rules. The library is loaded once for all texts. Raises
    EspeakError where it is missing or the language unknown.
    """
    with _loaded() as library:
        _set_voice(library, EspeakVoice(language=language))
        return [" ".join(filter(None, map(str.strip, _clauses(library, text)))) for text in texts]


def _clauses(library: Any, text: str) -> Iterator[str]:
    """The sounds of each clause; espeak moves a pointer behind the one that it has read."""
    data = ctypes.create_string_buffer(text.replace("\0", " ").encode("utf-8", "replace"))
    position = ctypes.c_void_p(ctypes.addressof(data))
    while position.value:
        names = library.espeak_TextToPhonemes(ctypes.byref(position), _UTF8, _IPA)
        yield names.decode("utf-8", "replace")


@cache
def paths() -> tuple[str, str]:
    """The shared library's file and the folder of voice data."""
    try:
        import espeakng_loader
    except ImportError as error:
        raise EspeakError("espeak-ng is not installed: pip install espeakng-loader") from error
    return espeakng_loader.get_library_path(), espeakng_loader.get_data_path()


_one_at_a_time = threading.Lock()  # the library has one state for the whole process


@contextmanager
def _loaded() -> Iterator[Any]:
    with _one_at_a_time:
        library = _load()
        try:
            yield library
        finally:
            _unload(library)


def _load() -> Any:
    library_path, data_path = paths()
    if _is_loaded(library_path):
        raise EspeakError(
            f"{library_path}: something else in this process uses espeak-ng; speak in a process of its own"
        )
    try:
        library = ctypes.CDLL(library_path)
    except OSError as error:
        raise EspeakError(f"{library_path}: espeak-ng's library cannot be loaded ({error})") from error
    library.espeak_TextToPhonemes.restype = ctypes.c_char_p
    rate = library.espeak_Initialize(_RETRIEVE_SYNCHRONOUSLY, 0, str(data_path).encode(), _PHONEME_EVENTS | _NO_EXIT)
    if rate != SAMPLE_RATE:
        close_library(library)
        raise EspeakError(
            f"{data_path}: espeak-ng starts with {rate} Hz, expected {SAMPLE_RATE}; is its data complete?"
        )
    return library


def _is_loaded(library_path: str) -> bool:
    only_if_loaded = getattr(os, "RTLD_NOLOAD", None)
    if only_if_loaded is None:
        return False
    try:
        library = ctypes.CDLL(library_path, mode=only_if_loaded)
    except OSError:
        return False
    close_library(library)
    return True


def _unload(library: Any) -> None:
    library.espeak_Terminate()
    close_library(library)


def close_library(library: Any) -> None:
    """Gives up a shared library that was loaded."""
    import _ctypes

    close = getattr(_ctypes, "dlclose", None) or getattr(_ctypes, "FreeLibrary")  # noqa: B009 (Windows)
    close(library._handle)


def _set_voice(library: Any, voice: EspeakVoice) -> None:
    name = f"{voice.language}+{voice.variant}" if voice.variant else voice.language
    # espeak itself takes an unknown variant for the language's own voice.
    if voice.variant and not (Path(paths()[1]) / "voices" / "!v" / voice.variant).is_file():
        raise EspeakError(f"espeak-ng has no voice variant {voice.variant!r}")
    if library.espeak_SetVoiceByName(name.encode()) != 0:
        raise EspeakError(f"espeak-ng has no voice {name!r}")
    for parameter, value in ((_RATE, voice.words_per_minute), (_PITCH, voice.pitch), (_RANGE, voice.pitch_range)):
        library.espeak_SetParameter(parameter, value, 0)


def _synthesize(library: Any, text: str) -> tuple[np.ndarray, list[_Mark]]:
    pieces: list[bytes] = []
    marks: list[_Mark] = []

    @_Callback
    def receive(wave: Any, count: int, events: Any) -> int:
        if count > 0:
            pieces.append(ctypes.string_at(wave, count * 2))
        for i in range(1 << 30):
            event = events[i]
            if event.type == _LIST_END:
                return 0
            if event.type in (_WORD, _PHONEME):
                phoneme = event.id.string.decode("utf-8", "replace") if event.type == _PHONEME else ""
                marks.append(_Mark(event.type, event.text_position, event.sample, phoneme))
        return 0

    library.espeak_SetSynthCallback(receive)
    data = text.encode()
    status = library.espeak_Synth(data, len(data) + 1, 0, _BY_CHARACTER, 0, _UTF8, None, None)
    if status != 0 or not pieces:
        raise EspeakError(f"espeak-ng did not speak {text!r} (status {status})")
    return np.frombuffer(b"".join(pieces), np.int16).astype(np.float32) / 32768, marks


def _phoneme_count(library: Any, word: str) -> int:
    return max(1, len(_phonemes(library, word, _NAMES_OF_PHONEMES).strip("| ").split("|")))


def _phonemes(library: Any, text: str, notation: int) -> str:
    """The sounds of the first clause of a text, with | between them."""
    pointer = ctypes.c_char_p(text.encode())
    names = library.espeak_TextToPhonemes(ctypes.byref(pointer), _UTF8, notation | _PHONEME_SEPARATOR << 8)
    return names.decode("utf-8", "replace")


def _word_times(text: str, marks: list[_Mark], samples: int, phoneme_count: Any) -> list[WordTime]:
    """A start and an end for every word.

    espeak reports one event for words that its dictionary holds as a pair ("of the"): such a group is divided at its
    phonemes, each word but the last taking as many as it has alone.
    """
    groups = _groups(text, marks)
    times: list[WordTime] = []
    for i, (words, start, phonemes) in enumerate(groups):
        stop = groups[i + 1][1] if i + 1 < len(groups) else samples
        end = next((mark.sample for mark in phonemes if mark.phoneme.startswith("_")), stop)
        spoken = [mark.sample for mark in phonemes if not mark.phoneme.startswith("_")]
        edges, used = [start], 0
        for word in words[:-1]:
            used += phoneme_count(word)
            if used >= len(spoken):
                raise EspeakError(f"espeak-ng gave no time to {words[-1]!r} in {text!r}")
            edges.append(spoken[used])
        edges.append(end)
        times += [WordTime(word, edges[j] / SAMPLE_RATE, edges[j + 1] / SAMPLE_RATE) for j, word in enumerate(words)]
    return times


def _groups(text: str, marks: list[_Mark]) -> list[tuple[list[str], int, list[_Mark]]]:
    """(words, first sample, phonemes) for every WORD event."""
    events = [i for i, mark in enumerate(marks) if mark.type == _WORD]
    if not events or text[: marks[events[0]].text_position - 1].strip():
        raise EspeakError(f"espeak-ng gave no time to the first word of {text!r}")
    groups = []
    for k, i in enumerate(events):
        after = events[k + 1] if k + 1 < len(events) else len(marks)
        stop = marks[after].text_position - 1 if after < len(marks) else len(text)
        words = text[marks[i].text_position - 1 : stop].split()
        groups.append((words, marks[i].sample, marks[i + 1 : after]))
    return groups

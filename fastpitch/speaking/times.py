"""When each word, each phoneme and each mark is said, as JSON, as subtitles, and as a TextGrid for Praat."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from common.recognition.output import subtitles, transcripts
from fastpitch.front.symbols import EncodedText
from fastpitch.speaking.synthesizer import Spoken

TimesFormat = Literal["json", "srt", "vtt", "textgrid"]
SUFFIXES: dict[TimesFormat, str] = {"json": ".json", "srt": ".srt", "vtt": ".vtt", "textgrid": ".TextGrid"}

PAUSE_SECONDS = 0.1  # between two words; what is shorter is heard as none


class Interval(NamedTuple):
    """What is said from `start` to `end`, in seconds."""

    text: str
    start: float
    end: float


class SaidWord(NamedTuple):
    """A word, and its phonemes or letters."""

    text: str
    start: float
    end: float
    phonemes: list[Interval]


def words(spoken: Spoken) -> list[SaidWord]:
    """The words that were said, in order; what stands between words, such as a comma, is none of them."""
    found = []
    for sentence in spoken.sentences:
        edges_L = np.concatenate([[0], np.cumsum(sentence.frames_L)]) * spoken.hop_samples
        # Frames are centred at multiples of the hop: each begins half a hop before its centre.
        edges_L = np.maximum(edges_L - spoken.hop_samples / 2, 0) + sentence.first_sample
        seconds_L = _without_short_gaps(edges_L / spoken.sample_rate, sentence.encoded)
        for text, first, last in sentence.encoded.words:
            phonemes = [
                Interval(_name(sentence.encoded.symbols[i]), float(seconds_L[i]), float(seconds_L[i + 1]))
                for i in range(first, last + 1)
            ]
            found.append(SaidWord(text, phonemes[0].start, phonemes[-1].end, phonemes))
    return found


def _without_short_gaps(seconds_L: np.ndarray, encoded: EncodedText) -> np.ndarray:
    """A space that is no pause is halved between its words.

    Every symbol gets a frame at least, so that a space takes some from the words around it although nothing is silent.
    """
    seconds_L = seconds_L.copy()
    for before, after in itertools.pairwise(encoded.words):
        gap = slice(before.last + 1, after.first + 1)  # the edges around what stands between them
        if set(encoded.symbols[gap.start : after.first]) == {" "} and np.ptp(seconds_L[gap]) <= PAUSE_SECONDS:
            seconds_L[gap] = (seconds_L[gap.start] + seconds_L[after.first]) / 2
    return seconds_L


def write(path: Path, text: str, spoken: Spoken, formats: Sequence[TimesFormat], *, sample_rate: int) -> None:
    """Writes the times beside the sound at `path`, under its name with another suffix. Raises OSError.

    `sample_rate` is that of the file, which may be another than the vocoder's.
    """
    said = words(spoken)
    for name in formats:
        rendered = _rendered(name, path.name, text, said, spoken, sample_rate)
        path.with_suffix(SUFFIXES[name]).write_text(rendered, encoding="utf-8")


def _rendered(name: TimesFormat, sound: str, text: str, said: list[SaidWord], spoken: Spoken, sample_rate: int) -> str:
    seconds = len(spoken.samples_N) / spoken.sample_rate
    if name == "json":
        return _json(sound, text, seconds, said, spoken, sample_rate)
    if name == "textgrid":
        return textgrid(said, [Interval(*mark, mark.seconds) for mark in spoken.marks], seconds)
    return subtitles.render([transcripts.Word(word.text, word.start, word.end, 1.0) for word in said], name)


def _name(symbol: str) -> str:
    """A phoneme without the sign that tells it from letters: @AH0 → AH0."""
    return symbol[1:] if len(symbol) > 1 and symbol[0] in "@#" else symbol


def _json(sound: str, text: str, seconds: float, said: list[SaidWord], spoken: Spoken, sample_rate: int) -> str:
    def times(interval: Interval | SaidWord, name: str) -> dict[str, Any]:
        return {name: interval.text, "start": round(interval.start, 4), "end": round(interval.end, 4)}

    table = {
        "audio": sound,
        "text": text,
        "seconds": round(seconds, 4),
        "sample_rate": sample_rate,
        "words": [
            times(word, "word") | {"phonemes": [times(phoneme, "phoneme") for phoneme in word.phonemes]}
            for word in said
        ],
        "marks": [{"name": mark.name, "seconds": round(mark.seconds, 4)} for mark in spoken.marks],
    }
    return json.dumps(table, ensure_ascii=False, indent=1) + "\n"


def textgrid(said: Sequence[SaidWord], marks: Sequence[Interval], seconds: float) -> str:
    """Tiers of words and phonemes, which cover the whole sound, and one of marks if there are any."""
    tiers = [("words", _covering(said, seconds)), ("phones", _covering([p for w in said for p in w.phonemes], seconds))]
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0", f"xmax = {seconds:.6f}"]
    lines += ["tiers? <exists>", f"size = {len(tiers) + bool(marks)}", "item []:"]
    for number, (name, intervals) in enumerate(tiers, start=1):
        lines += [f"    item [{number}]:", '        class = "IntervalTier"', f'        name = "{name}"']
        lines += ["        xmin = 0", f"        xmax = {seconds:.6f}", f"        intervals: size = {len(intervals)}"]
        for i, (text, start, end) in enumerate(intervals, start=1):
            lines += [f"        intervals [{i}]:", f"            xmin = {start:.6f}", f"            xmax = {end:.6f}"]
            lines += [f'            text = "{_quoted(text)}"']
    if marks:
        lines += [f"    item [{len(tiers) + 1}]:", '        class = "TextTier"', '        name = "marks"']
        lines += ["        xmin = 0", f"        xmax = {seconds:.6f}", f"        points: size = {len(marks)}"]
        for i, mark in enumerate(marks, start=1):
            lines += [f"        points [{i}]:", f"            number = {mark.start:.6f}"]
            lines += [f'            mark = "{_quoted(mark.text)}"']
    return "\n".join(lines) + "\n"


def _covering(intervals: Sequence[Interval | SaidWord], seconds: float) -> list[Interval]:
    """The intervals, and empty ones between them: a tier of Praat has no holes, and no intervals without length."""
    found: list[Interval] = []
    position = 0.0
    for interval in intervals:
        if interval.end - interval.start < 1e-6:
            continue
        if interval.start - position > 1e-6:
            found.append(Interval("", position, interval.start))
        found.append(Interval(interval.text, interval.start, interval.end))
        position = interval.end
    if seconds - position > 1e-6:
        found.append(Interval("", position, seconds))
    return found


def _quoted(text: str) -> str:
    return text.replace('"', '""')

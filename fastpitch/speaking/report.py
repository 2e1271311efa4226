"""What was said, as one HTML page that needs nothing else: `python -m fastpitch.inference … --report page.html`.

For every line its sound, its spectrogram, the pitch of every symbol and the alignment of symbols and time.

Shapes: N samples, M mel bins, T frames.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from common.runs.report_page import Number, to_flac, to_png
from fastpitch.speaking.report_page import Line, SymbolMark, VoiceReport, render
from fastpitch.speaking.synthesizer import Spoken

QUANTILES = (0.02, 0.998)  # of the log-mel energies: the darkest and the brightest colour


def write(
    path: Path,
    lines: Sequence[Line],
    *,
    title: str,
    problems: Sequence[str] = (),
    facts: Mapping[str, str] | None = None,
    took_seconds: float,
    result: Number | None = None,
) -> None:
    """Writes the page about `lines` to `path`; `took_seconds` is what speaking them took, `result` what comes first."""
    page = render(VoiceReport(title, list(lines), list(problems), dict(facts or {}), took_seconds, result))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def line(name: str, text: str, samples_N: np.ndarray, spoken: Spoken, *, sample_rate: int | None = None) -> Line:
    """What the page shows of `text` as it was `spoken`, of which samples_N (16-bit) is what was written.

    `sample_rate` is that of the samples where it is not that of the vocoder.
    """
    sample_rate = sample_rate or spoken.sample_rate
    return Line(
        name=name,
        text=text,
        seconds=len(samples_N) / sample_rate,
        marks=marks(spoken),
        spectrogram_png=_picture(spoken, len(spoken.samples_N)),
        flac=to_flac(samples_N, sample_rate),
    )


def marks(spoken: Spoken) -> list[SymbolMark]:
    """The symbols of all sentences, at their times."""
    found, seconds_per_frame = [], spoken.hop_samples / spoken.sample_rate
    for sentence in spoken.sentences:
        ends_L = sentence.first_sample / spoken.sample_rate + np.cumsum(sentence.frames_L) * seconds_per_frame
        columns = (ends_L, sentence.frames_L, sentence.pitch_hz_L, sentence.energy_L)
        rows = zip(sentence.encoded.symbols, *(column.tolist() for column in columns), strict=False)
        for symbol, end, frames, hertz, energy in rows:  # none of what was only vocoded
            found.append(SymbolMark(symbol, end - frames * seconds_per_frame, end, int(frames), hertz, energy))
    return found


def _picture(spoken: Spoken, samples: int) -> bytes:
    """The log-mel energies as PNG, as long as the sound; pauses are dark."""
    mels = [sentence.mel_MT.cpu().numpy() for sentence in spoken.sentences]
    darkest, brightest = np.quantile(np.concatenate(mels, axis=1), QUANTILES)
    canvas_MT = np.full((len(mels[0]), max(1, round(samples / spoken.hop_samples))), darkest, np.float32)
    for sentence, mel_MT in zip(spoken.sentences, mels, strict=True):
        first = round(sentence.first_sample / spoken.hop_samples)
        piece_MT = mel_MT[:, : canvas_MT.shape[1] - first]
        canvas_MT[:, first : first + piece_MT.shape[1]] = piece_MT
    return to_png(canvas_MT, darkest=darkest, brightest=brightest)

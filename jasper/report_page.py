"""What the report shows, as HTML: how it learned, what was heard when, the worst errors, the settings."""

from collections import Counter
from html import escape
from typing import Literal, NamedTuple

from common.recognition.metrics import AlignedWord, ErrorCount
from common.recognition.scoring import Evaluation
from common.runs import report_page
from common.runs.report_page import Number, stretch
from jasper.report_charts import log_chart

PHASES = {"train": "training, running mean", "dev": "validation", "dev_ema": "validation, averaged weights"}
MOST_ROWS = 30  # of a table
PIXELS_PER_SECOND = 190  # so that words are not written over each other

STYLE = """
:root { --train: #b3b1ab; --dev: var(--blue); --dev_ema: var(--orange); --added: #6941c6; --added-back: #f1ecfd; }
@media (prefers-color-scheme: dark) { :root { --train: #63636b; --added: #c5b0ff; --added-back: #33285a; } }
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); }
.charts .card { margin: 0; }
svg { display: block; width: 100%; height: auto; }
.grid { stroke: var(--rule); }
.tick { fill: var(--quiet); font-size: 12px; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.line.train { stroke: var(--train); stroke-width: 1.3; }
.line.dev { stroke: var(--dev); } .dot.dev { fill: var(--dev); } .line.dev_ema { stroke: var(--dev_ema); }
.dot.dev_ema { fill: var(--dev_ema); }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; margin: 0 0 .6rem; padding: 0; list-style: none;
  font-size: .85rem; color: var(--quiet); }
.legend b { color: var(--ink); }
.legend i { display: inline-block; width: 1.1em; height: 3px; border-radius: 2px; margin: 0 .4em .25em 0; }
.chart-name { font-weight: 600; margin: 0 0 .2rem; }
.clip header { margin-bottom: .6rem; }
.pairs { display: flex; flex-wrap: wrap; gap: .3rem .35rem; margin: 0 0 .8rem; }
.pair { display: flex; flex-direction: column; border-radius: 6px; padding: .05rem .25rem; line-height: 1.35;
  max-width: 100%; overflow-wrap: anywhere; }
.pair span:first-child { color: var(--quiet); font-size: .85rem; }
.pair.substitution, .pair.deletion { background: var(--bad-back); } .pair.insertion { background: var(--added-back); }
.pair.deletion span:first-child { text-decoration: line-through; }
.substitution, .deletion { color: var(--bad); } .insertion { color: var(--added); }
.row { position: relative; height: 26px; }
.word { position: absolute; top: 0; bottom: 0; white-space: nowrap; border-top: 3px solid currentColor;
  padding-top: 5px; }
.word b { display: block; width: max-content; font-weight: inherit; overflow: hidden; text-overflow: ellipsis; }
.word:hover b { max-width: none !important; position: relative; z-index: 1; background: var(--card); }
.spoken .word { border-top: 0; border-bottom: 3px solid currentColor; padding-top: 7px; }
.word.equal { border-color: var(--dev); }
.edge { position: absolute; top: 26px; height: 150px; border-left: 1px dotted #ffffffb0; }
.pitch { position: absolute; left: 4px; color: #ffffffd0; font-size: 11px; transform: translateY(50%); }
details { margin-top: 1rem; } summary { cursor: pointer; }
pre { overflow-x: auto; font-size: .8rem; line-height: 1.45; }
"""


class Timed(NamedTuple):
    """A word of a clip, from `start` to `end` seconds, and whether it was recognised as what it is."""

    text: str
    start: float
    end: float
    kind: Literal["equal", "substitution", "deletion", "insertion"]


class HeardClip(NamedTuple):
    """A recording, what was said in it and what was recognised."""

    id: str
    seconds: float
    errors: ErrorCount
    aligned: list[AlignedWord]
    recognised: list[Timed]
    spoken: list[Timed]
    """By forced alignment; empty where the transcript does not fit the frames."""
    spectrogram_png: bytes
    flac: bytes


class PitchMark(NamedTuple):
    """A frequency, and how high it lies in the spectrogram: 0 at the bottom, 1 at the top."""

    hertz: int
    height: float


Points = list[tuple[float, float]]


class RecogniserReport(NamedTuple):
    """All that the page shows."""

    title: str
    tested: str
    """The data that the evaluation is of; empty where nobody has said it."""
    validated: str
    """The data that the training was validated on."""
    evaluation: Evaluation
    loss: dict[str, Points]
    """Phase (train, dev, dev_ema) to (epochs, loss)."""
    wer: dict[str, Points]
    shown: HeardClip
    """One clip for the picture of what was heard when."""
    worst: list[HeardClip]
    pitches: list[PitchMark]
    speakers: dict[str, ErrorCount]
    """Errors of each speaker that is named, highest error rate first."""
    confusions: Counter[tuple[str, str]]
    """How often each word was taken for which other."""
    facts: dict[str, str]
    settings: str
    """The whole configuration as TOML."""


def render(report: RecogniserReport) -> str:
    """The page."""
    parts = (_headline(report), _learning(report), _heard(report), _worst(report), _tables(report), _settings(report))
    return report_page.page(report.title, "\n".join(parts), style=STYLE)


def _headline(report: RecogniserReport) -> str:
    result = report.evaluation
    words, characters = result.words, result.characters
    correct = sum(r == h for r, h in zip(result.references, result.hypotheses, strict=True))
    of = f" of {report.tested}" if report.tested else ""
    kinds = f"{words.substitutions:,} substituted, {words.deletions:,} deleted, {words.insertions:,} inserted"
    wrong = f"{characters.errors:,} of {characters.length:,} characters{of}"
    numbers = [
        Number(f"{words.rate:.2%}", "word error rate", f"{words.errors:,} of {words.length:,} words{of}: {kinds}"),
        Number(f"{characters.rate:.2%}", "character error rate", wrong),
        Number(f"{correct:,}", "clips without an error", f"of {len(result.ids):,}{of}"),
    ]
    return report_page.headline(report.title, numbers)


def _learning(report: RecogniserReport) -> str:
    finest = 0.5 / max(1, report.evaluation.words.length)  # less than one error cannot be seen
    charts = [
        _chart("Loss", smoothed(report.loss), floor=1e-3, percent=False),
        _chart("Word error rate", smoothed(report.wer), floor=max(finest, 1e-4), percent=True),
    ]
    told = f"<p>Validation is on {escape(report.validated)}: other data than those of the results above.</p>"
    told = told if report.validated not in ("", report.tested) else ""
    return f'<h2>How it learned</h2>\n{told}<div class="charts">{"".join(charts)}</div>'


def smoothed(curves: dict[str, Points]) -> dict[str, Points]:
    """`curves` with the training's as means of the latest eighth of its points: single batches are few words each."""
    points = curves.get("train", [])
    width = max(1, len(points) // 8)
    recent = [points[max(0, i + 1 - width) : i + 1] for i in range(len(points))]
    means = [(window[-1][0], sum(value for _, value in window) / len(window)) for window in recent]
    return {phase: means if phase == "train" else other for phase, other in curves.items()}


def _chart(name: str, series: dict[str, Points], *, floor: float, percent: bool) -> str:
    def written(value: float) -> str:
        return f"{100 * value:.3g} %" if percent else f"{value:.3g}"

    legend = [
        f'<li><i style="background: var(--{phase})"></i>{PHASES[phase]} <b>{written(points[-1][1])}</b></li>'
        for phase, points in series.items()
    ]
    chart = log_chart(series, label=f"{name} over epochs", written=written, floor=floor)
    return f'<div class="card"><p class="chart-name">{name}</p><ul class="legend">{"".join(legend)}</ul>{chart}</div>'


def _heard(report: RecogniserReport) -> str:
    return (
        "<h2>What was heard when</h2>\n"
        "<p>Above what was recognised, below what was said. Click to listen from there.</p>\n"
        + _clip(report.shown, report.pitches)
    )


def _worst(report: RecogniserReport) -> str:
    if not report.worst:
        return f"<h2>The worst errors</h2>\n<p>None: all {len(report.evaluation.ids)} clips are without an error.</p>"
    key = (
        '<p>Said, and under it recognised: <span class="substitution">substituted</span>, '
        '<span class="deletion"><s>deleted</s></span>, <span class="insertion">inserted</span>.</p>'
    )
    return "<h2>The worst errors</h2>\n" + key + "\n".join(_clip(clip, report.pitches) for clip in report.worst)


def _tables(report: RecogniserReport) -> str:
    """Errors by speaker, and which words were taken for which, the most frequent of them."""
    speakers = {
        name: f"{errors.rate:.2%} ({errors.errors:,} of {errors.length:,} words)"
        for name, errors in list(report.speakers.items())[:MOST_ROWS]
    }
    words = {f"{said} → {heard}": f"{count:,}" for (said, heard), count in report.confusions.most_common(MOST_ROWS)}
    found = ""
    for title, rows, n_all in (
        ("Errors by speaker", speakers, len(report.speakers)),
        ("Words taken for others", words, len(report.confusions)),
    ):
        first = f'<p class="quiet">The first {MOST_ROWS} of {n_all:,}.</p>' if n_all > MOST_ROWS else ""
        found += f'<h2>{title}</h2>\n{first}<div class="card">{report_page.facts_table(rows)}</div>\n' if rows else ""
    return found


def _clip(clip: HeardClip, pitches: list[PitchMark]) -> str:
    errors = clip.errors
    about = f"{errors.errors} of {errors.length} words · {clip.seconds:.1f} s · {clip.id}"
    pairs = f'<div class="pairs">{"".join(map(_pair, clip.aligned))}</div>'
    content = "\n".join((pairs, _timeline(clip, pitches), report_page.player(clip.flac)))
    return report_page.clip(f"{errors.rate:.0%} WER", about, content)


def _pair(pair: AlignedWord) -> str:
    words = (escape(word) or "–" for word in pair)
    return f'<div class="pair {pair.kind}">{"".join(f"<span>{word}</span>" for word in words)}</div>'


def _timeline(clip: HeardClip, pitches: list[PitchMark]) -> str:
    """The spectrogram with the words at their times."""
    edges = [f'<i class="edge" style="left: {100 * w.start / clip.seconds:.2f}%"></i>' for w in clip.recognised]
    heights = [
        f'<i class="pitch" style="bottom: calc(50px + {150 * pitch.height:.0f}px)">{pitch.hertz / 1000:g} kHz</i>'
        for pitch in pitches
    ]
    content = f"""<div class="row">{_words(clip.recognised, clip.seconds)}</div>
{report_page.spectrogram(clip.spectrogram_png)}{"".join(edges)}{"".join(heights)}
<div class="row spoken">{_words(clip.spoken, clip.seconds)}</div>"""
    return report_page.timeline(content, seconds=clip.seconds, pixels_per_second=PIXELS_PER_SECOND)


def _words(words: list[Timed], seconds: float) -> str:
    """Each word at its time; one that is longer than the room up to the next is cut, and whole under the pointer."""
    ends = [*(word.start for word in words[1:]), seconds]
    return "".join(
        f'<span class="word {word.kind}" title="{escape(word.text)}, {word.start:.2f} to {word.end:.2f} s" '
        f'style="{stretch(word.start, word.end, seconds=seconds)}">'
        f'<b style="max-width: {PIXELS_PER_SECOND * (end - word.start):.0f}px">{escape(word.text)}</b></span>'
        for word, end in zip(words, ends, strict=False)
    )


def _settings(report: RecogniserReport) -> str:
    return (
        f'<h2>The run</h2>\n<div class="card">{report_page.facts_table(report.facts)}'
        f"<details><summary>Every setting</summary><pre>{escape(report.settings)}</pre></details></div>"
    )

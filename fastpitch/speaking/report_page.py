"""What the report shows, as HTML: what was said, and over and under its spectrogram symbols, pitch and alignment."""

from html import escape
from typing import NamedTuple

from common.runs import report_page
from common.runs.report_page import Number

PIXELS_PER_SECOND = 210  # so that the symbols of a sentence are not written over each other
PITCH_HEIGHT, ALIGNMENT_HEIGHT = 110, 120
ROW_PIXELS, CHARACTER_PIXELS = 16, 9  # of a row of symbols, and of the widest letter of one

STYLE = """
:root { --shade: #00000008; }
@media (prefers-color-scheme: dark) { :root { --shade: #ffffff0a; } }
body { max-width: 64rem; }
.text { margin: .3rem 0 .5rem; max-width: 50rem; overflow-wrap: anywhere; }
audio { margin-bottom: .8rem; }
.row { position: relative; font-size: 12px; }
.symbol { position: absolute; bottom: 0; padding-left: 2px; border-left: 1px solid var(--rule); white-space: pre; }
.panel { position: relative; border-bottom: 1px solid var(--rule); }
.panel svg { display: block; width: 100%; position: relative; }
.symbol i { background: var(--card); position: relative; z-index: 1; }
.name { position: sticky; left: 0; display: inline-block; color: var(--quiet); font-size: 11px;
  padding: 6px 4px 2px 0; }
.tick { position: absolute; left: 0; right: 0; border-top: 1px solid var(--rule); color: var(--quiet);
  font-size: 10px; }
.tick span { position: sticky; left: 2px; }
.tone { stroke: var(--orange); stroke-width: 3; stroke-linecap: round; vector-effect: non-scaling-stroke; }
.glide { fill: none; stroke: var(--orange); stroke-width: 1; opacity: .55; vector-effect: non-scaling-stroke; }
.step { fill: var(--blue); }
.problems { background: var(--bad-back); color: var(--bad); overflow-wrap: anywhere; }
.problems ul { margin: 0; padding-left: 1.2rem; }
"""


class SymbolMark(NamedTuple):
    """A symbol from `start` to `end` seconds of the line; pitch and energy are those that it was given."""

    symbol: str
    start: float
    end: float
    frames: int
    hertz: float | None
    energy: float


class Line(NamedTuple):
    """What there is to see and hear of a line."""

    name: str
    text: str
    seconds: float
    marks: list[SymbolMark]
    spectrogram_png: bytes
    flac: bytes


class VoiceReport(NamedTuple):
    """All that the page shows."""

    title: str
    lines: list[Line]
    problems: list[str]
    facts: dict[str, str]
    took_seconds: float
    result: Number | None = None
    """What was found out about the voice, which comes first."""


def render(report: VoiceReport) -> str:
    """The page."""
    made = f'<h2>How it was made</h2>\n<div class="card">{report_page.facts_table(report.facts)}</div>'
    body = f"""{_headline(report)}
{_problems(report)}
<h2>What was said</h2>
<p class="quiet">Over the spectrogram its symbols; under it the pitch each was given, and which symbol every frame
belongs to. Click to listen from there.</p>
{"".join(map(_line, report.lines))}
{made if report.facts else ""}"""
    return report_page.page(report.title, body, style=STYLE)


def _headline(report: VoiceReport) -> str:
    seconds = sum(line.seconds for line in report.lines)
    symbols = sum(mark.symbol != "" for line in report.lines for mark in line.marks)
    unspoken = f"{len(report.problems)} could not be" if report.problems else ""
    numbers = [
        *([report.result] if report.result else []),
        Number(f"{len(report.lines):,}", "lines spoken", unspoken),
        Number(f"{seconds:.1f} s", "of speech", f"{symbols / seconds:.1f} symbols a second" if seconds else ""),
        Number(f"{seconds / report.took_seconds:.1f}×", "real time", f"in {report.took_seconds:.1f} s"),
    ]
    return report_page.headline(report.title, numbers)


def _problems(report: VoiceReport) -> str:
    if not report.problems:
        return ""
    told = "".join(f"<li>{escape(problem)}</li>" for problem in report.problems)
    return f'<h2>What could not be said</h2>\n<div class="card problems"><ul>{told}</ul></div>'


def _line(line: Line) -> str:
    """Everything over one axis of time."""
    rows = f"{_symbols(line)}\n{report_page.spectrogram(line.spectrogram_png)}\n{_pitch(line)}{_alignment(line)}"
    content = f"""<p class="text">{escape(line.text)}</p>
{report_page.player(line.flac)}
{report_page.timeline(rows, seconds=line.seconds, pixels_per_second=PIXELS_PER_SECOND)}"""
    return report_page.clip(line.name, f"{line.seconds:.2f} s · {len(line.marks)} symbols", content)


def _symbols(line: Line) -> str:
    """Each symbol from where it begins, in the lowest row in which it does not lie on one before it."""
    ends: list[float] = []
    parts = []
    for mark in line.marks:
        if not _shown(mark).strip():
            continue
        left, width = mark.start * PIXELS_PER_SECOND, 4 + CHARACTER_PIXELS * len(_shown(mark))
        row = next((row for row, end in enumerate(ends) if end <= left), len(ends))
        ends[row : row + 1] = [left + width]
        parts.append(_symbol(mark, line.seconds, ROW_PIXELS * (row + 1)))
    return f'<div class="row" style="height: {ROW_PIXELS * len(ends)}px">{"".join(parts)}</div>'


def _shown(mark: SymbolMark) -> str:
    return mark.symbol.lstrip("@#") or mark.symbol


def _symbol(mark: SymbolMark, seconds: float, height: int) -> str:
    about = f"{mark.symbol!r} {mark.start:.2f} to {mark.end:.2f} s, {mark.frames} frames"
    about += "" if mark.hertz is None else f", {mark.hertz:.0f} Hz, energy {mark.energy:.2f}"
    return (
        f'<span class="symbol" title="{escape(about)}" style="left: {100 * mark.start / seconds:.2f}%; '
        f'height: {height}px"><i>{escape(_shown(mark))}</i></span>'
    )


def _pitch(line: Line) -> str:
    """A bar per symbol at its pitch, in Hz, joined by thin lines within a sentence."""
    tones = [mark for mark in line.marks if mark.hertz is not None and mark.frames]
    if not tones:
        return ""
    low, high = _bounds([mark.hertz or 0.0 for mark in tones])

    def height(hertz: float) -> float:
        return PITCH_HEIGHT * (1 - (hertz - low) / (high - low))

    parts = []
    for mark, after in zip(tones, [*tones[1:], None], strict=True):
        y = height(mark.hertz or 0.0)
        parts.append(f'<path class="tone" d="M{mark.start:.3f} {y:.1f}H{mark.end:.3f}"/>')
        if after is not None and after.start - mark.end < 1e-6:
            parts.append(f'<path class="glide" d="M{mark.end:.3f} {y:.1f}V{height(after.hertz or 0.0):.1f}"/>')
    ticks = [
        f'<div class="tick" style="top: {height(hertz):.0f}px"><span>{hertz:.0f} Hz</span></div>'
        for hertz in _round_numbers(low, high)
        if height(hertz) < PITCH_HEIGHT - 14  # a number below the last line would lie on what follows
    ]
    return (
        f'<span class="name">pitch</span><div class="panel">{"".join(ticks)}'
        f'<svg viewBox="0 0 {line.seconds:.3f} {PITCH_HEIGHT}" height="{PITCH_HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="Pitch of every symbol">{"".join(parts)}</svg></div>'
    )


def _alignment(line: Line) -> str:
    """Time to the right, symbols downwards: the frames of each symbol are a block."""
    step = ALIGNMENT_HEIGHT / max(1, len(line.marks))
    blocks = [
        f'<rect class="step" x="{mark.start:.3f}" y="{i * step:.2f}" width="{mark.end - mark.start:.3f}" '
        f'height="{step:.2f}"/>'
        for i, mark in enumerate(line.marks)
        if mark.frames
    ]
    return (
        '<span class="name">alignment: symbols, top to bottom</span><div class="panel">'
        f'<svg viewBox="0 0 {line.seconds:.3f} {ALIGNMENT_HEIGHT}" height="{ALIGNMENT_HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label="Alignment of symbols and time">{"".join(blocks)}</svg>'
        "</div>"
    )


def _bounds(hertz: list[float]) -> tuple[float, float]:
    """Limits of the pitch axis: a fifth beyond the extremes, and never so narrow that a monotone looks lively."""
    middle, span = (max(hertz) + min(hertz)) / 2, max(max(hertz) - min(hertz), 40.0)
    return middle - 0.6 * span, middle + 0.6 * span


def _round_numbers(low: float, high: float) -> list[float]:
    step = next(s for s in (10, 20, 25, 50, 100, 200, 500, 1000, 5000) if (high - low) / s <= 5)
    return [i * step for i in range(int(low // step) + 1, int(high // step) + 1)]

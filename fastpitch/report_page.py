"""The report as one HTML file: light or dark as the reader's system is, on a desk or a phone, without network."""

import base64
from html import escape

from fastpitch.report import Line, Mark, Report

PIXELS_PER_SECOND = 210  # so that the symbols of a sentence are not written over each other
PITCH_HEIGHT, ALIGNMENT_HEIGHT = 110, 120

STYLE = """
:root { color-scheme: light dark; --page: #fbfaf8; --card: #fff; --ink: #1d1d1f; --quiet: #6b6b70; --rule: #e4e2dd;
  --pitch: #d1682c; --step: #3b76b8; --shade: #00000008; --bad: #b42318; --bad-back: #fdeceb; }
@media (prefers-color-scheme: dark) { :root { --page: #151517; --card: #1f1f22; --ink: #ececee; --quiet: #9a9aa1;
  --rule: #35353a; --pitch: #f19a64; --step: #7db3ec; --shade: #ffffff0a; --bad: #ff9d92; --bad-back: #47211e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1rem 4rem; max-width: 64rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .7rem; }
.quiet { color: var(--quiet); }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 12px; padding: 1rem; margin: 0 0 1rem; }
.numbers { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); margin-top: 1.4rem; }
.numbers .card { margin: 0; }
.number { font-size: 2rem; font-weight: 650; line-height: 1.2; font-variant-numeric: tabular-nums; }
.spoken header { display: flex; flex-wrap: wrap; gap: 0 1rem; align-items: baseline; }
.text { margin: .3rem 0 .5rem; max-width: 50rem; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; padding-bottom: .3rem; }
.strip { position: relative; font-size: 12px; line-height: 1; cursor: pointer; }
.strip > img { display: block; width: 100%; height: 140px; border-radius: 4px; image-rendering: auto; }
.row { position: relative; height: 20px; }
.symbol { position: absolute; top: 0; bottom: 0; padding-top: 4px; border-left: 1px solid var(--rule); white-space: pre;
  text-align: center; overflow: hidden; }
.symbol:nth-child(even) { background: var(--shade); }
.panel { position: relative; border-bottom: 1px solid var(--rule); }
.panel svg { display: block; width: 100%; position: relative; }
.name { position: sticky; left: 0; display: inline-block; color: var(--quiet); font-size: 11px;
  padding: 6px 4px 2px 0; }
.tick { position: absolute; left: 0; right: 0; border-top: 1px solid var(--rule); color: var(--quiet);
  font-size: 10px; }
.tick span { position: sticky; left: 2px; }
.tone { stroke: var(--pitch); stroke-width: 3; stroke-linecap: round; vector-effect: non-scaling-stroke; }
.glide { fill: none; stroke: var(--pitch); stroke-width: 1; opacity: .55; vector-effect: non-scaling-stroke; }
.step { fill: var(--step); }
.time { position: absolute; top: 4px; color: var(--quiet); font-size: 11px; font-variant-numeric: tabular-nums; }
.head { position: absolute; top: 0; bottom: 0; left: 0; border-left: 2px solid var(--pitch); visibility: hidden; }
.played .head { visibility: visible; }
i { font-style: normal; }
audio { width: 100%; height: 2.4rem; display: block; margin: .4rem 0 .8rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-top: 1px solid var(--rule);
  overflow-wrap: anywhere; }
tr:first-child > * { border-top: 0; }
th { font-weight: 400; color: var(--quiet); width: 11rem; }
td { font-variant-numeric: tabular-nums; }
.problems { background: var(--bad-back); color: var(--bad); overflow-wrap: anywhere; }
.problems ul { margin: 0; padding-left: 1.2rem; }
"""

# The line over a spectrogram follows its player, and a click plays from there.
SCRIPT = """
for (const line of document.querySelectorAll(".spoken")) {
  const sound = line.querySelector("audio"), strip = line.querySelector(".strip"), head = line.querySelector(".head");
  const follow = () => {
    strip.classList.add("played");
    head.style.left = 100 * sound.currentTime / strip.dataset.seconds + "%";
    if (!sound.paused) requestAnimationFrame(follow);
  };
  sound.onplay = sound.onseeked = follow;
  strip.onclick = (event) => {
    const box = strip.getBoundingClientRect();
    sound.currentTime = strip.dataset.seconds * (event.clientX - box.left) / box.width;
    sound.play();
  };
}
"""

# What the page may load: nothing but what is in it.
POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def render(report: Report) -> str:
    """The page."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(report.title)}: report</title>
<style>{STYLE}</style>
</head>
<body>
{_headline(report)}
{_problems(report)}
<h2>What was said</h2>
<p class="quiet">Over the spectrogram its symbols; under it the pitch each was given, and which symbol every frame
belongs to. Click to listen from there.</p>
{"".join(map(_line, report.lines))}
<h2>How it was made</h2>
<div class="card"><table>{"".join(map(_fact, report.facts.items()))}</table></div>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _headline(report: Report) -> str:
    seconds = sum(line.seconds for line in report.lines)
    symbols = sum(mark.symbol != "" for line in report.lines for mark in line.marks)
    cards = [
        (f"{len(report.lines):,}", "lines spoken", f"{len(report.problems)} could not be" if report.problems else ""),
        (f"{seconds:.1f} s", "of speech", f"{symbols / seconds:.1f} symbols a second" if seconds else ""),
        (f"{seconds / report.took_seconds:.1f}×", "real time", f"in {report.took_seconds:.1f} s"),
    ]
    shown = [
        f'<div class="card"><div class="number">{number}</div>{what}<br><span class="quiet">{more}</span></div>'
        for number, what, more in cards
    ]
    return f'<h1>{escape(report.title)}</h1>\n<div class="numbers">{"".join(shown)}</div>'


def _problems(report: Report) -> str:
    if not report.problems:
        return ""
    told = "".join(f"<li>{escape(problem)}</li>" for problem in report.problems)
    return f'<h2>What could not be said</h2>\n<div class="card problems"><ul>{told}</ul></div>'


def _line(line: Line) -> str:
    sound = base64.b64encode(line.flac).decode()
    return f"""<article class="card spoken">
<header><b>{escape(line.name)}</b><span class="quiet">{line.seconds:.2f} s · {len(line.marks)} symbols</span></header>
<p class="text">{escape(line.text)}</p>
<audio controls preload="metadata" src="data:audio/flac;base64,{sound}"></audio>
{_strip(line)}
</article>"""


def _strip(line: Line) -> str:
    """Everything over one axis of time, as wide as the symbols need; it scrolls where the screen is narrower."""
    picture = base64.b64encode(line.spectrogram_png).decode()
    every = 0.5 if line.seconds < 30 else 5.0
    times = [
        f'<i class="time" style="left: {100 * i * every / line.seconds:.2f}%">{i * every:g} s</i>'
        for i in range(int((line.seconds - 0.2) / every) + 1)
    ]
    symbols = "".join(_symbol(mark, line.seconds) for mark in line.marks)
    return f"""<div class="scroll"><div class="strip" data-seconds="{line.seconds:.3f}"
 style="min-width: {PIXELS_PER_SECOND * line.seconds:.0f}px">
<div class="row">{symbols}</div>
<img alt="Spectrogram" src="data:image/png;base64,{picture}">
{_pitch(line)}{_alignment(line)}
<div class="row">{"".join(times)}</div><div class="head"></div></div></div>"""


def _symbol(mark: Mark, seconds: float) -> str:
    about = f"{mark.symbol!r} {mark.start:.2f} to {mark.end:.2f} s, {mark.frames} frames"
    about += "" if mark.hertz is None else f", {mark.hertz:.0f} Hz, energy {mark.energy:.2f}"
    width = 100 * (mark.end - mark.start) / seconds
    return (
        f'<span class="symbol" title="{escape(about)}" style="left: {100 * mark.start / seconds:.2f}%; '
        f'width: {width:.2f}%">{escape(mark.symbol.lstrip("@#") or mark.symbol)}</span>'
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
    """Of the pitch axis: a fifth beyond the extremes, and never so narrow that a monotone looks lively."""
    middle, span = (max(hertz) + min(hertz)) / 2, max(max(hertz) - min(hertz), 40.0)
    return middle - 0.6 * span, middle + 0.6 * span


def _round_numbers(low: float, high: float) -> list[float]:
    step = next(s for s in (10, 20, 25, 50, 100, 200, 500, 1000, 5000) if (high - low) / s <= 5)
    return [i * step for i in range(int(low // step) + 1, int(high // step) + 1)]


def _fact(fact: tuple[str, str]) -> str:
    return f"<tr><th>{escape(fact[0])}</th><td>{escape(fact[1])}</td></tr>"

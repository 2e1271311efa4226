"""The report as one HTML file: light or dark as the reader's system is, on a desk or a phone, without network."""

import base64
from html import escape

from common.metrics import AlignedWord
from jasper.report import Clip, Pitch, Points, Report, Timed
from jasper.report_charts import log_chart

PHASES = {"train": "training batches", "dev": "validation", "dev_ema": "validation, averaged weights"}
PIXELS_PER_SECOND = 190  # so that words are not written over each other

STYLE = """
:root { color-scheme: light dark; --page: #fbfaf8; --card: #fff; --ink: #1d1d1f; --quiet: #6b6b70; --rule: #e4e2dd;
  --train: #b3b1ab; --dev: #3b76b8; --dev_ema: #d1682c; --bad: #b42318; --bad-back: #fdeceb; --added: #6941c6;
  --added-back: #f1ecfd; }
@media (prefers-color-scheme: dark) { :root { --page: #151517; --card: #1f1f22; --ink: #ececee; --quiet: #9a9aa1;
  --rule: #35353a; --train: #63636b; --dev: #7db3ec; --dev_ema: #f19a64; --bad: #ff9d92; --bad-back: #47211e;
  --added: #c5b0ff; --added-back: #33285a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1rem 4rem; max-width: 60rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .7rem; }
p { margin: .3rem 0 .8rem; max-width: 44rem; }
.quiet { color: var(--quiet); }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 12px; padding: 1rem; margin: 0 0 1rem; }
.numbers, .charts { display: grid; gap: 1rem; }
.numbers { grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); margin-top: 1.4rem; }
.numbers .card, .charts .card { margin: 0; }
.charts { grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); }
.number { font-size: 2rem; font-weight: 650; line-height: 1.2; font-variant-numeric: tabular-nums; }
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
.clip header { display: flex; flex-wrap: wrap; gap: 0 1rem; align-items: baseline; margin-bottom: .6rem; }
.clip header b { font-variant-numeric: tabular-nums; }
.pairs { display: flex; flex-wrap: wrap; gap: .3rem .35rem; margin: 0 0 .8rem; }
.pair { display: flex; flex-direction: column; border-radius: 6px; padding: .05rem .25rem; line-height: 1.35; }
.pair span:first-child { color: var(--quiet); font-size: .85rem; }
.pair.substitution, .pair.deletion { background: var(--bad-back); } .pair.insertion { background: var(--added-back); }
.pair.deletion span:first-child { text-decoration: line-through; }
.substitution, .deletion { color: var(--bad); } .insertion { color: var(--added); }
.scroll { overflow-x: auto; padding-bottom: .3rem; }
.strip { position: relative; font-size: 13px; line-height: 1; cursor: pointer; }
.strip img { display: block; width: 100%; height: 150px; border-radius: 4px; }
.row { position: relative; height: 26px; }
.word { position: absolute; top: 0; bottom: 0; white-space: nowrap; border-top: 3px solid currentColor;
  padding-top: 5px; }
.spoken .word { border-top: 0; border-bottom: 3px solid currentColor; padding-top: 7px; }
.word.equal { border-color: var(--dev); }
.edge { position: absolute; top: 26px; height: 150px; border-left: 1px dotted #ffffffb0; }
.pitch { position: absolute; left: 4px; color: #ffffffd0; font-size: 11px; transform: translateY(50%); }
.time { position: absolute; top: 6px; color: var(--quiet); font-size: 11px; font-variant-numeric: tabular-nums; }
.head { position: absolute; top: 0; bottom: 24px; left: 0; border-left: 2px solid var(--dev_ema); visibility: hidden; }
.played .head { visibility: visible; }
i { font-style: normal; }
.caption { color: var(--quiet); font-size: .85rem; margin: .5rem 0; }
audio { width: 100%; height: 2.4rem; display: block; margin-top: .4rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-top: 1px solid var(--rule);
  overflow-wrap: anywhere; }
tr:first-child > * { border-top: 0; }
th { font-weight: 400; color: var(--quiet); width: 11rem; }
td { font-variant-numeric: tabular-nums; }
details { margin-top: 1rem; } summary { cursor: pointer; }
pre { overflow-x: auto; font-size: .8rem; line-height: 1.45; }
"""

# The line over a spectrogram follows its player, and a click on the spectrogram plays from there.
SCRIPT = """
for (const clip of document.querySelectorAll(".clip")) {
  const sound = clip.querySelector("audio"), strip = clip.querySelector(".strip"), head = clip.querySelector(".head");
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
{_learning(report)}
{_heard(report)}
{_worst(report)}
{_settings(report)}
<script>{SCRIPT}</script>
</body>
</html>
"""


def _headline(report: Report) -> str:
    result = report.evaluation
    words, characters = result.words, result.characters
    correct = sum(r == h for r, h in zip(result.references, result.hypotheses, strict=True))
    kinds = f"{words.substitutions:,} substituted, {words.deletions:,} deleted, {words.insertions:,} inserted"
    cards = [
        (f"{words.rate:.2%}", "word error rate", f"{words.errors:,} of {words.length:,} words: {kinds}"),
        (
            f"{characters.rate:.2%}",
            "character error rate",
            f"{characters.errors:,} of {characters.length:,} characters",
        ),
        (f"{correct:,}", "clips without an error", f"of {len(result.ids):,}"),
    ]
    shown = [
        f'<div class="card"><div class="number">{number}</div>{what}<br><span class="quiet">{counts}</span></div>'
        for number, what, counts in cards
    ]
    return f'<h1>{escape(report.title)}</h1>\n<div class="numbers">{"".join(shown)}</div>'


def _learning(report: Report) -> str:
    finest = 0.5 / max(1, report.evaluation.words.length)  # less than one error cannot be seen
    charts = [
        _chart("Loss", report.loss, floor=1e-3, percent=False),
        _chart("Word error rate", report.wer, floor=max(finest, 1e-4), percent=True),
    ]
    return f'<h2>How it learned</h2>\n<div class="charts">{"".join(charts)}</div>'


def _chart(name: str, series: dict[str, Points], *, floor: float, percent: bool) -> str:
    def written(value: float) -> str:
        return f"{100 * value:.3g} %" if percent else f"{value:.3g}"

    legend = [
        f'<li><i style="background: var(--{phase})"></i>{PHASES[phase]} <b>{written(points[-1][1])}</b></li>'
        for phase, points in series.items()
    ]
    chart = log_chart(series, label=f"{name} over epochs", written=written, floor=floor)
    return f'<div class="card"><p class="chart-name">{name}</p><ul class="legend">{"".join(legend)}</ul>{chart}</div>'


def _heard(report: Report) -> str:
    return (
        "<h2>What was heard when</h2>\n"
        "<p>Above what was recognised, below what was said. Click to listen from there.</p>\n"
        + _clip(report.shown, report.pitches)
    )


def _worst(report: Report) -> str:
    if not report.worst:
        return f"<h2>The worst errors</h2>\n<p>None: all {len(report.evaluation.ids)} clips are without an error.</p>"
    key = (
        '<p>Said, and under it recognised: <span class="substitution">substituted</span>, '
        '<span class="deletion"><s>deleted</s></span>, <span class="insertion">inserted</span>.</p>'
    )
    return "<h2>The worst errors</h2>\n" + key + "\n".join(_clip(clip, report.pitches) for clip in report.worst)


def _clip(clip: Clip, pitches: list[Pitch]) -> str:
    errors = clip.errors
    sound = base64.b64encode(clip.flac).decode()
    return f"""<article class="card clip">
<header><b>{errors.rate:.0%} WER</b>
<span class="quiet">{errors.errors} of {errors.length} words · {clip.seconds:.1f} s · {escape(clip.id)}</span></header>
<div class="pairs">{"".join(map(_pair, clip.aligned))}</div>
{_strip(clip, pitches)}
<audio controls preload="metadata" src="data:audio/flac;base64,{sound}"></audio>
</article>"""


def _pair(pair: AlignedWord) -> str:
    words = (escape(word) or "–" for word in pair)
    return f'<div class="pair {pair.kind}">{"".join(f"<span>{word}</span>" for word in words)}</div>'


def _strip(clip: Clip, pitches: list[Pitch]) -> str:
    """The spectrogram with the words at their times, as wide as they need; it scrolls where the screen is narrower."""
    picture = base64.b64encode(clip.spectrogram_png).decode()
    edges = [f'<i class="edge" style="left: {100 * w.start / clip.seconds:.2f}%"></i>' for w in clip.recognised]
    heights = [
        f'<i class="pitch" style="bottom: calc(50px + {150 * pitch.height:.0f}px)">{pitch.hertz / 1000:g} kHz</i>'
        for pitch in pitches
    ]
    times = [
        f'<i class="time" style="left: {100 * tenths / 10 / clip.seconds:.2f}%">{tenths / 10:g} s</i>'
        for tenths in range(0, int(10 * clip.seconds - 2), 5)
    ]
    return f"""<div class="scroll"><div class="strip" data-seconds="{clip.seconds:.3f}"
 style="min-width: {PIXELS_PER_SECOND * clip.seconds:.0f}px">
<div class="row">{_words(clip.recognised, clip.seconds)}</div>
<img alt="Spectrogram" src="data:image/png;base64,{picture}">{"".join(edges)}{"".join(heights)}
<div class="row spoken">{_words(clip.spoken, clip.seconds)}</div>
<div class="row">{"".join(times)}</div><div class="head"></div></div></div>"""


def _words(words: list[Timed], seconds: float) -> str:
    return "".join(
        f'<span class="word {word.kind}" title="{word.start:.2f} to {word.end:.2f} s" style="left: '
        f'{100 * word.start / seconds:.2f}%; width: {100 * (word.end - word.start) / seconds:.2f}%">'
        f"{escape(word.text)}</span>"
        for word in words
    )


def _settings(report: Report) -> str:
    rows = [f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in report.facts.items()]
    return (
        f'<h2>The run</h2>\n<div class="card"><table>{"".join(rows)}</table>'
        f"<details><summary>Every setting</summary><pre>{escape(report.settings)}</pre></details></div>"
    )

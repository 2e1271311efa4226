"""A report as one HTML file: light or dark as the reader's system is, on a desk or a phone, without network.

A page is a headline with numbers, and what its owner puts under it; among that clips, each a card with a player and a
timeline, where a line follows the sound and a click plays from there. Texts are escaped here; `content` and `body` are
HTML already.

Shapes: N samples, F bands, T frames.
"""

import base64
import io
from collections.abc import Iterable, Mapping
from html import escape
from typing import NamedTuple

import numpy as np
import soundfile

STYLE = """
:root { color-scheme: light dark; --page: #fbfaf8; --card: #fff; --ink: #1d1d1f; --quiet: #6b6b70; --rule: #e4e2dd;
  --blue: #3b76b8; --orange: #d1682c; --bad: #b42318; --bad-back: #fdeceb; }
@media (prefers-color-scheme: dark) { :root { --page: #151517; --card: #1f1f22; --ink: #ececee; --quiet: #9a9aa1;
  --rule: #35353a; --blue: #7db3ec; --orange: #f19a64; --bad: #ff9d92; --bad-back: #47211e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1rem 4rem; max-width: 60rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .7rem; }
p { margin: .3rem 0 .8rem; max-width: 44rem; }
i { font-style: normal; }
.quiet { color: var(--quiet); }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 12px; padding: 1rem; margin: 0 0 1rem; }
.numbers { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); margin-top: 1.4rem; }
.numbers .card { margin: 0; }
.number { font-size: 2rem; font-weight: 650; line-height: 1.2; font-variant-numeric: tabular-nums; }
.clip header { display: flex; flex-wrap: wrap; gap: 0 1rem; align-items: baseline; }
.clip header span { min-width: 0; overflow-wrap: anywhere; }
.clip header b { font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; padding-bottom: .3rem; }
.timeline { position: relative; font-size: 13px; line-height: 1; cursor: pointer; }
.timeline img { display: block; width: 100%; height: 150px; border-radius: 4px; }
.times { position: relative; height: 24px; font-size: 11px; color: var(--quiet); font-variant-numeric: tabular-nums; }
.times i { position: absolute; top: 6px; }
.head { position: absolute; top: 0; bottom: 24px; left: 0; border-left: 2px solid var(--orange); visibility: hidden; }
.played .head { visibility: visible; }
audio { width: 100%; height: 2.4rem; display: block; margin-top: .4rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-top: 1px solid var(--rule);
  overflow-wrap: anywhere; }
tr:first-child > * { border-top: 0; }
th { font-weight: 400; color: var(--quiet); width: 11rem; }
td { font-variant-numeric: tabular-nums; }
"""

SCRIPT = """
for (const clip of document.querySelectorAll(".clip")) {
  const sound = clip.querySelector("audio"), head = clip.querySelector(".head");
  const timeline = clip.querySelector(".timeline");
  const follow = () => {
    timeline.classList.add("played");
    head.style.left = 100 * sound.currentTime / timeline.dataset.seconds + "%";
    if (!sound.paused) requestAnimationFrame(follow);
  };
  sound.onplay = sound.onseeked = follow;
  timeline.onclick = (event) => {
    const box = timeline.getBoundingClientRect();
    sound.currentTime = timeline.dataset.seconds * (event.clientX - box.left) / box.width;
    sound.play();
  };
}
"""

# What the page may load: nothing but what is in it.
POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


class Number(NamedTuple):
    """What the headline says large, what it counts, and what else there is to say of it."""

    value: str
    what: str
    more: str


def page(title: str, body: str, *, style: str = "") -> str:
    """The whole file; `style` is added to that of all pages."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}: report</title>
<style>{STYLE}{style}</style>
</head>
<body>
{body}
<script>{SCRIPT}</script>
</body>
</html>
"""


def headline(title: str, numbers: Iterable[Number]) -> str:
    """The title, and under it a card for each of the `numbers`."""
    cards = [
        f'<div class="card"><div class="number">{escape(number.value)}</div>{escape(number.what)}<br>'
        f'<span class="quiet">{escape(number.more)}</span></div>'
        for number in numbers
    ]
    return f'<h1>{escape(title)}</h1>\n<div class="numbers">{"".join(cards)}</div>'


def clip(name: str, about: str, content: str) -> str:
    """A card about a sound; `content` has its `player` and its `timeline`."""
    return f"""<article class="card clip">
<header><b>{escape(name)}</b><span class="quiet">{escape(about)}</span></header>
{content}
</article>"""


def player(flac: bytes) -> str:
    """Plays the sound."""
    sound = base64.b64encode(flac).decode()
    return f'<audio controls preload="metadata" src="data:audio/flac;base64,{sound}"></audio>'


def timeline(content: str, *, seconds: float, pixels_per_second: float) -> str:
    """`content` over an axis of time, as wide as it needs; it scrolls where the screen is narrower."""
    halves = range(int((seconds - 0.2) * 2) + 1)  # the last one, too close to the end, would stick out
    times = [f'<i style="left: {100 * half / 2 / seconds:.2f}%">{half / 2:g} s</i>' for half in halves]
    return f"""<div class="scroll"><div class="timeline" data-seconds="{seconds:.3f}"
 style="min-width: {pixels_per_second * seconds:.0f}px">
{content}
<div class="times">{"".join(times)}</div><div class="head"></div></div></div>"""


def stretch(start: float, end: float, *, seconds: float) -> str:
    """The CSS of what lies from `start` to `end` in a timeline of `seconds`."""
    return f"left: {100 * start / seconds:.2f}%; width: {100 * (end - start) / seconds:.2f}%"


def spectrogram(png: bytes) -> str:
    """The picture, as wide as the timeline."""
    return f'<img alt="Spectrogram" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def facts_table(facts: Mapping[str, str]) -> str:
    """A row for each name and value."""
    rows = [f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts.items()]
    return f"<table>{''.join(rows)}</table>"


def to_flac(samples_N: np.ndarray, sample_rate: int) -> bytes:
    """The sound as a file of 16 bits."""
    file = io.BytesIO()
    soundfile.write(file, samples_N, sample_rate, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def to_png(energies_FT: np.ndarray, *, darkest: float, brightest: float) -> bytes:
    """The energies as colours, low bands at the bottom."""
    from matplotlib import image

    file = io.BytesIO()
    image.imsave(file, energies_FT, vmin=darkest, vmax=brightest, cmap="magma", origin="lower", format="png")
    return file.getvalue()

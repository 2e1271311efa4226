"""Line charts as SVG, coloured by the style sheet of the page that they stand in."""

import math
from collections.abc import Callable, Mapping, Sequence

Points = Sequence[tuple[float, float]]
WIDTH, HEIGHT = 400, 240
LEFT, RIGHT, TOP, BOTTOM = 46, 390, 10, 208  # of the plot


def log_chart(series: Mapping[str, Points], *, label: str, written: Callable[[float], str], floor: float) -> str:
    """Values on a logarithmic axis over a linear one; those under `floor`, zeros too, are drawn at it.

    Every series is a path of class `line NAME`; `written` gives the text of a value.
    """
    positions = [x for points in series.values() for x, _ in points]
    values = [max(y, floor) for points in series.values() for _, y in points if math.isfinite(y)]
    if not values:
        return '<p class="quiet">Nothing was logged.</p>'
    last = max(positions) or 1.0
    low, high = _bounds(min(values), max(values))

    def place(x: float, y: float) -> tuple[float, float]:
        y = min(max(y, floor), high)
        up = math.log(y / low) / math.log(high / low)
        return LEFT + x / last * (RIGHT - LEFT), BOTTOM - up * (BOTTOM - TOP)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">']
    for value in _log_ticks(max(low, floor), high):
        y = place(0, value)[1]
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{written(value)}</text>')
    for value in _ticks(last):
        x = place(value, low)[0]
        parts.append(f'<text class="tick" x="{x:.1f}" y="{BOTTOM + 16}" text-anchor="middle">{value:g}</text>')
    parts.append(f'<text class="tick" x="{RIGHT}" y="{HEIGHT - 2}" text-anchor="end">epochs</text>')
    for name, points in series.items():
        finite = [(x, y) for x, y in points if math.isfinite(y)]
        placed = [place(x, y) for x, y in finite]
        parts.append(f'<path class="line {name}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in placed)}"/>')
        if name != "train":
            parts += [
                f'<circle class="dot {name}" cx="{x:.1f}" cy="{y:.1f}" r="3">'
                f"<title>{position:g} epochs: {written(value)}</title></circle>"
                for (x, y), (position, value) in zip(placed, finite, strict=True)
            ]
    return "".join([*parts, "</svg>"])


def _bounds(low: float, high: float) -> tuple[float, float]:
    """The next of 1, 2, 5, 10, … outside the values."""
    steps = [
        m * 10.0**e for e in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2) for m in (1, 2, 5)
    ]
    below = max(step for step in steps if step <= low * (1 + 1e-9))
    return below, min(step for step in steps if step >= high * (1 - 1e-9) and step > below)


def _log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between the bounds: as many as eight, in steps as even as can be."""
    exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    for multiples in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):
        ticks = [m * 10.0**e for e in exponents for m in multiples]
        inside = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(inside) <= 8:
            break
    return inside


def _ticks(last: float) -> list[float]:
    """About five round numbers from 0 to `last`."""
    step = next(s for e in range(-3, 9) for m in (1, 2, 5) if last / (s := m * 10.0**e) <= 6)
    return [i * step for i in range(int(last / step * (1 + 1e-9)) + 1)]

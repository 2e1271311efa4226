"""Counters, gauges and histograms in Prometheus' text format."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable

LATENCY = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """What the server counts; each name has its help text where it is first used."""

    def __init__(self) -> None:
        self._help: dict[str, tuple[str, str]] = {}
        self._counts: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._gauges: dict[str, Callable[[], float]] = {}
        self._histograms: dict[str, _Histogram] = {}

    def count(self, name: str, text: str, amount: float = 1.0, **labels: str) -> None:
        """Adds `amount` to a counter."""
        self._help[name] = (text, "counter")
        self._counts[name][tuple(sorted(labels.items()))] += amount

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Names a value that is looked up whenever it is asked for."""
        self._help[name] = (text, "gauge")
        self._gauges[name] = value

    def observe(self, name: str, text: str, value: float, bounds: tuple[float, ...] = LATENCY) -> None:
        """Adds a value to a histogram."""
        self._help[name] = (text, "histogram")
        self._histograms.setdefault(name, _Histogram(bounds)).add(value)

    def total(self, name: str, **labels: str) -> float:
        """The counter's value, of all labels that hold these."""
        wanted = set(labels.items())
        return sum(value for found, value in self._counts[name].items() if wanted <= set(found))

    def render(self) -> str:
        """All of it as Prometheus reads it."""
        lines = []
        for name, (text, kind) in self._help.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            if kind == "counter":
                lines += [f"{name}{_written(labels)} {value:g}" for labels, value in self._counts[name].items()]
            elif kind == "gauge":
                lines.append(f"{name} {self._gauges[name]():g}")
            else:
                lines += self._histograms[name].lines(name)
        return "\n".join([*lines, ""])


class _Histogram:
    def __init__(self, bounds: tuple[float, ...]):
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str) -> list[str]:
        found, below = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            below += count
            found.append(f'{name}_bucket{{le="{bound}"}} {below}')
        return [*found, f"{name}_sum {self.sum:g}", f"{name}_count {below}"]


def _written(labels: Labels) -> str:
    return "{" + ",".join(f'{key}="{value}"' for key, value in labels) + "}" if labels else ""

"""Counters, gauges and histograms in Prometheus' text format, by its own client library."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics import MetricWrapperBase

LATENCY = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)
disable_created_metrics()


class Metrics:
    """What a server counts; each name has its help text and its labels where it is first used."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._known: dict[str, MetricWrapperBase] = {}

    def count(self, name: str, text: str, amount: float = 1.0, **labels: str) -> None:
        """Adds `amount` to a counter."""
        if name not in self._known:
            self._known[name] = Counter(name, text, list(labels), registry=self._registry)
        counter = self._known[name]
        assert isinstance(counter, Counter)
        (counter.labels(**labels) if labels else counter).inc(amount)

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Names a value that is looked up whenever it is asked for."""
        if name not in self._known:
            self._known[name] = Gauge(name, text, registry=self._registry)
        gauge = self._known[name]
        assert isinstance(gauge, Gauge)
        gauge.set_function(value)

    def observe(self, name: str, text: str, value: float, bounds: tuple[float, ...] = LATENCY) -> None:
        """Adds a value to a histogram."""
        if name not in self._known:
            self._known[name] = Histogram(name, text, buckets=bounds, registry=self._registry)
        histogram = self._known[name]
        assert isinstance(histogram, Histogram)
        histogram.observe(value)

    def total(self, name: str, **labels: str) -> float:
        """The counter's value, of all labels that hold these."""
        found = self._known[name].collect() if name in self._known else ()
        samples = (sample for metric in found for sample in metric.samples if sample.name == name)
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    def render(self) -> str:
        """All of it as Prometheus reads it."""
        return generate_latest(self._registry).decode()

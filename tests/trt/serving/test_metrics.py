"""Numbers that Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from trt.serving.metrics import Metrics


def test_metrics_lose_no_digits_and_are_read_by_prometheus():
    metrics = Metrics()
    metrics.count("speech_seconds_total", "Seconds.", 1_234_567.0, route='a"b\n')
    metrics.count("speech_seconds_total", "Seconds.", 0.25, route='a"b\n')
    metrics.gauge("speech_held_bytes", "Bytes.", lambda: 123_456_789_012)
    metrics.observe("speech_size", "Sizes.", 3, bounds=(1, 2, 4))
    found = {
        (sample.name, sample.labels.get("le")): sample.value
        for family in text_string_to_metric_families(metrics.render())
        for sample in family.samples
    }
    assert found["speech_seconds_total", None] == 1_234_567.25 == metrics.total("speech_seconds_total")
    assert found["speech_held_bytes", None] == 123_456_789_012
    assert (found["speech_size_bucket", "2.0"], found["speech_size_bucket", "4.0"]) == (0, 1)
    assert metrics.total("speech_seconds_total", route="other") == metrics.total("never") == 0

import json

import pytest

from common.config import ConfigError
from tests.wav2vec2.runs import finetune_config
from wav2vec2 import finetune
from wav2vec2.benchmark import throughput
from wav2vec2.benchmark.throughput import ThroughputConfig

SETTINGS = {"model": {"hourglass": ""}, "precision": "bf16", "concat_batches": 1, "update_freq": 1}
SETTINGS |= {"compile": False, "fsdp": False}


def job(*epochs: int, speed: float, **settings: object) -> list[dict[str, object]]:
    """Events of a job that went through `epochs`, each of which took 2 s."""
    lines = [{"step": [n, 5, 5], "data": {"train_throughput": speed, "train_took": 2.0}} for n in epochs]
    return [{"step": "PARAMETER", "data": SETTINGS | settings}, *lines, {"step": [], "data": {"event": "left out"}}]


@pytest.fixture
def measured(tmp_path):
    def measure(*jobs, skip_epochs: int = 2) -> dict[str, object]:
        events = [{"type": "LOG"} | event for events in jobs for event in events]
        (tmp_path / "nvlog.json").write_text("".join(f"DLLL {json.dumps(event)}\n" for event in events))
        (tmp_path / "environment.json").write_text('{"device": "GPU"}')
        return throughput.main(ThroughputConfig(run=tmp_path, skip_epochs=skip_epochs, results=tmp_path, name="x"))

    return measure


def test_epochs_of_warm_up_do_not_count(measured):
    slow, fast = job(1, 2, speed=10.0), job(3, 4, speed=30.0)[1:]
    row = measured([*slow, *fast])
    assert (row["audio_seconds_per_second"], row["seconds"]) == (30.0, 4.0)
    assert (row["name"], row["device"], row["precision"], row["hourglass"]) == ("x", "GPU", "bf16", "")


def test_of_several_jobs_in_one_directory_only_the_last_counts(measured):
    again = measured(job(1, 2, 3, speed=10.0), job(1, 2, 3, speed=40.0, precision="fp16"))
    assert (again["audio_seconds_per_second"], again["seconds"], again["precision"]) == (40.0, 2.0, "fp16")
    resumed = measured(job(1, 2, 3, speed=10.0), job(4, 5, 6, 7, speed=40.0), skip_epochs=1)
    assert (resumed["audio_seconds_per_second"], resumed["seconds"]) == (40.0, 6.0)


def test_what_cannot_be_counted_is_told(measured, tmp_path):
    with pytest.raises(ConfigError, match=r"nvlog\.json: has 2 epochs; expected more than the 2 that do not count$"):
        measured(job(5, 6, speed=1.0))
    with pytest.raises(ConfigError, match=r"nvlog\.json: has 0 epochs; expected more than the 2 that do not count$"):
        measured(job(speed=1.0))
    with pytest.raises(ConfigError, match=r"nvlog\.json: has no settings; expected the log of wav2vec2\.pret"):
        measured(job(1, speed=1.0)[1:])
    with pytest.raises(
        ConfigError, match=r"/no: expected nvlog\.json and environment\.json in it, as a training run l"
    ):
        throughput.main(ThroughputConfig(run=tmp_path / "no"))


def test_the_log_of_a_run_can_be_counted(tmp_path, corpus):
    finetune.main(finetune_config(corpus, tmp_path / "run", data={"validation": ()}, max_updates=8, save=False))
    row = throughput.main(ThroughputConfig(run=tmp_path / "run", skip_epochs=1, results=tmp_path))
    assert row["audio_seconds_per_second"] > 0
    assert row["processes"] == 1
    assert json.loads((tmp_path / "wav2vec2_training.jsonl").read_text()) == row

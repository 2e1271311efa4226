"""Seconds of audio per second of a training run: `python -m wav2vec2.benchmark.throughput RUN_DIRECTORY`.

Mean over the lines of its log, without the first epochs of its last job. A row goes to
benchmarks/results/wav2vec2_training.jsonl. (The published "tokens per second" are masked frames in
pre-training and characters in fine-tuning: another unit.)
"""

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from common import config
from common.benchmark import RESULTS
from common.config import ConfigError
from common.runs.logging import read_events

KEPT = ("precision", "concat_batches", "update_freq", "compile", "fsdp")


@dataclass(frozen=True, kw_only=True)
class ThroughputConfig:
    """A run whose speed is reported."""

    run: Annotated[Path, Positional, arg(metavar="RUN_DIRECTORY")]
    """Directory of a run of wav2vec2.pretrain or wav2vec2.finetune."""
    skip_epochs: int = 2
    """Epochs at the beginning of the run's last job that are left out."""
    name: str = ""
    """Name of the run in the row; by default that of its directory."""
    results: Path = RESULTS
    """Folder of the file that the row is appended to."""


def main(cfg: ThroughputConfig) -> dict[str, Any]:
    """Prints and appends the row; returns it. Raises ConfigError."""
    log, described = cfg.run / "nvlog.json", cfg.run / "environment.json"
    if not (log.is_file() and described.is_file()):
        raise ConfigError(f"{cfg.run}: expected nvlog.json and environment.json in it, as a training run leaves them")
    events = read_events(log)
    starts = [i for i, event in enumerate(events) if "concat_batches" in event["data"]]
    if not starts:
        raise ConfigError(f"{log}: has no settings; expected the log of wav2vec2.pretrain or wav2vec2.finetune")
    settings = events[starts[-1]]["data"]
    lines = [(e["step"][0], e["data"]) for e in events[starts[-1] :] if "train_throughput" in e["data"]]
    counted = [data for epoch, data in lines if epoch >= lines[0][0] + cfg.skip_epochs]
    if not counted:
        epochs = lines[-1][0] - lines[0][0] + 1 if lines else 0
        raise ConfigError(f"{log}: has {epochs} epochs; expected more than the {cfg.skip_epochs} that do not count")
    took = sum(data["train_took"] for data in counted)
    audio = sum(data["train_throughput"] * data["train_took"] for data in counted)
    row = {
        "date": date.today().isoformat(),
        **json.loads(described.read_text(encoding="utf-8")),
        "name": cfg.name or cfg.run.name,
        "hourglass": settings["model"]["hourglass"],
        **{key: settings[key] for key in KEPT},
        "audio_seconds_per_second": round(audio / took, 2),
        "seconds": round(took, 2),
    }
    cfg.results.mkdir(parents=True, exist_ok=True)
    with (cfg.results / "wav2vec2_training.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row))
    return row


if __name__ == "__main__":
    config.run(main, ThroughputConfig, __doc__)

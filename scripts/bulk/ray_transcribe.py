"""Transcribes over a Ray cluster: `python scripts/bulk/ray_transcribe.py MODEL INPUT … --output all.jsonl --workers 8`.

    python scripts/bulk/ray_transcribe.py jasper.onnx recordings/ --output all.jsonl --workers 2

Actors hold the recogniser, blocks of recordings go through them, and Ray runs a block again whose worker was killed.
Ray takes a quarter of a minute to start and 0.5 GB of disk: for one machine, or jobs of minutes, `--shard` is quicker.
Needs the extra ray: pip install -e '.[ray]'. Paths must be the same on all machines.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from common import config
from common.config import ConfigError
from common.files.atomic import written_whole
from common.recognition.output.writing import rendered, tell
from common.recognition.sources.inputs import InputRecording, find_recordings


@dataclass(frozen=True, kw_only=True)
class RayConfig:
    """What to transcribe, with which model and how many workers."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """ONNX file of trt.export, or a checkpoint of a recogniser."""
    inputs: Annotated[tuple[Path, ...], Positional, arg(metavar="INPUT")]
    """Audio files, folders of them, manifests."""
    output: Path
    """File of a JSON object per recording, in the order of the inputs."""
    workers: int = 2
    """Actors, each with a recogniser of its own."""
    block: int = 32
    """Recordings that an actor gets at once."""
    threads: int = 1
    """Processor cores of an actor."""
    address: str | None = None
    """Address of a cluster; by default one is started on this machine."""


class Worker:
    """A recogniser in an actor's process."""

    def __init__(self, model: str, threads: int):
        from trt.serving.models import load_ears

        self.ears = load_ears(Path(model), threads=threads)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Adds to a block of items the lines and errors of their transcripts."""
        found = self.ears.transcribe([item.source for item in batch["item"]])
        lines = ["" if t.error else rendered(t, "json", with_name=True) for t in found]
        return {"place": batch["place"], "line": lines, "error": [t.error for t in found]}


def main(cfg: RayConfig) -> int:
    """Transcribes; returns the exit status. Raises ConfigError."""
    try:
        import ray
    except ImportError:
        raise ConfigError("Ray is not installed; pip install -e '.[ray]'") from None
    items, problems = find_recordings(cfg.inputs)
    ray.init(address=cfg.address, log_to_driver=False, include_dashboard=False)
    rows = transcribed(items, cfg)
    for problem in [*problems, *(row["error"] for row in rows if row["error"])]:
        tell(problem)
    with written_whole(cfg.output) as file:
        file.write("".join(row["line"] for row in rows).encode())
    failed = len(problems) + sum(bool(row["error"]) for row in rows)
    tell(f"{cfg.output}: {len(rows)} recordings, {failed} could not be transcribed")
    ray.shutdown()
    return 1 if failed else 0


def transcribed(items: list[InputRecording], cfg: RayConfig) -> list[dict[str, Any]]:
    """A row for every item, in order."""
    import ray

    data = ray.data.from_items([{"place": place, "item": item} for place, item in enumerate(items)])
    found = data.map_batches(
        Worker,
        batch_size=cfg.block,
        fn_constructor_args=(str(cfg.model), cfg.threads),
        compute=ray.data.ActorPoolStrategy(size=cfg.workers),
        num_cpus=cfg.threads,
    )
    return sorted(found.take_all(), key=lambda row: row["place"])


if __name__ == "__main__":
    with config.reported():
        sys.exit(main(config.parse_flags(RayConfig, None, sys.argv[1:], description=__doc__ or "")))

"""Error rates of a model on a data set: `python -m jasper.evaluation CHECKPOINT MANIFEST…`.

Manifests, file lists and corpus folders of every format are taken. Run by torchrun, the processes share the utterances;
none is counted twice or missing. What cannot be read is named in one line each and makes the exit status 1.
"""

import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from common import config
from common.data.loading import SpeechDataset
from common.data.manifest import ManifestError
from common.devices import distributed
from common.devices.precision import InferencePrecision
from common.recognition.output import writing
from common.recognition.scoring import EvaluationError, report
from common.runs.checkpoint import CheckpointError
from common.text.language import Language
from jasper import data
from jasper.config import Config
from jasper.recognizer import Recognizer, load
from jasper.training.validation import evaluate


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Which model to evaluate on what."""

    checkpoint: Annotated[Path, Positional, arg(metavar="CHECKPOINT")]
    """Model: a checkpoint of this repository or of DeepLearningExamples' Jasper or QuartzNet, NeMo's .nemo, or a name
    of the Hugging Face hub."""
    manifests: Annotated[tuple[Path, ...], Positional, arg(metavar="MANIFEST")]
    """Manifests, file lists or corpus folders with transcripts."""
    root: Path | None = None
    """Folder that relative paths in manifests start from; by default that of the manifest."""
    max_seconds: float = math.inf
    """Longest utterance, in seconds; longer ones are left out."""
    language: Language | None = None
    """Language of the references, as data.language of training; by default what the checkpoint says."""
    hypotheses: Path | None = None
    """File for one JSON object per utterance: id, reference, hypothesis."""
    config: Path | None = None
    """Configuration (TOML) in place of the one in the checkpoint, or of what its weights show."""
    ema: bool | None = None
    """Whether averaged weights are used; by default where there are any."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    precision: InferencePrecision = "fp32"
    """Arithmetic of the network; features are always fp32. int8: on a CPU alone, fastest with AVX-512 VNNI."""
    batch_size: int = 16
    """Utterances per process recognised at once."""
    workers: int = 2
    """Loader processes per process; 0 loads in the process itself."""

    def __post_init__(self) -> None:
        if not self.manifests:
            raise ValueError("nothing to evaluate on; name manifests or corpus folders after the checkpoint")
        if self.batch_size < 1 or self.workers < 0:
            raise ValueError(f"batch_size = {self.batch_size}, workers = {self.workers}: expected above 0, at least 0")


def main(cfg: EvaluationConfig) -> int:
    """Prints the error rates that `cfg` asks for; returns the exit status, 1 if anything was left out for an error.

    Raises ConfigError, CheckpointError and ManifestError.
    """
    with distributed.start(cfg.device) as world:
        writing.check_file(cfg.hypotheses, (cfg.checkpoint, cfg.config, *cfg.manifests))
        own = config.load(Config, cfg.config) if cfg.config is not None else None
        asr = load(cfg.checkpoint, device=str(world.device), precision=cfg.precision, ema=cfg.ema, configuration=own)
        dataset, problems = _dataset(asr, cfg)
        result = evaluate(
            asr.model,
            asr.log_mel,
            dataset,
            world,
            vocabulary=asr.vocabulary,
            batch_size=cfg.batch_size,
            workers=cfg.workers,
            precision="tf32" if cfg.precision == "tf32" else "fp32",  # the network is cast already: no autocast
        )
        return report(result, dataset, problems, world, hypotheses=cfg.hypotheses)


def _dataset(asr: Recognizer, cfg: EvaluationConfig) -> tuple[SpeechDataset, list[str]]:
    language = asr.config.data.language if cfg.language is None else cfg.language
    own = replace(asr.config, data=replace(asr.config.data, root=cfg.root, on_error="skip", language=language))
    manifests = [str(path.absolute()) for path in cfg.manifests]
    spelling = data.spelling_of(own)
    utterances, problems = data.read_utterances(manifests, own.data, spelling, training=False)
    if spelling.unknown:
        print(f"{spelling.told()}; each is an error where it stays in a reference", file=sys.stderr)
    fitting = utterances[utterances.seconds <= cfg.max_seconds]
    return data.speech_dataset(fitting, own, training=False, lenient=True), problems


if __name__ == "__main__":
    config.run(main, EvaluationConfig, __doc__, CheckpointError, EvaluationError, ManifestError)

"""Transcribes recordings: `python -m jasper.inference CHECKPOINT a.flac b.wav folder/ manifest.jsonl …`.

    python -m jasper.inference jasper_best.pt talk.flac --format srt
    python -m jasper.inference jasper_best.pt test.jsonl --decoding.language_model 4-gram.arpa.gz
    python -m jasper.inference jasper_best.pt a.flac --decoding.hot_words "new york" --decoding.n_best 5 --format json

Takes files of any format that libsndfile reads, at any sample rate, mono or stereo; folders, with all that is in them;
manifests and corpora, whose word error rate is the last line. What cannot be transcribed is one line each and makes the
exit status 1; all else is transcribed nevertheless. Run by torchrun, the processes share the recordings.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from common import config
from common.devices import distributed
from common.devices.fastest import Choice
from common.recognition.transcribing import TranscriptionConfig, status, write_all
from common.runs.checkpoint import CheckpointError
from jasper.config import Config
from jasper.recognizer import CHUNK_SECONDS, load


@dataclass(frozen=True, kw_only=True)
class InferenceConfig(TranscriptionConfig):
    """What to transcribe, with which model, and where the result goes."""

    model: Annotated[Path, Positional, arg(metavar="CHECKPOINT")]
    """Model: a checkpoint of this repository or of DeepLearningExamples' Jasper or QuartzNet, NeMo's .nemo, or a name
    of the Hugging Face hub."""
    save_logits: Path | None = None
    """Folder for one .npz per recording: log_probs [frames, labels + blank], times [frames] in seconds, labels."""
    config: Path | None = None
    """Configuration (TOML) in place of the one in the checkpoint, or of what its weights show."""
    ema: bool | None = None
    """Whether averaged weights are used; by default where there are any."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    precision: Choice | Literal["int8"] = "fp32"
    """Arithmetic of the network; features are always fp32. auto: the fastest on this machine within 2 % of fp32, never
    int8. int8: on a CPU alone, fastest with AVX-512 VNNI."""
    chunk_seconds: float = CHUNK_SECONDS
    """Seconds of a chunk; longer recordings are recognised in overlapping chunks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chunk_seconds <= 0:
            raise ValueError(f"chunk_seconds = {self.chunk_seconds}: expected above 0")


def main(cfg: InferenceConfig) -> int:
    """Transcribes as `cfg` says; returns the exit status. Raises CheckpointError and ConfigError."""
    with distributed.start(cfg.device) as world:
        found = cfg.find(cfg.config, folder=cfg.save_logits)
        if found is None:
            return 0
        own = config.load(Config, cfg.config) if cfg.config is not None else None
        asr = load(cfg.model, device=str(world.device), precision=cfg.precision, ema=cfg.ema, configuration=own)
        heard = asr.stream(
            cfg.sources(found, world),
            batch_size=cfg.batch_size,
            chunk_seconds=cfg.chunk_seconds,
            decoder=asr.decoder(cfg.decoding),
            on_error="skip",
            keep_log_probs=cfg.save_logits is not None,
        )
        written = write_all(
            found, heard, cfg, world, spelled=asr.spelling(), assumed=asr.assumed, save_logits=cfg.save_logits,
            labels=asr.vocabulary.labels,
        )  # fmt: skip
        return status(found, written, world)


if __name__ == "__main__":
    config.run(main, InferenceConfig, __doc__, CheckpointError)

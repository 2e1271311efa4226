"""The mel spectrograms that FastPitch makes of recorded clips, to fine-tune a vocoder on.

    python -m fastpitch.mels --checkpoint FastPitch.pt --root LJSpeech-1.1 --sources train.txt --output mels

Durations, pitch and energy are those of the recording, so a spectrogram has the frames of its clip. Each is written as
<output>/<clip>.npy, [mel bins, frames], float32; those already there are left as they are. Clips that cannot be used
are listed at the end, and the exit status is then 1.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from common import config
from common.data.batching import evaluation_batches
from common.data.manifest import ManifestError, Utterance
from common.devices import distributed
from common.devices.precision import Precision, autocast
from common.features import LogMel
from common.files.atomic import written_whole
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from fastpitch import voices
from fastpitch.acoustic.checkpoints import reading
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.model import FastPitch, refined
from fastpitch.acoustic.training import data
from fastpitch.acoustic.training.data import ClipBatch, ClipDataset
from fastpitch.acoustic.training.objective import targets_of
from fastpitch.speaking.synthesizer import load


@dataclass(frozen=True, kw_only=True)
class MelsConfig:
    """A model, and the clips whose mel spectrograms it predicts."""

    checkpoint: Path
    """Checkpoint of FastPitch: ours or DeepLearningExamples', or a name of the Hugging Face hub or of a voice."""
    sources: tuple[str, ...]
    """Manifests, file lists or corpus folders, those of validation too."""
    output: Path
    """Folder of the spectrograms, for --data.mels of `fastpitch.vocoders.train`."""
    root: Path | None = None
    """Folder that relative paths of manifests, and in manifests, start from."""
    pitch_dir: Path | None = None
    """Folder of prepared pitch; what is missing is extracted and stored there. By default a folder in output."""
    durations_dir: Path | None = None
    """Folder of durations, for a model that was trained with given durations; by default the one that its checkpoint
    names."""
    batch_size: int = 16
    """Clips per batch."""
    precision: Precision = "fp32"
    """Arithmetic of the network."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    workers: int = 4
    """Loader processes; 0 loads in the process itself."""


def main(cfg: MelsConfig) -> list[str]:
    """Writes what is missing; returns why clips were left out. Raises CheckpointError and ManifestError."""
    device = distributed.pick_device(cfg.device)
    model = load(cfg.checkpoint, device=str(device)).model
    run = _configuration(cfg)
    if model.aligner is None and run.data.durations_dir is None:
        told = "expected --durations_dir, or the checkpoint that the voice was packed from"
        raise CheckpointError(f"{cfg.checkpoint}: has no aligner, as a packed voice; {told}")
    utterances, left_out = data.read_utterances(cfg.sources, run, training=False)  # clips of any length
    cfg.output.mkdir(parents=True, exist_ok=True)
    missing = [utterance for utterance in utterances if not _path(cfg, utterance.id).is_file()]
    failures = _write_missing(model, missing, cfg, run, device)
    written, there = len(missing) - len(failures), len(utterances) - len(missing)
    print(f"{cfg.output}: {written} written, {there} were there")
    left_out += failures
    for message in left_out:
        print(f"left out: {message}")
    return left_out


def _configuration(cfg: MelsConfig) -> Config:
    """The model's own, on this data."""
    path = voices.located(cfg.checkpoint, voices.ACOUSTIC)
    with checkpoint.usable(path):
        own = reading.read(path).config
    pitch, durations = cfg.pitch_dir or cfg.output / "pitch", cfg.durations_dir or own.data.durations_dir
    chosen = replace(
        own.data, root=cfg.root, pitch_dir=pitch, mel_dir=None, durations_dir=durations, workers=cfg.workers,
        on_error="skip",
    )  # fmt: skip
    return replace(own, data=chosen, precision=cfg.precision)


def _write_missing(
    model: FastPitch, utterances: list[Utterance], cfg: MelsConfig, run: Config, device: torch.device
) -> list[str]:
    dataset, log_mel = ClipDataset(utterances, run, training=False), LogMel(run.features).to(device).eval()
    batches = evaluation_batches([u.seconds for u in utterances], batch_size=cfg.batch_size)
    for batch in data.loader(dataset, batches, workers=cfg.workers):
        if batch.indices:
            _write(model.eval(), batch.to(device), log_mel, cfg, run)
    return list(dataset.skipped.values())


@torch.inference_mode()
def _write(model: FastPitch, batch: ClipBatch, log_mel: LogMel, cfg: MelsConfig, run: Config) -> None:
    targets = targets_of(batch, log_mel, run, model.pitch_mean, model.pitch_std)
    with autocast(log_mel.window.device, cfg.precision):
        said = model(batch.tokens_BL, batch.lengths_B, targets, batch.speaker_B)
    mel_BTM = refined(said.mel_BTM, said.refined_BTK)
    for name, mel_TM, frames in zip(batch.ids, mel_BTM.float().cpu(), batch.frames_B.tolist(), strict=True):
        with written_whole(_path(cfg, name), is_flushed=False) as file:
            np.save(file, mel_TM[:frames].T.contiguous().numpy())


def _path(cfg: MelsConfig, name: str) -> Path:
    return cfg.output / f"{name}.npy"


if __name__ == "__main__":
    with config.reported(CheckpointError, ManifestError):
        sys.exit(1 if main(config.parse_flags(MelsConfig, None, sys.argv[1:], description=__doc__ or "")) else 0)

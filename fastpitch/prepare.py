"""Extracts pitch and mel frames before training: `python -m fastpitch.prepare LJSpeech-1.1 --output prepared`.

Takes corpora, manifests and file lists of any format that `common.data.manifest` reads. Writes

    OUTPUT/pitch/ID.pt              float32 [frames], Hz, 0 where unvoiced
    OUTPUT/mels/ID.pt               float32 [mel bins, frames], unless --mels false
    OUTPUT/manifest.jsonl           the clips that can be used
    OUTPUT/pitch_statistics.json    mean and deviation of the pitch, of all speakers and of each
    OUTPUT/settings.json            what all of it was made with

What is there already is kept, so that an interrupted run goes on. Clips that cannot be used are told in a line each and
make the exit status 1; all others are prepared nevertheless.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from tyro.conf import Positional, arg

from common import config
from common.audio import waveform
from common.config import ConfigError
from common.data.manifest import ManifestError, Utterance, read_manifest, write_jsonl
from common.features import TTS, LogMel, LogMelConfig
from common.files.json_text import parsed
from common.interruption import leave_group
from common.recognition.output.writing import tell
from fastpitch.acoustic.pitch import PitchConfig, PitchStatistics, extract_pitch, pitch_statistics
from fastpitch.acoustic.training.data import ClipError, prepared_path, read_tensor, write_tensor
from fastpitch.front.symbols import TextConfig, TextProcessor

_SILENT = 1e-4  # -80 dB: no sample of speech is below


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """What to prepare, how, and where it goes."""

    USUAL: ClassVar = {
        "What is prepared": ("root", "text.language", "features.sample_rate", "pitch.method", "mels", "resample"),
        "Output": ("output", "overwrite", "workers"),
    }
    inputs: Annotated[tuple[Path, ...], Positional, arg(metavar="INPUT")]
    """Corpus folders, manifests and file lists."""
    output: Path = Path("prepared")
    """Folder for all that is written."""
    root: Path | None = None
    """Folder that relative paths in manifests start from; by default that of the manifest."""
    features: LogMelConfig = TTS
    """Settings of the mel frames; pitch has the same rate and hop."""
    pitch: PitchConfig = field(default_factory=PitchConfig)
    text: TextConfig = field(default_factory=TextConfig)
    mels: bool = True
    """Whether mel frames are written too. Training computes them as fast as it reads them; other tools may want
    them."""
    resample: bool = False
    """Whether recordings at another sample rate are resampled; otherwise they are listed and left out."""
    overwrite: bool = False
    """Whether files that are there already are made anew."""
    workers: int = 0
    """Worker processes; 0: one per CPU."""

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("nothing to prepare; name corpus folders, manifests or file lists")
        self.pitch.check_framing(self.features)


class PreparedClip(NamedTuple):
    """What became of a clip: its pitch [T] in Hz, or in `problem` why it cannot be used."""

    pitch: np.ndarray
    problem: str = ""


def main(cfg: PrepareConfig) -> int:
    """Prepares what `cfg` says; returns the exit status. Raises ConfigError and ManifestError."""
    utterances, problems = find_clips(cfg)
    _check_settings(cfg)
    usable: list[Utterance] = []
    voiced: dict[str, list[np.ndarray]] = {}
    for utterance, result in zip(utterances, results(utterances, cfg), strict=True):
        if result.problem:
            problems.append(f"utterance {utterance.id}: {result.problem}")
            continue
        usable.append(utterance)
        voiced.setdefault(utterance.speaker, []).append(result.pitch)
    if usable:
        write_jsonl(cfg.output / "manifest.jsonl", usable)
        hours = sum(utterance.seconds for utterance in usable) / 3600
        print(f"{cfg.output}: {len(usable)} clips, {hours:.2f} hours")
        for speaker, (mean, std, _) in _write_statistics(cfg.output / "pitch_statistics.json", voiced).items():
            print(f"pitch of {speaker or 'all'}: --data.pitch_mean {mean:.2f} --data.pitch_std {std:.2f} (Hz)")
    for problem in problems:
        tell(problem)
    if problems:
        tell(f"{len(problems)} clips cannot be used; {len(usable)} can")
    return int(bool(problems))


def find_clips(cfg: PrepareConfig) -> tuple[list[Utterance], list[str]]:
    """The clips of all inputs, and a message for each that is none. Raises ManifestError."""
    utterances: dict[str, Utterance] = {}
    problems: list[str] = []
    for path in cfg.inputs:
        is_corpus = path.is_dir() or path.name == "metadata.csv"  # whose recordings lie beside it
        manifest = read_manifest(path, root=None if is_corpus else cfg.root, on_error="skip")
        problems += manifest.skipped
        for utterance in manifest.utterances:
            other = utterances.setdefault(utterance.id, utterance)
            if other.audio != utterance.audio:
                problems.append(
                    f"utterance {utterance.id}: {utterance.audio} has the id of {other.audio}; "
                    "give them ids of their own in a .jsonl manifest"
                )
    return list(utterances.values()), problems


def prepare(utterance: Utterance, cfg: PrepareConfig, text: TextProcessor) -> PreparedClip:
    """Writes pitch and mel frames of one clip, if they are not there."""
    try:
        return PreparedClip(_prepared(utterance, cfg, text))
    except ValueError as error:  # every error of audio, text and pitch is one
        return PreparedClip(np.zeros(0), str(error))


def _prepared(utterance: Utterance, cfg: PrepareConfig, text: TextProcessor) -> np.ndarray:
    n_symbols = len(text.encode(utterance.text).tokens)
    samples_N = _read(utterance, cfg)
    frames = cfg.features.frames(len(samples_N))
    if frames < n_symbols:
        raise ClipError(f"{utterance.audio}: {frames} frames for {n_symbols} symbols: shorter than its text")
    pitch_path, mel_path = (prepared_path(cfg.output / folder, utterance) for folder in ("pitch", "mels"))
    pitch_T = None if cfg.overwrite else _kept(pitch_path, (frames,))
    if pitch_T is None:
        pitch_T = extract_pitch(samples_N, cfg.pitch)
        write_tensor(pitch_path, torch.from_numpy(pitch_T))
    if cfg.mels and (cfg.overwrite or _kept(mel_path, (cfg.features.mel_bins, frames)) is None):
        audio_1N = torch.from_numpy(samples_N)[None]
        mel_1MT = LogMel(cfg.features).eval()(audio_1N, torch.tensor([len(samples_N)])).features_BFT
        write_tensor(mel_path, mel_1MT[0, :, :frames].clone())
    return pitch_T


def _read(utterance: Utterance, cfg: PrepareConfig) -> np.ndarray:
    rate = waveform.info(utterance.audio).sample_rate
    if rate != cfg.features.sample_rate and not cfg.resample:
        raise ClipError(
            f"{utterance.audio}: {rate} Hz; expected {cfg.features.sample_rate}; convert it, or take --resample true"
        )
    samples_N = waveform.read(utterance.audio, sample_rate=cfg.features.sample_rate, **utterance.piece()).samples
    if np.abs(samples_N).max() < _SILENT:
        raise ClipError(f"{utterance.audio}: silent: no sample above {20 * np.log10(_SILENT):.0f} dB")
    return samples_N


def _kept(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """What an earlier run wrote, if it is whole."""
    if not path.is_file():
        return None
    try:
        values = read_tensor(path)
    except ClipError:
        return None
    return values.numpy() if tuple(values.shape) == shape and bool(values.isfinite().all()) else None


class PreparedClips(Dataset[PreparedClip]):
    """Clips that are prepared when they are asked for."""

    def __init__(self, utterances: Sequence[Utterance], cfg: PrepareConfig):
        self.utterances, self.cfg = utterances, cfg

    def __len__(self) -> int:
        """How many there are."""
        return len(self.utterances)

    def __getitem__(self, index: int) -> PreparedClip:
        """What becomes of one."""
        return prepare(self.utterances[index], self.cfg, _processor(self.cfg.text))


_processor = cache(TextProcessor)  # one in each process


def results(utterances: Sequence[Utterance], cfg: PrepareConfig) -> Iterable[PreparedClip]:
    """What became of every clip, in order; the bar shows clips, the rate and the time left."""
    from tqdm import tqdm

    workers = min(cfg.workers or os.cpu_count() or 1, len(utterances))
    clips = DataLoader(
        PreparedClips(utterances, cfg), batch_size=None, collate_fn=PreparedClip._make,
        num_workers=workers if workers > 1 else 0, worker_init_fn=leave_group,
    )  # fmt: skip
    return tqdm(clips, total=len(utterances), unit=" clips", file=sys.stderr, disable=None)


def _check_settings(cfg: PrepareConfig) -> None:
    """Refuses to add to a folder what is made otherwise than what is there."""
    path = cfg.output / "settings.json"
    settings = {"features": config.to_dict(cfg.features), "pitch": config.to_dict(cfg.pitch)}
    try:
        cfg.output.mkdir(parents=True, exist_ok=True)
        found = parsed(path.read_text(encoding="utf-8")) if path.is_file() else settings
        if not isinstance(found, dict):
            raise ConfigError(f"{path}: cannot be used: expected settings, found a {type(found).__name__}")
        if found != settings and not cfg.overwrite:
            raise ConfigError(f"{path}: {_difference(found, settings)}; take another --output, or --overwrite true")
        path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be used: {error}") from None


def _difference(found: dict[str, Any], settings: dict[str, Any]) -> str:
    for group, values in settings.items():
        of_group = found.get(group)
        for name, value in values.items():
            there = of_group.get(name) if isinstance(of_group, dict) else None
            if there != value:
                return f"what is there was made with {group}.{name} = {there}, not {value}"
    return "what is there was made with other settings"


def _write_statistics(path: Path, voiced: dict[str, list[np.ndarray]]) -> dict[str, PitchStatistics]:
    """Pitch statistics of every speaker with two voiced frames, and under "" of all; written as JSON."""
    everything = [pitch_T for pitches in voiced.values() for pitch_T in pitches]
    speakers = {"": everything, **{speaker: pitches for speaker, pitches in voiced.items() if speaker}}
    found = {
        speaker: pitch_statistics(pitches)
        for speaker, pitches in sorted(speakers.items())
        if sum(np.count_nonzero(pitch_T) for pitch_T in pitches) > 1
    }
    of_all = found[""]._asdict() if "" in found else {}
    of_each = {speaker: statistics._asdict() for speaker, statistics in found.items() if speaker}
    path.write_text(json.dumps({**of_all, "speakers": of_each}, indent=2) + "\n", encoding="utf-8")
    return found


if __name__ == "__main__":
    config.run(main, PrepareConfig, __doc__, ManifestError)

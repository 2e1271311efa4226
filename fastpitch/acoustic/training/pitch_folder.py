"""Pitch that a training keeps: with which settings it was extracted, and what its mean and deviation are."""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import config
from common.config import ConfigError
from common.devices.distributed import World
from common.files.atomic import write_text
from common.files.json_text import parsed
from fastpitch.acoustic.config import DEVIATION_HZ, MEAN_HZ, Config
from fastpitch.acoustic.pitch import pitch_statistics
from fastpitch.acoustic.training.data import PITCH_FOLDER, Clip, ClipDataset

SETTINGS = "settings.json"
RANGE = 0.01, 0.99  # of the voiced frames: what is beyond is rare, or an octave that was mistaken
FEWEST = 100  # voiced frames of a speaker, who else has the pitch of all
CLIPS = 256  # that statistics are measured on: two minutes of speech are enough for a tenth of a semitone


def settle(cfg: Config) -> str:
    """Sees to it that pitch of other settings is not used: a line about what was deleted, or "".

    What the run itself extracted is extracted anew; a folder that the configuration names is left as it is, and raises
    ConfigError. A folder without a note of its settings, such as a published one, is taken as it is.
    """
    own = cfg.output_dir / PITCH_FOLDER
    folder = cfg.data.pitch_dir or own
    wanted = config.to_dict(cfg.pitch)
    found = _noted(folder / SETTINGS) or _noted(folder.parent / SETTINGS)  # the second is of fastpitch.prepare
    if found == wanted or (found is None and folder.is_dir() and any(folder.glob("*.pt"))):
        return ""
    told = ""
    if found is not None:
        difference = ", ".join(f"{k} = {found.get(k)}, not {v}" for k, v in wanted.items() if found.get(k) != v)
        if folder != own:
            raise ConfigError(
                f"{folder}: pitch that was extracted with {difference}; prepare it anew, or name another data.pitch_dir"
            )
        shutil.rmtree(own, ignore_errors=True)
        told = f"{own}: pitch was extracted with {difference}; it is extracted anew"
    write_text(folder / SETTINGS, json.dumps({"pitch": wanted}, indent=2) + "\n")
    return told


def _noted(path: Path) -> dict[str, Any] | None:
    try:
        found = parsed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    pitch = found.get("pitch") if isinstance(found, dict) else None
    return pitch if isinstance(pitch, dict) else None


class MeasuredPitch(NamedTuple):
    """Mean and deviation in Hz, one for all speakers or one for each; of each its range; and a line about them."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    range: tuple[tuple[float, float], ...]
    told: str


def measured(dataset: ClipDataset, world: World) -> MeasuredPitch:
    """Pitch statistics of a data set, of some clips of every speaker; all processes share the work."""
    own = {}
    for index in _chosen(dataset)[world.rank :: world.size]:
        clip = dataset.item(index, 0)
        if isinstance(clip, Clip):
            own[index] = clip.speaker, clip.pitch_T[clip.pitch_T > 0].double().numpy()
    everyones = {index: voiced for of_rank in world.gather(own) for index, voiced in of_rank.items()}
    speakers = dataset.cfg.model.speakers
    heard: list[list[np.ndarray]] = [[] for _ in range(speakers)]
    for index in sorted(everyones):  # in one order, whatever the number of processes
        heard[everyones[index][0]].append(everyones[index][1])
    of_all = [voiced for of_speaker in heard for voiced in of_speaker]
    if sum(map(len, of_all)) < 2:
        usual = (MEAN_HZ - 2 * DEVIATION_HZ, MEAN_HZ + 2 * DEVIATION_HZ)
        told = "pitch: no voiced frames to measure; mean and deviation of LJSpeech"
        return MeasuredPitch((MEAN_HZ,), (DEVIATION_HZ,), (usual,) * speakers, told)
    each = [of_speaker if sum(map(len, of_speaker)) > FEWEST else of_all for of_speaker in heard]
    (mean, deviation, low, high), *found = map(_statistics, (of_all, *each))
    told = f"pitch of {len(everyones)} clips: mean {mean:.1f} Hz, deviation {deviation:.1f} Hz"
    told += f", {low:.0f} to {high:.0f} Hz" + (f", of {speakers} speakers each its own" if speakers > 1 else "")
    means, deviations, lowest, highest = zip(*found, strict=True)
    return MeasuredPitch(means, deviations, tuple(zip(lowest, highest, strict=True)), told)


def _statistics(voiced: list[np.ndarray]) -> tuple[float, float, float, float]:
    """Mean, deviation, and the ends of the range."""
    found, (low, high) = pitch_statistics(voiced), np.quantile(np.concatenate(voiced), RANGE)
    return float(found.mean), max(1.0, found.std), float(low), float(high)


def _chosen(dataset: ClipDataset) -> list[int]:
    """Clips at even distances, of each speaker."""
    of_speaker: dict[str, list[int]] = {}
    for index, utterance in enumerate(dataset.utterances):
        of_speaker.setdefault(utterance.speaker if dataset.cfg.model.speakers > 1 else "", []).append(index)
    count = max(8, CLIPS // max(1, len(of_speaker)))
    chosen = []
    for clips in of_speaker.values():
        chosen += [clips[i * len(clips) // min(count, len(clips))] for i in range(min(count, len(clips)))]
    return sorted(chosen)
